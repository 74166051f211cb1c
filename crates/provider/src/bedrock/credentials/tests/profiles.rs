//! Profile files.

use crate::bedrock::credentials::environment::Environment;
use crate::bedrock::credentials::profile::{Found, With, chosen};
use std::path::PathBuf;

/// Two files that are deleted on drop.
struct Files(PathBuf);

impl Files {
    fn new(name: &str, config: &str, credentials: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("seawall-profile-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join(".aws")).unwrap();
        std::fs::write(folder.join(".aws/config"), config).unwrap();
        std::fs::write(folder.join(".aws/credentials"), credentials).unwrap();
        Self(folder)
    }

    fn chosen(&self, profile: Option<&str>) -> Result<Found, String> {
        let (home, profile) = (self.0.to_string_lossy().into_owned(), profile.map(str::to_owned));
        let environment = Environment::read_by(move |name| match name {
            "HOME" => Some(home.clone()),
            "AWS_PROFILE" => profile.clone(),
            _ => None,
        });
        chosen(&environment).map_err(|error| format!("{error:?}"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(found: Found) -> (String, String, Option<String>) {
    let Found::Keys(keys) = found else { panic!("{found:?}") };
    let token = keys.session_token().map(str::to_owned);
    (keys.access_key_id().to_owned(), keys.secret_access_key().to_owned(), token)
}

const CONFIG: &str = "\
# a comment
[default]
region = eu-west-1
aws_access_key_id = of-config
[profile work]
aws_access_key_id=w
aws_secret_access_key = a#b;c/= # said
s3 =
  aws_access_key_id = nested
; another
[profile chained]
role_arn = arn:aws:iam::1:role/r
source_profile = work
external_id = e
role_session_name = s
[profile itself]
role_arn = arn:aws:iam::1:role/r
source_profile = itself
aws_access_key_id = i
aws_secret_access_key = ii
[profile ring]
role_arn = arn:aws:iam::1:role/r
source_profile = gnir
[profile gnir]
role_arn = arn:aws:iam::1:role/r
source_profile = ring
[profile token]
role_arn = arn:aws:iam::1:role/r
web_identity_token_file = token.txt
[profile machine]
role_arn = arn:aws:iam::1:role/r
credential_source = Ec2InstanceMetadata
[profile odd]
role_arn = arn:aws:iam::1:role/r
credential_source = Elsewhere
[profile bare]
role_arn = arn:aws:iam::1:role/r
[profile program]
credential_process = keys --give
[profile region]
region = eu-west-1
[profile hollow]
role_arn = arn:aws:iam::1:role/r
source_profile = region
[sso-session work]
aws_access_key_id = wrong
";

#[test]
fn keys_of_both_files_are_found_by_the_name_of_the_profile() {
    let files = Files::new(
        "keys",
        CONFIG,
        "[default]\naws_access_key_id = id\nAWS_SECRET_ACCESS_KEY=hush\naws_session_token=t\n[work]\nregion=x\n",
    );
    let (id, secret, token) = keys(files.chosen(None).unwrap());
    assert_eq!((id.as_str(), secret.as_str(), token.as_deref()), ("id", "hush", Some("t")));
    let (id, secret, token) = keys(files.chosen(Some("work")).unwrap());
    assert_eq!((id.as_str(), secret.as_str(), token), ("w", "a#b;c/=", None));
}

#[test]
fn a_role_is_taken_on_with_what_its_profile_names() {
    let files = Files::new("roles", CONFIG, "");
    let Found::Role { arn, session, external_id, with: With::Profile(source) } =
        files.chosen(Some("chained")).unwrap()
    else {
        panic!("a role")
    };
    let said = (arn.as_str(), session.as_deref(), external_id.as_deref());
    assert_eq!(said, ("arn:aws:iam::1:role/r", Some("s"), Some("e")));
    assert_eq!(keys(*source).0, "w");
    let Found::Role { with: With::Profile(source), .. } = files.chosen(Some("itself")).unwrap() else {
        panic!("a role")
    };
    assert_eq!(keys(*source).0, "i");
    let with = |profile| match files.chosen(Some(profile)).unwrap() {
        Found::Role { with, .. } => format!("{with:?}"),
        Found::Keys(_) => panic!("keys"),
    };
    assert_eq!(with("token"), "Token(\"token.txt\")");
    assert_eq!(with("machine"), "Machine");
}

#[test]
fn what_cannot_be_followed_is_told() {
    let files = Files::new("wrong", CONFIG, "");
    for (profile, problem) in [
        (Some("nobody"), "nobody does not exist"),
        (Some("ring"), "leads in a circle"),
        (Some("odd"), "credential_source that is unknown"),
        (Some("bare"), "no keys to take it on with"),
        (Some("program"), "from a program or a single sign-on"),
        (Some("hollow"), "a source without keys"),
    ] {
        let error = files.chosen(profile).unwrap_err();
        assert!(error.contains("ProviderError") && error.contains(problem), "{profile:?}: {error}");
    }
    // A profile without credentials is skipped, and so is a missing one.
    for (profile, problem) in [(Some("region"), "region has no keys"), (None, "default has no keys")] {
        let error = files.chosen(profile).unwrap_err();
        assert!(error.contains("CredentialsNotLoaded") && error.contains(problem), "{error}");
    }
    let error = Files::new("none", "", "").chosen(None).unwrap_err();
    assert!(error.contains("CredentialsNotLoaded"), "{error}");
}

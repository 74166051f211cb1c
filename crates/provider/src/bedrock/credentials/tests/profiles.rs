//! Profile files.

use crate::bedrock::credentials::environment::Environment;
use crate::bedrock::credentials::profile::{ProfileCredentials, RoleSource, active_profile};
use seawall_testkit::TestDirectory;

/// Two files that are deleted on drop.
struct Files(TestDirectory);

impl Files {
    fn new(config: &str, credentials: &str) -> Self {
        let home = TestDirectory::new().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        home.write(".aws/config", config).unwrap();
        home.write(".aws/credentials", credentials).unwrap();
        Self(home)
    }

    fn active_profile(&self, profile: Option<&str>) -> Result<ProfileCredentials, String> {
        let (home, profile) = (self.0.path().to_string_lossy().into_owned(), profile.map(str::to_owned));
        let environment = Environment::from_fn(move |name| match name {
            "HOME" => Some(home.clone()),
            "AWS_PROFILE" => profile.clone(),
            _ => None,
        });
        active_profile(&environment).map_err(|error| format!("{error:?}"))
    }
}

fn keys(found: ProfileCredentials) -> (String, String, Option<String>) {
    let ProfileCredentials::Static(keys) = found else { panic!("{found:?}") };
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
        CONFIG,
        "[default]\naws_access_key_id = id\nAWS_SECRET_ACCESS_KEY=hush\naws_session_token=t\n[work]\nregion=x\n",
    );
    let (id, secret, token) = keys(files.active_profile(None).unwrap());
    assert_eq!((id.as_str(), secret.as_str(), token.as_deref()), ("id", "hush", Some("t")));
    let (id, secret, token) = keys(files.active_profile(Some("work")).unwrap());
    assert_eq!((id.as_str(), secret.as_str(), token), ("w", "a#b;c/=", None));
}

#[test]
fn a_role_is_taken_on_with_what_its_profile_names() {
    let files = Files::new(CONFIG, "");
    let ProfileCredentials::Role { arn, session, external_id, source: RoleSource::Profile(source) } =
        files.active_profile(Some("chained")).unwrap()
    else {
        panic!("a role")
    };
    let response = (arn.as_str(), session.as_deref(), external_id.as_deref());
    assert_eq!(response, ("arn:aws:iam::1:role/r", Some("s"), Some("e")));
    assert_eq!(keys(*source).0, "w");
    let ProfileCredentials::Role { source: RoleSource::Profile(source), .. } =
        files.active_profile(Some("itself")).unwrap()
    else {
        panic!("a role")
    };
    assert_eq!(keys(*source).0, "i");
    let source = |profile| match files.active_profile(Some(profile)).unwrap() {
        ProfileCredentials::Role { source, .. } => format!("{source:?}"),
        ProfileCredentials::Static(_) => panic!("keys"),
    };
    assert_eq!(source("token"), "WebIdentity(\"token.txt\")");
    assert_eq!(source("machine"), "InstanceMetadata");
}

#[test]
fn unsupported_profiles_are_reported() {
    let files = Files::new(CONFIG, "");
    for (profile, problem) in [
        (Some("nobody"), "nobody does not exist"),
        (Some("ring"), "has a role chain that is cyclic or too long"),
        (Some("odd"), "unknown credential_source"),
        (Some("bare"), "has a role_arn but none of"),
        (Some("program"), "uses credential_process or single sign-on"),
        (Some("hollow"), "a source_profile without credentials"),
    ] {
        let error = files.active_profile(profile).unwrap_err();
        assert!(error.contains("ProviderError") && error.contains(problem), "{profile:?}: {error}");
    }
    // A profile without credentials is skipped, and so is a missing one.
    for (profile, problem) in
        [(Some("region"), "region has no credentials"), (None, "default has no credentials")]
    {
        let error = files.active_profile(profile).unwrap_err();
        assert!(error.contains("CredentialsNotLoaded") && error.contains(problem), "{error}");
    }
    let error = Files::new("", "").active_profile(None).unwrap_err();
    assert!(error.contains("CredentialsNotLoaded"), "{error}");
}

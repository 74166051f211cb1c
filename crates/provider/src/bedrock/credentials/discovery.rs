//! Finds out which credentials the default chain would use, from variables and files alone.
//!
//! For `seawall init`, which must not wait for servers that may not exist. **What it does not do.** It requests nothing:
//! whether a role may be assumed, or an instance has one, is known only when credentials are fetched.

use super::environment::Environment;
use super::profile::{active_profile, profile_region};
use aws_credential_types::provider::error::CredentialsError;
use std::error::Error as _;
use std::fs;
use std::path::Path;

/// Where Linux names the vendor of the machine.
const MACHINE_VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
const EC2_VENDOR: &str = "Amazon EC2";

/// The source of credentials that the default chain would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSource {
    /// What it is, such as the name of a variable or a profile.
    pub name: String,
    /// The region of the variables or the profile.
    pub region: Option<String>,
}

impl CredentialSource {
    /// The first source of the default chain that is configured; `None` if none is. The error says why a configured
    /// source cannot be used.
    pub fn find(environment: &Environment) -> Result<Option<Self>, String> {
        Self::find_on(environment, Path::new(MACHINE_VENDOR))
    }

    fn find_on(environment: &Environment, machine_vendor: &Path) -> Result<Option<Self>, String> {
        let name = Self::find_name(environment, machine_vendor)?;
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|name| environment.get(name));
        Ok(name.map(|name| Self { name, region: region.or_else(|| profile_region(environment)) }))
    }

    fn find_name(environment: &Environment, machine_vendor: &Path) -> Result<Option<String>, String> {
        let is_set = |name: &str| environment.get(name).is_some();
        match (is_set("AWS_ACCESS_KEY_ID"), is_set("AWS_SECRET_ACCESS_KEY")) {
            (true, true) => return Ok(Some("AWS_ACCESS_KEY_ID".to_owned())),
            (true, false) => {
                return Err("AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not".to_owned());
            }
            (false, _) => {}
        }
        match active_profile(environment) {
            Ok(_) => {
                let profile = environment.get("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
                return Ok(Some(format!("profile {profile}")));
            }
            Err(CredentialsError::CredentialsNotLoaded(_)) => {}
            Err(error) => {
                return Err(error.source().map_or_else(|| error.to_string(), ToString::to_string));
            }
        }
        let variables = [
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ];
        if let Some(name) = variables.into_iter().find(|name| is_set(name)) {
            return Ok(Some(name.to_owned()));
        }
        let is_disabled = environment
            .get("AWS_EC2_METADATA_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_instance =
            || fs::read_to_string(machine_vendor).is_ok_and(|vendor| vendor.trim() == EC2_VENDOR);
        Ok((!is_disabled && is_instance()).then(|| "the role of this EC2 instance, if it has one".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{CredentialSource, Environment};
    use std::collections::BTreeMap;
    use std::path::Path;

    const NO_MACHINE: &str = "no such file";

    fn find(variables: &[(&str, &str)], machine: &str) -> Result<Option<(String, Option<String>)>, String> {
        let variables: BTreeMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let environment = Environment::from_fn(move |name| variables.get(name).cloned());
        let found = CredentialSource::find_on(&environment, Path::new(machine))?;
        Ok(found.map(|source| (source.name, source.region)))
    }

    fn home(name: &str, config: &str, credentials: &str) -> String {
        let home = std::env::temp_dir().join(format!("seawall-aws-{}-{name}", std::process::id()));
        std::fs::create_dir_all(home.join(".aws")).unwrap();
        std::fs::write(home.join(".aws/config"), config).unwrap();
        std::fs::write(home.join(".aws/credentials"), credentials).unwrap();
        home.to_str().unwrap().to_owned()
    }

    #[test]
    fn variables_come_before_profiles_and_profiles_have_a_region() {
        let config = "[default]\nregion = eu-west-1\n[profile shop]\nregion = ap-northeast-1\nrole_arn = arn:aws:iam::1:role/r\n\
                      source_profile = default\n";
        let home =
            home("profiles", config, "[default]\naws_access_key_id = AKIA\naws_secret_access_key = s\n");
        let home = ("HOME", home.as_str());
        let some = |name: &str, region: &str| Ok(Some((name.to_owned(), Some(region.to_owned()))));
        assert_eq!(find(&[home], NO_MACHINE), some("profile default", "eu-west-1"));
        assert_eq!(
            find(&[home, ("AWS_PROFILE", "shop")], NO_MACHINE),
            some("profile shop", "ap-northeast-1")
        );
        assert_eq!(
            find(&[home, ("AWS_REGION", "us-west-2")], NO_MACHINE),
            some("profile default", "us-west-2")
        );
        let keys = [home, ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "s")];
        assert_eq!(find(&keys, NO_MACHINE), some("AWS_ACCESS_KEY_ID", "eu-west-1"));
        std::fs::remove_dir_all(home.1).unwrap();
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_an_error_and_one_without_credentials_is_nothing() {
        let home = home("unusable", "[default]\nregion = eu-west-1\n[profile sso]\nsso_session = work\n", "");
        let home = ("HOME", home.as_str());
        assert_eq!(find(&[home], NO_MACHINE), Ok(None));
        let sso = find(&[home, ("AWS_PROFILE", "sso")], NO_MACHINE).unwrap_err();
        assert!(sso.contains("profile sso uses credential_process or single sign-on"), "{sso}");
        let missing = find(&[home, ("AWS_PROFILE", "shop")], NO_MACHINE).unwrap_err();
        assert_eq!(missing, "profile shop does not exist");
        let half = find(&[("AWS_ACCESS_KEY_ID", "a")], NO_MACHINE).unwrap_err();
        assert_eq!(half, "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
        std::fs::remove_dir_all(home.1).unwrap();
    }

    #[test]
    fn containers_and_instances_are_recognised_without_a_request() {
        for variable in [
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ] {
            assert_eq!(find(&[(variable, "/x")], NO_MACHINE), Ok(Some((variable.to_owned(), None))));
        }
        let vendor = std::env::temp_dir().join(format!("seawall-vendor-{}", std::process::id()));
        std::fs::write(&vendor, "Amazon EC2\n").unwrap();
        let machine = vendor.to_str().unwrap();
        let (name, region) = find(&[("AWS_REGION", "eu-west-1")], machine).unwrap().unwrap();
        assert!(name.contains("EC2 instance") && region.as_deref() == Some("eu-west-1"), "{name}");
        assert_eq!(find(&[("AWS_EC2_METADATA_DISABLED", "true")], machine), Ok(None));
        assert_eq!(find(&[], NO_MACHINE), Ok(None));
        std::fs::remove_file(vendor).unwrap();
    }
}

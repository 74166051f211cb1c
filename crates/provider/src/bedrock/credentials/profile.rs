//! Profiles in the two files that the AWS CLI and SDKs use.
//!
//! A profile contains credentials, or a role together with the source of the credentials to assume it with: another
//! profile, another source of the default chain, or a web identity.

use super::environment::Environment;
use super::{not_loaded, provider_error};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use std::collections::BTreeMap;

/// Maximum length of a role chain; a longer one indicates a cycle.
const MAX_ROLE_CHAIN: usize = 5;

/// The settings of all profiles. The credentials file takes precedence over the config file.
#[derive(Debug, Default)]
pub(super) struct Profiles(BTreeMap<String, BTreeMap<String, String>>);

/// What a profile defines.
#[derive(Debug)]
pub(super) enum ProfileCredentials {
    /// Static credentials.
    Static(Credentials),
    /// A role to assume.
    Role { arn: String, session: Option<String>, external_id: Option<String>, source: RoleSource },
}

/// What a role is assumed with.
#[derive(Debug)]
pub(super) enum RoleSource {
    /// The credentials of another profile.
    Profile(Box<ProfileCredentials>),
    /// The credentials of another source.
    Environment,
    Container,
    InstanceMetadata,
    /// The web identity token in this file.
    WebIdentity(String),
}

pub(super) fn active_profile(environment: &Environment) -> Result<ProfileCredentials, CredentialsError> {
    let named = environment.get("AWS_PROFILE");
    let name = named.as_deref().unwrap_or("default");
    let profiles = Profiles::read(environment);
    if named.is_none() && !profiles.0.contains_key(name) {
        return Err(not_loaded("no profile"));
    }
    let found = profiles.find(name, 0)?;
    // A profile may exist for its region alone.
    found.ok_or_else(|| not_loaded(format!("profile {name} has no credentials")))
}

/// The region of the active profile.
pub(super) fn profile_region(environment: &Environment) -> Option<String> {
    let named = environment.get("AWS_PROFILE");
    let profiles = Profiles::read(environment);
    let region = profiles.0.get(named.as_deref().unwrap_or("default"))?.get("region")?;
    (!region.is_empty()).then(|| region.clone())
}

impl Profiles {
    fn read(environment: &Environment) -> Self {
        let home = environment.get("HOME").unwrap_or_default();
        let file = |variable: &str, default_name: &str| {
            let path = environment.get(variable).unwrap_or_else(|| format!("{home}/.aws/{default_name}"));
            // A missing file counts as empty.
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let mut profiles = Self::default();
        profiles.add(&file("AWS_CONFIG_FILE", "config"), Some("profile "));
        profiles.add(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), None);
        profiles
    }

    /// Adds the profiles of a file. The config file has other sections as well, and a prefix before profile names.
    fn add(&mut self, text: &str, section_prefix: Option<&str>) {
        let name = |section: &str| match section_prefix {
            Some(section_prefix) if section != "default" => {
                Some(section.strip_prefix(section_prefix)?.trim().to_owned())
            }
            _ => Some(section.to_owned()),
        };
        let mut profile = None;
        for line in text.lines() {
            // Indented lines belong to the setting above; none of those matters here.
            if line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                profile = name(section.0.trim());
                if let Some(profile) = &profile {
                    self.0.entry(profile.clone()).or_default();
                }
                continue;
            }
            let (Some(profile), Some((key, value))) = (&profile, line.split_once('=')) else { continue };
            // A comment needs a space before it, because secrets contain these characters.
            let value = value.split(" #").next().unwrap_or_default();
            let value = value.split(" ;").next().unwrap_or_default().trim();
            let settings = self.0.entry(profile.clone()).or_default();
            settings.insert(key.trim().to_ascii_lowercase(), value.to_owned());
        }
    }

    /// What a profile defines, if anything.
    fn find(&self, name: &str, depth: usize) -> Result<Option<ProfileCredentials>, CredentialsError> {
        let wrong = |problem: &str| provider_error(format!("profile {name} {problem}"));
        let settings = self.0.get(name).ok_or_else(|| wrong("does not exist"))?;
        let get = |key: &str| settings.get(key).filter(|value| !value.is_empty());
        if depth > MAX_ROLE_CHAIN {
            return Err(wrong("has a role chain that is cyclic or too long"));
        }
        let keys = match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(id), Some(secret)) => {
                let token = get("aws_session_token").cloned();
                Some(ProfileCredentials::Static(Credentials::new(id, secret, token, None, "profile")))
            }
            _ => None,
        };
        // A profile that names itself as source means its own static credentials.
        let is_own = depth > 0 && get("source_profile").is_some_and(|source| source == name);
        let Some(arn) = get("role_arn").filter(|_| !is_own) else {
            return match keys {
                Some(keys) => Ok(Some(keys)),
                None if ["credential_process", "sso_session", "sso_start_url"]
                    .iter()
                    .any(|key| get(key).is_some()) =>
                {
                    Err(wrong("uses credential_process or single sign-on, which are not supported"))
                }
                None => Ok(None),
            };
        };
        let source = match (get("source_profile"), get("credential_source"), get("web_identity_token_file")) {
            (Some(source), ..) => {
                let found = self.find(source, depth + 1)?;
                RoleSource::Profile(Box::new(
                    found.ok_or_else(|| wrong("has a source_profile without credentials"))?,
                ))
            }
            (None, Some(source), _) => match source.as_str() {
                "Environment" => RoleSource::Environment,
                "EcsContainer" => RoleSource::Container,
                "Ec2InstanceMetadata" => RoleSource::InstanceMetadata,
                _ => return Err(wrong("has an unknown credential_source")),
            },
            (None, None, Some(file)) => RoleSource::WebIdentity(file.clone()),
            (None, None, None) => {
                return Err(wrong(
                    "has a role_arn but none of source_profile, credential_source and web_identity_token_file",
                ));
            }
        };
        let (session, external_id) = (get("role_session_name").cloned(), get("external_id").cloned());
        Ok(Some(ProfileCredentials::Role { arn: arn.clone(), session, external_id, source }))
    }
}

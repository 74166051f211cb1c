//! Profiles in the vendor's two files, as its command line and its libraries keep them.
//!
//! A profile gives keys, or a role together with where the keys come from that take it on: another profile, another place
//! of the usual order, or a web identity.

use super::environment::Environment;
use super::{absent, failed};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use std::collections::BTreeMap;

/// So many roles may be taken on one with the other; more are a circle.
const DEEPEST: usize = 5;

/// The settings of all profiles. Those of the file with keys count before those of the other.
#[derive(Debug, Default)]
pub(super) struct Profiles(BTreeMap<String, BTreeMap<String, String>>);

/// What a profile says about keys.
#[derive(Debug)]
pub(super) enum Found {
    /// These.
    Keys(Credentials),
    /// Those of a role.
    Role { arn: String, session: Option<String>, external_id: Option<String>, with: With },
}

/// With what a role is taken on.
#[derive(Debug)]
pub(super) enum With {
    /// What another profile says.
    Profile(Box<Found>),
    /// The keys of another place.
    Environment,
    Container,
    Machine,
    /// The token in this file.
    Token(String),
}

/// What the profile in force says.
pub(super) fn chosen(environment: &Environment) -> Result<Found, CredentialsError> {
    let named = environment.get("AWS_PROFILE");
    let name = named.as_deref().unwrap_or("default");
    let profiles = Profiles::read(environment);
    if named.is_none() && !profiles.0.contains_key(name) {
        return Err(absent("no profile"));
    }
    let found = profiles.find(name, 0)?;
    // A profile may be there for its region alone.
    found.ok_or_else(|| absent(format!("the profile {name} has no keys")))
}

impl Profiles {
    fn read(environment: &Environment) -> Self {
        let home = environment.get("HOME").unwrap_or_default();
        let file = |variable: &str, usual: &str| {
            let path = environment.get(variable).unwrap_or_else(|| format!("{home}/.aws/{usual}"));
            // One that is not there says nothing.
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let mut profiles = Self::default();
        profiles.add(&file("AWS_CONFIG_FILE", "config"), Some("profile "));
        profiles.add(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), None);
        profiles
    }

    /// Adds the profiles of a file. One of the two has other sections as well, and a word before the names of profiles.
    fn add(&mut self, text: &str, word: Option<&str>) {
        let name = |section: &str| match word {
            Some(word) if section != "default" => Some(section.strip_prefix(word)?.trim().to_owned()),
            _ => Some(section.to_owned()),
        };
        let mut profile = None;
        for line in text.lines() {
            // What is set in is a part of the setting above it, and none that matters here.
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
            // A comment needs a space before it: keys have such characters.
            let value = value.split(" #").next().unwrap_or_default();
            let value = value.split(" ;").next().unwrap_or_default().trim();
            let settings = self.0.entry(profile.clone()).or_default();
            settings.insert(key.trim().to_ascii_lowercase(), value.to_owned());
        }
    }

    /// What a profile says, if anything.
    fn find(&self, name: &str, depth: usize) -> Result<Option<Found>, CredentialsError> {
        let wrong = |problem: &str| failed(format!("the profile {name} {problem}"));
        let settings = self.0.get(name).ok_or_else(|| wrong("does not exist"))?;
        let get = |key: &str| settings.get(key).filter(|value| !value.is_empty());
        if depth > DEEPEST {
            return Err(wrong("leads in a circle"));
        }
        let keys = match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (Some(id), Some(secret)) => {
                let token = get("aws_session_token").cloned();
                Some(Found::Keys(Credentials::new(id, secret, token, None, "profile")))
            }
            _ => None,
        };
        // Who names itself as the source means its own keys.
        let is_own = depth > 0 && get("source_profile").is_some_and(|source| source == name);
        let Some(arn) = get("role_arn").filter(|_| !is_own) else {
            return match keys {
                Some(keys) => Ok(Some(keys)),
                None if ["credential_process", "sso_session", "sso_start_url"]
                    .iter()
                    .any(|key| get(key).is_some()) =>
                {
                    Err(wrong("has its keys from a program or a single sign-on, which are not asked"))
                }
                None => Ok(None),
            };
        };
        let with = match (get("source_profile"), get("credential_source"), get("web_identity_token_file")) {
            (Some(source), ..) => {
                let found = self.find(source, depth + 1)?;
                With::Profile(Box::new(found.ok_or_else(|| wrong("has a source without keys"))?))
            }
            (None, Some(source), _) => match source.as_str() {
                "Environment" => With::Environment,
                "EcsContainer" => With::Container,
                "Ec2InstanceMetadata" => With::Machine,
                _ => return Err(wrong("has a credential_source that is unknown")),
            },
            (None, None, Some(file)) => With::Token(file.clone()),
            (None, None, None) => return Err(wrong("has a role and no keys to take it on with")),
        };
        let (session, external_id) = (get("role_session_name").cloned(), get("external_id").cloned());
        Ok(Some(Found::Role { arn: arn.clone(), session, external_id, with }))
    }
}

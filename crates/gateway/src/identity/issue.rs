//! Key management: creates, lists and revokes keys.
//!
//! It is called by the process that owns the directory: a command on an unused state directory, or a running gateway.
//! The plain text of a key is returned once, when it is created; the directory stores its hash and a name for people.
//!
//! It does not create two live keys of the same name, and does not restore a revoked one.

use super::api_key::{NewKey, create_key};
use super::encoding::hex;
use super::master::{MasterSecret, random};
use super::pseudonym::Pseudonyms;
use super::signature::{Signatures, credential_of_access_key};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::number_of;
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, StoreError};
use serde::{Deserialize, Serialize};

/// Maximum length of a key's name, in characters.
pub const LONGEST_NAME: usize = 64;
/// Callers read per page.
const PAGE: usize = 500;
/// Hexadecimal digits of the hash in a key's id. With fewer, a million keys would not have distinct ids.
const ID_SIGNS: usize = 16;

/// A request to create a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAsk {
    /// The name for people.
    pub name: String,
    /// The tier of its holder: `prime`, `standard` or `guest`.
    pub tier: String,
    /// Whether to create a key pair for AWS clients, which sign requests.
    #[serde(default)]
    pub aws: bool,
}

/// A newly created key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedKey {
    /// The id to revoke it by.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The tier of its holder.
    pub tier: String,
    /// The key itself, returned only here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// The key pair for AWS clients instead, returned only here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aws: Option<AwsPair>,
}

/// The credentials that AWS clients are configured with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsPair {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: String,
}

impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("IssuedKey");
        shown.field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A key in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// The id to revoke it by.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The tier of its holder.
    pub tier: String,
    /// The pseudonym of its holder in logs.
    pub caller: String,
    /// The date of its creation.
    pub created: String,
    /// The date of its revocation, if it was revoked.
    pub revoked: Option<String>,
}

/// A listing of all keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyList {
    /// In order of creation.
    pub keys: Vec<KeyEntry>,
}

/// The JSON body of a failed key operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyProblem {
    /// The error.
    pub error: ProblemWords,
}

/// An error with a type and a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemWords {
    /// The error type, for programs.
    pub kind: String,
    /// The message, for people.
    pub message: String,
}

/// Why a key could not be created, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The name is empty, too long or not printable.
    #[error("a name has 1 to {LONGEST_NAME} printable characters")]
    Name,
    /// The tier does not exist.
    #[error("there is no tier {0:?}: prime, standard or guest")]
    Tier(String),
    /// A live key already has this name.
    #[error("there is a key {0:?} already: revoke it, or choose another name")]
    Taken(String),
    /// No key has this name or id.
    #[error("there is no key {0:?}")]
    Unknown(String),
    /// Several keys match.
    #[error("{0:?} could be more than one key: give more of its id")]
    Ambiguous(String),
    /// The directory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are no random bytes, or no master secret to derive from.
    #[error("no key can be made: {0}")]
    Cannot(String),
}

impl IssueError {
    /// Whether the input is invalid, as opposed to a failure of the operation.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Name | Self::Tier(_) | Self::Taken(_) | Self::Unknown(_) | Self::Ambiguous(_))
    }
}

/// Generates a key without storing it, for use as a key of a single run.
pub fn random_key() -> Result<String, IssueError> {
    let random = random().map_err(|error: getrandom::Error| IssueError::Cannot(error.to_string()))?;
    Ok(create_key(&random).plaintext)
}

/// Creates a key and stores its hash.
pub async fn create(
    directory: &impl Directory,
    master: &MasterSecret,
    ask: &KeyAsk,
    now: UtcTime,
) -> Result<IssuedKey, IssueError> {
    let KeyAsk { name, tier, aws } = ask;
    if !is_name(name) {
        return Err(IssueError::Name);
    }
    let known = Tier::ALL.into_iter().find(|known| known.name() == tier);
    let tier = known.ok_or_else(|| IssueError::Tier(tier.clone()))?;
    let live =
        |(_, record): &(CredentialHash, CallerRecord)| record.revoked.is_none() && *record.name == **name;
    if all(directory).await?.iter().any(live) {
        return Err(IssueError::Taken(name.clone()));
    }
    let no_chance = |error: getrandom::Error| IssueError::Cannot(error.to_string());
    let (hash, key, aws) = if *aws {
        let signatures =
            Signatures::new(master.bytes()).map_err(|error| IssueError::Cannot(error.to_string()))?;
        let pair = signatures.create(&random().map_err(no_chance)?);
        let hash = credential_of_access_key(&pair.id);
        (hash, None, Some(AwsPair { access_key_id: pair.id, secret_access_key: pair.secret }))
    } else {
        let NewKey { plaintext, hash, .. } = create_key(&random().map_err(no_chance)?);
        (hash, Some(plaintext), None)
    };
    let record = CallerRecord {
        // The same number that it has while the directory is unavailable.
        caller: number_of(&hash),
        name: name.as_str().into(),
        tier,
        clamp: None,
        created: now,
        revoked: None,
    };
    match directory.add(&CredentialHash(hash), &record).await? {
        AddDecision::Added => {}
        AddDecision::Known => return Err(IssueError::Cannot("chance made a key that exists".to_owned())),
    }
    Ok(IssuedKey { id: id_of(&hash), name: name.clone(), tier: tier.name().to_owned(), key, aws })
}

/// All keys including the revoked ones, in order of creation.
pub async fn list(directory: &impl Directory, names: &Pseudonyms) -> Result<Vec<KeyEntry>, IssueError> {
    let mut all = all(directory).await?;
    all.sort_by_key(|(credential, record)| (record.created, *credential));
    Ok(all.iter().map(|(credential, record)| entry(credential, record, names)).collect())
}

/// Revokes the key with this name or id. Returns it, and its hash for cache invalidation.
pub async fn revoke(
    directory: &impl Directory,
    names: &Pseudonyms,
    name_or_id: &str,
    now: UtcTime,
) -> Result<(KeyEntry, [u8; 32]), IssueError> {
    let all = all(directory).await?;
    let live = || all.iter().filter(|(_, record)| record.revoked.is_none());
    let named: Vec<_> = live().filter(|(_, record)| *record.name == *name_or_id).collect();
    // A name may look like an id; an exact name takes precedence.
    let found = if named.is_empty() {
        let is_id = name_or_id.len() >= ID_SIGNS;
        live().filter(|(credential, _)| is_id && hex(&credential.0).starts_with(name_or_id)).collect()
    } else {
        named
    };
    let (credential, record) = match found.as_slice() {
        [] => return Err(IssueError::Unknown(name_or_id.to_owned())),
        [only] => only,
        _ => return Err(IssueError::Ambiguous(name_or_id.to_owned())),
    };
    directory.revoke(credential, now).await?;
    let revoked = CallerRecord { revoked: Some(now), ..record.clone() };
    Ok((entry(credential, &revoked, names), credential.0))
}

async fn all(directory: &impl Directory) -> Result<Vec<(CredentialHash, CallerRecord)>, StoreError> {
    let mut all: Vec<(CredentialHash, CallerRecord)> = Vec::new();
    loop {
        let after = all.last().map(|(credential, _)| *credential);
        let page = directory.list(after, PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

fn entry(credential: &CredentialHash, record: &CallerRecord, names: &Pseudonyms) -> KeyEntry {
    KeyEntry {
        id: id_of(&credential.0),
        name: record.name.to_string(),
        tier: record.tier.name().to_owned(),
        caller: format!("{:016x}", names.shown(record.caller)),
        created: date(record.created),
        revoked: record.revoked.map(date),
    }
}

/// The id: the beginning of the hash, which is no secret.
fn id_of(hash: &[u8; 32]) -> String {
    hex(hash).chars().take(ID_SIGNS).collect()
}

fn date(moment: UtcTime) -> String {
    let (year, month, day) = moment.civil();
    let second = moment.as_nanos() / 1_000_000_000 % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn is_name(name: &str) -> bool {
    let count = name.chars().count();
    let is_printable = |sign: char| !sign.is_control() && (sign == ' ' || !sign.is_whitespace());
    (1..=LONGEST_NAME).contains(&count) && name.chars().all(is_printable) && name.trim() == name
}

#[cfg(test)]
mod tests;

//! Key management: creates, lists and revokes keys.
//!
//! It is called by the process that owns the caller directory: a command on an unused data directory, or a running gateway.
//! The plain text of a key is returned once, when it is created; the caller directory stores its hash and a name for people.
//!
//! It does not create two active keys of the same name, and does not restore a revoked one.

use super::api_key::{NewKey, create_key};
use super::master::{MasterSecret, random_bytes};
use super::pseudonym::Pseudonyms;
use super::signature::{Signatures, hash_access_key};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::caller_id_of;
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, StoreError};
use serde::{Deserialize, Serialize};

/// Maximum length of a key's name, in characters.
pub const MAX_KEY_NAME: usize = 64;
/// Callers read per page.
const PAGE: usize = 500;
/// Hexadecimal digits of the hash in a key's id. With fewer, a million keys would not have distinct ids.
const ID_DIGITS: usize = 16;

/// A request to create a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
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
    pub aws: Option<AwsKeyPair>,
}

/// The credentials that AWS clients are configured with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsKeyPair {
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
pub struct KeyErrorBody {
    /// The error.
    pub error: KeyErrorDetail,
}

/// An error with a type and a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyErrorDetail {
    /// The error type, for programs.
    pub kind: String,
    /// The message, for people.
    pub message: String,
}

/// Why a key could not be created, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The name is empty, too long or not printable.
    #[error("key name: must be 1 to {MAX_KEY_NAME} printable characters")]
    InvalidName,
    /// The tier does not exist.
    #[error("unknown tier {0:?}: must be prime, standard or guest")]
    UnknownTier(String),
    /// An active key already has this name.
    #[error("a key named {0:?} already exists: revoke it, or choose another name")]
    NameInUse(String),
    /// No key has this name or id.
    #[error("no key has the name or id {0:?}")]
    UnknownKey(String),
    /// Several keys match.
    #[error("{0:?} matches several keys: give more digits of the id")]
    Ambiguous(String),
    /// The directory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are no random bytes, or no master secret to derive from.
    #[error("cannot create the key: {0}")]
    Failed(String),
}

impl IssueError {
    /// Whether the input is invalid, as opposed to a failure of the operation.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::InvalidName
                | Self::UnknownTier(_)
                | Self::NameInUse(_)
                | Self::UnknownKey(_)
                | Self::Ambiguous(_)
        )
    }
}

/// Generates a key without storing it, for use as a key of a single run.
pub fn random_key() -> Result<String, IssueError> {
    let random = random_bytes().map_err(|error: getrandom::Error| IssueError::Failed(error.to_string()))?;
    Ok(create_key(&random).plaintext)
}

/// Creates a key and stores its hash.
pub async fn create(
    directory: &dyn Directory,
    master: &MasterSecret,
    request: &KeyRequest,
    now: UtcTime,
) -> Result<IssuedKey, IssueError> {
    let KeyRequest { name, tier, aws } = request;
    if !is_valid_name(name) {
        return Err(IssueError::InvalidName);
    }
    let named = Tier::ALL.into_iter().find(|named| named.name() == tier);
    let tier = named.ok_or_else(|| IssueError::UnknownTier(tier.clone()))?;
    let is_active =
        |(_, record): &(CredentialHash, CallerRecord)| record.revoked.is_none() && *record.name == **name;
    if read_all(directory).await?.iter().any(is_active) {
        return Err(IssueError::NameInUse(name.clone()));
    }
    let no_randomness = |error: getrandom::Error| IssueError::Failed(error.to_string());
    let (hash, key, aws) = if *aws {
        let signatures =
            Signatures::new(master.bytes()).map_err(|error| IssueError::Failed(error.to_string()))?;
        let pair = signatures.create(&random_bytes().map_err(no_randomness)?);
        let hash = hash_access_key(&pair.id);
        (hash, None, Some(AwsKeyPair { access_key_id: pair.id, secret_access_key: pair.secret }))
    } else {
        let NewKey { plaintext, hash, .. } = create_key(&random_bytes().map_err(no_randomness)?);
        (hash, Some(plaintext), None)
    };
    let record = CallerRecord {
        // The same number that it has while the caller directory is unavailable.
        caller: caller_id_of(&hash),
        name: name.as_str().into(),
        tier,
        ceiling: None,
        created: now,
        revoked: None,
    };
    match directory.add(&CredentialHash(hash), &record).await? {
        AddDecision::Added => {}
        AddDecision::AlreadyExists => {
            return Err(IssueError::Failed("the generated key already exists; try again".to_owned()));
        }
    }
    Ok(IssuedKey { id: key_id(&hash), name: name.clone(), tier: tier.name().to_owned(), key, aws })
}

/// All keys including the revoked ones, in order of creation.
pub async fn list(directory: &dyn Directory, pseudonyms: &Pseudonyms) -> Result<Vec<KeyEntry>, IssueError> {
    let mut all = read_all(directory).await?;
    all.sort_by_key(|(credential, record)| (record.created, *credential));
    Ok(all.iter().map(|(credential, record)| key_entry(credential, record, pseudonyms)).collect())
}

/// Revokes the key with this name or id. Returns it, and its hash for cache invalidation.
pub async fn revoke(
    directory: &dyn Directory,
    pseudonyms: &Pseudonyms,
    name_or_id: &str,
    now: UtcTime,
) -> Result<(KeyEntry, [u8; 32]), IssueError> {
    let all = read_all(directory).await?;
    let active = || all.iter().filter(|(_, record)| record.revoked.is_none());
    let named: Vec<_> = active().filter(|(_, record)| *record.name == *name_or_id).collect();
    // A name may look like an id; an exact name takes precedence.
    let found = if named.is_empty() {
        let is_id = name_or_id.len() >= ID_DIGITS;
        active()
            .filter(|(credential, _)| is_id && hex::encode(credential.0).starts_with(name_or_id))
            .collect()
    } else {
        named
    };
    let (credential, record) = match found.as_slice() {
        [] => return Err(IssueError::UnknownKey(name_or_id.to_owned())),
        [only] => only,
        _ => return Err(IssueError::Ambiguous(name_or_id.to_owned())),
    };
    directory.revoke(credential, now).await?;
    let revoked = CallerRecord { revoked: Some(now), ..record.clone() };
    Ok((key_entry(credential, &revoked, pseudonyms), credential.0))
}

async fn read_all(directory: &dyn Directory) -> Result<Vec<(CredentialHash, CallerRecord)>, StoreError> {
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

fn key_entry(credential: &CredentialHash, record: &CallerRecord, pseudonyms: &Pseudonyms) -> KeyEntry {
    KeyEntry {
        id: key_id(&credential.0),
        name: record.name.to_string(),
        tier: record.tier.name().to_owned(),
        caller: format!("{:016x}", pseudonyms.encode(record.caller)),
        created: format_date(record.created),
        revoked: record.revoked.map(format_date),
    }
}

/// The id: the beginning of the hash, which is no secret.
fn key_id(hash: &[u8; 32]) -> String {
    hex::encode(hash).chars().take(ID_DIGITS).collect()
}

fn format_date(moment: UtcTime) -> String {
    let (year, month, day) = moment.civil();
    let second = moment.as_nanos() / 1_000_000_000 % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn is_valid_name(name: &str) -> bool {
    let count = name.chars().count();
    let is_printable =
        |character: char| !character.is_control() && (character == ' ' || !character.is_whitespace());
    (1..=MAX_KEY_NAME).contains(&count) && name.chars().all(is_printable) && name.trim() == name
}

#[cfg(test)]
mod tests;

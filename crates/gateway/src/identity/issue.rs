//! Makes, lists and revokes keys.
//!
//! Whoever has the directory calls this: a command on a folder that nobody else uses, or a running gateway. The plain text
//! of a key is told once, when it is made; the directory keeps its hash, and a name for people.
//!
//! It will not make two live keys of one name, and will not bring back one that was revoked.

use super::api_key::{NewKey, create_key};
use super::encoding::hex;
use super::master::{MasterSecret, random};
use super::signature::{Signatures, credential_of_access_key};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::number_of;
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, StoreError};
use serde::{Deserialize, Serialize};

/// The longest name of a key, in characters.
pub const LONGEST_NAME: usize = 64;
/// How many callers are read at a time.
const PAGE: usize = 500;
/// How many signs of a hash name a key. Fewer would not tell a million keys apart.
const ID_SIGNS: usize = 16;

/// A key that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAsk {
    /// What people call it.
    pub name: String,
    /// What its holder is entitled to: `prime`, `standard` or `guest`.
    pub tier: String,
    /// Whether it is a pair for AWS clients, which sign requests.
    #[serde(default)]
    pub aws: bool,
}

/// A key that was just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedKey {
    /// What to call it by when it is to be revoked.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What its holder is entitled to.
    pub tier: String,
    /// The key itself, told this once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// The pair for AWS clients instead, told this once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aws: Option<AwsPair>,
}

/// What AWS clients are set up with.
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

/// A key, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEntry {
    /// What to call it by when it is to be revoked.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What its holder is entitled to.
    pub tier: String,
    /// The number that logs know it by.
    pub caller: String,
    /// When it was made, as a date.
    pub created: String,
    /// When it was revoked, if it was.
    pub revoked: Option<String>,
}

/// What is told of all keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyList {
    /// In the order in which they were made.
    pub keys: Vec<KeyEntry>,
}

/// What is told where nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyProblem {
    /// Why.
    pub error: ProblemWords,
}

/// A problem in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemWords {
    /// For programs.
    pub kind: String,
    /// For people.
    pub message: String,
}

/// Why a key could not be made, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The name is none.
    #[error("a name has 1 to {LONGEST_NAME} printable characters")]
    Name,
    /// There is no such tier.
    #[error("there is no tier {0:?}: prime, standard or guest")]
    Tier(String),
    /// Somebody has it.
    #[error("there is a key {0:?} already: revoke it, or choose another name")]
    Taken(String),
    /// Nobody has it.
    #[error("there is no key {0:?}")]
    Unknown(String),
    /// More than one has it.
    #[error("{0:?} could be more than one key: give more of its id")]
    Ambiguous(String),
    /// The directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There are no random bytes, or no secret to derive from.
    #[error("no key can be made: {0}")]
    Cannot(String),
}

impl IssueError {
    /// Whether what was asked for makes no sense, rather than that it could not be done.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Name | Self::Tier(_) | Self::Taken(_) | Self::Unknown(_) | Self::Ambiguous(_))
    }
}

/// A key that is kept nowhere, for who takes it in by its text.
pub fn random_key() -> Result<String, IssueError> {
    let random = random().map_err(|error: getrandom::Error| IssueError::Cannot(error.to_string()))?;
    Ok(create_key(&random).plaintext)
}

/// Makes a key.
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
        // The number it has while the directory is away, too.
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

/// All keys, those that were revoked included, in the order in which they were made.
pub async fn list(directory: &impl Directory) -> Result<Vec<KeyEntry>, IssueError> {
    let mut all = all(directory).await?;
    all.sort_by_key(|(credential, record)| (record.created, *credential));
    Ok(all.iter().map(|(credential, record)| entry(credential, record)).collect())
}

/// Revokes the key of this name or id. Returns it, and the hash that is good for nothing any more.
pub async fn revoke(
    directory: &impl Directory,
    name_or_id: &str,
    now: UtcTime,
) -> Result<(KeyEntry, [u8; 32]), IssueError> {
    let all = all(directory).await?;
    let live = || all.iter().filter(|(_, record)| record.revoked.is_none());
    let named: Vec<_> = live().filter(|(_, record)| *record.name == *name_or_id).collect();
    // A name may look like an id; whoever wrote a name in full meant it.
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
    Ok((entry(credential, &revoked), credential.0))
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

fn entry(credential: &CredentialHash, record: &CallerRecord) -> KeyEntry {
    KeyEntry {
        id: id_of(&credential.0),
        name: record.name.to_string(),
        tier: record.tier.name().to_owned(),
        caller: format!("{:016x}", record.caller),
        created: date(record.created),
        revoked: record.revoked.map(date),
    }
}

/// The beginning of the hash: it proves nothing.
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

//! Key management: creates, changes, replaces, lists and revokes keys.
//!
//! It is called by the process that owns the caller directory: a command on an unused data directory, or a running gateway.
//! The plain text of a key is returned once, when it is created; the caller directory stores its hash and a name for people.
//!
//! It does not create two active keys of the same name, and does not restore a revoked one.

use super::api_key::{NewKey, create_key};
use super::master::{MasterSecret, random_bytes};
use super::pseudonym::Pseudonyms;
use super::signature::{Signatures, hash_access_key};
use seawall_config::TermError;
use seawall_core::budget::{BudgetAccount, BudgetPeriod};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::caller_id_of;
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, KeyContract, Ledger, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod change;
mod terms;

pub use change::{rotate, update};
pub use terms::{KeyChange, KeyRotation, KeyTermsRequest};

/// Maximum length of a key's name, in characters.
pub const MAX_KEY_NAME: usize = 64;
/// Callers read per page.
const PAGE: usize = 500;
/// Hexadecimal digits of the hash in a key's id. With fewer, a million keys would not have distinct ids.
const ID_DIGITS: usize = 16;

/// A request to create a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// The name for people.
    pub name: String,
    /// The tier of its holder: `prime`, `standard` or `guest`.
    pub tier: String,
    /// Whether to create a key pair for AWS clients, which sign requests.
    #[serde(default)]
    pub aws: bool,
    /// Its other terms.
    #[serde(default, skip_serializing_if = "KeyTermsRequest::is_empty")]
    pub terms: KeyTermsRequest,
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
    /// The date of its expiry, if it expires.
    #[serde(default)]
    pub expires: Option<String>,
    /// `active`, `expired` or `revoked`.
    #[serde(default)]
    pub state: String,
    /// The team that it belongs to.
    #[serde(default)]
    pub team: Option<String>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Its rate limits.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Patterns of the models that it may use; all if there are none.
    #[serde(default)]
    pub models: Vec<String>,
    /// Its budgets.
    #[serde(default)]
    pub budgets: Vec<KeyBudget>,
    /// Calls that it has paid for. A key and the one that replaced it are counted together.
    #[serde(default)]
    pub calls: u64,
    /// What these calls cost, in nano-dollars.
    #[serde(default)]
    pub cost_nanos: u64,
    /// When the last of them ended.
    #[serde(default)]
    pub last_used: Option<String>,
}

/// A budget of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBudget {
    /// `hour`, `day`, `week`, `month` or `quarter`.
    pub period: String,
    /// How much may be spent in a window, in nano-dollars.
    pub cap_nanos: u64,
    /// What is posted in the present window, if the gateway runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted_nanos: Option<u64>,
    /// What calls in progress hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_nanos: Option<u64>,
    /// When the next window begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets: Option<String>,
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
    /// A term is invalid.
    #[error(transparent)]
    InvalidTerm(#[from] TermError),
    /// A duration cannot be read.
    #[error("{what} {text:?}: write a duration such as 24h or 90d")]
    InvalidDuration {
        /// The name of the term.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// The key is not active.
    #[error("the key {0:?} is revoked or expired")]
    Inactive(String),
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
                | Self::InvalidTerm(_)
                | Self::InvalidDuration { .. }
                | Self::Inactive(_)
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
    let KeyRequest { name, tier, aws, terms } = request;
    if !is_valid_name(name) {
        return Err(IssueError::InvalidName);
    }
    let tier = parse_tier(tier)?;
    let contract = terms.apply_to(KeyContract::default(), now)?;
    let is_same =
        |(_, record): &(CredentialHash, CallerRecord)| is_active(record, now) && *record.name == **name;
    if directory.named(name).await?.iter().any(is_same) {
        return Err(IssueError::NameInUse(name.clone()));
    }
    let credential = NewCredential::generate(master, *aws)?;
    let record = CallerRecord {
        // The same number that it has while the caller directory is unavailable.
        caller: caller_id_of(&credential.hash),
        name: name.as_str().into(),
        tier,
        ceiling: None,
        created: now,
        revoked: None,
        contract,
    };
    add(directory, credential, &record).await
}

/// A credential that no caller has yet.
struct NewCredential {
    hash: [u8; 32],
    key: Option<String>,
    aws: Option<AwsKeyPair>,
}

impl NewCredential {
    fn generate(master: &MasterSecret, aws: bool) -> Result<Self, IssueError> {
        let no_randomness = |error: getrandom::Error| IssueError::Failed(error.to_string());
        if aws {
            let signatures =
                Signatures::new(master.bytes()).map_err(|error| IssueError::Failed(error.to_string()))?;
            let pair = signatures.create(&random_bytes().map_err(no_randomness)?);
            let hash = hash_access_key(&pair.id);
            let aws = Some(AwsKeyPair { access_key_id: pair.id, secret_access_key: pair.secret });
            return Ok(Self { hash, key: None, aws });
        }
        let NewKey { plaintext, hash, .. } = create_key(&random_bytes().map_err(no_randomness)?);
        Ok(Self { hash, key: Some(plaintext), aws: None })
    }
}

/// Stores a credential with its record.
async fn add(
    directory: &dyn Directory,
    credential: NewCredential,
    record: &CallerRecord,
) -> Result<IssuedKey, IssueError> {
    let NewCredential { hash, key, aws } = credential;
    match directory.add(&CredentialHash(hash), record).await? {
        AddDecision::Added => {}
        AddDecision::AlreadyExists => {
            return Err(IssueError::Failed("the generated key already exists; try again".to_owned()));
        }
    }
    let (name, tier) = (record.name.to_string(), record.tier.name().to_owned());
    Ok(IssuedKey { id: key_id(&hash), name, tier, key, aws })
}

/// A key in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// The hash of the credential.
    pub credential: CredentialHash,
    /// The record of its holder.
    pub record: CallerRecord,
}

/// All keys including the revoked ones, in order of creation.
pub async fn list(directory: &dyn Directory) -> Result<Vec<StoredKey>, IssueError> {
    let all = read_all(directory).await?;
    let mut keys: Vec<StoredKey> =
        all.into_iter().map(|(credential, record)| StoredKey { credential, record }).collect();
    keys.sort_by_key(|key| (key.record.created, key.credential));
    Ok(keys)
}

/// Revokes the key with this name or id. A name stands for all active credentials that have it: the key, and one that it
/// replaced and that is still accepted. Returns them, the newest last, for cache invalidation.
pub async fn revoke(
    directory: &dyn Directory,
    name_or_id: &str,
    now: UtcTime,
) -> Result<Vec<StoredKey>, IssueError> {
    let mut revoked = find(directory, name_or_id, now).await?;
    for key in &mut revoked {
        directory.revoke(&key.credential, now).await?;
        key.record.revoked = Some(now);
    }
    Ok(revoked)
}

/// The active credentials with this name, or the one with this id; never none. The newest is last.
async fn find(
    directory: &dyn Directory,
    name_or_id: &str,
    now: UtcTime,
) -> Result<Vec<StoredKey>, IssueError> {
    let active = |all: Vec<(CredentialHash, CallerRecord)>| -> Vec<StoredKey> {
        let keys = all.into_iter().map(|(credential, record)| StoredKey { credential, record });
        keys.filter(|key| is_active(&key.record, now)).collect()
    };
    let mut named = active(directory.named(name_or_id).await?);
    // A name may look like an id; an exact name takes precedence.
    if !named.is_empty() {
        named.sort_by_key(|key| (key.record.created, key.credential));
        return Ok(named);
    }
    let found = match before_id(name_or_id) {
        // Two are enough to know that the id is ambiguous, and between two others there may be revoked ones.
        Some(before) => {
            let mut page = directory.list(before, PAGE).await?;
            page.retain(|(credential, _)| hex::encode(credential.0).starts_with(name_or_id));
            active(page)
        }
        None => Vec::new(),
    };
    match found.len() {
        0 => Err(IssueError::UnknownKey(name_or_id.to_owned())),
        1 => Ok(found),
        _ => Err(IssueError::Ambiguous(name_or_id.to_owned())),
    }
}

/// The credential before all those whose id begins like this; `Some(None)` if there is none before them, and `None` if this is
/// not the beginning of an id.
#[expect(
    clippy::option_option,
    reason = "the outer one is about the text, and the inner one a position in a list"
)]
fn before_id(id: &str) -> Option<Option<CredentialHash>> {
    if id.len() < ID_DIGITS || id.len() > 64 {
        return None;
    }
    let mut hash = [0; 32];
    hex::decode_to_slice(format!("{id:0<64}"), &mut hash).ok()?;
    // The number before it, if it is not the lowest.
    for byte in hash.iter_mut().rev() {
        let (lower, is_borrowed) = byte.overflowing_sub(1);
        *byte = lower;
        if !is_borrowed {
            return Some(Some(CredentialHash(hash)));
        }
    }
    Some(None)
}

fn is_active(record: &CallerRecord, now: UtcTime) -> bool {
    record.revoked.is_none() && record.contract.expires.is_none_or(|expires| expires > now)
}

fn parse_tier(tier: &str) -> Result<Tier, IssueError> {
    let named = Tier::ALL.into_iter().find(|named| named.name() == tier);
    named.ok_or_else(|| IssueError::UnknownTier(tier.to_owned()))
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

/// A key in a listing, without its usage.
pub(super) fn key_entry(key: &StoredKey, pseudonyms: &Pseudonyms, now: UtcTime) -> KeyEntry {
    let StoredKey { credential, record } = key;
    let KeyContract { labels, expires, budgets, limits, models } = &record.contract;
    let texts = |texts: &[Box<str>]| texts.iter().map(ToString::to_string).collect();
    let state = match (record.revoked, is_active(record, now)) {
        (Some(_), _) => "revoked",
        (None, true) => "active",
        (None, false) => "expired",
    };
    let budget = |(period, cap): (BudgetPeriod, Money)| KeyBudget {
        period: period.name().to_owned(),
        cap_nanos: cap.as_nanos(),
        posted_nanos: None,
        held_nanos: None,
        resets: None,
    };
    KeyEntry {
        id: key_id(&credential.0),
        name: record.name.to_string(),
        tier: record.tier.name().to_owned(),
        caller: format!("{:016x}", pseudonyms.encode(record.caller)),
        created: format_date(record.created),
        revoked: record.revoked.map(format_date),
        expires: expires.map(format_date),
        state: state.to_owned(),
        team: labels.team.as_deref().map(str::to_owned),
        tags: labels.tags.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        limits: texts(limits),
        models: texts(models),
        budgets: budgets.iter().map(budget).collect(),
        calls: 0,
        cost_nanos: 0,
        last_used: None,
    }
}

/// A key in a listing, with what it has used of the ledger and of its budgets.
pub async fn used_key_entry(
    key: &StoredKey,
    pseudonyms: &Pseudonyms,
    ledger: &dyn Ledger,
    window: impl Fn(BudgetPeriod) -> Option<(BudgetAccount, UtcTime)>,
    now: UtcTime,
) -> Result<KeyEntry, IssueError> {
    let mut entry = key_entry(key, pseudonyms, now);
    let usage = ledger.key_usage(key.record.caller).await?;
    (entry.calls, entry.cost_nanos) = (usage.totals.calls, usage.totals.cost.as_nanos());
    entry.last_used = usage.last_used.map(format_date);
    for (budget, (period, _)) in entry.budgets.iter_mut().zip(key.record.contract.budgets.iter()) {
        if let Some((account, resets)) = window(period) {
            budget.posted_nanos = Some(account.posted.as_nanos());
            budget.held_nanos = Some(account.held.as_nanos());
            budget.resets = Some(format_date(resets));
        }
    }
    Ok(entry)
}

/// The id: the beginning of the hash, which is no secret.
pub(crate) fn key_id(hash: &[u8; 32]) -> String {
    hex::encode(hash).chars().take(ID_DIGITS).collect()
}

pub(crate) fn format_date(moment: UtcTime) -> String {
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

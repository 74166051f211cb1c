//! `seawall key`.

mod table;
mod terms;

use crate::CommandError;
use crate::admin::{self, AdminClientResponse};
use crate::serve::describe_recovery;
use crate::settings::{Overrides, SettingsLoader};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use seawall_config::Settings;
use seawall_gateway::identity::key_management::{
    IssueError, IssuedKey, KeyChange, KeyEntry, KeyErrorBody, KeyList, KeyRequest, KeyRotation,
};
use seawall_gateway::identity::{OfflineKeyError, OfflineKeyStore, hash_api_key};
use serde::de::DeserializeOwned;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use table::{format_issued_key, format_key, format_table};
use terms::KeyTermsArguments;

/// Minimum length of a key, against guessing.
const MIN_KEY_BYTES: usize = 16;
/// Longer than any real key.
const MAX_KEY_BYTES: u64 = 16 * 1_024;
const PATH: &str = "/admin/keys";
const DEFAULT_TIER: &str = "standard";

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it. It cannot be displayed again.
    Create {
        /// Name of the key; unique among keys that are not revoked.
        #[arg(value_name = "NAME")]
        name: String,
        /// Tier of callers that use the key.
        #[arg(long, value_name = "TIER", default_value = DEFAULT_TIER, value_parser = ["prime", "standard", "guest"])]
        tier: String,
        /// Create an access key id and a secret access key for AWS clients, instead of an API key.
        #[arg(long)]
        aws: bool,
        #[command(flatten)]
        terms: KeyTermsArguments,
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// Show a key: its terms, what it has used, and what is left of its budgets.
    Show {
        /// Name or id of the key.
        #[arg(value_name = "NAME-OR-ID")]
        name: String,
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// Change the terms of a key. What is not given stays as it is.
    Update {
        /// Name or id of the key.
        #[arg(value_name = "NAME-OR-ID")]
        name: String,
        /// Tier of callers that use the key.
        #[arg(long, value_name = "TIER", value_parser = ["prime", "standard", "guest"])]
        tier: Option<String>,
        #[command(flatten)]
        terms: KeyTermsArguments,
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// Replace a key by a new one with the same terms, budgets and counts, and print it. It cannot be displayed again.
    Rotate {
        /// Name or id of the key.
        #[arg(value_name = "NAME-OR-ID")]
        name: String,
        /// How long the old key is accepted; 0s to reject it at once.
        #[arg(long, value_name = "DURATION", default_value = "24h")]
        overlap: String,
        /// Create an access key id and a secret access key for AWS clients.
        #[arg(long)]
        aws: bool,
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// List all keys, including revoked ones.
    List {
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// Revoke a key permanently.
    Revoke {
        /// Name or id of the key.
        #[arg(value_name = "NAME-OR-ID")]
        name: String,
        #[command(flatten)]
        store: KeyStoreArguments,
    },
    /// Read a key from standard input and print its settings section, which contains only its hash.
    Hash {
        /// Name of the key in the settings.
        #[arg(value_name = "NAME", default_value = "NAME", value_parser = settings_name)]
        name: String,
        /// Tier of callers that use the key.
        #[arg(long, value_name = "TIER", default_value = "standard", value_parser = ["prime", "standard", "guest"])]
        tier: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The store of keys.
#[derive(Args)]
pub(crate) struct KeyStoreArguments {
    /// Settings file. Default: seawall.toml in this directory if there is one, otherwise the profile `demo`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Data directory; overrides store.data_dir.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn settings_name(text: &str) -> Result<String, String> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    if text.is_empty() || !text.chars().all(is_sign) {
        return Err("must consist of letters, digits, - and _".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(command: &KeyCommand) -> Result<(), CommandError> {
    let (text, json) = match command {
        KeyCommand::Create { name, tier, aws, terms, store } => {
            let request =
                KeyRequest { name: name.clone(), tier: tier.clone(), aws: *aws, terms: terms.request() };
            let issued = create(&store.settings()?, &request)?;
            (format_issued_key(&issued), store.json.then(|| serde_json::to_value(&issued)))
        }
        KeyCommand::Show { name, store } => {
            let entry = show(&store.settings()?, name)?;
            (format_key(&entry), store.json.then(|| serde_json::to_value(&entry)))
        }
        KeyCommand::Update { name, tier, terms, store } => {
            let change = KeyChange { tier: tier.clone(), terms: terms.request() };
            let entry = update(&store.settings()?, name, &change)?;
            (format_key(&entry), store.json.then(|| serde_json::to_value(&entry)))
        }
        KeyCommand::Rotate { name, overlap, aws, store } => {
            let rotation = KeyRotation { overlap: Some(overlap.clone()), aws: *aws };
            let issued = rotate(&store.settings()?, name, &rotation)?;
            (format_issued_key(&issued), store.json.then(|| serde_json::to_value(&issued)))
        }
        KeyCommand::List { store } => {
            let list = list(&store.settings()?)?;
            (format_table(&list.keys), store.json.then(|| serde_json::to_value(&list)))
        }
        KeyCommand::Revoke { name, store } => {
            let entry = revoke(&store.settings()?, name)?;
            let text = format!("revoked key {:?} ({}), id {}\n", entry.name, entry.tier, entry.id);
            (text, store.json.then(|| serde_json::to_value(&entry)))
        }
        KeyCommand::Hash { name, tier, json } => {
            let hash = hash(&read_key()?);
            let text = format!("[callers.keys.{name}]\nhash = \"{hash}\"\ntier = \"{tier}\"\n");
            (text, json.then(|| Ok(serde_json::json!({ "name": name, "hash": hash, "tier": tier }))))
        }
    };
    let shown = match json {
        Some(json) => format!("{:#}\n", json.map_err(|error| CommandError::Failed(error.into()))?),
        None => text,
    };
    io::stdout()
        .write_all(shown.as_bytes())
        .context("cannot write to standard output")
        .map_err(CommandError::Failed)
}

impl KeyStoreArguments {
    fn settings(&self) -> Result<Settings, CommandError> {
        let mut loader = SettingsLoader::new(self.config.as_deref(), &self.overrides);
        if let Some(directory) = &self.data_dir {
            loader.set("store.data_dir", directory.clone());
        }
        Ok(loader.load_for_command()?.settings)
    }
}

/// Opens the data directory. Opening recovers its ledger, which the next start of the gateway does not report again, so
/// that it is reported here.
fn open_offline(settings: &Settings, create_missing: bool) -> Result<OfflineKeyStore, OfflineKeyError> {
    let keys = OfflineKeyStore::open(settings, create_missing)?;
    let report = keys.report();
    let charged = (report.charged.len(), report.charged_cost());
    for found in describe_recovery(charged, report.truncated.as_ref()) {
        eprintln!("seawall: {found}");
    }
    Ok(keys)
}

fn create(settings: &Settings, request: &KeyRequest) -> Result<IssuedKey, CommandError> {
    match open_offline(settings, true) {
        Ok(keys) => run_to_end(keys.create(request)),
        Err(error) => {
            let body = serde_json::to_vec(request).map_err(|error| CommandError::Failed(error.into()))?;
            call_admin_api(settings, &error, "POST", PATH, &body)
        }
    }
}

/// Creates an API key of the tier `standard`, and returns its name and the key. A name that is taken gets a number.
pub(crate) fn create_key(settings: &Settings, name: &str) -> Result<(String, String), CommandError> {
    let taken: Vec<String> = match list(settings) {
        Ok(list) => list.keys.into_iter().filter(|key| key.revoked.is_none()).map(|key| key.name).collect(),
        // There is no directory yet.
        Err(CommandError::InvalidInput(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = [name.to_owned()].into_iter().chain(numbered).find(|name| !taken.contains(name));
    let name = free.unwrap_or_else(|| name.to_owned());
    let issued =
        create(settings, &KeyRequest { name, tier: DEFAULT_TIER.to_owned(), ..KeyRequest::default() })?;
    let key = issued.key.ok_or_else(|| CommandError::Failed(anyhow!("the key was not returned")))?;
    Ok((issued.name, key))
}

fn list(settings: &Settings) -> Result<KeyList, CommandError> {
    match open_offline(settings, false) {
        Ok(keys) => run_to_end(async { Ok(KeyList { keys: keys.list().await? }) }),
        Err(error) => call_admin_api(settings, &error, "GET", PATH, b""),
    }
}

/// The newest key with this name that is active, or the one with this id.
fn show(settings: &Settings, name: &str) -> Result<KeyEntry, CommandError> {
    let keys = list(settings)?.keys;
    let named = |key: &&KeyEntry| key.name == name && key.state == "active";
    let with_id = |key: &&KeyEntry| !name.is_empty() && key.id.starts_with(name);
    let found = keys.iter().rev().find(named).or_else(|| keys.iter().rev().find(with_id));
    let found = found.or_else(|| keys.iter().rev().find(|key| key.name == name));
    found
        .cloned()
        .ok_or_else(|| CommandError::InvalidInput(anyhow!("{}", IssueError::UnknownKey(name.to_owned()))))
}

fn update(settings: &Settings, name: &str, change: &KeyChange) -> Result<KeyEntry, CommandError> {
    match open_offline(settings, false) {
        Ok(keys) => run_to_end(keys.update(name, change)),
        Err(error) => {
            let body = serde_json::to_vec(change).map_err(|error| CommandError::Failed(error.into()))?;
            let path = format!("{PATH}/{}", admin::encode_segment(name));
            call_admin_api(settings, &error, "PATCH", &path, &body)
        }
    }
}

fn rotate(settings: &Settings, name: &str, rotation: &KeyRotation) -> Result<IssuedKey, CommandError> {
    match open_offline(settings, false) {
        Ok(keys) => run_to_end(keys.rotate(name, rotation)),
        Err(error) => {
            let body = serde_json::to_vec(rotation).map_err(|error| CommandError::Failed(error.into()))?;
            let path = format!("{PATH}/rotate/{}", admin::encode_segment(name));
            call_admin_api(settings, &error, "POST", &path, &body)
        }
    }
}

fn revoke(settings: &Settings, name: &str) -> Result<KeyEntry, CommandError> {
    match open_offline(settings, false) {
        Ok(keys) => run_to_end(keys.revoke(name)),
        Err(error) => {
            let path = format!("{PATH}/{}", admin::encode_segment(name));
            call_admin_api(settings, &error, "DELETE", &path, b"")
        }
    }
}

fn run_to_end<T>(work: impl Future<Output = Result<T, IssueError>>) -> Result<T, CommandError> {
    let tokio = tokio::runtime::Builder::new_current_thread().build();
    let tokio = tokio.context("cannot start a runtime").map_err(CommandError::Failed)?;
    tokio.block_on(work).map_err(|error| {
        if error.is_bad_input() {
            CommandError::InvalidInput(error.into())
        } else {
            CommandError::Failed(error.into())
        }
    })
}

/// Uses the admin API of a running gateway, if the data directory is in use or there is none.
fn call_admin_api<T: DeserializeOwned>(
    settings: &Settings,
    local_error: &OfflineKeyError,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<T, CommandError> {
    match local_error {
        OfflineKeyError::InUse(_) | OfflineKeyError::StoredInMemory => {}
        OfflineKeyError::NoDirectory(_) => return Err(CommandError::InvalidInput(anyhow!("{local_error}"))),
        OfflineKeyError::Open(_) => return Err(CommandError::Failed(anyhow!("{local_error}"))),
    }
    let answer = admin::send_request(settings, method, path, body).map_err(|error| {
        let help = "stop the gateway to use its data directory, or set admin.listen to its admin listener";
        CommandError::Failed(anyhow!(
            "{local_error}, and its admin API cannot be reached: {error:#}\n  {help}"
        ))
    })?;
    parse_answer(&answer).map_err(|problem| {
        let error = anyhow!("the gateway at {} returned an error: {problem}", settings.admin.listen);
        if (400..500).contains(&answer.status) {
            CommandError::InvalidInput(error)
        } else {
            CommandError::Failed(error)
        }
    })
}

fn parse_answer<T: DeserializeOwned>(answer: &AdminClientResponse) -> Result<T, String> {
    if (200..300).contains(&answer.status) {
        return serde_json::from_slice(&answer.body)
            .map_err(|_| "the response is not a list of keys or a key".to_owned());
    }
    let message = serde_json::from_slice(&answer.body).map(|KeyErrorBody { error }| error.message);
    Err(message.ok().filter(|_| answer.status != 401).unwrap_or_else(|| match answer.status {
        401 | 403 => "admin.credential was rejected".to_owned(),
        404 => "it has no keys endpoint".to_owned(),
        status => format!("status {status}"),
    }))
}

fn read_key() -> Result<String, CommandError> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_KEY_BYTES + 1).read_to_end(&mut bytes);
    read.context("cannot read standard input").map_err(CommandError::Failed)?;
    let key_error = |problem: &str| CommandError::InvalidInput(anyhow!("the key {problem}"));
    let text = String::from_utf8(bytes).map_err(|_| key_error("is not valid UTF-8"))?;
    let key = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if key.len() < MIN_KEY_BYTES {
        return Err(key_error("is too short: at least 16 characters are required"));
    }
    if key.len() as u64 > MAX_KEY_BYTES - 1 {
        return Err(key_error("is too long for a header"));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(key_error(
            "contains characters that are invalid in a header: use printable ASCII without spaces",
        ));
    }
    Ok(key.to_owned())
}

/// The hash in the notation of the settings.
fn hash(key: &str) -> String {
    format!("sha256:{}", hex::encode(hash_api_key(key)))
}

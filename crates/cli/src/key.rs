//! `seawall key`.

use crate::Failed;
use crate::admin::{self, Answer};
use crate::settings::{Origins, Overrides};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use seawall_config::Settings;
use seawall_gateway::identity::issue::{IssueError, IssuedKey, KeyAsk, KeyEntry, KeyList, KeyProblem};
use seawall_gateway::identity::{DeskError, KeyDesk, credential_of_key};
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

/// Minimum length of a key, against guessing.
const SHORTEST_KEY: usize = 16;
/// Longer than any real key.
const LONGEST_KEY: u64 = 16 * 1_024;
const PATH: &str = "/admin/keys";

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Makes a key and shows it, this once.
    Create {
        /// What people call it; unique among keys that have not been revoked.
        #[arg(value_name = "NAME")]
        name: String,
        /// What its holder is entitled to.
        #[arg(long, value_name = "TIER", value_parser = ["prime", "standard", "guest"])]
        tier: String,
        /// Makes an access key id and a secret for AWS clients, which sign requests, instead of an API key.
        #[arg(long)]
        aws: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Lists all keys, those that were revoked included.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Revokes a key, for ever.
    Revoke {
        /// Its name or its id.
        #[arg(value_name = "NAME-OR-ID")]
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Reads a key from the input and prints what to write into settings, which list a key by its hash.
    Hash {
        /// What to call it in settings.
        #[arg(value_name = "NAME", default_value = "NAME", value_parser = settings_name)]
        name: String,
        /// What its holder is entitled to.
        #[arg(long, value_name = "TIER", default_value = "standard", value_parser = ["prime", "standard", "guest"])]
        tier: String,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Where keys are kept.
#[derive(Args)]
pub(crate) struct Place {
    /// The file with the settings; without it the demo profile holds.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// The folder where state is kept, in place of store.folder.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

fn settings_name(text: &str) -> Result<String, String> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    if text.is_empty() || !text.chars().all(is_sign) {
        return Err("must be letters, digits, - and _".to_owned());
    }
    Ok(text.to_owned())
}

pub(crate) fn run(command: &KeyCommand) -> Result<(), Failed> {
    let (text, json) = match command {
        KeyCommand::Create { name, tier, aws, place } => {
            let ask = KeyAsk { name: name.clone(), tier: tier.clone(), aws: *aws };
            let issued = create(&place.settings()?, &ask)?;
            (shown_key(&issued), place.json.then(|| serde_json::to_value(&issued)))
        }
        KeyCommand::List { place } => {
            let list = list(&place.settings()?)?;
            (table(&list.keys), place.json.then(|| serde_json::to_value(&list)))
        }
        KeyCommand::Revoke { name, place } => {
            let entry = revoke(&place.settings()?, name)?;
            let text = format!("revoked key {:?} ({}), id {}\n", entry.name, entry.tier, entry.id);
            (text, place.json.then(|| serde_json::to_value(&entry)))
        }
        KeyCommand::Hash { name, tier, json } => {
            let hash = hash(&read_key()?);
            let text = format!("[callers.keys.{name}]\nhash = \"{hash}\"\ntier = \"{tier}\"\n");
            (text, json.then(|| Ok(serde_json::json!({ "name": name, "hash": hash, "tier": tier }))))
        }
    };
    let shown = match json {
        Some(json) => format!("{:#}\n", json.map_err(|error| Failed::Broken(error.into()))?),
        None => text,
    };
    io::stdout().write_all(shown.as_bytes()).context("cannot write").map_err(Failed::Broken)
}

impl Place {
    fn settings(&self) -> Result<Settings, Failed> {
        let mut origins = Origins::new(self.config.as_deref(), &self.overrides);
        if let Some(folder) = &self.data_dir {
            origins.set("store.folder", folder.clone());
        }
        Ok(origins.load_or_fail()?.settings)
    }
}

fn create(settings: &Settings, ask: &KeyAsk) -> Result<IssuedKey, Failed> {
    match KeyDesk::open(settings, true) {
        Ok(desk) => finished(desk.create(ask)),
        Err(error) => {
            let body = serde_json::to_vec(ask).map_err(|error| Failed::Broken(error.into()))?;
            elsewhere(settings, &error, "POST", PATH, &body)
        }
    }
}

fn list(settings: &Settings) -> Result<KeyList, Failed> {
    match KeyDesk::open(settings, false) {
        Ok(desk) => finished(async { Ok(KeyList { keys: desk.list().await? }) }),
        Err(error) => elsewhere(settings, &error, "GET", PATH, b""),
    }
}

fn revoke(settings: &Settings, name: &str) -> Result<KeyEntry, Failed> {
    match KeyDesk::open(settings, false) {
        Ok(desk) => finished(desk.revoke(name)),
        Err(error) => {
            let path = format!("{PATH}/{}", admin::path_part(name));
            elsewhere(settings, &error, "DELETE", &path, b"")
        }
    }
}

fn finished<T>(work: impl Future<Output = Result<T, IssueError>>) -> Result<T, Failed> {
    let tokio = tokio::runtime::Builder::new_current_thread().build();
    let tokio = tokio.context("cannot start a runtime").map_err(Failed::Broken)?;
    tokio.block_on(work).map_err(|error| {
        if error.is_bad_input() { Failed::BadInput(error.into()) } else { Failed::Broken(error.into()) }
    })
}

/// Uses the admin API of a running gateway, if the state directory is in use or there is none.
fn elsewhere<T: DeserializeOwned>(
    settings: &Settings,
    here: &DeskError,
    method: &str,
    path: &str,
    body: &[u8],
) -> Result<T, Failed> {
    match here {
        DeskError::InUse(_) | DeskError::NotKept => {}
        DeskError::NoFolder(_) => return Err(Failed::BadInput(anyhow!("{here}"))),
        DeskError::Open(_) => return Err(Failed::Broken(anyhow!("{here}"))),
    }
    let answer = admin::ask(settings, method, path, body).map_err(|error| {
        let help =
            "stop the gateway to work on its folder, or say in the settings where its admin listener is";
        Failed::Broken(anyhow!("{here}, and it cannot be asked: {error:#}\n  {help}"))
    })?;
    understood(&answer).map_err(|problem| {
        let error = anyhow!("the gateway at {} says: {problem}", settings.admin.listen);
        if (400..500).contains(&answer.status) { Failed::BadInput(error) } else { Failed::Broken(error) }
    })
}

fn understood<T: DeserializeOwned>(answer: &Answer) -> Result<T, String> {
    if (200..300).contains(&answer.status) {
        return serde_json::from_slice(&answer.body)
            .map_err(|_| "what it answers is not about keys".to_owned());
    }
    let said = serde_json::from_slice(&answer.body).map(|KeyProblem { error }| error.message);
    Err(said.ok().filter(|_| answer.status != 401).unwrap_or_else(|| match answer.status {
        401 | 403 => "the credential in admin.credential is not the right one".to_owned(),
        404 => "it has no keys to ask about".to_owned(),
        status => format!("status {status}"),
    }))
}

fn shown_key(issued: &IssuedKey) -> String {
    let IssuedKey { id, name, tier, key, aws } = issued;
    let mut text = format!("created key {name:?} ({tier}), id {id}; shown this once:\n\n");
    if let Some(key) = key {
        let _ = writeln!(text, "  {key}\n\nSend it as x-api-key, or as authorization: Bearer KEY.");
    }
    if let Some(pair) = aws {
        let _ = writeln!(text, "  AWS_ACCESS_KEY_ID={}", pair.access_key_id);
        let _ = writeln!(text, "  AWS_SECRET_ACCESS_KEY={}", pair.secret_access_key);
    }
    text
}

fn table(keys: &[KeyEntry]) -> String {
    if keys.is_empty() {
        return "no keys\n".to_owned();
    }
    let mut text = format!("{:16}  {:8}  {:20}  {:20}  name\n", "id", "tier", "created", "revoked");
    for KeyEntry { id, name, tier, created, revoked, .. } in keys {
        let revoked = revoked.as_deref().unwrap_or("-");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{id:16}  {tier:8}  {created:20}  {revoked:20}  {name}");
    }
    text
}

fn read_key() -> Result<String, Failed> {
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(LONGEST_KEY + 1).read_to_end(&mut bytes);
    read.context("cannot read the input").map_err(Failed::Broken)?;
    let wrong = |problem: &str| Failed::BadInput(anyhow!("the key {problem}"));
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not text"))?;
    let key = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if key.len() < SHORTEST_KEY {
        return Err(wrong("could be guessed: it needs at least 16 characters"));
    }
    if key.len() as u64 > LONGEST_KEY - 1 {
        return Err(wrong("is longer than any header"));
    }
    if !key.bytes().all(|sign| sign.is_ascii_graphic()) {
        return Err(wrong("holds what a header cannot: blanks, lines or letters beyond ASCII"));
    }
    Ok(key.to_owned())
}

/// The hash in the notation of the settings.
fn hash(key: &str) -> String {
    let digits: String = credential_of_key(key).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

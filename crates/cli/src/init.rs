//! `seawall init`: a settings file for the providers that this machine has, and a first key.

use crate::CommandError;
use crate::key::create_key;
use crate::output::{print, write_file};
use crate::settings::{Overrides, SettingsLoader, invalid_settings};
use anyhow::{Context as _, anyhow};
use clap::Args;
use seawall_config::{
    FoundAwsCredentials, FoundProvider, PRESETS, ProviderPreset, StarterOptions, discover, starter_file,
};
use seawall_provider::{CredentialSource, Environment};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

/// How long a server on this machine, or the server of a base URL, may take for each step.
const PROBE_TIMEOUT: Duration = Duration::from_millis(700);
/// The list of models of a local server is smaller.
const MAX_LIST_BYTES: u64 = 4 << 20;
/// Models of a local server that are named in the file.
const MAX_MODELS: usize = 8;
const FIRST_KEY: &str = "first";

#[derive(Args)]
pub(crate) struct InitArguments {
    /// File to write.
    #[arg(default_value = "seawall.toml")]
    file: PathBuf,
    /// Ask nothing.
    #[arg(long, short)]
    yes: bool,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Daily budget of all models together, such as '$10/day'. Default: none, or what you answer.
    #[arg(long, value_name = "AMOUNT")]
    budget: Option<String>,
    /// Listen address of the gateway.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7700")]
    listen: SocketAddr,
    /// Data directory, which is written into the file. Default: seawall-data.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &InitArguments) -> Result<(), CommandError> {
    let path = &arguments.file;
    let asks = !arguments.yes && !arguments.json && io::stdin().is_terminal() && io::stdout().is_terminal();
    if path.exists()
        && !arguments.force
        && !(asks && confirm(&format!("{} exists. Replace it?", path.display()))?)
    {
        let error = anyhow!("{} already exists; use --force to overwrite it", path.display());
        return Err(CommandError::InvalidInput(error));
    }
    let (found, rejected) = find_providers(arguments.listen);
    let budget = match &arguments.budget {
        Some(budget) => Some(budget.clone()),
        None if asks => ask("Daily budget of all models together, such as $10/day (empty: none):")?,
        None => None,
    };
    let text = starter_file(&StarterOptions {
        providers: &found,
        listen: &arguments.listen.to_string(),
        budget: budget.as_deref(),
        data_dir: arguments.data_dir.as_deref(),
    });
    // A budget that makes no sense must not leave a file behind.
    SettingsLoader::of_text(path, &text).map_err(|problems| invalid_settings(&problems))?;
    write_file(path, &text, path.exists())?;
    let settings = SettingsLoader::new(Some(path), &Overrides::default()).load_or_fail()?.settings;
    let (name, key) = create_key(&settings, FIRST_KEY)?;
    let report = InitReport {
        arguments,
        found: &found,
        rejected: &rejected,
        key: (&name, &key),
        has_budget: budget.is_some(),
    };
    let shown = if arguments.json { format!("{:#}\n", report.json()) } else { report.text() };
    print(&shown)
}

fn ask(question: &str) -> Result<Option<String>, CommandError> {
    print(&format!("{question} "))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.context("cannot read the answer").map_err(CommandError::Failed)?;
    let answer = answer.trim();
    Ok((!answer.is_empty()).then(|| answer.to_owned()))
}

fn confirm(question: &str) -> Result<bool, CommandError> {
    let answer = ask(&format!("{question} [y/N]"))?;
    Ok(answer.is_some_and(|answer| ["y", "yes"].contains(&answer.to_ascii_lowercase().as_str())))
}

/// The providers that can be used, and what was rejected.
fn find_providers(listen: SocketAddr) -> (Vec<FoundProvider>, Vec<String>) {
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let own = [format!("127.0.0.1:{}", listen.port()), format!("localhost:{}", listen.port())];
    let is_own = |url: &str| {
        let authority = authority(url);
        authority == listen.to_string() || own.iter().any(|own| own == authority)
    };
    let aws = CredentialSource::find(&Environment::from_process()).map(|found| {
        found.map(|CredentialSource { name, region }| FoundAwsCredentials { source: name, region })
    });
    let discovery = discover(&environment, &aws, is_own);
    let (mut found, mut rejected) = (discovery.providers, discovery.rejected);
    found.retain(|provider| {
        let problem = provider.base_url.as_deref().and_then(unreachable);
        if let (Some(problem), Some(url)) = (&problem, &provider.base_url) {
            rejected.push(format!("{}: {url} cannot be reached: {problem}", provider.preset.name));
        }
        problem.is_none()
    });
    found.extend(PRESETS.iter().filter(|preset| preset.is_free).filter_map(local_server));
    (found, rejected)
}

/// A server on this machine that lists models at its usual port.
fn local_server(preset: &'static ProviderPreset) -> Option<FoundProvider> {
    let url = preset.base_url?;
    let models = list_models(url)?;
    Some(FoundProvider {
        preset,
        evidence: format!("a server at {url}"),
        key_variable: None,
        base_url: None,
        region: None,
        models: models.into_iter().take(MAX_MODELS).collect(),
    })
}

/// The models of an OpenAI-compatible server without TLS; `None` if there is no such server.
fn list_models(url: &str) -> Option<Vec<String>> {
    let authority = authority(url);
    let path = url.split_once("://")?.1.split_once('/').map_or("", |(_, path)| path);
    let mut stream = connect(authority).ok()?;
    let request = format!(
        "GET /{path}/models HTTP/1.0\r\nhost: {authority}\r\naccept: application/json\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = Vec::new();
    stream.take(MAX_LIST_BYTES).read_to_end(&mut response).ok()?;
    let text = String::from_utf8(response).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if !head.starts_with("HTTP/1.") || head.get(9..12) != Some("200") {
        return None;
    }
    let listed: Value = serde_json::from_str(body).ok()?;
    let names = listed.get("data")?.as_array()?.iter().filter_map(|model| model.get("id")?.as_str());
    // Names go into a comment of the file.
    let is_plain = |name: &&str| name.chars().all(|sign| !sign.is_control());
    Some(names.filter(is_plain).map(str::to_owned).collect())
}

/// Why the server of a URL cannot be reached, if it cannot.
fn unreachable(url: &str) -> Option<String> {
    let authority = authority(url);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if url.starts_with("https:") { 443 } else { 80 };
    let address = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
    connect(&address).err().map(|error| error.to_string())
}

fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
                stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// What was written, and how to go on.
struct InitReport<'a> {
    arguments: &'a InitArguments,
    found: &'a [FoundProvider],
    rejected: &'a [String],
    /// The name of the first key, and the key.
    key: (&'a str, &'a str),
    has_budget: bool,
}

impl InitReport<'_> {
    fn has(&self, provider: &str) -> bool {
        self.found.iter().any(|found| found.preset.name == provider)
    }

    /// A model that the examples can use.
    fn model(&self) -> String {
        let known =
            [("anthropic", "claude-haiku-4-5"), ("openai", "gpt-5-mini"), ("gemini", "gemini-2.5-flash")];
        if let Some((_, model)) = known.iter().find(|(provider, _)| self.has(provider)) {
            return (*model).to_owned();
        }
        let local = self.found.iter().find_map(|found| {
            let model = found.models.first()?;
            Some(format!("{}/{model}", found.preset.name))
        });
        local.unwrap_or_else(|| match self.found.first() {
            Some(found) => format!("{}/MODEL", found.preset.name),
            None => "simulated".to_owned(),
        })
    }

    fn json(&self) -> Value {
        let providers: Vec<Value> = self
            .found
            .iter()
            .map(|found| json!({ "provider": found.preset.name, "found_by": found.evidence, "models": found.models }))
            .collect();
        json!({
            "file": self.arguments.file, "url": format!("http://{}", self.arguments.listen), "key_name": self.key.0,
            "key": self.key.1,
            "providers": providers, "rejected": self.rejected,
        })
    }

    fn text(&self) -> String {
        let (file, url) = (self.arguments.file.display(), format!("http://{}", self.arguments.listen));
        let (name, key) = self.key;
        let mut text = String::new();
        // Writing to a string cannot fail.
        for found in self.found {
            let _ = writeln!(text, "found {} ({})", found.preset.name, found.evidence);
        }
        for rejected in self.rejected {
            let _ = writeln!(text, "not used: {rejected}");
        }
        if self.found.is_empty() {
            text += "no provider found: the file has a simulated model\n";
        }
        let budget = if self.has_budget { "" } else { "; no budget is set" };
        let _ = writeln!(text, "wrote {file}{budget}\n\nkey {name:?}, which is shown only once:\n  {key}\n");
        let _ = writeln!(
            text,
            "run the gateway:\n  seawall serve --config {file}\n\nthen, from another terminal:"
        );
        let model = self.model();
        let message = r#"[{"role":"user","content":"Hello"}]"#;
        let _ = writeln!(
            text,
            "  curl {url}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' \
             -d '{{\"model\":\"{model}\",\"messages\":{message}}}'"
        );
        let _ = writeln!(
            text,
            "  python3 -c 'import openai; print(openai.OpenAI(base_url=\"{url}/v1\", api_key=\"{key}\")\
             .chat.completions.create(model=\"{model}\", messages={message}).choices[0].message.content)'"
        );
        let agent_model =
            if self.has("anthropic") { String::new() } else { format!(" ANTHROPIC_MODEL={model}") };
        let _ = writeln!(text, "  ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={key}{agent_model} claude");
        let codex_model = if self.has("openai") { String::new() } else { format!(" -m {model}") };
        let _ = writeln!(text, "  CODEX_API_KEY={key} codex -c 'openai_base_url=\"{url}/v1\"'{codex_model}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{authority, list_models, unreachable};
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn the_authority_of_a_url_is_found() {
        for (url, expected) in [
            ("http://127.0.0.1:9000/v1", "127.0.0.1:9000"),
            ("https://api.example.com", "api.example.com"),
            ("https://user@host:1/?a", "host:1"),
            ("host:2/x", "host:2"),
        ] {
            assert_eq!(authority(url), expected);
        }
    }

    #[test]
    fn a_local_server_is_asked_for_its_models() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        assert!(unreachable(&url).is_none());
        #[expect(clippy::disallowed_methods, reason = "a server of a test")]
        let server = std::thread::spawn(move || {
            // The first connection is the one above.
            let mut heads = Vec::new();
            for mut stream in listener.incoming().flatten().take(2) {
                let mut head = [0; 512];
                let read = stream.read(&mut head).unwrap_or(0);
                heads.push(String::from_utf8_lossy(&head[..read]).into_owned());
                let body =
                    r#"{"object":"list","data":[{"id":"llama3.1:8b"},{"id":"bad\nname"},{"id":"qwen3"}]}"#;
                let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
            heads
        });
        assert_eq!(list_models(&url).unwrap(), ["llama3.1:8b", "qwen3"]);
        assert!(server.join().unwrap()[1].starts_with("GET /v1/models HTTP/1.0\r\n"));
        assert_eq!(list_models(&url), None);
        assert!(unreachable(&url).is_some());
    }
}

//! The `seawall` program as a child process of a test.

use anyhow::{Context as _, ensure};
use seawall_testkit::{ChildProcess, HttpReply, Signal, exchange, parse_billionths};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A running program; killed when dropped.
pub(crate) struct Running {
    process: ChildProcess,
    /// The URL of its listener.
    pub(crate) url: String,
    /// The URL of a gateway's admin listener.
    pub(crate) admin: String,
    /// The file with its settings, if it has one, and the file with its standard error.
    settings: PathBuf,
    errors: PathBuf,
}

/// `seawall` with these arguments.
pub(crate) fn seawall(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.args(arguments);
    command
}

/// Creates a file `name` with the content `text`.
pub(crate) fn file(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // A test that failed half-way may have left a directory of this name.
    if path.is_dir() {
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// A path for a directory of this name that does not exist yet.
pub(crate) fn scratch_dir(name: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(path)
}

/// The key of a caller in [`settings`].
pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// Settings of a gateway without a log on a free port, with a strong and a fast target at one URL, and one caller.
pub(crate) fn settings(url: &str, [strong, fast]: [&str; 2]) -> String {
    let target = |model: &str| {
        format!(
            r#"{{ provider = "anthropic", base_url = "{url}", model = "{model}", region = "none", api_key = "env:PATH" }}"#
        )
    };
    format!(
        r#"
        profile = "mangaassist"
        server.listen = "127.0.0.1:0"
        admin.listen = "127.0.0.1:0"
        server.cores = 2
        server.drain_delay = "0s"
        server.drain_timeout = "120s"
        telemetry.access_log = "none"
        store.kind = "memory"
        models.instant = {{ input = "$3/M", output = "$15/M" }}
        models.sonnet = {{ input = "$3/M", output = "$15/M" }}
        models.haiku = {{ input = "$0.25/M", output = "$1.25/M" }}
        targets.sonnet = {}
        targets.haiku = {}
        {}
        "#,
        target(strong),
        target(fast),
        caller("test", KEY),
    )
}

/// The settings of one more caller.
pub(crate) fn caller(name: &str, key: &str) -> String {
    let hash = hex::encode(Sha256::digest(key));
    format!("callers.keys.{name} = {{ hash = \"sha256:{hash}\", tier = \"prime\" }}\n")
}

/// Fetches this path from a server.
fn get_from(url: &str, path: &str) -> anyhow::Result<String> {
    let address = url.trim_start_matches("http://");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    Ok(String::from_utf8(exchange(address, request)?.body)?)
}

impl Running {
    /// Starts a model on a free port, at real pace for the models that have one; `faults` is the text of its schedule,
    /// stored in a file named after `test`.
    pub(crate) fn model(test: &str, faults: &str) -> anyhow::Result<Self> {
        let file = file(&format!("{test}-faults.json"), faults)?;
        let file = file.to_string_lossy();
        Self::start(&["model", "--listen", "127.0.0.1:0", "--json", "--faults", &file])
    }

    /// Starts a gateway on a free port in front of a model, with [`settings`] followed by `more`, stored in a file
    /// named after `test`.
    pub(crate) fn gateway(test: &str, model: &Self, targets: [&str; 2], more: &str) -> anyhow::Result<Self> {
        Self::gateway_with(test, &model.url, targets, more, |settings| settings)
    }

    /// The same, with changed settings.
    pub(crate) fn gateway_with(
        test: &str,
        url: &str,
        targets: [&str; 2],
        more: &str,
        change: impl FnOnce(String) -> String,
    ) -> anyhow::Result<Self> {
        Self::gateway_in(test, &change(settings(url, targets) + more), &[])
    }

    /// A gateway with exactly these settings, and with `more` in its environment.
    pub(crate) fn gateway_in(test: &str, text: &str, more: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::gateway_by(test, text, more, |command| command)
    }

    /// The same, with a changed start command.
    pub(crate) fn gateway_by(
        test: &str,
        text: &str,
        more: &[(&str, &str)],
        change: impl FnOnce(Command) -> Command,
    ) -> anyhow::Result<Self> {
        let settings = file(&format!("{test}-seawall.toml"), text)?;
        let errors = file(&format!("{test}-errors.txt"), "")?;
        let mut command = change(seawall(&["serve", "--json", "--config", &settings.to_string_lossy()]));
        command.stderr(fs::File::create(&errors)?).envs(more.iter().copied());
        let mut running = Self::started(command)?;
        (running.settings, running.errors) = (settings, errors);
        Ok(running)
    }

    /// Replaces the settings file.
    pub(crate) fn write_settings(&self, text: &str) -> anyhow::Result<()> {
        fs::write(&self.settings, text).context("cannot write settings")
    }

    pub(crate) fn settings_path(&self) -> &Path {
        &self.settings
    }

    /// Its standard error so far.
    pub(crate) fn errors(&self) -> anyhow::Result<String> {
        fs::read_to_string(&self.errors).context("cannot read what it said")
    }

    /// Starts the program and waits for the line that reports readiness.
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::started(seawall(arguments))
    }

    /// The same for a command that runs the program.
    pub(crate) fn started(mut command: Command) -> anyhow::Result<Self> {
        let (process, ready) = ChildProcess::start_ready(&mut command)?;
        Ok(Self {
            process,
            url: ready["url"].as_str().context("no address was reported")?.to_owned(),
            admin: ready["admin"].as_str().unwrap_or_default().to_owned(),
            settings: PathBuf::new(),
            errors: PathBuf::new(),
        })
    }

    /// Fetches this path.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        get_from(&self.url, path)
    }

    /// Sends a model request with this key, and returns the connection to read the response from.
    pub(crate) fn post(&self, key: &str, body: &str) -> anyhow::Result<TcpStream> {
        let mut connection = self.connect()?;
        write!(
            connection,
            "POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {key}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            body.len()
        )?;
        Ok(connection)
    }

    /// Sends a request and reads the whole response. `headers` are lines that end with a line break.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<HttpReply> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        self.send_raw(&[head.as_bytes(), body].concat())
    }

    /// Sends these bytes and reads the whole response.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> anyhow::Result<HttpReply> {
        exchange(self.url.trim_start_matches("http://"), bytes)
    }

    /// Replaces the fault schedule.
    pub(crate) fn set_faults(&self, faults: &Value) -> anyhow::Result<()> {
        let (address, body) = (self.url.trim_start_matches("http://"), faults.to_string());
        let request = format!(
            "POST /admin/faults HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = self.send_raw(request.as_bytes())?;
        ensure!(answer.status == 200, "{} for {faults}: {}", answer.status, answer.text());
        Ok(())
    }

    /// A metric of the gateway: the sum over all series of this name with these labels, such as
    /// `seawall_requests_total{outcome="abandoned"}`. A missing series counts as zero,
    /// and money is in nano-dollars.
    pub(crate) fn counter(&self, name: &str) -> anyhow::Result<u64> {
        let text = get_from(&self.admin, "/metrics")?;
        let (family, labels) = name.split_once('{').unwrap_or((name, ""));
        let expected: Vec<&str> =
            labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()).collect();
        let mut sum = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').context(line.to_owned())?;
            let (of, labels) = series.split_once('{').unwrap_or((series, ""));
            let has = |label: &&str| labels.trim_end_matches('}').split(',').any(|own| own == *label);
            if of == family && expected.iter().all(has) {
                // Money is in dollars there, and in nano-dollars here.
                let value =
                    if family.contains("_usd") { parse_billionths(value) } else { value.parse().ok() };
                sum += value.with_context(|| line.to_owned())?;
            }
        }
        Ok(sum)
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        Ok(TcpStream::connect(self.url.trim_start_matches("http://"))?)
    }

    /// One model's part of the bill.
    pub(crate) fn bill(&self, model: &str) -> anyhow::Result<Value> {
        let mut bill: Value = serde_json::from_str(&self.get("/admin/bill")?)?;
        Ok(bill["models"][model].take())
    }

    /// Its process id.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.signal(signal)
    }

    /// Whether it accepts new connections.
    pub(crate) fn is_listening(&self) -> bool {
        // A listener that is about to close answers no handshake; the client's system would try again a second later.
        let address = self.url.trim_start_matches("http://").parse();
        address.is_ok_and(|address| TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end_with(mut self, signal: Signal) -> anyhow::Result<ExitStatus> {
        self.signal(signal)?;
        self.process.wait()
    }

    /// Waits for the end after a signal.
    pub(crate) fn wait(mut self) -> anyhow::Result<ExitStatus> {
        self.process.wait()
    }
}

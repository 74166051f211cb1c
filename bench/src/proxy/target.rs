//! The targets between the load and the responder, each started as it would be in production.

use super::child::{PinnedProcess, TEST_CORE, program};
use super::requests::{BenchDialect, CALLERS, key};
use super::token;
use anyhow::{Context as _, ensure};
use seawall_testkit::{free_address, pause};
use sha2::{Digest as _, Sha256};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time after which a started program counts as idle.
const IDLE_DELAY: Duration = Duration::from_secs(2);

/// A program under test, or the responder itself.
pub(crate) struct ProxyTarget {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    /// `None` for the responder itself, which runs on the load's core.
    pub(crate) running: Option<PinnedProcess>,
    pub(crate) idle_mib: f64,
    /// The access log, with a line per request.
    pub(crate) log: Option<PathBuf>,
}

impl ProxyTarget {
    /// Truncates the log, which would fill the disk in a long run.
    pub(crate) fn empty_log(&self) -> anyhow::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        std::fs::File::options().write(true).truncate(true).open(log).context("cannot truncate the log")?;
        Ok(())
    }
}

pub(crate) const DIRECT: &str = "direct";
pub(crate) const NGINX: &str = "nginx";
pub(crate) const HOP: &str = "minimal hop";
pub(crate) const HYPER_HOP: &str = "minimal hop, hyper's client";
pub(crate) const SEAWALL: &str = "seawall";
pub(crate) const NO_LOG: &str = "seawall, no log";
pub(crate) const SHARED: &str = "seawall, shared";

/// The locations of programs and their files.
pub(crate) struct BenchPrograms {
    pub(crate) bench: PathBuf,
    pub(crate) seawall: PathBuf,
    pub(crate) nginx: PathBuf,
    /// The temporary directory of this run.
    pub(crate) directory: PathBuf,
    pub(crate) responder: SocketAddr,
}

impl BenchPrograms {
    /// Finds all programs, or returns an error that names the missing one.
    pub(crate) fn find(seawall: Option<PathBuf>, responder: SocketAddr) -> anyhow::Result<Self> {
        let bench = std::env::current_exe().context("cannot find this program")?;
        let seawall = seawall.unwrap_or_else(|| bench.with_file_name("seawall"));
        ensure!(
            seawall.is_file(),
            "{} is missing: `cargo xtask bench proxy` builds it first",
            seawall.display()
        );
        let nginx = program("nginx").context("nginx is missing: apt-get install nginx-light")?;
        let directory = std::env::temp_dir().join(format!("seawall-bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory).context("cannot create a directory for nginx")?;
        Ok(Self { bench, seawall, nginx, directory, responder })
    }

    /// Starts the targets of these names.
    pub(crate) fn start_all(&self, names: &[&'static str]) -> anyhow::Result<Vec<ProxyTarget>> {
        names.iter().map(|name| self.start(name)).collect()
    }

    fn start(&self, name: &'static str) -> anyhow::Result<ProxyTarget> {
        match name {
            DIRECT => {
                Ok(ProxyTarget { name, address: self.responder, running: None, idle_mib: 0.0, log: None })
            }
            NGINX => self.start_nginx(),
            HOP => self.start_hop(HOP, "own"),
            HYPER_HOP => self.start_hop(HYPER_HOP, "hyper"),
            NO_LOG => self.start_seawall(name, "server.cores = 1", false),
            // With one thread both runtimes are the same; two threads on the one core show the cost of sharing.
            SHARED => self.start_seawall(name, "server.cores = 2\nserver.runtime = \"shared\"", true),
            _ => self.start_seawall(name, "server.cores = 1", true),
        }
    }

    fn start_nginx(&self) -> anyhow::Result<ProxyTarget> {
        let address = free_address()?;
        let settings = self.directory.join("nginx.conf");
        std::fs::write(&settings, self.nginx_settings(address)).context("cannot write nginx's settings")?;
        let errors = self.directory.join("errors");
        let arguments =
            [Path::new("-p"), &self.directory, Path::new("-e"), &errors, Path::new("-c"), &settings];
        start(NGINX, &self.nginx, address, arguments)
    }

    /// One process with one worker; keep-alive connections on both sides; no buffering, no logging.
    fn nginx_settings(&self, address: SocketAddr) -> String {
        let (directory, responder) = (self.directory.display(), self.responder);
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String =
            kinds.iter().map(|kind| format!("    {kind}_temp_path {directory}/{kind};\n")).collect();
        format!(
            "daemon off;\nmaster_process off;\nworker_processes 1;\npid {directory}/pid;\nerror_log {directory}/errors crit;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n{temporary}    access_log off;\n    keepalive_requests 1000000000;\n    keepalive_timeout 3600s;\n    \
             upstream model {{\n        server {responder};\n        keepalive 256;\n        \
             keepalive_requests 1000000000;\n        keepalive_timeout 3600s;\n    }}\n    \
             server {{\n        listen {address};\n        location / {{\n            proxy_pass http://model;\n            \
             proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n            \
             proxy_buffering off;\n        }}\n    }}\n}}\n"
        )
    }

    fn start_hop(&self, name: &'static str, client: &str) -> anyhow::Result<ProxyTarget> {
        let address = free_address()?;
        let (listen, upstream) = (address.to_string(), self.responder.to_string());
        let arguments = ["hop", "--listen", &listen, "--upstream", &upstream, "--client", client];
        start(name, &self.bench, address, arguments)
    }

    /// Every protection is enabled, spending is journalled, and each request is logged to a file; the limits are merely
    /// too wide to refuse what a few fast connections send.
    fn start_seawall(&self, name: &'static str, variant: &str, has_log: bool) -> anyhow::Result<ProxyTarget> {
        let address = free_address()?;
        let file = |ending: &str| self.directory.join(format!("{}{ending}", name.replace([' ', ','], "-")));
        let (settings, state, secret) = (file(".toml"), file("-state"), self.directory.join("secret"));
        let log = has_log.then(|| file(".log"));
        std::fs::write(&secret, token::SECRET).context("cannot write the secret of tokens")?;
        std::fs::write(&settings, self.seawall_settings(variant, log.as_deref(), &secret))
            .context("cannot write Seawall's settings")?;
        let listen = address.to_string();
        let (settings, state) = (settings.to_string_lossy(), state.to_string_lossy());
        let arguments = [
            "serve",
            "--listen",
            &listen,
            "--admin-listen",
            "127.0.0.1:0",
            "--data-dir",
            &state,
            "--config",
            &settings,
        ]
        .map(str::to_owned);
        Ok(ProxyTarget { log, ..start(name, &self.seawall, address, arguments)? })
    }

    fn seawall_settings(&self, variant: &str, log: Option<&Path>, secret: &Path) -> String {
        use std::fmt::Write as _;
        let responder = self.responder;
        let anthropic = |grade: &str, model: &str| {
            format!(
                "{{ provider = \"anthropic\", base_url = \"http://{responder}\", model = \"{model}\", grade = \"{grade}\", \
                 region = \"none\", concurrency = 1000 }}"
            )
        };
        let log = log.map_or_else(|| "none".to_owned(), |log| log.display().to_string());
        let mut text = format!(
            "profile = \"mangaassist\"\n{variant}\nserver.drain_delay = \"0s\"\ntelemetry = {{ access_log = \"{log}\", metrics = true }}\nstore.kind = \"embedded\"\n\
             models.strong = {{ input = \"$3/M\", output = \"$15/M\" }}\n\
             models.fast = {{ input = \"$0.25/M\", output = \"$1.25/M\" }}\n\
             models.\"{INVOKE_MODEL}\" = {{ input = \"$3/M\", output = \"$15/M\" }}\n\
             targets.sonnet = {}\ntargets.haiku = {}\n\
             budget = {{ day = \"$1,000,000,000/day\", caller_day = \"$1,000,000,000/day\" }}\n\
             limits.tiers.prime = {{ minute = \"100,000,000/min\", hour = \"1,000,000,000/h\", \
             day = \"1,000,000,000/day\" }}\n\
             limits.global = {{ minute = \"1,000,000,000/min\", second = \"100,000,000/s\", \
             second_burst = 1_000_000_000, month = \"4,000,000,000/month\" }}\n\
             callers.issuers.bench = {{ issuer = \"{}\", audience = [\"{}\"], algorithms = [\"HS256\"], \
             secret = \"file:{}\", tier = \"prime\" }}\n",
            anthropic("strong", "strong"),
            anthropic("fast", "fast"),
            token::ISSUER,
            token::AUDIENCE,
            secret.display(),
        );
        for dialect in BenchDialect::ALL {
            let name = dialect.name();
            let (provider, path, model, region) = match dialect {
                BenchDialect::Anthropic => ("anthropic", "", "strong", "none"),
                BenchDialect::Openai => ("openai", "/v1", "strong", "none"),
                BenchDialect::Invoke => ("bedrock", "", INVOKE_MODEL, "eu-west-1"),
                BenchDialect::Converse => ("bedrock", "", "strong", "eu-west-1"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "targets.{name} = {{ provider = \"{provider}\", base_url = \"http://{responder}{path}\", model = \"{model}\", \
                 grade = \"strong\", region = \"{region}\", concurrency = 1000, breaker = \"sonnet\" }}\n\
                 routes.{name} = {{ targets = [\"{name}\"], faces = [\"anthropic\", \"openai\", \"bedrock\"] }}"
            );
        }
        for caller in 0..CALLERS {
            let hash = hex::encode(Sha256::digest(key(caller)));
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "callers.keys.c{caller} = {{ hash = \"sha256:{hash}\", tier = \"prime\" }}");
        }
        text
    }
}

/// A model that is called on Bedrock by InvokeModel.
const INVOKE_MODEL: &str = "anthropic.strong-v1:0";

impl Drop for BenchPrograms {
    fn drop(&mut self) {
        // If this fails, only temporary files are left behind.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn start(
    name: &'static str,
    program: &Path,
    address: SocketAddr,
    arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>,
) -> anyhow::Result<ProxyTarget> {
    let mut running = PinnedProcess::start(TEST_CORE, program, arguments)?;
    running.wait_until_listening(address).with_context(|| name.to_owned())?;
    // The allocator returns the memory freed during startup a second later.
    pause(IDLE_DELAY);
    let idle_mib = running.resident_mib()?;
    Ok(ProxyTarget { name, address, running: Some(running), idle_mib, log: None })
}

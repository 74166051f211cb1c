//! Child processes under test: pinned to a core, measured through /proc, and terminated when dropped.

use anyhow::Context as _;
use seawall_testkit::{ChildProcess, Signal, cpu_time, resident_bytes};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The core of the program under test.
pub(crate) const TEST_CORE: &str = "1";
/// The core of the load and the responder.
pub(crate) const LOAD_CORE: &str = "0";
/// How long a program may take to terminate by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Dummy credentials with which requests to Bedrock are signed. No program under test reaches AWS, and the responder
/// accepts any signature.
const AWS_KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDBENCH"), ("AWS_SECRET_ACCESS_KEY", "nothing to guard")];

/// A running program. Dropping it terminates it, however the run ends.
pub(crate) struct PinnedProcess(ChildProcess);

impl PinnedProcess {
    /// Starts a program pinned to a core, with its output discarded.
    pub(crate) fn start(
        core: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> anyhow::Result<Self> {
        let mut command = pinned(core, program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).envs(AWS_KEYS);
        ChildProcess::start(&mut command).map(Self)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it accepts connections.
    pub(crate) fn wait_until_listening(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        self.0.wait_until_listening(address)
    }

    /// CPU time used so far, in microseconds.
    pub(crate) fn cpu_micros(&self) -> anyhow::Result<f64> {
        cpu_time(self.id()).map(|time| time.as_micros() as f64).context("the program is gone")
    }

    /// Resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        resident_bytes(self.id())
            .map(|bytes| bytes as f64 / f64::from(1 << 20))
            .context("the program is gone")
    }

    /// A line of `/proc/PID/status`.
    pub(crate) fn status(&self, name: &str) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.with_context(|| format!("/proc/PID/status has no {name}"))?.trim().to_owned())
    }

    /// Sends an interrupt as from a keyboard, and waits until the process has exited.
    pub(crate) fn interrupt(mut self) -> anyhow::Result<()> {
        self.0.signal(Signal::INT)?;
        self.0.wait().map(drop)
    }
}

impl Drop for PinnedProcess {
    fn drop(&mut self) {
        // The process may have exited already. SIGTERM comes first, because a program instrumented for profile-guided
        // optimisation (PGO) writes its profile when it exits.
        let _ = self.0.signal(Signal::TERM);
        let _ = self.0.wait_within(EXIT_TIMEOUT);
    }
}

/// A command pinned to one core.
pub(crate) fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// Finds a program; Debian installs servers outside the `PATH` of ordinary users.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

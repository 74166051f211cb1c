//! Child processes under test: pinned to a core, measured through /proc, and terminated when dropped.

use crate::measure::{now, since};
use anyhow::{Context as _, bail, ensure};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The core of the program under test.
pub(crate) const TEST_CORE: &str = "1";
/// The core of the load and the responder.
pub(crate) const LOAD_CORE: &str = "0";
/// Clock ticks per second in /proc; the same on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// How long a program may take to terminate by itself.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Dummy credentials with which requests to Bedrock are signed. No program under test reaches AWS, and the responder
/// accepts any signature.
const AWS_KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDBENCH"), ("AWS_SECRET_ACCESS_KEY", "nothing to guard")];

/// A running program. Dropping it terminates it, however the run ends.
pub(crate) struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    /// Starts a program pinned to a core, with its output discarded.
    pub(crate) fn start(
        core: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> anyhow::Result<Self> {
        let mut command = pinned(core, program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).envs(AWS_KEYS);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it accepts connections.
    pub(crate) fn wait_until_listening(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let started = now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the program for {address} exited: {status}");
            }
            ensure!(since(started) < Duration::from_secs(10), "nothing listens at {address}");
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// CPU time used so far, in microseconds.
    pub(crate) fn cpu_micros(&self) -> anyhow::Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        ticks(&text).map(|ticks| ticks * 1e6 / TICKS).context("/proc/PID/stat is not as expected")
    }

    /// Resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let kibibytes: f64 = self.status("VmRSS:")?.trim_end_matches("kB").trim().parse()?;
        Ok(kibibytes / 1_024.0)
    }

    /// A line of `/proc/PID/status`.
    pub(crate) fn status(&self, name: &str) -> anyhow::Result<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.with_context(|| format!("/proc/PID/status has no {name}"))?.trim().to_owned())
    }

    /// Sends an interrupt as from a keyboard, and waits until the process has exited.
    pub(crate) fn interrupt(mut self) -> anyhow::Result<()> {
        Command::new("kill").args(["-INT", &self.id().to_string()]).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The process may have exited already. SIGTERM comes first, because a program instrumented for profile-guided
        // optimisation (PGO) writes its profile when it exits.
        let _ = Command::new("kill").args(["-TERM", &self.id().to_string()]).stderr(Stdio::null()).status();
        let signalled_at = now();
        while matches!(self.child.try_wait(), Ok(None)) && since(signalled_at) < EXIT_TIMEOUT {
            pause(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command pinned to one core.
pub(crate) fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// User and system time from `/proc/PID/stat`. The process name before them may contain anything, even parentheses.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let field = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some(field(11)? + field(12)?)
}

/// A loopback port that is free at the moment.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?)
}

/// Finds a program; Debian installs servers outside the `PATH` of ordinary users.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark waits for other programs in real time")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::{ChildProcess, pause, ticks};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 99 1000 10";
        assert!(ticks(stat).is_some_and(|ticks| (ticks - 12.0).abs() < 0.5));
        assert!(ticks("42").is_none());
    }

    #[test]
    fn a_program_ends_when_it_is_dropped() {
        let running = ChildProcess::start("0", Path::new("sleep"), ["60"]).unwrap();
        let directory = format!("/proc/{}", running.id());
        pause(Duration::from_millis(20));
        assert!(running.resident_mib().unwrap() > 0.0);
        drop(running);
        assert!(!Path::new(&directory).exists());
    }
}

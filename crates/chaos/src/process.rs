//! Child processes: starting, signalling, killing and inspecting them.
//!
//! A child is killed when its handle is dropped. Its output goes to a file, to be read at the end.

use anyhow::{Context as _, ensure};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_gateway::TokioRuntime;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Timeout for a process to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Polling interval for the end of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum length of the first line of output.
const MAX_LINE_LENGTH: u64 = 1 << 16;

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Shut down gracefully (SIGTERM).
    Terminate,
    /// Reload the settings (SIGHUP).
    Reload,
    /// Suspend (SIGSTOP).
    Pause,
    /// Resume (SIGCONT).
    Resume,
}

/// A running process, killed when this is dropped.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a process; its standard error is appended to a file.
    pub(crate) fn start(command: &mut Command, errors: &Path) -> anyhow::Result<Self> {
        let file = fs::OpenOptions::new().create(true).append(true).open(errors)?;
        let child = command.stdin(Stdio::null()).stderr(file).spawn();
        Ok(Self { child: child.with_context(|| format!("cannot start {command:?}"))? })
    }

    /// Starts a process that reports on its first line of output that it is ready, and where.
    pub(crate) async fn start_ready(
        command: &mut Command,
        errors: &Path,
        runtime: TokioRuntime,
    ) -> anyhow::Result<(Self, Value)> {
        let mut process = Self::start(command.stdout(Stdio::piped()), errors)?;
        let out = process.child.stdout.take().context("no standard output")?;
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(out.take(MAX_LINE_LENGTH)).read_line(&mut line).map(|_| line)
        });
        let line = timeout_at(&runtime, Deadline::after(runtime.monotonic(), READY_TIMEOUT), line).await;
        let line = line.with_context(|| format!("{command:?} was not ready in time"))???;
        let ready = serde_json::from_str(&line)
            .with_context(|| format!("{command:?} is not ready: {line:?}; see {}", errors.display()))?;
        Ok((process, ready))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let name = match signal {
            Signal::Terminate => "-TERM",
            Signal::Reload => "-HUP",
            Signal::Pause => "-STOP",
            Signal::Resume => "-CONT",
        };
        let sent = Command::new("kill").args([name, &self.id().to_string()]).status();
        ensure!(sent.context("cannot send a signal")?.success(), "kill {name} failed");
        Ok(())
    }

    /// The exit status, if it has ended.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, for at most this long.
    pub(crate) async fn wait(&mut self, timeout: Duration, runtime: TokioRuntime) -> Option<ExitStatus> {
        let deadline = runtime.monotonic() + timeout;
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if runtime.monotonic() >= deadline {
                return None;
            }
            runtime.sleep_until(runtime.monotonic() + POLL_INTERVAL).await;
        }
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Resident memory of a process in bytes; `None` if it is gone.
pub(crate) fn memory(id: u32) -> Option<u64> {
    memory_in(&fs::read_to_string(format!("/proc/{id}/status")).ok()?)
}

fn memory_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// Open file descriptors of a process, without connections to these ports; `None` if it is gone.
pub(crate) fn descriptors(id: u32, excluded_ports: &[u16]) -> Option<u64> {
    let table = fs::read_to_string(format!("/proc/{id}/net/tcp")).unwrap_or_default();
    let excluded_sockets = sockets_to(&table, excluded_ports);
    let entries = fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let is_counted = |entry: &fs::DirEntry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let socket = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        socket.is_none_or(|socket| !excluded_sockets.contains(socket))
    };
    Some(entries.flatten().filter(is_counted).count() as u64)
}

/// The inodes of sockets connected to one of these ports, from the system's table.
fn sockets_to(table: &str, ports: &[u16]) -> BTreeSet<String> {
    let socket = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let remote = fields.nth(2)?.rsplit_once(':')?.1;
        let remote = u16::from_str_radix(remote, 16).ok()?;
        ports.contains(&remote).then(|| fields.nth(6).map(str::to_owned))?
    };
    table.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::{descriptors, memory, memory_in, sockets_to};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_in("VmPeak:\t  99 kB\nVmRSS:\t    12 kB\nThreads:\t3\n"), Some(12_288));
        assert_eq!(memory_in("VmPeak:\t  99 kB\n"), None);
        assert!(memory(std::process::id()) > Some(100_000));
    }

    #[test]
    fn sockets_are_found_by_where_they_lead() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 0100007F:1F91 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
            1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
        assert_eq!(sockets_to(table, &[0x1F91]).into_iter().collect::<Vec<_>>(), ["4711"]);
        assert!(sockets_to(table, &[1]).is_empty() && sockets_to("", &[1]).is_empty());
    }

    #[test]
    fn connections_that_are_kept_are_not_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _lines: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let (all, rest) =
            (descriptors(std::process::id(), &[]), descriptors(std::process::id(), &[address.port()]));
        let (all, rest) = (all.unwrap(), rest.unwrap());
        // Other tests open and close theirs meanwhile.
        assert!(all >= 43 && rest >= 3 && all >= rest + 20, "{all}, {rest}");
    }
}

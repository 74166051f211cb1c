//! Child processes that do not outlive the test.

use crate::wait::{now, pause};
use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Maximum length of the line that reports readiness.
const MAX_LINE_LENGTH: u64 = 1 << 16;
/// How long a server may take to accept connections.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running process, killed when this is dropped, however the test ends.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    /// Starts a process.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child })
    }

    /// Starts a process that reports on its first line of output, as JSON, that it is ready, and waits for that line.
    pub fn start_ready(command: &mut Command) -> anyhow::Result<(Self, Value)> {
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let stdout = process.take_stdout().context("no standard output")?;
        let ready = read_ready_line(stdout).with_context(|| format!("{command:?}"))?;
        Ok((process, ready))
    }

    /// Its standard output, if it is a pipe and was not taken before.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard input, if it is a pipe and was not taken before.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        send_signal(self.id(), signal)
    }

    /// The exit status, if it has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// Waits for its end, for at most this long.
    pub fn wait_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let give_up_at = now() + timeout;
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if now() >= give_up_at {
                return None;
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Waits until it accepts connections at this address.
    pub fn wait_until_listening(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let give_up_at = now() + LISTEN_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.exit_status() {
                bail!("the program for {address} exited: {status}");
            }
            ensure!(now() < give_up_at, "nothing listens at {address}");
            pause(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process.
pub fn send_signal(id: u32, signal: Signal) -> anyhow::Result<()> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).context("not a process id")?;
    kill_process(pid, signal).with_context(|| format!("cannot send {signal:?} to process {id}"))
}

/// Reads the line on which a program reports, as JSON, that it is ready, and where. Blocks until the line is there or
/// the output ends.
pub fn read_ready_line(output: impl Read) -> anyhow::Result<Value> {
    let mut line = String::new();
    BufReader::new(output.take(MAX_LINE_LENGTH)).read_line(&mut line)?;
    serde_json::from_str(&line).with_context(|| format!("not ready: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::{ChildProcess, Signal, read_ready_line};
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_program_ends_when_it_is_dropped() {
        let running = ChildProcess::start(Command::new("sleep").arg("60")).unwrap();
        let directory = format!("/proc/{}", running.id());
        assert!(Path::new(&directory).exists());
        drop(running);
        assert!(!Path::new(&directory).exists());
    }

    #[test]
    fn a_signal_ends_it_and_its_status_is_known() {
        let mut running = ChildProcess::start(Command::new("sleep").arg("60")).unwrap();
        assert_eq!(running.wait_within(Duration::ZERO), None);
        running.signal(Signal::TERM).unwrap();
        assert_eq!(running.wait().unwrap().signal(), Some(15));
    }

    #[test]
    fn the_line_of_a_ready_program_is_json() {
        let mut command = Command::new("echo");
        let (_, ready) = ChildProcess::start_ready(command.arg(r#"{"url":"x"}"#)).unwrap();
        assert_eq!(ready["url"], "x");
        assert!(read_ready_line(&b"error: no such file\n"[..]).is_err());
        assert!(read_ready_line(&b""[..]).is_err());
    }
}

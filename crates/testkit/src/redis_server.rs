//! A real `redis-server` for one test.

use crate::directory::TestDirectory;
use crate::process::ChildProcess;
use crate::wait::{free_address, wait_until};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The command that starts a server without persistence on this port, and without output.
#[must_use]
pub fn redis_server_command(port: u16, directory: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "no", "--loglevel", "warning", "--dir"]).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A Redis server without persistence, ended when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    address: SocketAddr,
    directory: TestDirectory,
    process: Option<ChildProcess>,
    /// Whether it knows the command QUIT; a sentinel does not.
    knows_quit: bool,
}

impl RedisServer {
    /// Starts a server on a free port.
    pub fn start() -> anyhow::Result<Self> {
        let mut server = Self::prepare(free_address()?)?;
        server.run(|_| {})?;
        Ok(server)
    }

    /// A server that does not run yet.
    pub fn prepare(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { address, directory: TestDirectory::new()?, process: None, knows_quit: true })
    }

    /// Starts it, empty, with a changed command; on the same port as before.
    pub fn run(&mut self, change: impl FnOnce(&mut Command)) -> anyhow::Result<()> {
        let mut command = redis_server_command(self.address.port(), self.directory.path());
        change(&mut command);
        self.run_command(&mut command)?;
        self.knows_quit = true;
        self.wait_until_ready()
    }

    /// Starts it with this command, which has to listen at [`address`](Self::address), and waits only for that: it may
    /// be a sentinel, or require TLS.
    pub fn run_command(&mut self, command: &mut Command) -> anyhow::Result<()> {
        let mut process = ChildProcess::start(command)?;
        process.wait_until_listening(self.address)?;
        self.process = Some(process);
        self.knows_quit = false;
        Ok(())
    }

    /// The address of its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Kills it, so that connections to its port are refused.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends it a signal, if it runs.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    /// The raw reply to a command; empty if the server does not reply.
    #[must_use]
    pub fn command(&self, words: &str) -> String {
        let reply = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(READ_TIMEOUT))?;
            // Without QUIT, the connection is closed at the end of the input, and the rest of a long reply is lost.
            let quit = if self.knows_quit { "QUIT\r\n" } else { "" };
            stream.write_all(format!("{words}\r\n{quit}").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut reply = Vec::new();
            let _ = stream.read_to_end(&mut reply);
            Ok(reply)
        };
        let reply = String::from_utf8_lossy(&reply().unwrap_or_default()).into_owned();
        let without_quit = reply.strip_suffix("+OK\r\n").filter(|_| self.knows_quit);
        without_quit.unwrap_or(&reply).to_owned()
    }

    /// Waits until it replies to commands.
    pub fn wait_until_ready(&self) -> anyhow::Result<()> {
        wait_until("redis-server replies", || Ok(self.command("PING") == "+PONG\r\n"))
    }
}

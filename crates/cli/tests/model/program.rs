//! The `seawall` program, running beside a test.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running simulated model; killed when dropped.
pub(crate) struct RunningModel {
    child: Child,
    /// Where it listens.
    pub(crate) url: String,
}

/// `seawall` with these arguments.
pub(crate) fn seawall(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.args(arguments);
    command
}

/// A file for `name` that holds `text`.
pub(crate) fn file(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

impl RunningModel {
    /// Starts a model on a free port; `faults` is the text of its schedule, kept in a file named after `test`.
    pub(crate) fn start(test: &str, faults: &str) -> anyhow::Result<Self> {
        let file = file(&format!("{test}-faults.json"), faults)?;
        let mut command = seawall(&["model", "--listen", "127.0.0.1:0", "--json", "--faults"]);
        let mut child = command.arg(file).stdout(Stdio::piped()).spawn().context("cannot start seawall")?;
        let stdout = child.stdout.take().context("seawall has no output")?;
        let mut running = Self { child, url: String::new() };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).with_context(|| format!("not ready: {line:?}"))?;
        running.url = ready["url"].as_str().context("no address was told")?.to_owned();
        Ok(running)
    }

    /// One model's part of the bill.
    pub(crate) fn bill(&self, model: &str) -> anyhow::Result<Value> {
        let address = self.url.trim_start_matches("http://");
        let mut connection = TcpStream::connect(address)?;
        write!(connection, "GET /bill HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let Some((_, body)) = answer.split_once("\r\n\r\n") else { bail!("no answer: {answer}") };
        let mut bill: Value = serde_json::from_str(body)?;
        Ok(bill["models"][model].take())
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn end_with(mut self, signal: &str) -> anyhow::Result<ExitStatus> {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().context("cannot start kill")?;
        Ok(self.child.wait()?)
    }
}

impl Drop for RunningModel {
    fn drop(&mut self) {
        // Where it has ended already there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

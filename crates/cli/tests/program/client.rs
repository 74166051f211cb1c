//! The vendor's own client libraries.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A client library in the version that `cargo xtask test` installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    /// Python 1.x, which sends its key as `x-api-key`.
    PythonOne,
    /// Python 2.x, which sends it as a bearer token.
    PythonTwo,
    /// JavaScript.
    Node,
}

impl Client {
    pub(crate) const ALL: [Self; 3] = [Self::PythonOne, Self::PythonTwo, Self::Node];

    /// What a user of this client sees. `what` is `answer` or `stream`.
    pub(crate) fn sees(
        self,
        url: &str,
        key: &str,
        model: &str,
        what: &str,
        retries: u32,
    ) -> anyhow::Result<Value> {
        let mut command = self.command()?;
        let output = command.args([url, key, model, what, &retries.to_string()]).output();
        let output = output.with_context(|| format!("{self:?}: cannot start {command:?}"))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{self:?}: {complaint}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("{self:?} says nothing: {complaint}"))
    }

    fn command(self) -> anyhow::Result<Command> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program");
        match self {
            Self::PythonOne => python("anthropic-python-1", &scripts),
            Self::PythonTwo => python("anthropic-python-2", &scripts),
            Self::Node => {
                let mut command = Command::new("node");
                command.arg(scripts.join("anthropic_client.mjs")).arg(installed("anthropic-node")?);
                Ok(command)
            }
        }
    }
}

fn python(folder: &str, scripts: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(installed(folder)?.join("bin/python"));
    command.arg(scripts.join("anthropic_client.py"));
    Ok(command)
}

/// The folder of a client library, which lies beside the folder that cargo gives to tests.
pub(crate) fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = temporary.parent().unwrap_or(temporary).join("clients").join(name);
    ensure!(folder.is_dir(), "{name} is not installed; `cargo xtask test` installs it");
    Ok(folder)
}

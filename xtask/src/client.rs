//! Vendors' client libraries and coding agents that the tests use.
//!
//! Each is in a directory of its own under the target directory, in an exact version, so that two versions of one
//! library can be used side by side and nothing else on the machine changes. A directory is rebuilt when its version is
//! not the required one, or when the installation was interrupted.

use crate::workspace::target_dir;
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A required library.
struct Library {
    /// Its directory; tests look for it by this name.
    directory: &'static str,
    registry: Registry,
    package: &'static str,
    version: &'static str,
    /// Packages that are installed with it, as requirements.
    with: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Registry {
    Python,
    Node,
}

/// Python's two generations differ in the header that carries the key.
const FOR_TESTS: &[Library] = &[
    library("anthropic-python-1", Registry::Python, "anthropic", "1.17.0"),
    library("anthropic-python-2", Registry::Python, "anthropic", "2.8.0"),
    library("anthropic-node", Registry::Node, "@anthropic-ai/sdk", "1.8.0"),
    library("openai-python", Registry::Python, "openai", "3.49.0"),
    library("openai-node", Registry::Node, "openai", "6.49.0"),
    Library { with: &["@ai-sdk/openai@4.0.115"], ..library("vercel-ai", Registry::Node, "ai", "7.0.170") },
    library("aws-python", Registry::Python, "boto3", "1.44.0"),
    library("aws-node", Registry::Node, "@aws-sdk/client-bedrock-runtime", "3.1162.0"),
    library("gemini-python", Registry::Python, "google-genai", "3.3.0"),
    library("gemini-node", Registry::Node, "@google/genai", "3.1.0"),
    // Frameworks that classify a vendor's errors by their texts.
    library("langchain-openai", Registry::Python, "langchain-openai", "1.7.3"),
    library("langchain-anthropic", Registry::Python, "langchain-anthropic", "1.7.7"),
    library("litellm", Registry::Python, "litellm", "1.106.2"),
    library("pydantic-ai", Registry::Python, "pydantic-ai-slim[openai]", "2.62.0"),
    library("anthropic-tokenizer", Registry::Node, "@anthropic-ai/tokenizer", "0.0.4"),
    // Coding agents: programs in packages of their own, of 400 MB each.
    library("claude-code", Registry::Node, "@anthropic-ai/claude-code", "2.1.327"),
    library("codex", Registry::Node, "@openai/codex", "0.169.0"),
];

/// Agents that only `cargo xtask agents` runs.
const FOR_AGENTS: &[Library] = &[
    library("gemini-cli", Registry::Node, "@google/gemini-cli", "0.61.0"),
    library("opencode", Registry::Node, "opencode-ai", "1.18.33"),
    library("aider", Registry::Python, "aider-chat", "0.86.2"),
];

const fn library(
    directory: &'static str,
    registry: Registry,
    package: &'static str,
    version: &'static str,
) -> Library {
    Library { directory, registry, package, version, with: &[] }
}

/// Written last; names the content of the directory.
const INSTALLED_MARK: &str = "installed.txt";

/// The directory of a library.
pub(crate) fn client_dir(name: &str) -> PathBuf {
    target_dir("clients").join(name)
}

/// Installs every library that is missing or has another version.
pub(crate) fn install_missing() -> anyhow::Result<()> {
    install(FOR_TESTS.iter())
}

/// The same for these agents.
pub(crate) fn install_missing_agents(names: &[&str]) -> anyhow::Result<()> {
    install(FOR_TESTS.iter().chain(FOR_AGENTS).filter(|library| names.contains(&library.directory)))
}

/// The required version of an agent.
pub(crate) fn agent_version(name: &str) -> Option<&'static str> {
    let mut all = FOR_TESTS.iter().chain(FOR_AGENTS);
    all.find(|library| library.directory == name).map(|library| library.version)
}

fn install<'l>(libraries: impl Iterator<Item = &'l Library>) -> anyhow::Result<()> {
    let clients = target_dir("clients");
    for library in libraries {
        let directory = clients.join(library.directory);
        if library.is_in(&directory) {
            continue;
        }
        println!("installing {} into {}", library.requirement(), library.directory);
        if directory.exists() {
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot remove {}", directory.display()))?;
        }
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        library.install(&directory)?;
        fs::write(directory.join(INSTALLED_MARK), library.requirement())?;
    }
    Ok(())
}

impl Library {
    /// The packages with their versions, separated by spaces.
    fn requirement(&self) -> String {
        let own = match self.registry {
            Registry::Python => format!("{}=={}", self.package, self.version),
            Registry::Node => format!("{}@{}", self.package, self.version),
        };
        [&[own.as_str()], self.with].concat().join(" ")
    }

    fn is_in(&self, directory: &Path) -> bool {
        fs::read_to_string(directory.join(INSTALLED_MARK)).is_ok_and(|mark| mark == self.requirement())
    }

    fn install(&self, directory: &Path) -> anyhow::Result<()> {
        let requirement = self.requirement();
        let packages = requirement.split(' ');
        match self.registry {
            Registry::Python => {
                run(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
                let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
                run(Command::new(directory.join("bin/python")).args(quiet).args(packages))
            }
            Registry::Node => {
                let quiet = ["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"];
                run(Command::new("npm").args(quiet).arg(directory).args(packages))
            }
        }
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{FOR_AGENTS, FOR_TESTS, INSTALLED_MARK, Registry, library};
    use crate::workspace::target_dir;
    use std::fs;

    #[test]
    fn a_folder_counts_only_when_it_is_finished_and_of_the_right_version() {
        let directory = target_dir("xtask-tests").join("client");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let newer = library("client", Registry::Python, "some", "2.0");
        assert!(!newer.is_in(&directory));
        fs::write(directory.join(INSTALLED_MARK), "some==1.0").unwrap();
        assert!(!newer.is_in(&directory));
        fs::write(directory.join(INSTALLED_MARK), newer.requirement()).unwrap();
        assert!(newer.is_in(&directory));
    }

    #[test]
    fn each_library_has_a_folder_of_its_own() {
        let all = || FOR_TESTS.iter().chain(FOR_AGENTS);
        for library in all() {
            assert_eq!(all().filter(|other| other.directory == library.directory).count(), 1);
        }
    }
}

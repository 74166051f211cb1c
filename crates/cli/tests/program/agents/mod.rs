//! Coding agents, unmodified, through `seawall serve` to simulated models.
//!
//! `cargo xtask test` installs Claude Code and Codex and runs their tests; `cargo xtask agents` also installs the others, whose
//! tests are ignored otherwise. Each agent has an empty home, a directory to work in and no standard input, and does
//! nothing but what the test asks: no updates, no telemetry.

mod refusals;
mod tasks;

use crate::client::installed;
use crate::running::{KEY, Running, caller, file, scratch_dir, settings};
use anyhow::Context as _;
use seawall_testkit::ChildProcess;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long an agent may take. None needs a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The content of the file that an agent is asked to write.
const CONTENT: &str = "written by an agent";
/// The model's text behind the tool call.
const FINAL_TEXT: &str = "The note is in place.";
/// Selects the rules of the script: nothing else in an agent's requests contains it.
const PROMPT: &str = "Please write the seawall note.";

/// An agent in the version that xtask installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    ClaudeCode,
    Codex,
    GeminiCli,
    Opencode,
    Aider,
}

/// What an agent did.
#[derive(Debug)]
struct AgentRun {
    /// Whether it ended by itself, with status 0.
    succeeded: bool,
    /// Whether it had to be ended.
    timed_out: bool,
    /// Its standard output, then its standard error.
    output: String,
    /// The number of requests at the gateway.
    requests: u64,
    /// The directory that it worked in.
    directory: PathBuf,
}

/// A model, and a gateway in front of it.
struct AgentStage {
    test: &'static str,
    model: Running,
    gateway: Running,
}

impl AgentStage {
    /// A gateway with one route per dialect of its target. No protection of the gateway interferes; `more` adds settings.
    fn start(test: &'static str, more: &str) -> anyhow::Result<Self> {
        let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
        let url = &model.url;
        let mut text = settings(url, ["haiku", "haiku"])
            // Codex offers a search of the web, which may read the whole window.
            .replace("models.haiku = {", "models.haiku = { context_window = 200_000,");
        for (route, target) in [
            ("to-anthropic", format!(r#"provider = "anthropic", base_url = "{url}", model = "haiku""#)),
            ("to-openai", format!(r#"provider = "openai", base_url = "{url}/v1", model = "haiku""#)),
            (
                "to-responses",
                format!(r#"provider = "openai", base_url = "{url}/v1", model = "haiku", api = "responses""#),
            ),
            ("to-gemini", format!(r#"provider = "gemini", base_url = "{url}", model = "haiku""#)),
        ] {
            text += &format!(
                "targets.{route} = {{ {target}, api_key = \"env:PATH\", grade = \"fast\", breaker = \"haiku\" }}\n\
                 routes.{route} = {{ targets = [\"{route}\"], faces = [\"anthropic\", \"openai\", \"gemini\"] }}\n"
            );
        }
        text += "retry.base_delay = \"1ms\"\nretry.max_delay = \"5ms\"\n\
                 limits.untracked_input.server_tool = \"allow\"\n";
        text += &caller("other", OTHER_KEY);
        text += more;
        let gateway = Running::gateway_in(test, &text, &[])?;
        Ok(Self { test, model, gateway })
    }

    /// Runs an agent with this key on this route, in a directory of its own.
    fn run(&self, agent: Agent, route: &str, key: &str, prompt: &str) -> anyhow::Result<AgentRun> {
        let base = self.directory(agent, route)?;
        let (home, directory) = (base.join("home"), base.join("work"));
        for path in [&home, &directory] {
            fs::create_dir_all(path)?;
        }
        let mut command = agent.command(&self.gateway.url, route, key, prompt, &home)?;
        let name = format!("{}-{agent:?}-{route}-output.txt", self.test);
        let output = file(&name, "")?;
        let errors = file(&format!("{name}.errors"), "")?;
        command.current_dir(&directory).env("HOME", &home).stdin(Stdio::null());
        command.stdout(fs::File::create(&output)?).stderr(fs::File::create(&errors)?);
        let before = self.gateway.counter("seawall_requests_total")?;
        let mut process = ChildProcess::start(&mut command)?;
        let status = process.wait_within(PATIENCE);
        process.kill();
        Ok(AgentRun {
            succeeded: status.is_some_and(|status| status.success()),
            timed_out: status.is_none(),
            output: fs::read_to_string(&output)? + &fs::read_to_string(&errors)?,
            requests: self.gateway.counter("seawall_requests_total")? - before,
            directory,
        })
    }

    /// A new directory for a run; its path is known before, because the script of the model has it.
    fn directory(&self, agent: Agent, route: &str) -> anyhow::Result<PathBuf> {
        scratch_dir(&format!("{}-{agent:?}-{route}", self.test))
    }

    /// Sets what the model does: call the agent's own tool that writes a file, then answer with a text.
    fn script_note(&self, agent: Agent, route: &str) -> anyhow::Result<()> {
        let path = self.directory(agent, route)?.join("work/note.txt");
        self.model.set_faults(&agent.script(&path))
    }
}

/// A caller beside [`KEY`].
const OTHER_KEY: &str = "sk-other-0123456789abcdef";

impl Agent {
    /// The rules by which the model lets the agent write the note.
    fn script(self, path: &Path) -> Value {
        let shown = path.to_string_lossy();
        let (tool, input) = match self {
            Self::ClaudeCode => ("Write", json!({ "file_path": shown, "content": CONTENT })),
            Self::Codex => ("exec_command", json!({ "cmd": format!("printf '{CONTENT}' > '{shown}'") })),
            Self::GeminiCli => ("write_file", json!({ "file_path": shown, "content": CONTENT })),
            Self::Opencode => ("write", json!({ "filePath": shown, "content": CONTENT })),
            // It offers no tools: files are edited by what the answer contains.
            Self::Aider => {
                let text = format!("{FINAL_TEXT}\n\nnote.txt\n```\n{CONTENT}\n```\n");
                return json!([{ "contains": PROMPT, "fault": { "kind": "text", "text": text } }]);
            }
        };
        json!([
            { "contains": PROMPT, "fault": { "kind": "tool_call", "tool": tool, "input": input } },
            { "contains": PROMPT, "fault": { "kind": "text", "text": FINAL_TEXT } },
        ])
    }

    /// The command of one task without a terminal. Everything is set by variables, arguments and files in `home`.
    fn command(
        self,
        url: &str,
        route: &str,
        key: &str,
        prompt: &str,
        home: &Path,
    ) -> anyhow::Result<Command> {
        let directory = installed(match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Opencode => "opencode",
            Self::Aider => "aider",
        })?;
        let node = |program: &str| Command::new(directory.join("node_modules/.bin").join(program));
        let mut command = match self {
            Self::ClaudeCode => node("claude"),
            Self::Codex => node("codex"),
            Self::GeminiCli => node("gemini"),
            Self::Opencode => node("opencode"),
            Self::Aider => Command::new(directory.join("bin/aider")),
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").context("no PATH")?);
        match self {
            Self::ClaudeCode => command
                .args(["-p", prompt, "--dangerously-skip-permissions"])
                .env("ANTHROPIC_BASE_URL", url)
                .env("ANTHROPIC_API_KEY", key)
                .env("ANTHROPIC_MODEL", route)
                .env("ANTHROPIC_DEFAULT_HAIKU_MODEL", route)
                .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
                .env("DISABLE_AUTOUPDATER", "1")
                // It refuses to run without permissions as root, except in a sandbox.
                .env("IS_SANDBOX", "1"),
            Self::Codex => {
                let settings = format!(
                    "model = \"{route}\"\nmodel_provider = \"seawall\"\ncheck_for_update_on_startup = false\n\
                     [model_providers.seawall]\nname = \"Seawall\"\nbase_url = \"{url}/v1\"\n\
                     env_key = \"SEAWALL_KEY\"\nwire_api = \"responses\"\n\
                     [analytics]\nenabled = false\n[features]\nplugins = false\napps = false\n"
                );
                fs::create_dir_all(home.join(".codex"))?;
                fs::write(home.join(".codex/config.toml"), settings)?;
                let arguments =
                    ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt];
                command.args(arguments).env("SEAWALL_KEY", key)
            }
            Self::GeminiCli => {
                let settings = json!({
                    "security": { "auth": { "selectedType": "gemini-api-key" } },
                    "privacy": { "usageStatisticsEnabled": false },
                    "telemetry": { "enabled": false },
                    "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
                });
                fs::create_dir_all(home.join(".gemini"))?;
                fs::write(home.join(".gemini/settings.json"), settings.to_string())?;
                command
                    .args(["-p", prompt, "-m", route, "--yolo"])
                    .env("GOOGLE_GEMINI_BASE_URL", url)
                    .env("GEMINI_API_KEY", key)
                    .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
            }
            Self::Opencode => {
                let model = json!({ "name": route, "limit": { "context": 100_000, "output": 8_000 } });
                let provider = json!({
                    "npm": "@ai-sdk/openai-compatible",
                    "options": { "baseURL": format!("{url}/v1"), "apiKey": key },
                    "models": { route: model },
                });
                let settings = json!({
                    "provider": { "seawall": provider }, "model": format!("seawall/{route}"),
                    "small_model": format!("seawall/{route}"), "autoupdate": false, "share": "disabled",
                    "permission": { "edit": "allow", "bash": "deny" },
                });
                let directory = home.join(".config/opencode");
                fs::create_dir_all(&directory)?;
                fs::write(directory.join("opencode.json"), settings.to_string())?;
                command
                    .args(["run", "--title", "note", prompt])
                    .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
                    .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            }
            Self::Aider => command
                .args([
                    "--model",
                    &format!("openai/{route}"),
                    "--message",
                    prompt,
                    "--yes-always",
                    "--no-git",
                ])
                .args(["--edit-format", "whole", "--no-check-update", "--analytics-disable"])
                .args(["--no-show-model-warnings", "--no-detect-urls", "--map-tokens", "0", "note.txt"])
                .env("OPENAI_API_BASE", format!("{url}/v1"))
                .env("OPENAI_API_KEY", key)
                .env("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
        };
        Ok(command)
    }
}

//! One small task: the model calls the agent's tool that writes a file, the agent writes it, and the model answers. Once with
//! a target of the agent's own dialect, once with a translation.

use super::{Agent, AgentStage, CONTENT, FINAL_TEXT, KEY, PROMPT};
use crate::first_mile::set_up;
use crate::running::Running;
use anyhow::ensure;
use std::fs;

/// Runs the task on both routes.
fn write_note(agent: Agent, test: &'static str, routes: [&str; 2]) -> anyhow::Result<()> {
    let stage = AgentStage::start(test, "")?;
    routes.into_iter().try_for_each(|route| write_note_on(&stage, agent, route, KEY))
}

fn write_note_on(stage: &AgentStage, agent: Agent, route: &str, key: &str) -> anyhow::Result<()> {
    stage.script_note(agent, route)?;
    let run = stage.run(agent, route, key, PROMPT)?;
    ensure!(run.succeeded && !run.timed_out, "{agent:?} {route}: {run:?}");
    let note = fs::read_to_string(run.directory.join("note.txt"));
    ensure!(
        note.as_ref().is_ok_and(|note| note.trim_end() == CONTENT),
        "{agent:?} {route}: {note:?}: {run:?}"
    );
    ensure!(run.output.contains(FINAL_TEXT), "{agent:?} {route}: {run:?}");
    // One request with the question, one with the tool's result; an agent without tools has one.
    let expected = if agent == Agent::Aider { 1 } else { 2 };
    ensure!(run.requests == expected, "{agent:?} {route}: not {expected} requests: {run:?}");
    Ok(())
}

#[test]
fn what_init_writes_is_enough_for_both_agents() -> anyhow::Result<()> {
    let test = "agents-first-mile";
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let (gateway, key) = set_up(test, &model)?;
    let stage = AgentStage { test, model, gateway };
    // A name that Codex does not know: for those that it knows, it replaces the tool of the script by one of its own.
    write_note_on(&stage, Agent::ClaudeCode, "claude-sonnet-5-5", &key)?;
    write_note_on(&stage, Agent::Codex, "gpt-first-mile", &key)
}

#[test]
fn claude_code_writes_a_file() -> anyhow::Result<()> {
    write_note(Agent::ClaudeCode, "agents-claude-code", ["to-anthropic", "to-openai"])
}

#[test]
fn codex_writes_a_file() -> anyhow::Result<()> {
    write_note(Agent::Codex, "agents-codex", ["to-responses", "to-anthropic"])
}

#[test]
#[ignore = "installed and run by `cargo xtask agents`"]
fn gemini_cli_writes_a_file() -> anyhow::Result<()> {
    write_note(Agent::GeminiCli, "agents-gemini-cli", ["to-gemini", "to-anthropic"])
}

#[test]
#[ignore = "installed and run by `cargo xtask agents`"]
fn opencode_writes_a_file() -> anyhow::Result<()> {
    write_note(Agent::Opencode, "agents-opencode", ["to-openai", "to-anthropic"])
}

#[test]
#[ignore = "installed and run by `cargo xtask agents`"]
fn aider_writes_a_file() -> anyhow::Result<()> {
    write_note(Agent::Aider, "agents-aider", ["to-openai", "to-anthropic"])
}

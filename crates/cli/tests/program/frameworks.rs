//! Errors as users of frameworks see them: frameworks classify errors by phrases and codes, not by status alone.

use crate::client::{installed, script};
use crate::running::{KEY, Running, settings};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

const TOO_LONG: &str =
    r#"[{"fault": {"kind": "status", "status": 400, "error": "context_length_exceeded"}}]"#;

/// The classification of these calls by each framework in this directory.
fn sights(directory: &str, calls: &[Value]) -> anyhow::Result<Vec<Value>> {
    let mut command = Command::new(installed(directory)?.join("bin/python"));
    command.arg(script("frameworks.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let mut way_in = child.stdin.take().context("no way in")?;
    for call in calls {
        writeln!(way_in, "{call}")?;
    }
    drop(way_in);
    let output = child.wait_with_output()?;
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).context("no sight")).collect()
}

/// A model whose prompt is always too long, in OpenAI's dialect, and a gateway in front of it.
fn start(test: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, TOO_LONG)?;
    let url = &model.url;
    let more = format!(
        r#"
        models."gpt-4o-mini" = {{ input = "$0.15/M", output = "$0.60/M" }}
        targets.gpt = {{ provider = "openai", base_url = "{url}/v1", model = "gpt-4o-mini", api_key = "env:PATH", grade = "fast", breaker = "haiku" }}
        routes.gpt = {{ targets = ["gpt"], faces = ["anthropic", "openai"] }}
        "#
    );
    let gateway = Running::gateway_in(test, &(settings(url, ["instant", "instant"]) + &more), &[])?;
    Ok((model, gateway))
}

fn assert_kind(seen: &Value, kind: &str, what: &str) {
    let kinds = seen["kinds"].as_array().into_iter().flatten();
    assert!(kinds.into_iter().any(|seen| seen == kind), "{what}: not {kind}: {seen}");
}

#[test]
fn a_prompt_that_is_too_long_and_a_wrong_key_raise_the_frameworks_own_errors() -> anyhow::Result<()> {
    let (_model, gateway) = start("frameworks")?;
    let call = |framework, dialect, key, model| json!({ "framework": framework, "dialect": dialect, "url": gateway.url, "key": key, "model": model });
    let wrong = "sk-wrong-0123456789abcdef";
    for (directory, framework, dialect, errors) in [
        (
            "langchain-openai",
            "langchain",
            "openai",
            ["ContextOverflowError", "AuthenticationError", "NotFoundError"],
        ),
        (
            "langchain-anthropic",
            "langchain",
            "anthropic",
            ["ContextOverflowError", "AuthenticationError", "NotFoundError"],
        ),
        (
            "litellm",
            "litellm",
            "openai",
            ["ContextWindowExceededError", "AuthenticationError", "NotFoundError"],
        ),
        (
            "litellm",
            "litellm",
            "anthropic",
            ["ContextWindowExceededError", "AuthenticationError", "NotFoundError"],
        ),
    ] {
        let seen = sights(
            directory,
            &[
                call(framework, dialect, KEY, "gpt"),
                call(framework, dialect, wrong, "gpt"),
                call(framework, dialect, KEY, "missing"),
            ],
        )?;
        assert_eq!(seen.len(), 3, "{directory} {dialect}: {seen:?}");
        for (seen, kind) in seen.iter().zip(errors) {
            assert_kind(seen, kind, &format!("{directory} {dialect}"));
        }
    }
    Ok(())
}

#[test]
fn an_unknown_path_is_not_reported_as_an_unknown_model() -> anyhow::Result<()> {
    let (_model, gateway) = start("frameworks-paths")?;
    let answer = gateway.send("POST", "/v1/no-such-thing", "", b"{}")?;
    let body: Value = serde_json::from_slice(&answer.body)?;
    assert_eq!((answer.status, &body["error"]["code"]), (404, &Value::Null), "{body}");
    let answer = gateway.send("POST", "/model/a/no-such-thing", "", b"{}")?;
    assert_eq!(answer.status, 404);
    Ok(())
}

//! A broken stream that a client repeats without a stream is one request for the caller's rate limits.

use super::{Agent, AgentStage, FINAL_TEXT, KEY, PROMPT};
use anyhow::ensure;
use serde_json::{Value, json};

const ONE_PER_MINUTE: &str =
    "limits.tiers.prime = { minute = \"1/min\", burst = 0, hour = \"100/h\", day = \"100/day\" }\n";

/// The first answer breaks off; all others are complete.
fn break_first(stage: &AgentStage) -> anyhow::Result<()> {
    stage.model.set_faults(&json!([
        { "every_nth": 1_000, "fault": { "kind": "cut", "after": 3 } },
        { "fault": { "kind": "text", "text": FINAL_TEXT } },
    ]))
}

fn ask(stage: &AgentStage, question: &str, stream: &Value) -> anyhow::Result<(u16, String)> {
    let mut body = json!({
        "model": "to-anthropic", "max_tokens": 100, "messages": [{ "role": "user", "content": question }],
    });
    if !stream.is_null() {
        body["stream"] = stream.clone();
    }
    let headers = format!("x-api-key: {KEY}\r\n");
    let reply = stage.gateway.send("POST", "/v1/messages", &headers, body.to_string().as_bytes())?;
    Ok((reply.status, reply.text().into_owned()))
}

#[test]
fn the_repetition_of_a_broken_stream_takes_no_further_unit_of_a_rate_limit() -> anyhow::Result<()> {
    for (number, without) in [json!(false), Value::Null].into_iter().enumerate() {
        let test = ["agents-repetition-false", "agents-repetition-none"][number];
        let stage = AgentStage::start(test, ONE_PER_MINUTE)?;
        break_first(&stage)?;
        let (status, text) = ask(&stage, "What next?", &json!(true))?;
        ensure!(status == 200 && text.contains("event: error"), "{status}: {text}");
        let (status, text) = ask(&stage, "Another and much longer question: what next?", &without)?;
        ensure!(status == 429, "another request: {status}: {text}");
        let (status, text) = ask(&stage, "What next?", &without)?;
        ensure!(status == 200 && text.contains(FINAL_TEXT), "{status}: {text}");
        let (status, text) = ask(&stage, "What next?", &without)?;
        ensure!(status == 429, "a second repetition: {status}: {text}");
    }
    Ok(())
}

#[test]
fn claude_code_gets_its_answer_at_the_rate_limit_if_its_stream_was_broken() -> anyhow::Result<()> {
    let stage = AgentStage::start("agents-repetition-claude-code", ONE_PER_MINUTE)?;
    break_first(&stage)?;
    let run = stage.run(Agent::ClaudeCode, "to-anthropic", KEY, PROMPT)?;
    ensure!(run.succeeded && run.requests == 2 && run.output.contains(FINAL_TEXT), "{run:?}");
    Ok(())
}

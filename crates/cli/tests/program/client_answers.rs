//! Answers of `seawall model` to the vendors' clients, without faults.

use crate::client::{Client, Session};
use crate::running::Running;
use serde_json::{Value, json};

/// The dialect's stop reasons for the output limit and for a tool call.
fn finishes(client: Client) -> (&'static str, &'static str) {
    match client {
        Client::OpenaiPython | Client::OpenaiNode => ("length", "tool_calls"),
        Client::ResponsesPython | Client::ResponsesNode => ("max_output_tokens", "completed"),
        Client::GeminiPython | Client::GeminiNode => ("MAX_TOKENS", "STOP"),
        _ => ("max_tokens", "tool_use"),
    }
}

#[test]
fn every_client_receives_whole_streamed_and_tool_call_responses() -> anyhow::Result<()> {
    let model = Running::model("client-answers", "[]")?;
    for client in Client::ALL.into_iter().chain(Client::GEMINI) {
        // One process for all calls: starting a client takes longer than anything it does.
        let mut session = client.open(&model.url)?;
        reads_the_same_whole_and_in_pieces_and_is_billed_for_it(client, &mut session, &model)?;
        gets_the_call_that_it_demands_and_words_once_it_has_the_result(client, &mut session)?;
        let seen = session.sees(&json!({ "model": vendors_name(client), "max_tokens": 1 }))?;
        assert_eq!((&seen["text"], &seen["output"]), (&json!("This"), &json!(1)), "{client:?}: {seen}");
    }
    Ok(())
}

/// A vendor's name for a model.
const fn vendors_name(client: Client) -> &'static str {
    match client {
        Client::OpenaiPython | Client::OpenaiNode | Client::ResponsesPython | Client::ResponsesNode => {
            "gpt-4o-mini"
        }
        Client::GeminiPython | Client::GeminiNode => "gemini-2.5-flash",
        Client::AwsPython(_) | Client::AwsNode(..) => "anthropic.claude-3-haiku-20240307-v1:0",
        _ => "claude-3-haiku-20240307",
    }
}

fn output_on_bill(model: &Running) -> anyhow::Result<u64> {
    Ok(model.bill("instant")?["output_tokens"].as_u64().unwrap_or(0))
}

fn reads_the_same_whole_and_in_pieces_and_is_billed_for_it(
    client: Client,
    session: &mut Session,
    model: &Running,
) -> anyhow::Result<()> {
    let before = output_on_bill(model)?;
    let (at_limit, _) = finishes(client);
    for (question, opening) in [
        ("What should I read next?", "This is a simulator speaking"),
        ("次は何を読もう？", "これはシミュレーター"),
    ] {
        let whole = session.sees(&json!({ "question": question }))?;
        let pieces = session.sees(&json!({ "question": question, "stream": true }))?;
        for seen in [&whole, &pieces] {
            let text = seen["text"].as_str().unwrap_or_default();
            assert!(text.starts_with(opening), "{client:?}: {seen}");
            assert_eq!(
                (&seen["error"], &seen["complete"]),
                (&Value::Null, &json!(true)),
                "{client:?}: {seen}"
            );
            assert_eq!(
                (&seen["finish"], &seen["output"]),
                (&json!(at_limit), &json!(40)),
                "{client:?}: {seen}"
            );
            assert!(seen["input"].as_u64().is_some_and(|input| input > 0), "{client:?}: {seen}");
        }
        assert_eq!((&whole["text"], &whole["input"]), (&pieces["text"], &pieces["input"]), "{client:?}");
        assert!(pieces["pieces"].as_u64() > Some(5), "{client:?}: {pieces}");
        if vendors_name(client) != "gpt-4o-mini" {
            let counted = session.sees(&json!({ "question": question, "count": true }))?;
            let counted_input = (&counted["input"], &counted["error"]);
            assert_eq!(counted_input, (&whole["input"], &Value::Null), "{client:?}");
        }
    }
    assert_eq!(output_on_bill(model)?, before + 4 * 40, "{client:?}");
    Ok(())
}

fn gets_the_call_that_it_demands_and_words_once_it_has_the_result(
    client: Client,
    session: &mut Session,
) -> anyhow::Result<()> {
    let tool = json!({
        "name": "recommend",
        "schema": {
            "type": "object",
            "properties": {
                "title": { "type": "string" },
                "volumes": { "type": "integer" },
                "finished": { "type": "boolean" },
                "reason": { "type": "string" },
            },
            "required": ["title", "volumes", "finished"],
        },
    });
    let (_, called) = finishes(client);
    let filled = json!({ "title": "What should I read next?", "volumes": 1, "finished": true });
    for stream in [false, true] {
        let seen = session.sees(&json!({ "tool": tool, "stream": stream, "max_tokens": 200 }))?;
        assert_eq!((&seen["error"], &seen["complete"]), (&Value::Null, &json!(true)), "{client:?}: {seen}");
        assert_eq!(seen["tool"], json!({ "name": "recommend", "input": filled }), "{client:?}: {seen}");
        assert_eq!((&seen["finish"], &seen["text"]), (&json!(called), &json!("")), "{client:?}: {seen}");
        assert!(seen["output"].as_u64().is_some_and(|output| output > 0), "{client:?}: {seen}");

        let after = session.sees(&json!({ "tool": tool, "result": filled, "stream": stream }))?;
        let text = after["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("This is a simulator speaking"), "{client:?}: {after}");
        assert_eq!((&after["tool"], &after["error"]), (&Value::Null, &Value::Null), "{client:?}: {after}");
    }
    Ok(())
}

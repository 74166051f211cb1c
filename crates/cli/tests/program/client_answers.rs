//! What users of the vendors' clients get from `seawall model` where nothing goes wrong.

use crate::client::Client;
use crate::running::Running;
use serde_json::{Value, json};

/// How a dialect says that an answer ended where the limit was, and that it is a call.
fn finishes(client: Client) -> (&'static str, &'static str) {
    match client {
        Client::OpenaiPython | Client::OpenaiNode => ("length", "tool_calls"),
        _ => ("max_tokens", "tool_use"),
    }
}

#[test]
fn every_client_reads_the_same_whole_and_in_pieces_and_is_billed_for_it() -> anyhow::Result<()> {
    let model = Running::model("client-answers", "[]")?;
    let mut output = 0;
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
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
                output += 40;
            }
            assert_eq!((&whole["text"], &whole["input"]), (&pieces["text"], &pieces["input"]), "{client:?}");
            assert!(pieces["pieces"].as_u64() > Some(5), "{client:?}: {pieces}");
            if !matches!(client, Client::OpenaiPython | Client::OpenaiNode) {
                let counted = session.sees(&json!({ "question": question, "count": true }))?;
                assert_eq!(
                    (&counted["input"], &counted["error"]),
                    (&whole["input"], &Value::Null),
                    "{client:?}"
                );
            }
        }
        assert_eq!(model.bill("instant")?["output_tokens"], output, "{client:?}");
    }
    Ok(())
}

#[test]
fn every_client_gets_the_call_that_it_demands_and_words_once_it_has_the_result() -> anyhow::Result<()> {
    let model = Running::model("client-tools", "[]")?;
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
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        let (_, called) = finishes(client);
        let mut inputs = Vec::new();
        for stream in [false, true] {
            let seen = session.sees(&json!({ "tool": tool, "stream": stream, "max_tokens": 200 }))?;
            assert_eq!(
                (&seen["error"], &seen["complete"]),
                (&Value::Null, &json!(true)),
                "{client:?}: {seen}"
            );
            assert_eq!(
                (&seen["finish"], &seen["tool"]["name"]),
                (&json!(called), &tool["name"]),
                "{client:?}: {seen}"
            );
            let input = seen["tool"]["input"].clone();
            assert!(input["title"].is_string(), "{client:?}: {seen}");
            assert_eq!(
                (&input["volumes"], &input["finished"]),
                (&json!(1), &json!(true)),
                "{client:?}: {seen}"
            );
            assert!(seen["output"].as_u64().is_some_and(|output| output > 0), "{client:?}: {seen}");

            let answered = json!({ "tool": tool, "result": input, "stream": stream });
            let after = session.sees(&answered)?;
            assert!(
                after["text"].as_str().is_some_and(|text| text.starts_with("This is")),
                "{client:?}: {after}"
            );
            assert_eq!(
                (&after["tool"], &after["error"]),
                (&Value::Null, &Value::Null),
                "{client:?}: {after}"
            );
            inputs.push(input);
        }
        assert_eq!(inputs[0], inputs[1], "{client:?}");
    }
    Ok(())
}

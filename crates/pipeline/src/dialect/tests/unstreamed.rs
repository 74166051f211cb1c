//! Unstreamed answers.

use super::{ALIAS, DEFAULTS, PLAIN, Question, answered, dialect, every_pair, request_for};
use crate::dialect::{DialectRequest, Face, UnstreamedAnswer};
use bytes::Bytes;
use seawall_core::failure::FailureKind;
use seawall_wire::chat::{FinishReason, Usage};
use seawall_wire::dialect::{DialectId, ResponseReport};
use serde_json::{Value, json};

/// What a caller reads from an answer: text, tool calls (name and input), finish reason, input and output tokens.
type Read = (String, Vec<(String, Value)>, String, u64, u64);

fn read(face: Face, body: &Value) -> Read {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let count = |value: &Value| value.as_u64().unwrap();
    let (mut words, mut calls) = (String::new(), Vec::new());
    let (finish, usage, input, output) = match face.name() {
        "anthropic" | "bedrock_invoke" => {
            for block in body["content"].as_array().unwrap() {
                match block["type"].as_str().unwrap() {
                    "text" => words += block["text"].as_str().unwrap(),
                    _ => calls.push((text(&block["name"]), block["input"].clone())),
                }
            }
            (text(&body["stop_reason"]), &body["usage"], "input_tokens", "output_tokens")
        }
        "openai" => {
            let message = &body["choices"][0]["message"];
            words += message["content"].as_str().unwrap_or_default();
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let input = call["function"]["arguments"].as_str().unwrap();
                calls.push((text(&call["function"]["name"]), serde_json::from_str(input).unwrap()));
            }
            let finish = text(&body["choices"][0]["finish_reason"]);
            (finish, &body["usage"], "prompt_tokens", "completion_tokens")
        }
        "openai_responses" => {
            for item in body["output"].as_array().unwrap() {
                match item["type"].as_str().unwrap() {
                    "message" => words += item["content"][0]["text"].as_str().unwrap(),
                    _ => {
                        let input = item["arguments"].as_str().unwrap();
                        calls.push((text(&item["name"]), serde_json::from_str(input).unwrap()));
                    }
                }
            }
            let details = &body["incomplete_details"]["reason"];
            let finish = if details.is_string() { details } else { &body["status"] };
            (text(finish), &body["usage"], "input_tokens", "output_tokens")
        }
        "bedrock_converse" => {
            for block in body["output"]["message"]["content"].as_array().unwrap() {
                match block.get("text") {
                    Some(text) => words += text.as_str().unwrap(),
                    None => calls.push((text(&block["toolUse"]["name"]), block["toolUse"]["input"].clone())),
                }
            }
            (text(&body["stopReason"]), &body["usage"], "inputTokens", "outputTokens")
        }
        "gemini" => {
            for part in body["candidates"][0]["content"]["parts"].as_array().unwrap() {
                match part.get("functionCall") {
                    Some(call) => calls.push((text(&call["name"]), call["args"].clone())),
                    None => words += part["text"].as_str().unwrap(),
                }
            }
            let finish = text(&body["candidates"][0]["finishReason"]);
            (finish, &body["usageMetadata"], "promptTokenCount", "candidatesTokenCount")
        }
        "chat" => panic!("our own face has no body"),
        other => panic!("{other:?}"),
    };
    (words, calls, finish, count(&usage[input]), count(&usage[output]))
}

fn whole(request: &DialectRequest, target: DialectId) -> UnstreamedAnswer {
    let body = Bytes::from(answered(request, target).concat());
    UnstreamedAnswer::read(request, target, body, None, &DEFAULTS).unwrap()
}

/// The face's label of a finish reason.
pub(super) fn word(face: Face, finish: FinishReason) -> &'static str {
    match (face.name(), finish) {
        ("openai", FinishReason::EndTurn) => "stop",
        ("openai", FinishReason::MaxTokens) => "length",
        ("openai", FinishReason::ToolUse) => "tool_calls",
        // A call of a tool completes the response like any other output.
        ("openai_responses", FinishReason::EndTurn | FinishReason::ToolUse) => "completed",
        ("openai_responses", FinishReason::MaxTokens) => "max_output_tokens",
        ("gemini", FinishReason::EndTurn | FinishReason::ToolUse) => "STOP",
        ("gemini", FinishReason::MaxTokens) => "MAX_TOKENS",
        (_, FinishReason::EndTurn) => "end_turn",
        (_, FinishReason::MaxTokens) => "max_tokens",
        (_, FinishReason::ToolUse) => "tool_use",
        _ => panic!("{finish:?}"),
    }
}

#[test]
fn every_face_gets_the_same_answer_from_every_target() {
    for (question, finish) in [
        (PLAIN, FinishReason::EndTurn),
        (Question { max_output: Some(9), ..PLAIN }, FinishReason::MaxTokens),
        (Question { needs_tool: true, ..PLAIN }, FinishReason::ToolUse),
    ] {
        let mut first: Option<Read> = None;
        for (face, target) in every_pair() {
            let answer = whole(&request_for(face, &question), target);
            let body: Value = serde_json::from_slice(&super::written(&answer, face)).unwrap();
            let (text, calls, failure_message, input, output) = read(face, &body);
            assert_eq!(
                (answer.finish, failure_message.as_str()),
                (finish, word(face, finish)),
                "{face:?} {target:?}"
            );
            let usage = Usage { input, output, ..Usage::default() };
            assert_eq!(answer.usage, usage, "{face:?} {target:?}");
            assert!(input > 0 && output > 0 && text.is_empty() == question.needs_tool);
            assert_eq!(calls.is_empty(), !question.needs_tool);
            let first =
                first.get_or_insert_with(|| (text.clone(), calls.clone(), String::new(), input, output));
            assert_eq!(
                (&first.0, &first.1, first.3, first.4),
                (&text, &calls, input, output),
                "{face:?} {target:?}"
            );
        }
    }
}

#[test]
fn a_body_of_a_shared_dialect_is_forwarded_unchanged() {
    for (face, target) in every_pair() {
        let request = request_for(face, &PLAIN);
        let body = Bytes::from(answered(&request, target).concat());
        let answer = UnstreamedAnswer::read(&request, target, body.clone(), None, &DEFAULTS).unwrap();
        let same = super::has_anthropic_bodies(dialect(face)) && super::has_anthropic_bodies(target);
        assert_eq!(
            super::written(&answer, face).as_ptr() == body.as_ptr(),
            same || dialect(face) == target,
            "{face:?} {target:?}"
        );
    }
}

#[test]
fn a_translated_answer_has_an_id_and_the_callers_model_name() {
    for (face, id) in [(Face::ANTHROPIC_MESSAGES, "id"), (Face::OPENAI_CHAT, "id"), (Face::RESPONSES, "id")] {
        for target in DialectId::ALL {
            let answer = whole(&request_for(face, &PLAIN), target);
            let body: Value = serde_json::from_slice(&super::written(&answer, face)).unwrap();
            let is_anew = dialect(face) != target
                && !(super::has_anthropic_bodies(dialect(face)) && super::has_anthropic_bodies(target));
            assert_eq!(body["model"] == ALIAS, is_anew, "{face:?} {target:?}");
            let has_own_name = body[id].as_str().unwrap() == DEFAULTS.id;
            assert_eq!(has_own_name, target == DialectId::BEDROCK_CONVERSE, "{face:?} {target:?}");
        }
    }
    let answer = whole(&request_for(Face::OPENAI_CHAT, &PLAIN), DialectId::ANTHROPIC_MESSAGES);
    assert_eq!(
        serde_json::from_slice::<Value>(&super::written(&answer, Face::OPENAI_CHAT)).unwrap()["created"],
        DEFAULTS.created
    );
    let answer = whole(&request_for(Face::BEDROCK_CONVERSE, &PLAIN), DialectId::ANTHROPIC_MESSAGES);
    assert_eq!(
        serde_json::from_slice::<Value>(&super::written(&answer, Face::BEDROCK_CONVERSE)).unwrap()["metrics"]
            ["latencyMs"],
        70
    );
}

#[test]
fn invoke_reports_usage_in_headers_for_every_target() {
    for (face, target) in every_pair() {
        let answer = whole(&request_for(face, &PLAIN), target);
        let failure_message = seawall_wire::bedrock::read_usage_headers(|name| {
            answer.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        });
        assert_eq!(
            failure_message,
            (face == Face::BEDROCK_INVOKE).then_some(answer.usage),
            "{face:?} {target:?}"
        );
        assert_eq!(answer.headers.is_empty(), face != Face::BEDROCK_INVOKE);
    }
}

#[test]
fn headers_report_the_usage_where_the_body_does_not() {
    let failure_message = Usage { input: 5, output: 6, ..Usage::default() };
    let body = |usage: Value| {
        let content = json!([{"type": "text", "text": "hi"}]);
        let answer = json!({"type": "message", "id": "m", "model": "x", "content": content, "usage": usage});
        Bytes::from(answer.to_string())
    };
    for face in Face::VENDORS {
        let request = request_for(face, &PLAIN);
        let usage = |body, failure_message: Option<Usage>| {
            let failure_message = failure_message
                .map(|usage| ResponseReport { usage: Some(usage), ..ResponseReport::default() });
            UnstreamedAnswer::read(&request, DialectId::BEDROCK_INVOKE, body, failure_message, &DEFAULTS)
                .unwrap()
                .usage
        };
        assert_eq!(usage(body(json!({})), Some(failure_message)), failure_message);
        assert_eq!(usage(body(json!({})), None), Usage::default());
        // Headers supply what the body omits; values in the body take precedence.
        let own = |output| Usage { input: 1, output, ..Usage::default() };
        assert_eq!(usage(body(json!({"input_tokens": 1})), Some(failure_message)), own(6));
        assert_eq!(
            usage(body(json!({"input_tokens": 1, "output_tokens": 2})), Some(failure_message)),
            own(2)
        );
    }
}

#[test]
fn an_unparsable_answer_is_a_failure_of_the_target() {
    for (face, target) in every_pair() {
        let request = request_for(face, &PLAIN);
        let good = answered(&request, target).concat();
        for body in [&b"<html>"[..], b"{}", b"", &good[..good.len() - 1], br#"{"error":{"message":"no"}}"#] {
            let body = Bytes::copy_from_slice(body);
            let failure = UnstreamedAnswer::read(&request, target, body, None, &DEFAULTS).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unrecognised);
        }
    }
}

#[test]
fn an_error_with_the_status_of_a_success_is_what_it_says() {
    for face in Face::VENDORS {
        let request = request_for(face, &PLAIN);
        for (body, kind) in [
            (r#"{"error":{"code":429,"message":"Provider returned error"}}"#, FailureKind::Throttled),
            (r#"{"error":{"code":502,"message":"Provider returned error"}}"#, FailureKind::ServerFault),
            (
                r#"{"id":"x","error":{"message":"busy","type":"server_error","code":503}}"#,
                FailureKind::ServerFault,
            ),
        ] {
            let body = Bytes::from_static(body.as_bytes());
            let read = UnstreamedAnswer::read(&request, DialectId::OPENAI_CHAT, body, None, &DEFAULTS);
            let failure = read.unwrap_err();
            assert_eq!((failure.kind, failure.not_executed), (kind, false), "{face:?}");
        }
    }
}

//! Requests in each target's dialect.

use super::{ALIAS, PLAIN, Question, STREAM, body, every_pair, model_of, request_for};
use crate::dialect::{DialectHeaders, DialectRequest, Face};
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use seawall_wire::dialect::{DialectId, UrlParameters};
use seawall_wire::{ApiErrorKind, RequestError, RequestLimits};
use serde_json::{Value, json};

pub(super) fn read(face: Face, body: &Value) -> Result<DialectRequest, RequestError> {
    super::read(face, false, Bytes::from(body.to_string()))
}

fn sent(request: &DialectRequest, target: DialectId) -> Value {
    serde_json::from_slice(&request.body_for(target, model_of(target)).unwrap()).unwrap()
}

/// The output limit in a target's body.
pub(super) fn limit(target: DialectId, body: &Value) -> u64 {
    let limit = match target.name() {
        "anthropic" | "bedrock_invoke" => &body["max_tokens"],
        "openai" if body["max_completion_tokens"].is_null() => &body["max_tokens"],
        "openai" => &body["max_completion_tokens"],
        "openai_responses" => &body["max_output_tokens"],
        "bedrock_converse" => &body["inferenceConfig"]["maxTokens"],
        "gemini" => &body["generationConfig"]["maxOutputTokens"],
        other => panic!("{other:?}"),
    };
    limit.as_u64().unwrap_or_else(|| panic!("{target:?} has no limit: {body}"))
}

#[test]
fn the_head_is_what_decisions_need() {
    for face in Face::VENDORS {
        let request = request_for(face, &STREAM);
        assert_eq!((request.face(), request.model(), request.stream()), (face, ALIAS, true));
        assert_eq!((request.max_output(), request.wants_usage()), (Some(500), true));
        assert!(!request_for(face, &PLAIN).stream());
        let silent = request_for(face, &Question { wants_usage: false, ..STREAM });
        assert_eq!(silent.wants_usage(), face != Face::OPENAI_CHAT);
    }
}

#[test]
fn every_target_gets_its_own_model_the_limit_and_the_usage_option() {
    for (face, target) in every_pair() {
        for stream in [false, true] {
            let body = sent(&request_for(face, &Question { wants_usage: false, stream, ..PLAIN }), target);
            assert_eq!(limit(target, &body), 500, "{face:?} {target:?}");
            match target.name() {
                "anthropic" | "openai_responses" => {
                    assert_eq!((&body["model"], body["stream"] == true), (&model_of(target).into(), stream));
                }
                "openai" => {
                    assert_eq!((&body["model"], body["stream"] == true), (&model_of(target).into(), stream));
                    assert_eq!(body["stream_options"]["include_usage"] == true, stream, "{face:?}");
                }
                "bedrock_invoke" => {
                    assert_eq!(body["anthropic_version"], "bedrock-2023-05-31", "{face:?}");
                    assert!(body.get("model").is_none() && body.get("stream").is_none(), "{face:?}");
                }
                "bedrock_converse" => assert!(body.get("model").is_none()),
                "gemini" => assert!(body.get("model").is_none() && body.get("stream").is_none()),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_request_without_a_limit_is_written_without_one_unless_one_is_added() {
    for face in [Face::OPENAI_CHAT, Face::RESPONSES, Face::BEDROCK_CONVERSE, Face::GEMINI] {
        let request = request_for(face, &Question { max_output: None, ..PLAIN });
        assert_eq!(request.max_output(), None);
        for target in DialectId::ALL {
            let limited = |limit| {
                let field = OutputLimitField::MaxCompletionTokens;
                let body = request.body_with_limit(limit, field, target, model_of(target)).unwrap();
                serde_json::from_slice::<Value>(&body).unwrap()
            };
            assert_eq!(limit(target, &limited(Some(77))), 77, "{face:?} {target:?}");
            let text = limited(None).to_string();
            let has_limit =
                ["maxTokens", "_tokens", "maxOutputTokens"].iter().any(|name| text.contains(name));
            // Two dialects require a limit.
            assert_eq!(has_limit, super::has_anthropic_bodies(target), "{text}");
        }
    }
    for face in [Face::ANTHROPIC_MESSAGES, Face::BEDROCK_INVOKE] {
        let mut without = body(face, &PLAIN);
        without.as_object_mut().unwrap().remove("max_tokens");
        assert_eq!(read(face, &without).unwrap_err().to_string(), "max_tokens: Field required");
    }
}

#[test]
fn several_answers_may_each_be_as_long_as_the_limit() {
    let mut body = body(Face::OPENAI_CHAT, &PLAIN);
    body["n"] = json!(3);
    let request = read(Face::OPENAI_CHAT, &body).unwrap();
    assert_eq!((request.max_output(), request.choices()), (Some(500), 3));
    assert_eq!(limit(DialectId::OPENAI_CHAT, &sent(&request, DialectId::OPENAI_CHAT)), 500);
    let error = request.body_for(DialectId::ANTHROPIC_MESSAGES, "m").unwrap_err();
    assert!(error.to_string().starts_with("n: "), "{error}");
}

#[test]
fn an_unsupported_field_is_rejected_by_name_and_works_at_another_target() {
    let with = |face: Face, change: fn(&mut Value)| {
        let mut value = body(face, &PLAIN);
        change(&mut value);
        read(face, &value).unwrap()
    };
    let document = |body: &mut Value| {
        body["messages"][0]["content"] =
            json!([{"type": "search_result", "source": "s", "title": "t", "content": []}]);
    };
    let anthropic = [DialectId::ANTHROPIC_MESSAGES, DialectId::BEDROCK_INVOKE];
    for (request, names, takers) in [
        (with(Face::ANTHROPIC_MESSAGES, document), "messages.0.content.0.type", &anthropic[..]),
        (with(Face::BEDROCK_INVOKE, document), "messages.0.content.0.type", &anthropic),
        (
            with(Face::RESPONSES, |body| body["previous_response_id"] = json!("resp_1")),
            "previous_response_id",
            &[DialectId::RESPONSES],
        ),
        (with(Face::RESPONSES, |body| body["store"] = json!(true)), "store", &[DialectId::RESPONSES]),
        (
            with(Face::OPENAI_CHAT, |body| body["response_format"] = json!({"type": "json_object"})),
            "response_format",
            &[DialectId::OPENAI_CHAT, DialectId::RESPONSES, DialectId::GEMINI],
        ),
        (
            with(Face::BEDROCK_CONVERSE, |body| {
                body["guardrailConfig"] = json!({"guardrailIdentifier": "g"});
            }),
            "guardrailConfig",
            &[DialectId::BEDROCK_CONVERSE],
        ),
        (
            // All targets but Converse and Gemini accept image URLs.
            with(Face::ANTHROPIC_MESSAGES, |body| {
                let source = json!({"type": "url", "url": "https://example.com/a.png"});
                body["messages"][0]["content"] = json!([{"type": "image", "source": source}]);
            }),
            "messages.content.image.source.url",
            &[
                DialectId::ANTHROPIC_MESSAGES,
                DialectId::OPENAI_CHAT,
                DialectId::BEDROCK_INVOKE,
                DialectId::RESPONSES,
            ],
        ),
        (
            with(Face::GEMINI, |body| body["cachedContent"] = json!("cachedContents/1")),
            "cachedContent",
            &[DialectId::GEMINI],
        ),
    ] {
        for target in DialectId::ALL {
            let takes = takers.contains(&target);
            // A second call gives the same result from the cached representation.
            for _ in 0..2 {
                match request.body_for(target, "m") {
                    Ok(_) => assert!(takes, "{target:?} {names}"),
                    Err(error) => {
                        assert!(!takes && error.to_string().starts_with(&format!("{names}: ")), "{error}");
                        assert_eq!(error.api_error_kind(), ApiErrorKind::Malformed);
                    }
                }
            }
        }
    }
}

#[test]
fn anthropics_body_keeps_everything_between_its_two_carriers() {
    let thinking = json!({"type": "enabled", "budget_tokens": 1024});
    for (face, target) in [
        (Face::ANTHROPIC_MESSAGES, DialectId::BEDROCK_INVOKE),
        (Face::BEDROCK_INVOKE, DialectId::ANTHROPIC_MESSAGES),
    ] {
        let mut value = body(face, &PLAIN);
        value["thinking"] = thinking.clone();
        value["metadata"] = json!({"user_id": "u"});
        let out = sent(&read(face, &value).unwrap(), target);
        assert_eq!((&out["thinking"], &out["metadata"]), (&thinking, &value["metadata"]));
        assert_eq!((&out["messages"], &out["system"]), (&value["messages"], &value["system"]));
    }
}

#[test]
fn beta_features_are_forwarded_where_the_dialect_carries_them() {
    let betas = vec!["one-2025".to_owned(), "two-2026".to_owned()];
    let headers = DialectHeaders { betas: betas.clone(), ..DialectHeaders::default() };
    let request = request_for(Face::ANTHROPIC_MESSAGES, &PLAIN).with_headers(headers).unwrap();
    assert_eq!(request.betas(), betas);
    assert_eq!(sent(&request, DialectId::BEDROCK_INVOKE)["anthropic_beta"], json!(betas));
    assert!(sent(&request, DialectId::ANTHROPIC_MESSAGES).get("anthropic_beta").is_none());
    let mut invoke = body(Face::BEDROCK_INVOKE, &PLAIN);
    invoke["anthropic_beta"] = json!(betas);
    let request = read(Face::BEDROCK_INVOKE, &invoke).unwrap();
    assert_eq!(request.betas(), betas);
    assert!(sent(&request, DialectId::ANTHROPIC_MESSAGES).get("anthropic_beta").is_none());
    assert_eq!(sent(&request, DialectId::BEDROCK_INVOKE)["anthropic_beta"], json!(betas));
}

#[test]
fn the_longest_name_of_a_model_in_a_path_can_be_answered_by_all() {
    let model = "a".repeat(2_048);
    for dialect in [DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE] {
        let face = Face::Vendor(dialect);
        let body = Bytes::from(body(face, &PLAIN).to_string());
        let url = UrlParameters::new(model.clone(), true);
        let request = DialectRequest::read(dialect, &url, body, &RequestLimits::default()).unwrap();
        assert!(request.model() == model && request.stream());
        for target in DialectId::ALL {
            assert!(request.body_for(target, model_of(target)).is_ok(), "{face:?} {target:?}");
        }
    }
}

#[test]
fn an_empty_conversation_is_rejected_where_the_dialect_drops_empty_turns() {
    let mut silent = body(Face::BEDROCK_CONVERSE, &PLAIN);
    for content in [json!([]), json!([{"text": ""}]), json!([{"cachePoint": {"type": "default"}}])] {
        silent["messages"][0]["content"] = content;
        let request = read(Face::BEDROCK_CONVERSE, &silent).unwrap();
        for target in DialectId::ALL.into_iter().filter(|target| *target != DialectId::BEDROCK_CONVERSE) {
            let error = request.body_for(target, "m").unwrap_err();
            assert_eq!(error.to_string(), "messages: at least one message is required");
        }
        assert!(request.body_for(DialectId::BEDROCK_CONVERSE, "m").is_ok());
    }
}

#[test]
fn a_limit_of_zero_fills_anthropics_cache_and_means_nothing_elsewhere() {
    for face in [Face::ANTHROPIC_MESSAGES, Face::BEDROCK_INVOKE] {
        let mut wanted = body(face, &PLAIN);
        wanted["max_tokens"] = json!(0);
        let request = read(face, &wanted).unwrap();
        assert_eq!(request.max_output(), Some(0));
        for target in DialectId::ALL {
            match request.body_for(target, model_of(target)) {
                Ok(sent) => {
                    assert!(super::has_anthropic_bodies(target), "{target:?}");
                    assert_eq!(limit(target, &serde_json::from_slice(&sent).unwrap()), 0);
                }
                Err(error) => {
                    assert!(!super::has_anthropic_bodies(target), "{target:?}");
                    assert!(
                        error
                            .to_string()
                            .starts_with("max_tokens: Not supported by the target model: 0 output tokens"),
                        "{error}"
                    );
                }
            }
        }
    }
}

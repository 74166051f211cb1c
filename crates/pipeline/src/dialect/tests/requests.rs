//! Requests in each target's dialect.

use super::{ALIAS, PLAIN, Question, STREAM, body, every_pair, model_of, operation, request_for};
use crate::dialect::{ApiOperationRef, DialectHeaders, DialectRequest, Face, has_anthropic_bodies};
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use seawall_provider::TargetDialect;
use seawall_wire::{ApiErrorKind, RequestError, RequestLimits};
use serde_json::{Value, json};

pub(super) fn read(face: Face, body: &Value) -> Result<DialectRequest, RequestError> {
    DialectRequest::read(&operation(face, false), Bytes::from(body.to_string()), &RequestLimits::default())
}

fn sent(request: &DialectRequest, target: TargetDialect) -> Value {
    serde_json::from_slice(&request.body_for(target, model_of(target)).unwrap()).unwrap()
}

/// The output limit in a target's body.
pub(super) fn limit(target: TargetDialect, body: &Value) -> u64 {
    let limit = match target {
        TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke => &body["max_tokens"],
        TargetDialect::OpenAiChat if body["max_completion_tokens"].is_null() => &body["max_tokens"],
        TargetDialect::OpenAiChat => &body["max_completion_tokens"],
        TargetDialect::BedrockConverse => &body["inferenceConfig"]["maxTokens"],
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
        assert_eq!(silent.wants_usage(), face != Face::OpenAiChat);
    }
}

#[test]
fn every_target_gets_its_own_model_the_limit_and_the_usage_option() {
    for (face, target) in every_pair() {
        for stream in [false, true] {
            let body = sent(&request_for(face, &Question { wants_usage: false, stream, ..PLAIN }), target);
            assert_eq!(limit(target, &body), 500, "{face:?} {target:?}");
            match target {
                TargetDialect::AnthropicMessages => {
                    assert_eq!((&body["model"], body["stream"] == true), (&model_of(target).into(), stream));
                }
                TargetDialect::OpenAiChat => {
                    assert_eq!((&body["model"], body["stream"] == true), (&model_of(target).into(), stream));
                    assert_eq!(body["stream_options"]["include_usage"] == true, stream, "{face:?}");
                }
                TargetDialect::BedrockInvoke => {
                    assert_eq!(body["anthropic_version"], "bedrock-2023-05-31", "{face:?}");
                    assert!(body.get("model").is_none() && body.get("stream").is_none(), "{face:?}");
                }
                TargetDialect::BedrockConverse => assert!(body.get("model").is_none()),
            }
        }
    }
}

#[test]
fn a_request_without_a_limit_is_written_without_one_unless_one_is_added() {
    for face in [Face::OpenAiChat, Face::BedrockConverse] {
        let request = request_for(face, &Question { max_output: None, ..PLAIN });
        assert_eq!(request.max_output(), None);
        for target in TargetDialect::ALL {
            let limited = |limit| {
                let field = OutputLimitField::MaxCompletionTokens;
                let body = request.body_with_limit(limit, field, target, model_of(target)).unwrap();
                serde_json::from_slice::<Value>(&body).unwrap()
            };
            assert_eq!(limit(target, &limited(Some(77))), 77, "{face:?} {target:?}");
            let text = limited(None).to_string();
            let has_limit = text.contains("maxTokens") || text.contains("_tokens");
            // Two dialects require a limit.
            assert_eq!(has_limit, has_anthropic_bodies(target), "{text}");
        }
    }
    for face in [Face::AnthropicMessages, Face::BedrockInvoke] {
        let mut without = body(face, &PLAIN);
        without.as_object_mut().unwrap().remove("max_tokens");
        assert_eq!(read(face, &without).unwrap_err().to_string(), "max_tokens: Field required");
    }
}

#[test]
fn several_answers_may_each_be_as_long_as_the_limit() {
    let mut body = body(Face::OpenAiChat, &PLAIN);
    body["n"] = json!(3);
    let request = read(Face::OpenAiChat, &body).unwrap();
    assert_eq!((request.max_output(), request.choices()), (Some(500), 3));
    assert_eq!(limit(TargetDialect::OpenAiChat, &sent(&request, TargetDialect::OpenAiChat)), 500);
    let error = request.body_for(TargetDialect::AnthropicMessages, "m").unwrap_err();
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
            json!([{"type": "document", "source": {"type": "text", "data": "x"}}]);
    };
    for (request, names, takers) in [
        (with(Face::AnthropicMessages, document), "messages.0.content.0.type", &[true, false, true, false]),
        (with(Face::BedrockInvoke, document), "messages.0.content.0.type", &[true, false, true, false]),
        (
            with(Face::OpenAiChat, |body| body["response_format"] = json!({"type": "json_object"})),
            "response_format.type",
            &[false, true, false, false],
        ),
        (
            with(Face::BedrockConverse, |body| body["guardrailConfig"] = json!({"guardrailIdentifier": "g"})),
            "guardrailConfig",
            &[false, false, false, true],
        ),
        (
            // All targets but one accept image URLs.
            with(Face::AnthropicMessages, |body| {
                let source = json!({"type": "url", "url": "https://example.com/a.png"});
                body["messages"][0]["content"] = json!([{"type": "image", "source": source}]);
            }),
            "messages.0.content.0",
            &[true, true, true, false],
        ),
    ] {
        for (target, takes) in TargetDialect::ALL.into_iter().zip(takers) {
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
        (Face::AnthropicMessages, TargetDialect::BedrockInvoke),
        (Face::BedrockInvoke, TargetDialect::AnthropicMessages),
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
    let request = request_for(Face::AnthropicMessages, &PLAIN).with_headers(headers).unwrap();
    assert_eq!(request.betas(), betas);
    assert_eq!(sent(&request, TargetDialect::BedrockInvoke)["anthropic_beta"], json!(betas));
    assert!(sent(&request, TargetDialect::AnthropicMessages).get("anthropic_beta").is_none());
    let mut invoke = body(Face::BedrockInvoke, &PLAIN);
    invoke["anthropic_beta"] = json!(betas);
    let request = read(Face::BedrockInvoke, &invoke).unwrap();
    assert_eq!(request.betas(), betas);
    assert!(sent(&request, TargetDialect::AnthropicMessages).get("anthropic_beta").is_none());
    assert_eq!(sent(&request, TargetDialect::BedrockInvoke)["anthropic_beta"], json!(betas));
}

#[test]
fn the_longest_name_of_a_model_in_a_path_can_be_answered_by_all() {
    let model = "a".repeat(2_048);
    for (face, operation) in [
        (Face::BedrockInvoke, ApiOperationRef::Invoke { model: &model, stream: true }),
        (Face::BedrockConverse, ApiOperationRef::Converse { model: &model, stream: true }),
    ] {
        assert_eq!(operation.face(), face);
        let body = Bytes::from(body(face, &PLAIN).to_string());
        let request = DialectRequest::read(&operation, body, &RequestLimits::default()).unwrap();
        assert!(request.model() == model && request.stream());
        for target in TargetDialect::ALL {
            assert!(request.body_for(target, model_of(target)).is_ok(), "{face:?} {target:?}");
        }
    }
}

#[test]
fn an_empty_conversation_is_rejected_where_the_dialect_drops_empty_turns() {
    let mut silent = body(Face::BedrockConverse, &PLAIN);
    for content in [json!([]), json!([{"text": ""}]), json!([{"cachePoint": {"type": "default"}}])] {
        silent["messages"][0]["content"] = content;
        let request = read(Face::BedrockConverse, &silent).unwrap();
        for target in
            [TargetDialect::AnthropicMessages, TargetDialect::OpenAiChat, TargetDialect::BedrockInvoke]
        {
            let error = request.body_for(target, "m").unwrap_err();
            assert_eq!(error.to_string(), "messages: at least one message is required");
        }
        assert!(request.body_for(TargetDialect::BedrockConverse, "m").is_ok());
    }
}

#[test]
fn a_limit_of_zero_fills_anthropics_cache_and_means_nothing_elsewhere() {
    for face in [Face::AnthropicMessages, Face::BedrockInvoke] {
        let mut wanted = body(face, &PLAIN);
        wanted["max_tokens"] = json!(0);
        let request = read(face, &wanted).unwrap();
        assert_eq!(request.max_output(), Some(0));
        for target in TargetDialect::ALL {
            match request.body_for(target, model_of(target)) {
                Ok(sent) => {
                    assert!(has_anthropic_bodies(target), "{target:?}");
                    assert_eq!(limit(target, &serde_json::from_slice(&sent).unwrap()), 0);
                }
                Err(error) => {
                    assert!(!has_anthropic_bodies(target), "{target:?}");
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

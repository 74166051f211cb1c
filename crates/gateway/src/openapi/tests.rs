//! Checks that the document is well formed and agrees with the code.

use super::paths::PATHS;
use super::{document, openapi};
use crate::face::{AcceptedForm, CallerEndpoint, respond, respond_to_chat};
use crate::runtime::TokioRuntime;
use hyper::Method;
use seawall_assistant::{AssistantContent, AssistantReply};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::quota::{GroupId, LimitId, LimitView, RetryAfter};
use seawall_core::strategy::Language;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Level, Rung, Tier};
use seawall_pipeline::dialect::{Face, UnstreamedAnswer, request_id_header};
use seawall_pipeline::{
    ApiOperation, BudgetScope, IdempotencyConflict, LimitDescription, Rejection, Reply, ReplyContent,
    ReplyMetadata,
};
use seawall_wire::chat::FinishReason;
use seawall_wire::chat_face::{ChatFinish, ChatReply};
use seawall_wire::dialect::DialectId;
use seawall_wire::reply::AnswerContent;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The same reply at the chat face.
fn chat_reply(reply: Reply<TokioRuntime>) -> AssistantReply<TokioRuntime> {
    let Reply { content, metadata } = reply;
    let content = match content {
        ReplyContent::Rejected(rejection) => AssistantContent::Rejected(rejection),
        _ => AssistantContent::Whole(Box::new(ChatReply {
            answer: String::new(),
            rung: Rung::StrongModel,
            reasons: Vec::new(),
            request_id: String::new(),
            session: None,
            usage: Default::default(),
            cost: Money::ZERO,
            target: None,
            finish: ChatFinish::Finished,
            retry_after: None,
        })),
    };
    AssistantReply { content, metadata, language: None }
}

/// Every value under a key of this name, at any depth.
fn all<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(name));
            object.values().for_each(|inner| all(inner, name, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| all(inner, name, found)),
        _ => {}
    }
}

#[test]
fn the_document_is_an_openapi_document() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with('/'), "{path}");
        for (method, operation) in methods.as_object().unwrap() {
            assert!(["get", "post"].contains(&method.as_str()), "{path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}: two of one name");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("200"), "{path}");
            for (status, response) in responses {
                assert!(
                    status.parse::<u16>().is_ok_and(|status| (200..600).contains(&status)),
                    "{path} {status}"
                );
                assert!(
                    response["description"].as_str().is_some_and(|words| !words.is_empty()),
                    "{path} {status}"
                );
                assert!(
                    response["content"].as_object().is_some_and(|content| !content.is_empty()),
                    "{path} {status}"
                );
            }
            assert!(!operation["summary"].as_str().unwrap().is_empty(), "{path}");
        }
        // Every name in braces has a path parameter, and vice versa.
        let named = path.contains("{modelId}");
        let parameters = ["post", "get"].map(|method| methods[method]["parameters"].to_string()).concat();
        assert_eq!(named, parameters.contains("\"#/components/parameters/ModelId\""), "{path}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_left_over() {
    let document = document();
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    let references: BTreeSet<&str> = references.into_iter().filter_map(Value::as_str).collect();
    assert!(references.len() > 20);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for section in ["parameters", "headers", "schemas"] {
        for name in document["components"][section].as_object().unwrap().keys() {
            // Defined inline where it is used, because its values differ by status.
            let is_used = references.contains(format!("#/components/{section}/{name}").as_str());
            assert!(is_used || name == "x-amzn-errortype", "{section}/{name} is used by nobody");
        }
    }
}

/// The documented path of an operation, or `None`. The match is exhaustive, so a new operation must be added here.
fn path_of(endpoint: &CallerEndpoint) -> Option<String> {
    let path = match endpoint {
        CallerEndpoint::ModelRequest(ApiOperation { dialect, url }) => {
            let own = || dialect.path("{modelId}", url.stream).replace("%7BmodelId%7D", "{modelId}");
            return Some(dialect.operation_path(url.operation).map_or_else(own, str::to_owned));
        }
        CallerEndpoint::Chat => "/chat",
        CallerEndpoint::Models => "/v1/models",
        CallerEndpoint::Model(_) => "/v1/models/{modelId}",
        CallerEndpoint::CountTokens => "/v1/messages/count_tokens",
        CallerEndpoint::BedrockCountTokens(_) => "/model/{modelId}/count-tokens",
        CallerEndpoint::GeminiCountTokens(_) => "/v1beta/models/{modelId}:countTokens",
        CallerEndpoint::Liveness => "/livez",
        CallerEndpoint::Readiness => "/readyz",
        CallerEndpoint::Metrics => "/metrics",
        CallerEndpoint::OpenApi => "/openapi.json",
        CallerEndpoint::Invalid { .. } => return None,
    };
    Some(path.to_owned())
}

#[test]
fn every_path_of_the_table_is_served_and_every_path_that_is_served_is_in_the_table() {
    for operation in PATHS {
        let method: Method = operation.method.to_uppercase().parse().unwrap();
        let endpoint = CallerEndpoint::route(&method, &operation.path.replace("{modelId}", "manga"));
        assert_eq!(path_of(&endpoint).as_deref(), Some(operation.path));
    }
    let paths: BTreeSet<&str> = PATHS.iter().map(|operation| operation.path).collect();
    assert_eq!((paths.len(), PATHS.len()), (21, 21));
    for (dialect, stream) in
        DialectId::ALL.into_iter().flat_map(|dialect| [(dialect, false), (dialect, true)])
    {
        let path = dialect.path("{modelId}", stream).replace("%7BmodelId%7D", "{modelId}");
        assert!(paths.contains(path.as_str()), "{path}");
    }
}

fn metadata() -> ReplyMetadata {
    let limit = LimitId { group: GroupId::from_index(0), quota: 0 };
    ReplyMetadata {
        tier: Some(Tier::Prime),
        rung: Some(Rung::StrongModel),
        target: Some("sonnet".into()),
        attempts: 2,
        max_tokens: Some(4_096),
        cost: Some(Money::from_nanos(1_234_567_890)),
        is_cost_unknown: false,
        overhead: Some(Duration::from_micros(1_042)),
        level: Some(Level::HighLoad),
        reported_limit: Some((LimitView { limit, capacity: 70, remaining: 69 }, "minute".into())),
        policy: Some("\"minute\";q=70;w=60, \"hour\";q=500;w=3600".into()),
        retry_after: None,
        failed_targets: None,
    }
}

fn rejections() -> Vec<Rejection> {
    let wait = Duration::from_millis(1_500);
    let mut all = vec![
        Rejection::Malformed("x: is missing".to_owned()),
        Rejection::TooLarge("message: is too long".to_owned()),
        Rejection::ChatNotConfigured,
        Rejection::Unauthenticated { message: "no key".to_owned(), cause: "key_malformed" },
        Rejection::UnknownCaller,
        Rejection::Revoked,
        Rejection::Expired,
        Rejection::Forbidden,
        Rejection::UnknownModel("novel".to_owned()),
        Rejection::TooLargeForLimit(LimitDescription::unknown("minute").into()),
        Rejection::Blocked { rule: "deny_list.1".into() },
        Rejection::Conflict(IdempotencyConflict::InProgress),
        Rejection::Conflict(IdempotencyConflict::Completed),
        Rejection::Conflict(IdempotencyConflict::OutcomeUnknown),
        Rejection::Conflict(IdempotencyConflict::KeyReused),
        Rejection::BudgetExhausted {
            budget: BudgetScope::Day,
            remaining: Money::ZERO,
            resets: UtcTime::from_nanos(0),
        },
        Rejection::ExceedsRemainingBudget {
            budget: BudgetScope::Day,
            remaining: Money::from_dollars(1),
            max_tokens: 7,
        },
        Rejection::ExceedsDailyBudget { max_cost: Money::from_dollars(7) },
        Rejection::UntrackedInput("no window".to_owned()),
        Rejection::SwitchedOff,
        Rejection::Unavailable { retry_after: Some(wait), should_retry: true, cause: "breaker_open" },
        Rejection::Unavailable { retry_after: Some(wait), should_retry: false, cause: "breaker_open" },
        Rejection::ShuttingDown,
    ];
    for should_retry in [true, false] {
        let retry_after = RetryAfter { delay: wait, should_retry };
        all.push(Rejection::RateLimited { limit: LimitDescription::unknown("minute").into(), retry_after });
        all.push(Rejection::BudgetHeld { budget: BudgetScope::Day, retry_after });
    }
    for kind in FailureKind::ALL {
        let failure = Failure { retry_after: Some(wait), ..Failure::of(kind) };
        all.push(Rejection::UpstreamFailed { failure, message: None, attempts: 3 });
    }
    all
}

fn path_of_face(face: Face) -> &'static str {
    match face.name() {
        "anthropic" => "/v1/messages",
        "openai" => "/v1/chat/completions",
        "openai_responses" => "/v1/responses",
        "bedrock_invoke" => "/model/{modelId}/invoke",
        "bedrock_converse" => "/model/{modelId}/converse",
        "gemini" => "/v1beta/models/{modelId}:generateContent",
        "chat" => "/chat",
        other => panic!("{other:?}"),
    }
}

/// The names of the headers that the document lists for this response; empty if it has no such response.
fn documented(document: &Value, face: Face, status: u16) -> BTreeSet<String> {
    let response = &document["paths"][path_of_face(face)]["post"]["responses"][status.to_string()];
    assert!(response.is_object(), "{face:?} has no {status}");
    response["headers"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_header_and_status_that_a_face_can_send_is_in_the_document() {
    let document = document();
    for face in Face::ALL {
        let mut seen = BTreeSet::new();
        let whole = UnstreamedAnswer {
            usage: Default::default(),
            output_reported: true,
            finish: FinishReason::EndTurn,
            content: AnswerContent::Opaque(bytes::Bytes::from_static(b"{}")),
            headers: match face.name() {
                "bedrock_invoke" => seawall_wire::bedrock::usage_headers(
                    seawall_core::money::Usage {
                        input: 1,
                        cache_read: 2,
                        cache_write: 3,
                        output: 4,
                        ..seawall_core::money::Usage::NONE
                    },
                    Duration::from_millis(5),
                ),
                _ => Vec::new(),
            },
        };
        let contents =
            rejections().into_iter().map(ReplyContent::Rejected).chain([ReplyContent::Unstreamed(whole)]);
        for content in contents {
            let reply: Reply<TokioRuntime> = Reply { content, metadata: metadata() };
            let is_refused = matches!(reply.content, ReplyContent::Rejected(_));
            let is_limited = matches!(reply.content, ReplyContent::Rejected(Rejection::RateLimited { .. }));
            // A rejection has no rung, and no limit except the one that rejected it.
            let reply = if is_refused {
                let known = if is_limited { metadata() } else { ReplyMetadata::default() };
                let ReplyMetadata { reported_limit, policy, .. } = known;
                let retry_after = is_limited.then_some(Duration::from_secs(2));
                let (attempts, cost) = (3, Some(Money::ZERO));
                let metadata = ReplyMetadata {
                    attempts,
                    cost,
                    reported_limit,
                    policy,
                    retry_after,
                    ..ReplyMetadata::default()
                };
                Reply { metadata, ..reply }
            } else {
                reply
            };
            let response = match face.dialect() {
                Some(dialect) => respond(dialect, AcceptedForm::Any, reply, 255, None),
                None => respond_to_chat(chat_reply(reply), 255, || Language::English, None),
            };
            let known = documented(&document, face, response.status().as_u16());
            for name in response.headers().keys().filter(|name| *name != "content-type") {
                assert!(known.contains(name.as_str()), "{face:?} {}: {name}", response.status());
                seen.insert(name.to_string());
            }
            assert_eq!(response.headers()[request_id_header(face)], "req_00000000000000ff");
        }
        // Conversely, the document lists no header that is never sent, except a stream's own.
        let mut promised = BTreeSet::new();
        let responses = document["paths"][path_of_face(face)]["post"]["responses"].as_object().unwrap();
        for response in responses.values() {
            promised.extend(response["headers"].as_object().unwrap().keys().cloned());
        }
        promised.remove("x-amzn-bedrock-content-type");
        assert_eq!(seen, promised, "{face:?}");
    }
}

#[test]
fn values_of_headers_are_what_they_are_said_to_be() {
    let whole = UnstreamedAnswer {
        usage: Default::default(),
        output_reported: true,
        finish: FinishReason::EndTurn,
        content: AnswerContent::Opaque(bytes::Bytes::new()),
        headers: Vec::new(),
    };
    let reply: Reply<TokioRuntime> = Reply { content: ReplyContent::Unstreamed(whole), metadata: metadata() };
    let response = respond(DialectId::OPENAI_CHAT, AcceptedForm::Any, reply, 1, None);
    for (name, value) in [
        ("x-request-id", "req_0000000000000001"),
        ("x-seawall-rung", "strong_model"),
        ("x-seawall-target", "sonnet"),
        ("x-seawall-attempts", "2"),
        ("x-seawall-cost", "1.234567890"),
        ("x-seawall-overhead-ms", "1.042"),
        ("x-seawall-level", "2"),
        ("ratelimit", "\"minute\";r=69"),
        ("ratelimit-policy", "\"minute\";q=70;w=60, \"hour\";q=500;w=3600"),
    ] {
        assert_eq!(response.headers()[name], value, "{name}");
    }
}

#[test]
fn the_text_is_the_document() {
    assert_eq!(serde_json::from_str::<Value>(&openapi()).unwrap(), document());
    assert!(openapi().ends_with("}\n") && openapi().lines().count() > 100);
}

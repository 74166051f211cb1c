use super::strategies::{read, write};
use crate::ApiErrorKind;
use crate::chat::{ChatEvent, StreamEvent, Usage};
use crate::dialect::DialectId;
use crate::responses::{OpenAiErrorBody, ResponsesStream, write_error_event};
use crate::sse::SseLimits;
use bytes::BytesMut;
use seawall_core::failure::{Failure, FailureKind};
use serde_json::{Value, json};

fn data_of(event: &[u8]) -> Value {
    let text = str::from_utf8(event).unwrap();
    let data = text.strip_prefix("event: response.failed\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn the_event_has_the_error_where_each_client_looks_for_it() {
    for (kind, code, error_type) in [
        (ApiErrorKind::Overloaded, "server_overloaded", "server_error"),
        (ApiErrorKind::Internal, "server_error", "server_error"),
        (ApiErrorKind::BudgetExhausted, "insufficient_quota", "insufficient_quota"),
        (ApiErrorKind::Malformed, "invalid_prompt", "invalid_request_error"),
        (ApiErrorKind::ContextLength, "context_length_exceeded", "invalid_request_error"),
    ] {
        let mut out = BytesMut::new();
        write_error_event(&mut out, &OpenAiErrorBody::new(kind, "混雑"));
        let event = data_of(&out);
        let error = json!({"code": code, "message": "混雑", "param": null, "type": error_type});
        assert_eq!((&event["error"], &event["response"]["error"]), (&error, &error), "{kind:?}");
        assert_eq!(
            (&event["type"], &event["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
    }
}

#[test]
fn an_interrupted_stream_ends_under_its_own_id() {
    let started = ChatEvent::Started { id: "resp_1".into(), model: "m".into(), usage: Usage::default() };
    let bytes = write(&[started, ChatEvent::Text("a".into())]);
    let mut stream = ResponsesStream::new(SseLimits::default());
    stream.feed(&bytes, |_| ()).unwrap();
    let mut out = BytesMut::new();
    stream.write_error_event(&mut out, &OpenAiErrorBody::new(ApiErrorKind::TimedOut, "late"));
    let event = data_of(&out);
    assert_eq!((&event["sequence_number"], &event["response"]["id"]), (&json!(5), &json!("resp_1")));
    assert_eq!(event["response"]["output"][0]["content"][0]["text"], json!("a"));
    let mut last = None;
    stream.feed(&out, |event| last = Some(event)).unwrap();
    let Some(StreamEvent::Failed { failure, message }) = last else { panic!("{last:?}") };
    assert_eq!((failure.kind, message.as_str()), (FailureKind::TimedOut, "late"));
    assert!(!stream.is_complete());
}

#[test]
fn a_failure_is_classified_again_after_it_was_written() {
    for kind in FailureKind::ALL {
        let started = ChatEvent::Started { id: "r".into(), model: "m".into(), usage: Usage::default() };
        let failed = ChatEvent::Failed { failure: Failure::of(kind), message: "why".into() };
        let (events, outcome, is_over) = read([&write(&[started, failed])[..]]);
        assert!(outcome.is_ok() && is_over);
        let expected = match kind {
            kind @ (FailureKind::Throttled | FailureKind::TooLong) => kind,
            FailureKind::TimedOut | FailureKind::StartTimeout => FailureKind::TimedOut,
            // The vendor has one code for a prompt that it does not accept.
            FailureKind::BadRequest | FailureKind::Filtered => FailureKind::Filtered,
            FailureKind::ServerFault
            | FailureKind::ModelFault
            | FailureKind::Unrecognised
            | FailureKind::Unauthorized
            | FailureKind::NotFound => FailureKind::ServerFault,
            _ => FailureKind::Overloaded,
        };
        let message =
            DialectId::OPENAI_CHAT.client_message(ApiErrorKind::of_failure(kind), "why").into_owned();
        let failure = Failure { not_executed: false, ..Failure::of(expected) };
        assert_eq!(events.last(), Some(&ChatEvent::Failed { failure, message }), "{kind:?}");
    }
}

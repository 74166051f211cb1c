//! Tests of replies, events and errors.

use crate::chat::FinishReason;
use crate::chat_face::{
    ChatErrorResponse, ChatFinish, ChatInterruption, ChatReply, ChatReplyEvent, InterruptReason, confidence,
    error_code,
};
use crate::{ApiErrorKind, RetryAdvice};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FailureKind;
use seawall_core::money::{Money, Usage};
use seawall_core::vocabulary::Rung;
use serde_json::{Value, json};
use std::time::Duration;

fn reply() -> ChatReply {
    ChatReply {
        answer: "はい、\n\"あります\"。".to_owned(),
        rung: Rung::FastModel,
        reasons: vec!["level=fast".to_owned(), "cost=fast".to_owned()],
        request_id: "r-1".to_owned(),
        session: Some("s".to_owned()),
        usage: Usage { input: 10, cache_read: 3, cache_write: 2, output: 7, ..Usage::default() },
        cost: Money::from_nanos(1_000_000_042),
        target: Some("haiku".to_owned()),
        finish: ChatFinish::Finished,
        retry_after: Some(Duration::from_millis(2_001)),
    }
}

/// The server-sent events of a reply that is already complete.
fn events(reply: ChatReply) -> Bytes {
    written(&reply.into_events())
}

fn written(events: &[ChatReplyEvent]) -> Bytes {
    let mut out = BytesMut::new();
    events.iter().for_each(|event| event.write_sse(&mut out));
    out.freeze()
}

fn done_event() -> Bytes {
    written(&[ChatReplyEvent::Done(Box::new(reply()))])
}

fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_reply_says_all_about_its_answer() {
    let mut expected = json!({
        "answer": "はい、\n\"あります\"。", "rung": "fast_model", "confidence": 0.7, "degraded": true,
        "reasons": ["level=fast", "cost=fast"], "stale": false, "request_id": "r-1", "session": "s",
        "usage": {"input": 15, "output": 7}, "cost": "1.000000042", "target": "haiku", "finish": "finished",
        "retry_after": 3,
    });
    assert_eq!(read(&reply().body()), expected);
    expected.as_object_mut().unwrap().remove("answer");
    let done = done_event();
    let data = done.strip_prefix(b"event: done\ndata: ").unwrap().strip_suffix(b"\n\n").unwrap();
    assert_eq!(read(data), expected);
    let bare = ChatReply { session: None, target: None, retry_after: None, reasons: Vec::new(), ..reply() };
    let body = read(&bare.body());
    for absent in ["session", "target", "retry_after"] {
        assert_eq!(body.get(absent), None);
    }
    assert_eq!(body["reasons"], json!([]));
}

#[test]
fn an_answer_that_is_there_at_once_is_one_text_and_its_end() {
    let text = written(&[ChatReplyEvent::Text(reply().answer)]);
    assert_eq!(events(reply()), [&text[..], &done_event()].concat());
    assert_eq!(&text[..], "event: text\ndata: {\"text\":\"はい、\\n\\\"あります\\\"。\"}\n\n".as_bytes());
    let silent = ChatReply { answer: String::new(), ..reply() };
    assert_eq!(events(silent), done_event());
}

#[test]
fn confidence_and_degradation_follow_from_the_rung() {
    for (rung, sure, degraded, stale) in [
        (Rung::Template, 0.3, true, false),
        (Rung::FreshCache, 0.5, true, false),
        (Rung::StrongModel, 1.0, false, false),
        (Rung::FastModel, 0.7, true, false),
        (Rung::StaleCache, 0.4, true, true),
        (Rung::Faq, 0.3, true, false),
        (Rung::Apology, 0.1, true, false),
    ] {
        let body = read(&ChatReply { rung, ..reply() }.body());
        assert_eq!((&body["rung"], &body["confidence"]), (&json!(rung.name()), &json!(sure)));
        assert_eq!((&body["degraded"], &body["stale"]), (&json!(degraded), &json!(stale)), "{rung}");
        assert_eq!(confidence(rung).to_string(), format!("{sure}"));
    }
}

#[test]
fn money_is_reported_to_the_nano_dollar() {
    for (nanos, expected) in [
        (0, "0.000000000"),
        (1, "0.000000001"),
        (999_999_999, "0.999999999"),
        (1_000_000_000, "1.000000000"),
        (u64::MAX, "18446744073.709551615"),
    ] {
        assert_eq!(read(&ChatReply { cost: Money::from_nanos(nanos), ..reply() }.body())["cost"], expected);
    }
}

#[test]
fn every_finish_reason_has_a_name() {
    for (finish, word) in [
        (FinishReason::EndTurn, "finished"),
        (FinishReason::StopSequence, "finished"),
        (FinishReason::ToolUse, "finished"),
        (FinishReason::Other, "finished"),
        (FinishReason::MaxTokens, "length"),
        (FinishReason::ContextWindowExceeded, "length"),
        (FinishReason::PauseTurn, "length"),
        (FinishReason::Refusal, "refused"),
    ] {
        assert_eq!(read(&ChatReply { finish: ChatFinish::of(finish), ..reply() }.body())["finish"], word);
    }
    assert_eq!(ChatFinish::Blocked.name(), "blocked");
}

#[test]
fn an_interruption_has_a_reason_the_delivered_length_and_a_retry_after() {
    let reasons = FailureKind::ALL.map(|kind| (kind, InterruptReason::of_failure(kind).name()));
    for (kind, reason) in reasons {
        let expected = match kind {
            FailureKind::Filtered => "blocked",
            FailureKind::TimedOut | FailureKind::StartTimeout => "timed_out",
            FailureKind::Throttled
            | FailureKind::Overloaded
            | FailureKind::QuotaExhausted
            | FailureKind::NotReady => "overloaded",
            _ => "stream_interrupted",
        };
        assert_eq!(reason, expected, "{kind:?}");
    }
    for (wait, seconds) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2)] {
        let wait = Some(Duration::from_millis(wait));
        let reason = InterruptReason::Blocked;
        let interruption =
            ChatInterruption { reason, message: "いいえ", delivered: 42, retry_after: wait };
        let event = written(&[ChatReplyEvent::Interrupted(interruption)]);
        let data = event.strip_prefix(b"event: interrupted\ndata: ").unwrap();
        let expected =
            json!({"reason": "blocked", "message": "いいえ", "delivered": 42, "retry_after": seconds});
        assert_eq!(read(data), expected);
    }
}

#[test]
fn a_refusal_has_its_status_its_code_and_its_message() {
    for (error_kind, status, code) in [
        (ApiErrorKind::Malformed, 400, "INVALID_REQUEST"),
        (ApiErrorKind::Unauthenticated, 401, "UNAUTHENTICATED"),
        (ApiErrorKind::Forbidden, 403, "FORBIDDEN"),
        (ApiErrorKind::NotFound, 404, "NOT_FOUND"),
        (ApiErrorKind::TooLarge, 413, "INPUT_TOO_LARGE"),
        (ApiErrorKind::Conflict, 409, "CONFLICT"),
        (ApiErrorKind::OutcomeUnknown, 409, "OUTCOME_UNKNOWN"),
        (ApiErrorKind::Throttled, 429, "RATE_LIMITED"),
        (ApiErrorKind::BudgetExhausted, 429, "BUDGET_EXHAUSTED"),
        (ApiErrorKind::SwitchedOff, 503, "SWITCHED_OFF"),
        (ApiErrorKind::Overloaded, 503, "OVERLOADED"),
        (ApiErrorKind::TimedOut, 504, "TIMED_OUT"),
        (ApiErrorKind::Internal, 500, "INTERNAL"),
    ] {
        let advice = RetryAdvice { wait: Some(Duration::from_millis(1_200)), should_retry: Some(false) };
        let (detail, limit, request_id) = (Some("message: \"x\""), Some("per minute"), "r-1");
        let message = "いいえ";
        let full = ChatErrorResponse { error_kind, message, detail, limit, request_id, advice };
        let reply = full.reply();
        let body = json!({"code": code, "message": message, "detail": "message: \"x\"",
            "limit": "per minute", "request_id": "r-1", "retry_after": 2, "should_retry": false});
        assert_eq!((reply.status, read(&reply.body), error_code(error_kind)), (status, body, code));
        let headers: Vec<String> =
            reply.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let expected = [
            "content-type: application/json",
            "x-request-id: r-1",
            "retry-after: 2",
            "retry-after-ms: 1200",
            "x-should-retry: false",
        ];
        assert_eq!(headers, expected);
        let bare = ChatErrorResponse { detail: None, limit: None, advice: RetryAdvice::default(), ..full };
        let body = read(&bare.reply().body);
        assert_eq!((body.as_object().unwrap().len(), bare.reply().headers.len()), (3, 2));
    }
}

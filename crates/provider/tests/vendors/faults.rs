//! Every fault of the simulated model, in every dialect, over both protocols.

use crate::support::{ask, beside, options, over_http2, refusal, target};
use seawall_core::failure::{FailureKind, FaultOrigin};
use seawall_model::engine::{Fault, Pace};
use seawall_provider::ClientOptions;
use seawall_wire::dialect::DialectId;
use std::net::SocketAddr;
use std::time::Duration;

type Ways = [fn(SocketAddr) -> ClientOptions; 2];
const WAYS: Ways = [options, over_http2];

fn every_way(faults: &[Fault], check: impl AsyncFn(DialectId, ClientOptions)) {
    beside(Pace::Instant, faults.to_vec(), async |address, _| {
        for dialect in DialectId::ALL {
            for way in WAYS {
                check(dialect, way(address)).await;
            }
        }
    });
}

#[test]
fn answers_arrive_whole_and_in_pieces() {
    every_way(&[], async |dialect, options| {
        let target = target(dialect, options);
        assert_eq!(target.dialect(), dialect);
        let (whole, end) = ask(target.as_ref(), false).await.unwrap();
        assert!(end.is_ok());
        let whole: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        let usage = if dialect == DialectId::GEMINI { "usageMetadata" } else { "usage" };
        assert!(whole[usage].is_object(), "{whole}");
        let (pieces, end) = ask(target.as_ref(), true).await.unwrap();
        assert!(end.is_ok());
        let text = String::from_utf8_lossy(&pieces);
        let last = match dialect.name() {
            "anthropic" => "event: message_stop",
            // The usage was requested, although the caller did not ask for it.
            "openai" => "\"total_tokens\"",
            "openai_responses" => "event: response.incomplete",
            "bedrock_invoke" => "chunk",
            "bedrock_converse" => "metadata",
            "gemini" => "\"finishReason\":\"MAX_TOKENS\"",
            other => panic!("{other:?}"),
        };
        assert!(text.contains(last), "{dialect:?}: {text}");
    });
}

#[test]
fn a_refusal_is_read_as_the_vendor_means_it() {
    for (status, kind, is_proof) in [
        (400, FailureKind::BadRequest, true),
        (401, FailureKind::Unauthorized, true),
        (404, FailureKind::NotFound, true),
        (429, FailureKind::Throttled, true),
        (500, FailureKind::ServerFault, false),
        (503, FailureKind::Overloaded, false),
    ] {
        let retry_after = (status == 429).then_some(Duration::from_secs(7));
        every_way(&[Fault::Status { status, retry_after, error: None }], async |dialect, options| {
            for stream in [false, true] {
                // The error code that comes with it attributes the fault to the vendor.
                let has_other_name = ["anthropic", "openai", "openai_responses"].contains(&dialect.name());
                let is_named = status == 503 && has_other_name;
                let kind = if is_named { FailureKind::ServerFault } else { kind };
                let failure = refusal(target(dialect, options.clone()).as_ref(), stream).await;
                assert_eq!(
                    (failure.kind, failure.not_executed, failure.retry_after),
                    (kind, is_proof, retry_after),
                    "{dialect:?} {status}"
                );
            }
        });
    }
}

#[test]
fn the_name_of_an_error_decides_before_its_status() {
    let fault =
        |status, name: &str| Fault::Status { status, retry_after: None, error: Some(name.to_owned()) };
    for (dialect, fault, kind) in [
        (DialectId::ANTHROPIC_MESSAGES, fault(400, "overloaded_error"), FailureKind::Overloaded),
        (DialectId::OPENAI_CHAT, fault(400, "server_overloaded"), FailureKind::Overloaded),
        (DialectId::BEDROCK_INVOKE, fault(400, "ServiceQuotaExceededException"), FailureKind::QuotaExhausted),
        (DialectId::BEDROCK_CONVERSE, fault(400, "ThrottlingException"), FailureKind::Throttled),
        (DialectId::GEMINI, fault(400, "UNAVAILABLE"), FailureKind::Overloaded),
    ] {
        beside(Pace::Instant, vec![fault], async |address, _| {
            for way in WAYS {
                let failure = refusal(target(dialect, way(address)).as_ref(), false).await;
                assert_eq!(failure.kind, kind, "{dialect:?}");
            }
        });
    }
}

#[test]
fn what_never_begins_is_given_up() {
    every_way(&[Fault::Hang { after: 0 }], async |dialect, options| {
        let failure = refusal(target(dialect, options).as_ref(), true).await;
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::StartTimeout, false), "{dialect:?}");
        assert_eq!(failure.origin, FaultOrigin::Gateway);
    });
}

#[test]
fn what_is_reset_before_it_begins_was_not_reached() {
    every_way(&[Fault::Reset], async |dialect, options| {
        let failure = refusal(target(dialect, options).as_ref(), true).await;
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unreachable, false), "{dialect:?}");
    });
}

#[test]
fn a_page_is_no_answer() {
    every_way(&[Fault::Html], async |dialect, options| {
        for stream in [false, true] {
            let failure = refusal(target(dialect, options.clone()).as_ref(), stream).await;
            assert_eq!(failure.kind, FailureKind::Unrecognised, "{dialect:?}");
        }
    });
}

#[test]
fn what_breaks_off_or_falls_silent_broke_in_the_middle() {
    let reset = Fault::Cut { after: Some(2), after_bytes: None, after_tokens: None, reset: true };
    for fault in [Fault::cut(2), reset, Fault::Hang { after: 2 }] {
        every_way(std::slice::from_ref(&fault), async |dialect, options| {
            let answered = ask(target(dialect, options).as_ref(), true).await;
            // A reset may overtake what was sent before it.
            let Ok((pieces, end)) = answered else {
                let failure = answered.unwrap_err();
                assert_eq!((failure.kind, fault.kind()), (FailureKind::Unreachable, "cut"), "{dialect:?}");
                return;
            };
            assert_eq!(end.unwrap_err().kind, FailureKind::StreamInterrupted, "{dialect:?} {fault:?}");
            assert!(!pieces.is_empty() || fault != Fault::Hang { after: 2 }, "{dialect:?} {fault:?}");
        });
    }
}

#[test]
fn a_whole_answer_that_breaks_off_broke_in_the_middle() {
    every_way(&[Fault::cut(1)], async |dialect, options| {
        let target = target(dialect, options);
        match ask(target.as_ref(), false).await {
            Err(failure) => assert_eq!(failure.kind, FailureKind::StreamInterrupted, "{dialect:?}"),
            Ok(answer) => panic!("{dialect:?} answered {answer:?}"),
        }
    });
}

#[test]
fn errors_inside_a_stream_are_forwarded() {
    for fault in [
        Fault::Malformed { after: 2 },
        Fault::Truncate { after: 2 },
        Fault::EndEarly { after: 2 },
        Fault::Error { after: 2 },
        Fault::Usage { percent: 0 },
    ] {
        every_way(&[fault], async |dialect, options| {
            let (pieces, end) = ask(target(dialect, options).as_ref(), true).await.unwrap();
            assert!(end.is_ok() && !pieces.is_empty(), "{dialect:?} {end:?}");
        });
    }
}

#[test]
fn a_stream_without_an_end_is_cut_where_its_limit_is() {
    every_way(&[Fault::Endless { every: Duration::from_micros(50) }], async |dialect, mut options| {
        options.limits.max_body_bytes = 20_000;
        let (pieces, end) = ask(target(dialect, options).as_ref(), true).await.unwrap();
        assert_eq!(end.unwrap_err().kind, FailureKind::Unrecognised, "{dialect:?}");
        assert!(pieces.len() <= 20_000, "{dialect:?} {}", pieces.len());
    });
}

#[test]
fn what_is_slow_but_comes_is_an_answer() {
    let slow = Duration::from_millis(60);
    let kinds = [
        Fault::Slow { by: slow },
        Fault::Latency { median: slow, p99: slow * 2 },
        Fault::Drip { every: Duration::from_millis(5) },
    ];
    for fault in kinds {
        every_way(&[fault], async |dialect, options| {
            let (pieces, end) = ask(target(dialect, options).as_ref(), true).await.unwrap();
            assert!(end.is_ok() && !pieces.is_empty(), "{dialect:?} {end:?}");
        });
    }
}

#[test]
fn more_than_it_takes_is_throttled() {
    let capacity = Fault::Capacity { in_flight: 0, retry_after: Some(Duration::from_secs(3)) };
    for fault in [capacity, Fault::Quota { per_minute: 0 }] {
        every_way(std::slice::from_ref(&fault), async |dialect, options| {
            let failure = refusal(target(dialect, options).as_ref(), true).await;
            assert_eq!(failure.kind, FailureKind::Throttled, "{dialect:?}");
            assert!(
                failure.not_executed && failure.retry_after.is_some() || matches!(fault, Fault::Quota { .. })
            );
        });
    }
}

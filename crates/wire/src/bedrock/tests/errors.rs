use super::{exception, written};
use crate::ApiErrorKind;
use crate::bedrock::{
    StreamKind, error_headers, error_name, error_status, final_error, read_error, read_error_message,
    write_error, write_failure_frame,
};
use seawall_core::failure::{BEDROCK, FailureKind, Retryability};
use std::time::Duration;

fn named(name: &'static str) -> impl Fn(&str) -> Option<&'static str> {
    move |header| (header == "x-amzn-errortype").then_some(name)
}

fn none(_: &str) -> Option<&'static str> {
    None
}

#[test]
fn the_header_decides_then_the_body_then_the_status() {
    for (status, name, body, expected) in [
        (429, Some("ThrottlingException"), r#"{"message":"slow down"}"#, FailureKind::Throttled),
        (429, Some("ModelNotReadyException:http://internal.amazon.com/coral/"), "{}", FailureKind::NotReady),
        (400, Some("ServiceQuotaExceededException"), "", FailureKind::QuotaExhausted),
        (400, Some("com.amazon#ValidationException"), "", FailureKind::BadRequest),
        (408, Some("ModelTimeoutException"), "", FailureKind::TimedOut),
        (424, Some("ModelErrorException"), "", FailureKind::ModelFault),
        (400, Some("BrandNewException"), r#"{"__type":"ThrottlingException"}"#, FailureKind::Throttled),
        (400, None, r#"{"__type":"com.amazon#AccessDeniedException"}"#, FailureKind::Unauthorized),
        (400, None, r#"{"code":"ThrottlingException"}"#, FailureKind::Throttled),
        (503, Some("BrandNewException"), r#"{"__type":7}"#, FailureKind::Overloaded),
        (500, None, "<html>busy</html>", FailureKind::ServerFault),
        (404, None, "", FailureKind::NotFound),
        (302, None, "[]", FailureKind::Unrecognised),
    ] {
        let header = |header: &str| name.filter(|_| header == "x-amzn-errortype");
        assert_eq!(read_error(status, header, body.as_bytes()).kind, expected, "{status} {name:?} {body}");
    }
}

#[test]
fn the_words_are_read_wherever_they_stand() {
    for (body, message) in [
        (r#"{"message":"one"}"#, "one"),
        (r#"{"Message":"two"}"#, "two"),
        (r#"{"Message":"two","message":"one"}"#, "one"),
        (r#"{"message":7}"#, ""),
        ("", ""),
        ("[]", ""),
    ] {
        assert_eq!(read_error_message(body.as_bytes()), message);
    }
}

#[test]
fn hints_are_plain_numbers_and_the_vendors_own_comes_first() {
    for (millis, seconds, expected) in [
        (Some("2500"), Some("9"), Some(2_500)),
        (Some("0"), None, Some(0)),
        (None, Some("3"), Some(3_000)),
        (Some("soon"), Some("3"), Some(3_000)),
        (Some("-1"), None, None),
        (None, Some("-3"), None),
        (None, Some("1e3"), None),
        (None, Some("inf"), None),
        (None, Some("."), None),
        (None, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (None, Some("99999999999999999999999999"), None),
    ] {
        let header = |name: &str| match name {
            "x-amz-retry-after" => millis,
            "retry-after" => seconds,
            _ => None,
        };
        let expected = expected.map(Duration::from_millis);
        assert_eq!(read_error(429, header, b"").retry_after, expected, "{millis:?} {seconds:?}");
    }
}

#[test]
fn every_error_kind_has_its_status_and_name() {
    let line = |error_kind: &ApiErrorKind| {
        let body = String::from_utf8(written(|out| write_error(out, "no"))).unwrap();
        format!("{} {} {body}\n", error_status(*error_kind), error_name(*error_kind))
    };
    let lines: String = ApiErrorKind::ALL.iter().map(line).collect();
    assert_eq!(lines, include_str!("../../../tests/golden/bedrock/errors.txt"));
}

#[test]
fn each_refusal_means_to_the_next_seawall_what_it_meant_to_us() {
    for error_kind in ApiErrorKind::ALL {
        let (status, name) = (error_status(error_kind), error_name(error_kind));
        assert!(BEDROCK.names().iter().any(|(known, _)| *known == name), "{name}");
        let failure = BEDROCK.classify(status, Some(name));
        let by_status = BEDROCK.classify(status, None);
        match error_kind {
            ApiErrorKind::BudgetExhausted => assert_eq!(failure.retryability, Retryability::OtherTarget),
            _ => assert_eq!(failure.kind, by_status.kind, "{error_kind:?}"),
        }
        assert_eq!(failure, read_error(status, named(name), &written(|out| write_error(out, "no"))));
    }
}

#[test]
fn what_a_wait_cannot_cure_is_not_tried_again_by_the_vendors_clients() {
    for error_kind in [
        ApiErrorKind::BudgetExhausted,
        ApiErrorKind::Malformed,
        ApiErrorKind::TooLarge,
        ApiErrorKind::TimedOut,
    ] {
        assert!(![429, 500, 502, 503, 504].contains(&error_status(error_kind)));
        assert!(!error_name(error_kind).contains("Throttl"));
    }
}

#[test]
fn a_final_refusal_has_the_services_exception_and_is_recognised_by_another_seawall() {
    for error_kind in ApiErrorKind::ALL {
        let (status, name) = final_error(error_kind);
        assert!(BEDROCK.names().iter().any(|(known, _)| *known == name), "{name}");
        if error_kind != ApiErrorKind::Internal {
            assert_eq!((status, name), (error_status(error_kind), error_name(error_kind)));
        }
    }
    assert_eq!(final_error(ApiErrorKind::Throttled), (429, "ThrottlingException"));
    assert_eq!(final_error(ApiErrorKind::BudgetExhausted), (400, "ServiceQuotaExceededException"));
    assert_eq!(final_error(ApiErrorKind::Overloaded), (503, "ServiceUnavailableException"));
    assert_eq!(final_error(ApiErrorKind::Internal), (424, "ModelErrorException"));
    assert_eq!(final_error(ApiErrorKind::NotFound), (404, "ResourceNotFoundException"));
}

#[test]
fn a_retry_delay_is_sent_only_if_it_helps_and_is_rounded_up() {
    let wait = Some(Duration::from_micros(2_500_001));
    let headers = error_headers(ApiErrorKind::Throttled, "r1", wait);
    let expected = [
        ("content-type", "application/json"),
        ("x-amzn-errortype", "ThrottlingException"),
        ("x-amzn-requestid", "r1"),
        ("x-amz-retry-after", "2501"),
        ("retry-after", "3"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
    for error_kind in ApiErrorKind::ALL {
        let can_help = matches!(
            error_kind,
            ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld | ApiErrorKind::Overloaded
        );
        assert_eq!(
            error_headers(error_kind, "r1", wait).len(),
            if can_help { 5 } else { 3 },
            "{error_kind:?}"
        );
        assert_eq!(error_headers(error_kind, "r1", None).len(), 3);
    }
    assert_eq!(read_error(429, none, b"").retry_after, None);
}

#[test]
fn a_failure_in_a_stream_is_one_that_the_stream_may_have() {
    let converse = [
        "internalServerException",
        "modelStreamErrorException",
        "validationException",
        "throttlingException",
        "serviceUnavailableException",
    ];
    for kind in FailureKind::ALL {
        for (stream, also) in
            [(StreamKind::Converse, None), (StreamKind::Invoke, Some("modelTimeoutException"))]
        {
            let bytes = written(|out| write_failure_frame(out, stream, kind, "no"));
            let may_have = converse.into_iter().chain(also);
            let found = may_have.filter(|name| exception(name, r#"{"message":"no"}"#) == bytes).count();
            assert_eq!(found, 1, "{kind:?}");
        }
    }
    for (stream, kind, name) in [
        (StreamKind::Invoke, FailureKind::TimedOut, "modelTimeoutException"),
        (StreamKind::Invoke, FailureKind::StartTimeout, "modelTimeoutException"),
        (StreamKind::Converse, FailureKind::TimedOut, "modelStreamErrorException"),
        (StreamKind::Converse, FailureKind::StreamInterrupted, "modelStreamErrorException"),
        (StreamKind::Converse, FailureKind::Throttled, "throttlingException"),
        (StreamKind::Converse, FailureKind::QuotaExhausted, "throttlingException"),
        (StreamKind::Converse, FailureKind::Unreachable, "serviceUnavailableException"),
        (StreamKind::Converse, FailureKind::ServerFault, "internalServerException"),
        (StreamKind::Converse, FailureKind::Filtered, "validationException"),
    ] {
        let bytes = written(|out| write_failure_frame(out, stream, kind, "no"));
        assert_eq!(bytes, exception(name, r#"{"message":"no"}"#), "{kind:?}");
    }
}

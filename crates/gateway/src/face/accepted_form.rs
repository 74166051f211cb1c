//! Rejections for callers that accept nothing but an event stream.
//!
//! A rejection is an HTTP error in the caller's dialect, because client libraries, frameworks and gateways classify errors
//! by their status. Coding agents that read the events themselves retry most statuses, whatever the headers advise; the
//! documented failure of a stream, with a code that they know as final, ends their request. So a rejection that must not be
//! retried is such a stream if two things hold: the caller says in `accept` that it takes nothing else, and its dialect
//! has such a stream. No caller is recognised by its name.

use super::error_response::{describe, reject_with_causes, to_response};
use super::explanation::explain;
use crate::body::ReplyBody;
use hyper::Response;
use hyper::header::{ACCEPT, HeaderMap};
use seawall_pipeline::{Rejection, format_request_id};
use seawall_wire::dialect::DialectId;

/// The forms of a response that a caller accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptedForm {
    /// A JSON body, among others.
    Any,
    /// Nothing but an event stream.
    EventsOnly,
}

impl AcceptedForm {
    /// Reads the header `accept`: every media range in it must be that of event streams.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(ACCEPT).iter().peekable();
        let is_events = |range: &[u8]| {
            let essence = range.split(|byte| *byte == b';').next().unwrap_or_default();
            essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
        };
        let is_given = values.peek().is_some();
        let is_only = values.all(|value| value.as_bytes().split(|byte| *byte == b',').all(is_events));
        if is_given && is_only { Self::EventsOnly } else { Self::Any }
    }
}

/// A rejection for a caller that accepts this form, with why each target did not answer.
pub(super) fn reject_in(
    form: AcceptedForm,
    dialect: DialectId,
    rejection: &Rejection,
    failed_targets: Option<&str>,
    id: u64,
) -> Response<ReplyBody> {
    if form == AcceptedForm::EventsOnly {
        let (error_kind, message, advice) = describe(rejection);
        let message = explain(rejection, message, failed_targets);
        let is_final = advice.should_retry == Some(false);
        let stream = || dialect.write_refused_stream(error_kind, &message, &format_request_id(id), advice);
        if let Some(reply) = is_final.then(stream).flatten() {
            return to_response(reply);
        }
    }
    reject_with_causes(dialect, rejection, failed_targets, id)
}

#[cfg(test)]
mod tests {
    use super::{AcceptedForm, reject_in};
    use crate::body::ReplyBody;
    use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::quota::RetryAfter;
    use seawall_pipeline::{LimitDescription, Rejection};
    use seawall_wire::dialect::DialectId;
    use serde_json::Value;
    use std::time::Duration;

    fn accepted(values: &[&'static str]) -> AcceptedForm {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        AcceptedForm::of(&headers)
    }

    #[test]
    fn only_a_caller_that_takes_nothing_else_gets_events() {
        for only in [
            &["text/event-stream"][..],
            &["Text/Event-Stream; q=1"],
            &["text/event-stream", "text/event-stream"],
        ] {
            assert_eq!(accepted(only), AcceptedForm::EventsOnly, "{only:?}");
        }
        for other in [
            &[][..],
            &[""],
            &["*/*"],
            &["application/json"],
            &["text/event-stream, application/json"],
            &["text/event-stream", "*/*"],
        ] {
            assert_eq!(accepted(other), AcceptedForm::Any, "{other:?}");
        }
    }

    /// The status, and the error of the failed response in it.
    fn refused(dialect: DialectId, form: AcceptedForm, rejection: &Rejection) -> (u16, Value) {
        let response = reject_in(form, dialect, rejection, None, 7);
        let status = response.status().as_u16();
        let ReplyBody::Full(Some(body)) = response.into_body() else { panic!("{rejection:?}") };
        let text = String::from_utf8(body.to_vec()).unwrap();
        let data = text.strip_prefix("event: response.failed\ndata: ").unwrap_or(&text);
        let mut body: Value = serde_json::from_str(data).unwrap();
        let error = if status == 200 { body["response"]["error"].take() } else { body["error"].take() };
        (status, error)
    }

    #[test]
    fn a_final_rejection_ends_the_stream_of_a_responses_client_and_no_other() {
        let failed =
            |kind| Rejection::UpstreamFailed { failure: Failure::of(kind), message: None, attempts: 2 };
        for (rejection, status, code) in [
            (failed(FailureKind::Unauthorized), 500, "server_is_overloaded"),
            (failed(FailureKind::Unreachable), 503, "server_is_overloaded"),
            (failed(FailureKind::TimedOut), 504, "server_is_overloaded"),
            (Rejection::SwitchedOff, 503, "server_is_overloaded"),
            (Rejection::Forbidden, 403, "invalid_prompt"),
            (Rejection::TooLarge("the body is too large".to_owned()), 413, "invalid_prompt"),
        ] {
            let (seen, error) = refused(DialectId::RESPONSES, AcceptedForm::EventsOnly, &rejection);
            assert_eq!((seen, &error["code"]), (200, &code.into()), "{rejection:?}");
            let (seen, plain) = refused(DialectId::RESPONSES, AcceptedForm::Any, &rejection);
            assert_eq!((seen, &plain["message"]), (status, &error["message"]), "{rejection:?}");
            let (seen, _) = refused(DialectId::OPENAI_CHAT, AcceptedForm::EventsOnly, &rejection);
            assert_eq!(seen, status, "{rejection:?}");
        }
    }

    #[test]
    fn a_rejection_that_a_client_acts_upon_keeps_its_status() {
        let limited = |should_retry| Rejection::RateLimited {
            limit: LimitDescription::unknown("minute").into(),
            retry_after: RetryAfter { delay: Duration::from_secs(30), should_retry },
        };
        for (rejection, status, error_type) in [
            (Rejection::UnknownCaller, 401, "invalid_request_error"),
            (Rejection::UnknownModel("novel".to_owned()), 404, "invalid_request_error"),
            (limited(true), 429, "rate_limit_error"),
            (limited(false), 429, "usage_limit_reached"),
            (Rejection::ShuttingDown, 503, "server_error"),
        ] {
            let (seen, error) = refused(DialectId::RESPONSES, AcceptedForm::EventsOnly, &rejection);
            assert_eq!((seen, &error["type"]), (status, &error_type.into()), "{rejection:?}");
        }
    }
}

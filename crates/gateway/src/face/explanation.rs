//! Rejections of requests that no target answered, with the cause of each target.

use super::error_response::describe;
use seawall_core::failure::FailureKind;
use seawall_pipeline::Rejection;
use seawall_wire::ApiErrorKind;
use std::time::Duration;

/// The message of a rejection, completed with why each target did not answer. A vendor's message about the caller's request
/// stays as it is: clients search its text.
pub(super) fn explain(rejection: &Rejection, message: String, failed_targets: Option<&str>) -> String {
    match (rejection, failed_targets) {
        (_, None) | (Rejection::UpstreamFailed { message: Some(_), .. }, _) => message,
        (Rejection::UpstreamFailed { message: None, .. }, Some(failed_targets)) => failed_targets.to_owned(),
        (_, Some(failed_targets)) => format!("{message}; {failed_targets}"),
    }
}

/// The message of a rejection as the caller receives it, and the wait before a retry, if one is advised.
pub(crate) fn describe_rejection(
    rejection: &Rejection,
    failed_targets: Option<&str>,
) -> (String, Option<Duration>) {
    let (_, message, advice) = describe(rejection);
    (explain(rejection, message, failed_targets), advice.wait)
}

/// A rejection as the end of a stream that has begun: the kind of failure that the caller is told, and the message.
pub(crate) fn error_in_stream(rejection: &Rejection, failed_targets: Option<&str>) -> (FailureKind, String) {
    let (error_kind, message, _) = describe(rejection);
    let kind = match rejection {
        Rejection::UpstreamFailed { failure, .. } => failure.kind,
        _ => failure_kind(error_kind),
    };
    (kind, explain(rejection, message, failed_targets))
}

/// The kind of failure whose error is the most similar one.
const fn failure_kind(error_kind: ApiErrorKind) -> FailureKind {
    match error_kind {
        ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld => FailureKind::Throttled,
        ApiErrorKind::TimedOut => FailureKind::TimedOut,
        ApiErrorKind::ContextLength => FailureKind::TooLong,
        ApiErrorKind::Overloaded | ApiErrorKind::SwitchedOff => FailureKind::Overloaded,
        ApiErrorKind::BudgetExhausted => FailureKind::QuotaExhausted,
        ApiErrorKind::Internal => FailureKind::ServerFault,
        ApiErrorKind::Malformed
        | ApiErrorKind::Unauthenticated
        | ApiErrorKind::Forbidden
        | ApiErrorKind::NotFound
        | ApiErrorKind::UnknownPath
        | ApiErrorKind::TooLarge
        | ApiErrorKind::Conflict
        | ApiErrorKind::OutcomeUnknown
        | ApiErrorKind::ExceedsRemainingBudget
        | ApiErrorKind::ExceedsDailyBudget => FailureKind::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use super::{error_in_stream, explain, failure_kind};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::quota::RetryAfterPolicy;
    use seawall_pipeline::Rejection;
    use seawall_wire::ApiErrorKind;

    const CAUSES: &str = "all targets failed: sonnet 401 (key rejected), haiku 529 (overloaded)";

    fn failed(message: Option<&str>) -> Rejection {
        let failure = Failure::of(FailureKind::Overloaded);
        Rejection::UpstreamFailed { failure, message: message.map(Into::into), attempts: 3 }
    }

    #[test]
    fn the_causes_replace_a_general_message_and_follow_a_specific_one() {
        let general = explain(&failed(None), "no model answered".to_owned(), Some(CAUSES));
        assert_eq!(general, CAUSES);
        let vendors = "prompt is too long: 9 tokens > 8 maximum";
        assert_eq!(explain(&failed(Some(vendors)), vendors.to_owned(), Some(CAUSES)), vendors);
        let unavailable = Rejection::unavailable(None, &RetryAfterPolicy::default(), "breaker_open");
        let message = "no model is available at the moment";
        assert_eq!(explain(&unavailable, message.to_owned(), None), message);
        let skipped = "no target could be called: sonnet skipped (circuit open)";
        assert_eq!(explain(&unavailable, message.to_owned(), Some(skipped)), format!("{message}; {skipped}"));
        assert_eq!(
            error_in_stream(&failed(None), Some(CAUSES)),
            (FailureKind::Overloaded, CAUSES.to_owned())
        );
    }

    #[test]
    fn an_error_in_a_stream_is_of_the_same_kind_where_its_dialect_has_one() {
        for error_kind in [
            ApiErrorKind::Malformed,
            ApiErrorKind::ContextLength,
            ApiErrorKind::Throttled,
            ApiErrorKind::Overloaded,
            ApiErrorKind::TimedOut,
            ApiErrorKind::Internal,
        ] {
            assert_eq!(ApiErrorKind::of_failure(failure_kind(error_kind)), error_kind);
        }
    }
}

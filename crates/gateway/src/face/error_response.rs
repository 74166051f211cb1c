//! Rejections in each dialect, with the retry advice that its client libraries read.

use super::explanation::explain;
use crate::body::ReplyBody;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use seawall_assistant::ChatText;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::strategy::Language;
use seawall_core::time::UtcTime;
use seawall_pipeline::dialect::{self, ErrorResponse, Face};
use seawall_pipeline::{
    BodyScope, BudgetScope, CALLER_DIRECTORY_UNAVAILABLE, ConcurrencyScope, DEFAULT_RETRY_AFTER,
    IdempotencyConflict, JOURNAL_UNAVAILABLE, Rejection, format_request_id,
};
use seawall_wire::chat_face::ChatErrorResponse;
use seawall_wire::dialect::{DialectId, VendorError};
use seawall_wire::{ApiErrorKind, RetryAdvice};
use std::time::Duration;

/// An error without retry advice. The request is neither logged nor counted, so its id appears in the response only.
pub(super) fn plain_error(
    face: Face,
    error_kind: ApiErrorKind,
    message: &str,
    id: u64,
) -> Response<ReplyBody> {
    to_response(dialect::render_error(
        face,
        error_kind,
        message,
        &format_request_id(id),
        RetryAdvice::default(),
    ))
}

/// The error for a method that a path does not have, as the vendor names it.
pub(super) fn wrong_method(face: Face, message: &str, id: u64) -> Response<ReplyBody> {
    let request_id = &*format_request_id(id);
    let Some(dialect) = face.dialect() else {
        return plain_error(face, ApiErrorKind::Malformed, message, id);
    };
    to_response(dialect.write_vendor_error(&VendorError { status: 405, name: None, message, request_id }))
}

pub(super) fn to_response(reply: ErrorResponse) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Full(Some(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in reply.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value))
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A rejection in a vendor's dialect.
pub(super) fn reject(dialect: DialectId, rejection: &Rejection, id: u64) -> Response<ReplyBody> {
    reject_with_causes(dialect, rejection, None, id)
}

/// The same, with why each target did not answer.
pub(super) fn reject_with_causes(
    dialect: DialectId,
    rejection: &Rejection,
    failed_targets: Option<&str>,
    id: u64,
) -> Response<ReplyBody> {
    let (error_kind, message, advice) = describe(rejection);
    let message = explain(rejection, message, failed_targets);
    let mut response = to_response(dialect.write_error(error_kind, &message, &format_request_id(id), advice));
    let own_error = || Some((dialect.not_ready_error()?, dialect.error_name_header()?));
    if let Some(((status, name), header)) = own_error().filter(|_| is_not_ready(rejection)) {
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        response.headers_mut().insert(header, HeaderValue::from_static(name));
    }
    response
}

/// A rejection of a message to the assistant. The text is for end users and in their language; the exact problem stands
/// beside it in English, for the developer of the caller's program.
pub(super) fn reject_chat(rejection: &Rejection, id: u64, language: Language) -> Response<ReplyBody> {
    let (error_kind, detail, advice) = describe(rejection);
    let limit = match rejection {
        Rejection::RateLimited { limit, .. } | Rejection::TooLargeForLimit(limit) => Some(&*limit.name),
        _ => None,
    };
    let chat = ChatErrorResponse {
        error_kind,
        message: ChatText::of_error(error_kind).in_language(language),
        detail: Some(&detail),
        limit,
        request_id: &format_request_id(id),
        advice,
    };
    to_response(chat.reply())
}

/// Whether the last target failed because its model is not ready, for which one vendor has an error of its own.
fn is_not_ready(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::UpstreamFailed { failure, .. } if failure.kind == FailureKind::NotReady)
}

/// Seconds, rounded up: never earlier than the limit has room again.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The kind, message and retry advice of a rejection.
pub(super) fn describe(rejection: &Rejection) -> (ApiErrorKind, String, RetryAdvice) {
    // Client libraries sleep for the whole `retry-after`, so a long wait is sent together with "do not retry".
    let after = |wait| RetryAdvice { wait, should_retry: None };
    let never = |wait| RetryAdvice { wait, should_retry: Some(false) };
    match rejection {
        Rejection::TooLarge(problem) => (ApiErrorKind::TooLarge, problem.clone(), never(None)),
        Rejection::BodyMemory(scope) => {
            let (error_kind, scope) = match scope {
                BodyScope::Caller => (ApiErrorKind::Throttled, "this caller"),
                BodyScope::Network => (ApiErrorKind::Throttled, "this network"),
                BodyScope::All => (ApiErrorKind::Overloaded, "all callers"),
            };
            let message = format!("memory limit for request bodies exceeded ({scope}); retry in 1 s");
            (error_kind, message, after(Some(DEFAULT_RETRY_AFTER)))
        }
        Rejection::ChatNotConfigured => (
            ApiErrorKind::NotFound,
            "the chat is not configured: no route serves the face chat".to_owned(),
            RetryAdvice::default(),
        ),
        Rejection::Malformed(problem) | Rejection::BodyTimeout(problem) => {
            (ApiErrorKind::Malformed, problem.clone(), RetryAdvice::default())
        }
        Rejection::Unauthenticated { message, .. } => {
            // Claude Code retries a 401 for minutes unless it is told not to.
            (ApiErrorKind::Unauthenticated, message.clone(), never(None))
        }
        Rejection::UnknownCaller => {
            (ApiErrorKind::Unauthenticated, "the credential is invalid".to_owned(), never(None))
        }
        Rejection::Expired => (
            ApiErrorKind::Unauthenticated,
            "the credential has expired; ask the operator for a new one".to_owned(),
            never(None),
        ),
        Rejection::Revoked => {
            (ApiErrorKind::Unauthenticated, "the credential has been revoked".to_owned(), never(None))
        }
        Rejection::Forbidden => {
            (ApiErrorKind::Forbidden, "the credential has no access to this model".to_owned(), never(None))
        }
        Rejection::UnknownModel(model) => (
            ApiErrorKind::NotFound,
            format!("the model {} does not exist or is not available on this endpoint", quote(model)),
            never(None),
        ),
        Rejection::TooLargeForLimit(limit) => {
            let message =
                format!("the request alone exceeds the rate limit: {limit}; send a smaller request");
            (ApiErrorKind::TooLarge, message, never(None))
        }
        Rejection::RateLimited { limit, retry_after } => {
            let seconds = whole_seconds(retry_after.delay);
            let message = format!("rate limit exceeded: {limit}; retry in {seconds} s");
            let advice = if retry_after.should_retry { after } else { never };
            (ApiErrorKind::Throttled, message, advice(Some(retry_after.delay)))
        }
        Rejection::Conflict(IdempotencyConflict::InProgress) => {
            let message = "a request with this idempotency-key is in progress; retry in 1 s".to_owned();
            (ApiErrorKind::Conflict, message, after(Some(DEFAULT_RETRY_AFTER)))
        }
        Rejection::Conflict(IdempotencyConflict::Completed) => (
            ApiErrorKind::Conflict,
            "a request with this idempotency-key has already been answered".to_owned(),
            never(None),
        ),
        Rejection::Conflict(IdempotencyConflict::OutcomeUnknown) => {
            let message = "a request with this idempotency-key was in progress when the gateway stopped, and may have been \
                         answered and billed; to send it again, use a new idempotency-key"
                .to_owned();
            (ApiErrorKind::OutcomeUnknown, message, never(None))
        }
        Rejection::Conflict(IdempotencyConflict::KeyReused) => {
            let message =
                "this idempotency-key was used for a different request; use a new key for each request"
                    .to_owned();
            (ApiErrorKind::Conflict, message, never(None))
        }
        Rejection::BudgetExhausted { budget, remaining, resets } => {
            let message = if *remaining == Money::ZERO {
                format!("{budget} exhausted; it resets at {}", format_minute(*resets))
            } else {
                format!(
                    "{} does not cover this request with any max_tokens; it resets at {}",
                    remainder(budget, *remaining),
                    format_minute(*resets)
                )
            };
            (ApiErrorKind::BudgetExhausted, message, never(None))
        }
        Rejection::BudgetHeld { budget, retry_after } => {
            let seconds = whole_seconds(retry_after.delay);
            let message =
                format!("the rest of the {budget} is reserved by requests in progress; retry in {seconds} s");
            let advice = if retry_after.should_retry { after } else { never };
            (ApiErrorKind::BudgetHeld, message, advice(Some(retry_after.delay)))
        }
        Rejection::ExceedsRemainingBudget { budget, remaining, max_tokens } => {
            let message = format!(
                "the request may cost more than {}; set max_tokens to at most {max_tokens}",
                remainder(budget, *remaining)
            );
            (ApiErrorKind::ExceedsRemainingBudget, message, never(None))
        }
        Rejection::ExceedsDailyBudget { max_cost } => {
            let message = format!(
                "the request may cost up to {max_cost}, more than the whole daily budget; reduce max_tokens or shorten the input"
            );
            (ApiErrorKind::ExceedsDailyBudget, message, never(None))
        }
        Rejection::UntrackedInput(message) => (ApiErrorKind::Malformed, message.clone(), never(None)),
        Rejection::Blocked { rule } => {
            let message = format!("the request contains text that the guardrail denies ({rule})");
            (ApiErrorKind::Malformed, message, never(None))
        }
        Rejection::SwitchedOff => {
            (ApiErrorKind::SwitchedOff, "an operator has switched off all models".to_owned(), never(None))
        }
        Rejection::CallerSuspended => {
            let message = "the access of this credential to models is suspended".to_owned();
            (ApiErrorKind::SwitchedOff, message, never(None))
        }
        Rejection::Unavailable { retry_after, should_retry, cause } => {
            // If the time is unknown, a retry shortly afterwards costs little.
            let wait = retry_after.unwrap_or(DEFAULT_RETRY_AFTER);
            let advice = if *should_retry { after } else { never };
            let message = match *cause {
                CALLER_DIRECTORY_UNAVAILABLE => "the credential cannot be checked at the moment; retry later",
                JOURNAL_UNAVAILABLE => {
                    "the gateway cannot write its journal, so no model is called at the moment; retry later"
                }
                _ => "no model is available at the moment",
            };
            (ApiErrorKind::Overloaded, message.to_owned(), advice(Some(wait)))
        }
        Rejection::Concurrency { scope, retry_after } => {
            let scope = match scope {
                ConcurrencyScope::Caller => "this caller",
                ConcurrencyScope::Network => "this network",
                ConcurrencyScope::Guests => "all guests",
            };
            let wait = retry_after.unwrap_or(DEFAULT_RETRY_AFTER).max(DEFAULT_RETRY_AFTER);
            let message = format!("concurrency limit exceeded ({scope}); retry in {} s", whole_seconds(wait));
            (ApiErrorKind::Throttled, message, after(Some(wait)))
        }
        Rejection::UpstreamFailed { failure, message: Some(message), .. } => {
            (ApiErrorKind::of_failure(failure.kind), message.to_string(), advice_after_exhaustion(failure))
        }
        Rejection::UpstreamFailed { failure, message: None, attempts } => {
            let plural = if *attempts == 1 { "" } else { "s" };
            let message =
                format!("no model answered after {attempts} attempt{plural}: {}", failure.kind.label());
            (ApiErrorKind::of_failure(failure.kind), message, advice_after_exhaustion(failure))
        }
        Rejection::Internal => {
            (ApiErrorKind::Internal, "internal error of the gateway".to_owned(), never(None))
        }
        Rejection::ShuttingDown => {
            let message = "the gateway is shutting down; retry in 1 s".to_owned();
            (ApiErrorKind::Overloaded, message, after(Some(DEFAULT_RETRY_AFTER)))
        }
    }
}

/// Retry advice after our own attempts are exhausted. A client that retries would multiply them, unless the provider
/// has named the time from which it answers again.
fn advice_after_exhaustion(failure: &Failure) -> RetryAdvice {
    let should_retry = failure.honoured_retry_after().is_none().then_some(false);
    RetryAdvice { wait: failure.retry_after, should_retry }
}

/// A point in time, to the minute: budgets renew at midnight.
fn format_minute(at: UtcTime) -> String {
    let (year, month, day) = at.civil();
    let minutes = at.as_nanos() / 60_000_000_000 % 1_440;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// User input made safe to display: shortened, and without control characters.
fn quote(text: &str) -> String {
    let shown: String = text.chars().take(100).filter(|character| !character.is_control()).collect();
    format!("\"{shown}\"")
}

/// What remains of a budget, as the subject of a sentence.
fn remainder(budget: &BudgetScope, remaining: Money) -> String {
    match budget {
        BudgetScope::Day => format!("the remaining daily budget ({remaining})"),
        BudgetScope::Window { .. } => format!("what remains of the {budget}, {remaining},"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ReplyBody, Response, describe, plain_error, reject};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::money::Money;
    use seawall_core::quota::{Quota, QuotaUnit, RetryAfter, RetryAfterPolicy};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Tier;
    use seawall_pipeline::dialect::Face;
    use seawall_pipeline::{
        BodyScope, BudgetScope, CALLER_DIRECTORY_UNAVAILABLE, ConcurrencyScope, DEFAULT_RETRY_AFTER,
        IdempotencyConflict, JOURNAL_UNAVAILABLE, LimitDescription, LimitScope, Rejection,
    };
    use seawall_wire::ApiErrorKind;
    use std::time::Duration;

    #[test]
    fn unknown_paths_and_unready_models_have_bedrock_error_names() {
        for (face, named) in [(Face::BEDROCK_INVOKE, true), (Face::ANTHROPIC_MESSAGES, false)] {
            let name = |response: &Response<ReplyBody>| {
                let name = response.headers().get("x-amzn-errortype");
                name.map(|name| name.to_str().unwrap().to_owned())
            };
            let response = plain_error(face, ApiErrorKind::UnknownPath, "nothing", 1);
            assert_eq!(response.status(), 404);
            assert_eq!(name(&response).as_deref(), named.then_some("UnknownOperationException"));
            let failure = Failure::of(FailureKind::NotReady);
            let exhausted = Rejection::UpstreamFailed { failure, message: None, attempts: 1 };
            let response = reject(face.dialect().unwrap(), &exhausted, 1);
            assert_eq!(name(&response).as_deref(), named.then_some("ModelNotReadyException"));
            assert_eq!(response.status(), if named { 429 } else { 529 });
        }
    }

    #[test]
    fn exhausted_attempts_are_counted_in_the_message_and_not_retried() {
        for (attempts, expected) in
            [(1, "after 1 attempt: unreachable"), (2, "after 2 attempts: unreachable")]
        {
            let failure = Failure::of(FailureKind::Unreachable);
            let (error_kind, message, advice) =
                describe(&Rejection::UpstreamFailed { failure, message: None, attempts });
            assert_eq!((error_kind, advice.should_retry), (ApiErrorKind::Overloaded, Some(false)));
            assert_eq!(message, format!("no model answered {expected}"));
        }
    }

    #[test]
    fn a_rate_limit_rejection_names_the_limit_its_scope_and_the_wait() {
        let quota = Quota::sliding("minute", QuotaUnit::Request, 30, Duration::from_secs(60), 0).unwrap();
        let limit = LimitDescription::new(&quota, LimitScope::Caller(Tier::Standard)).into();
        let retry_after = RetryAfter { delay: Duration::from_millis(11_200), should_retry: true };
        let (error_kind, message, advice) = describe(&Rejection::RateLimited { limit, retry_after });
        assert_eq!((error_kind, advice.should_retry), (ApiErrorKind::Throttled, None));
        assert_eq!(
            message,
            "rate limit exceeded: 30 requests per minute (per caller, tier standard); retry in 12 s"
        );
    }

    #[test]
    fn an_unavailable_model_always_has_a_retry_after() {
        let known = Duration::from_millis(2_500);
        for (retry_after, wait) in [(Some(known), known), (None, DEFAULT_RETRY_AFTER)] {
            let (_, _, advice) =
                describe(&Rejection::unavailable(retry_after, &RetryAfterPolicy::default(), "busy"));
            assert_eq!((advice.wait, advice.should_retry), (Some(wait), None));
        }
    }

    #[test]
    fn an_unavailable_directory_or_journal_is_not_reported_as_an_unavailable_model() {
        for (cause, expected) in [
            ("busy", "no model is available at the moment"),
            (CALLER_DIRECTORY_UNAVAILABLE, "the credential cannot be checked at the moment; retry later"),
            (
                JOURNAL_UNAVAILABLE,
                "the gateway cannot write its journal, so no model is called at the moment; retry later",
            ),
        ] {
            let (error_kind, message, _) =
                describe(&Rejection::unavailable(None, &RetryAfterPolicy::default(), cause));
            assert_eq!((error_kind, message.as_str()), (ApiErrorKind::Overloaded, expected));
        }
    }

    #[test]
    fn a_short_wait_named_by_the_provider_is_retryable() {
        let exhausted = |kind, wait| {
            let failure = Failure::of(kind).with_retry_after(Duration::from_secs(wait));
            describe(&Rejection::UpstreamFailed { failure, message: None, attempts: 4 }).2
        };
        for kind in [FailureKind::Throttled, FailureKind::Overloaded] {
            for (wait, should_retry) in [(2, None), (30, None), (31, Some(false))] {
                let advice = exhausted(kind, wait);
                assert_eq!(
                    (advice.wait, advice.should_retry),
                    (Some(Duration::from_secs(wait)), should_retry)
                );
            }
        }
        assert_eq!(exhausted(FailureKind::ServerFault, 2).should_retry, Some(false));
    }

    #[test]
    fn a_breaker_that_stays_open_advises_against_retries() {
        let wait = Duration::from_secs(5);
        for (is_short, advised) in [(true, None), (false, Some(false))] {
            let open = Rejection::Unavailable {
                retry_after: Some(wait),
                should_retry: is_short,
                cause: "breaker_open",
            };
            let (_, _, advice) = describe(&open);
            assert_eq!((advice.wait, advice.should_retry), (Some(wait), advised));
        }
    }

    #[test]
    fn a_request_above_the_daily_budget_names_max_tokens_and_is_not_retried() {
        let max_cost = Money::from_dollars(7);
        let (error_kind, message, advice) = describe(&Rejection::ExceedsDailyBudget { max_cost });
        assert_eq!((error_kind, advice.should_retry), (ApiErrorKind::ExceedsDailyBudget, Some(false)));
        assert!(message.contains("$7") && message.contains("max_tokens"), "{message}");
    }

    fn spent(remaining: Money) -> Rejection {
        Rejection::BudgetExhausted {
            budget: BudgetScope::Day,
            remaining,
            resets: UtcTime::from_civil(2026, 11, 17),
        }
    }

    #[test]
    fn an_exhausted_a_held_and_a_small_budget_are_three_rejections() {
        let (error_kind, message, advice) = describe(&spent(Money::ZERO));
        assert_eq!(
            (error_kind, advice.wait, advice.should_retry),
            (ApiErrorKind::BudgetExhausted, None, Some(false))
        );
        assert_eq!(message, "daily budget exhausted; it resets at 2026-11-17 00:00 UTC");
        let (_, message, _) = describe(&spent(Money::from_dollars(1)));
        assert!(message.contains("($1.00)") && message.ends_with("2026-11-17 00:00 UTC"), "{message}");
        let after = Duration::from_secs(3);
        for (is_short, advised) in [(true, None), (false, Some(false))] {
            let (error_kind, message, advice) = describe(&Rejection::BudgetHeld {
                budget: BudgetScope::Day,
                retry_after: RetryAfter { delay: after, should_retry: is_short },
            });
            assert_eq!(
                (error_kind, advice.wait, advice.should_retry),
                (ApiErrorKind::BudgetHeld, Some(after), advised)
            );
            assert!(message.contains("reserved") && !message.contains("exhausted"), "{message}");
        }
        let remaining = Money::from_nanos(810_000_000);
        let (error_kind, message, advice) = describe(&Rejection::ExceedsRemainingBudget {
            budget: BudgetScope::Day,
            remaining,
            max_tokens: 42,
        });
        assert_eq!((error_kind, advice.should_retry), (ApiErrorKind::ExceedsRemainingBudget, Some(false)));
        assert!(message.contains("$0.81") && message.contains("max_tokens to at most 42"), "{message}");
    }

    #[test]
    fn every_rejection_without_caller_fault_has_retry_advice() {
        let failure = Failure::of(FailureKind::TimedOut);
        for rejection in [
            Rejection::BodyMemory(BodyScope::Caller),
            Rejection::BodyMemory(BodyScope::All),
            Rejection::Conflict(IdempotencyConflict::InProgress),
            Rejection::Conflict(IdempotencyConflict::Completed),
            Rejection::Conflict(IdempotencyConflict::OutcomeUnknown),
            spent(Money::ZERO),
            Rejection::ExceedsRemainingBudget {
                budget: BudgetScope::Day,
                remaining: Money::ZERO,
                max_tokens: 1,
            },
            Rejection::ExceedsDailyBudget { max_cost: Money::ZERO },
            Rejection::SwitchedOff,
            Rejection::CallerSuspended,
            Rejection::Internal,
            Rejection::unavailable(None, &RetryAfterPolicy::default(), "busy"),
            Rejection::Concurrency { scope: ConcurrencyScope::Caller, retry_after: None },
            Rejection::UpstreamFailed { failure, message: None, attempts: 1 },
            Rejection::ShuttingDown,
        ] {
            let (_, _, advice) = describe(&rejection);
            assert!(advice.wait.is_some() || advice.should_retry == Some(false), "{rejection:?}");
        }
    }
}

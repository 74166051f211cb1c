//! Rejections in each dialect, with the retry advice that its client libraries read.

use crate::body::ReplyBody;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::Money;
use seawall_core::strategy::Language;
use seawall_core::time::UtcTime;
use seawall_pipeline::chat::ChatRefusal;
use seawall_pipeline::speech::{self, Face, RefusalReply};
use seawall_pipeline::{BodyScope, ConcurrencyScope, Conflict, Rejection, SOON, request_name};
use seawall_wire::bedrock::{NOT_READY, UNKNOWN_OPERATION};
use seawall_wire::{Dialect, Refusal, RetryAdvice};
use std::time::Duration;

/// A rejection without retry advice.
pub(super) fn refuse(face: Face, refusal: Refusal, words: &str, id: u64) -> Response<ReplyBody> {
    written(speech::refusal(face, refusal, words, &request_name(id), RetryAdvice::default()))
}

/// The rejection of an unknown path. One vendor's clients distinguish it from an unknown model.
pub(super) fn refuse_path(face: Face, words: &str, id: u64) -> Response<ReplyBody> {
    let mut response = refuse(face, Refusal::NotFound, words, id);
    if face.vendor() == Some(Dialect::Bedrock) {
        let name = HeaderValue::from_static(UNKNOWN_OPERATION);
        response.headers_mut().insert("x-amzn-errortype", name);
    }
    response
}

fn written(reply: RefusalReply) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(reply.body)));
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

/// A rejection by the path, in the caller's dialect. On our own face the message is for end users and in their
/// language; the exact problem stands beside it in English, for the developer of the caller's program.
pub(super) fn reject(face: Face, rejection: &Rejection, id: u64, language: Language) -> Response<ReplyBody> {
    let (refusal, words, advice) = told(rejection);
    let id = request_name(id);
    if face != Face::Chat {
        let mut response = written(speech::refusal(face, refusal, &words, &id, advice));
        if face.vendor() == Some(Dialect::Bedrock) && is_not_ready(rejection) {
            let (status, name) = NOT_READY;
            *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
            response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(name));
        }
        return response;
    }
    let limit = match rejection {
        Rejection::Limited { limit, .. } | Rejection::TooLargeForLimit(limit) => Some(&*limit.name),
        _ => None,
    };
    let chat = ChatRefusal { refusal, language, detail: Some(&words), limit, request_id: &id, advice };
    written(chat.reply())
}

/// Whether the last target failed because its model is not ready, for which one vendor has an error of its own.
fn is_not_ready(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Exhausted { failure, .. } if failure.kind == FailureKind::NotReady)
}

/// Seconds, rounded up: never earlier than the limit has room again.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn told(rejection: &Rejection) -> (Refusal, String, RetryAdvice) {
    // Client libraries sleep for the whole `retry-after`, so a long wait is sent together with "do not retry".
    let after = |wait| RetryAdvice { wait, should_retry: None };
    let never = |wait| RetryAdvice { wait, should_retry: Some(false) };
    match rejection {
        Rejection::TooLarge(problem) => (Refusal::TooLarge, problem.clone(), RetryAdvice::default()),
        Rejection::BodyMemory(scope) => {
            let (refusal, whose) = match scope {
                BodyScope::Caller => (Refusal::Throttled, "of this caller are in memory"),
                BodyScope::Address => (Refusal::Throttled, "from this address are in memory"),
                BodyScope::All => (Refusal::Overloaded, "are in memory"),
            };
            let words = format!("too many bytes of requests {whose}; retry in 1 s");
            (refusal, words, after(Some(SOON)))
        }
        Rejection::NoChat => (Refusal::NotFound, "nobody chats here".to_owned(), RetryAdvice::default()),
        Rejection::Malformed(problem) => (Refusal::Malformed, problem.clone(), RetryAdvice::default()),
        Rejection::Unauthenticated { told, .. } => {
            (Refusal::Unauthenticated, told.clone(), RetryAdvice::default())
        }
        Rejection::UnknownCaller => {
            (Refusal::Unauthenticated, "the credentials are not valid".to_owned(), RetryAdvice::default())
        }
        Rejection::Revoked => {
            (Refusal::Unauthenticated, "the credentials were taken back".to_owned(), RetryAdvice::default())
        }
        Rejection::Forbidden => {
            (Refusal::Forbidden, "this key may not use this model".to_owned(), RetryAdvice::default())
        }
        Rejection::UnknownModel(model) => {
            (Refusal::NotFound, format!("no route is named {}", quoted(model)), RetryAdvice::default())
        }
        Rejection::TooLargeForLimit(limit) => {
            let words = format!("this request alone needs more than the rate limit admits: {limit}");
            (Refusal::TooLarge, words, never(None))
        }
        Rejection::Limited { limit, come_back } => {
            let seconds = whole_seconds(come_back.after);
            let words = format!("rate limit exceeded: {limit}; retry in {seconds} s");
            let advice = if come_back.worth_waiting { after } else { never };
            (Refusal::Throttled, words, advice(Some(come_back.after)))
        }
        Rejection::Conflict(Conflict::InProgress) => {
            let words = "a request of this name is being answered".to_owned();
            (Refusal::Conflict, words, after(Some(SOON)))
        }
        Rejection::Conflict(Conflict::Done) => {
            (Refusal::Conflict, "a request of this name has been answered".to_owned(), never(None))
        }
        Rejection::Conflict(Conflict::OutcomeUnknown) => {
            let words = "a request of this name was under way when the gateway ended, and may have been answered and \
                         billed; use another idempotency-key to send it again"
                .to_owned();
            (Refusal::OutcomeUnknown, words, never(None))
        }
        Rejection::Conflict(Conflict::OtherRequest) => {
            let words = "another request has this name: give each its own idempotency-key".to_owned();
            (Refusal::Conflict, words, never(None))
        }
        Rejection::BudgetSpent { left, resets } => {
            let words = if *left == Money::ZERO {
                format!("the daily budget is spent; it is renewed at {}", moment(*resets))
            } else {
                format!(
                    "the daily budget has {left} left, which does not pay for this request whatever its max_tokens; \
                     it is renewed at {}",
                    moment(*resets)
                )
            };
            (Refusal::OutOfBudget, words, never(None))
        }
        Rejection::BudgetHeld { come_back } => {
            let words =
                "the rest of the daily budget is held by calls under way; retry when they have settled"
                    .to_owned();
            let advice = if come_back.worth_waiting { after } else { never };
            (Refusal::BudgetHeld, words, advice(Some(come_back.after)))
        }
        Rejection::ExceedsRemainingBudget { left, max_tokens } => {
            let words = format!(
                "this request may cost more than the {left} left of the daily budget; \
                 with max_tokens of at most {max_tokens} it fits"
            );
            (Refusal::ExceedsBudget, words, never(None))
        }
        Rejection::MoreThanADay { worst } => {
            let words = format!(
                "this request alone may cost {worst}, more than a whole day's budget; \
                 lower its max_tokens or shorten it"
            );
            (Refusal::TooLarge, words, never(None))
        }
        Rejection::UntrackedInput(message) => (Refusal::Malformed, message.clone(), never(None)),
        Rejection::Blocked { rule } => {
            let words = format!("a text of this request is blocked by the guardrail ({rule})");
            (Refusal::Malformed, words, never(None))
        }
        Rejection::SwitchedOff => {
            (Refusal::SwitchedOff, "an operator has switched models off".to_owned(), never(None))
        }
        Rejection::Unavailable { retry_after, worth_waiting, .. } => {
            // If the time is unknown, a retry shortly afterwards costs little.
            let wait = retry_after.unwrap_or(SOON);
            let advice = if *worth_waiting { after } else { never };
            (Refusal::Overloaded, "no model can answer at the moment".to_owned(), advice(Some(wait)))
        }
        Rejection::Concurrency { scope, retry_after } => {
            let whose = match scope {
                ConcurrencyScope::Caller => "requests of this caller",
                ConcurrencyScope::Address => "requests from this address",
                ConcurrencyScope::Guests => "requests without a key",
            };
            let wait = retry_after.unwrap_or(SOON).max(SOON);
            let words = format!("too many {whose} are in flight; retry when some have ended");
            (Refusal::Throttled, words, after(Some(wait)))
        }
        Rejection::Exhausted { failure, words: Some(words), .. } => {
            (Refusal::of_failure(failure.kind), words.to_string(), exhausted(failure))
        }
        Rejection::Exhausted { failure, words: None, attempts } => {
            let plural = if *attempts == 1 { "" } else { "s" };
            let words = format!("no model answered in {attempts} attempt{plural}: {}", failure.kind.label());
            (Refusal::of_failure(failure.kind), words, exhausted(failure))
        }
        Rejection::Stopping => {
            let words = "the gateway is being restarted".to_owned();
            (Refusal::Overloaded, words, after(Some(SOON)))
        }
    }
}

/// Retry advice after our own attempts are exhausted. A client that retries would multiply them, unless the provider
/// has named the time from which it answers again.
fn exhausted(failure: &Failure) -> RetryAdvice {
    let should_retry = failure.hold().is_none().then_some(false);
    RetryAdvice { wait: failure.retry_after, should_retry }
}

/// A point in time, to the minute: budgets renew at midnight.
fn moment(at: UtcTime) -> String {
    let (year, month, day) = at.civil();
    let minutes = at.as_nanos() / 60_000_000_000 % 1_440;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// User input made safe to display: shortened, and without control characters.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(100).filter(|character| !character.is_control()).collect();
    format!("\"{shown}\"")
}

#[cfg(test)]
mod tests {
    use super::{ReplyBody, Response, refuse_path, reject, told};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::money::Money;
    use seawall_core::quota::{ComeBack, ComeBackRule, Quota, Unit};
    use seawall_core::strategy::Language;
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Tier;
    use seawall_pipeline::speech::Face;
    use seawall_pipeline::{BodyScope, ConcurrencyScope, Conflict, LimitName, LimitScope, Rejection, SOON};
    use seawall_wire::Refusal;
    use std::time::Duration;

    #[test]
    fn a_path_that_leads_nowhere_and_a_model_that_is_not_ready_have_names_at_bedrock() {
        for (face, named) in [(Face::BedrockInvoke, true), (Face::AnthropicMessages, false)] {
            let name = |response: &Response<ReplyBody>| {
                let name = response.headers().get("x-amzn-errortype");
                name.map(|name| name.to_str().unwrap().to_owned())
            };
            let response = refuse_path(face, "nothing", 1);
            assert_eq!(response.status(), 404);
            assert_eq!(name(&response).as_deref(), named.then_some("UnknownOperationException"));
            let failure = Failure::of(FailureKind::NotReady);
            let exhausted = Rejection::Exhausted { failure, words: None, attempts: 1 };
            let response = reject(face, &exhausted, 1, Language::English);
            assert_eq!(name(&response).as_deref(), named.then_some("ModelNotReadyException"));
            assert_eq!(response.status(), if named { 429 } else { 529 });
        }
    }

    #[test]
    fn who_was_tried_for_in_vain_is_told_how_often_and_not_to_come_back() {
        for (attempts, words) in [(1, "in 1 attempt: unreachable"), (2, "in 2 attempts: unreachable")] {
            let failure = Failure::of(FailureKind::Unreachable);
            let (refusal, told, advice) = told(&Rejection::Exhausted { failure, words: None, attempts });
            assert_eq!((refusal, advice.should_retry), (Refusal::Overloaded, Some(false)));
            assert_eq!(told, format!("no model answered {words}"));
        }
    }

    #[test]
    fn a_refusal_by_a_limit_names_the_limit_whom_it_counts_and_the_wait() {
        let quota = Quota::sliding("minute", Unit::Request, 30, Duration::from_secs(60), 0).unwrap();
        let limit = LimitName::new(&quota, LimitScope::Tier(Tier::Standard)).into();
        let come_back = ComeBack { after: Duration::from_millis(11_200), worth_waiting: true };
        let (refusal, words, advice) = told(&Rejection::Limited { limit, come_back });
        assert_eq!((refusal, advice.should_retry), (Refusal::Throttled, None));
        assert_eq!(words, "rate limit exceeded: 30 requests per minute (tier standard); retry in 12 s");
    }

    #[test]
    fn whom_no_model_can_answer_is_told_when_to_come_back_even_if_nobody_knows() {
        let known = Duration::from_millis(2_500);
        for (retry_after, wait) in [(Some(known), known), (None, SOON)] {
            let (_, _, advice) = told(&Rejection::unavailable(retry_after, &ComeBackRule::default(), "busy"));
            assert_eq!((advice.wait, advice.should_retry), (Some(wait), None));
        }
    }

    #[test]
    fn a_provider_that_names_a_short_wait_is_worth_coming_back_to() {
        let exhausted = |kind, wait| {
            let failure = Failure::of(kind).with_retry_after(Duration::from_secs(wait));
            told(&Rejection::Exhausted { failure, words: None, attempts: 4 }).2
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
    fn nobody_sleeps_through_a_breaker_that_stays_open() {
        let wait = Duration::from_secs(5);
        for (worth_waiting, should_retry) in [(true, None), (false, Some(false))] {
            let open =
                Rejection::Unavailable { retry_after: Some(wait), worth_waiting, cause: "breaker_open" };
            let (_, _, advice) = told(&open);
            assert_eq!((advice.wait, advice.should_retry), (Some(wait), should_retry));
        }
    }

    #[test]
    fn whose_request_no_day_can_pay_for_is_told_what_to_lower_and_not_to_come_back() {
        let worst = Money::from_dollars(7);
        let (refusal, words, advice) = told(&Rejection::MoreThanADay { worst });
        assert_eq!((refusal, advice.should_retry), (Refusal::TooLarge, Some(false)));
        assert!(words.contains("$7") && words.contains("max_tokens"), "{words}");
    }

    fn spent(left: Money) -> Rejection {
        Rejection::BudgetSpent { left, resets: UtcTime::from_civil(2026, 11, 17) }
    }

    #[test]
    fn a_spent_a_held_and_a_small_budget_are_three_refusals() {
        let (refusal, words, advice) = told(&spent(Money::ZERO));
        assert_eq!((refusal, advice.wait, advice.should_retry), (Refusal::OutOfBudget, None, Some(false)));
        assert_eq!(words, "the daily budget is spent; it is renewed at 2026-11-17 00:00 UTC");
        let (_, words, _) = told(&spent(Money::from_dollars(1)));
        assert!(words.contains("$1.00 left") && words.ends_with("2026-11-17 00:00 UTC"), "{words}");
        let after = Duration::from_secs(3);
        for (worth_waiting, should_retry) in [(true, None), (false, Some(false))] {
            let (refusal, words, advice) =
                told(&Rejection::BudgetHeld { come_back: ComeBack { after, worth_waiting } });
            assert_eq!(
                (refusal, advice.wait, advice.should_retry),
                (Refusal::BudgetHeld, Some(after), should_retry)
            );
            assert!(words.contains("held") && !words.contains("spent"), "{words}");
        }
        let left = Money::from_nanos(810_000_000);
        let (refusal, words, advice) = told(&Rejection::ExceedsRemainingBudget { left, max_tokens: 42 });
        assert_eq!((refusal, advice.should_retry), (Refusal::ExceedsBudget, Some(false)));
        assert!(words.contains("$0.81") && words.contains("max_tokens of at most 42"), "{words}");
    }

    #[test]
    fn whoever_is_refused_for_no_fault_of_the_request_is_told_about_coming_back() {
        let failure = Failure::of(FailureKind::TimedOut);
        for rejection in [
            Rejection::BodyMemory(BodyScope::Caller),
            Rejection::BodyMemory(BodyScope::All),
            Rejection::Conflict(Conflict::InProgress),
            Rejection::Conflict(Conflict::Done),
            Rejection::Conflict(Conflict::OutcomeUnknown),
            spent(Money::ZERO),
            Rejection::ExceedsRemainingBudget { left: Money::ZERO, max_tokens: 1 },
            Rejection::MoreThanADay { worst: Money::ZERO },
            Rejection::SwitchedOff,
            Rejection::unavailable(None, &ComeBackRule::default(), "busy"),
            Rejection::Concurrency { scope: ConcurrencyScope::Caller, retry_after: None },
            Rejection::Exhausted { failure, words: None, attempts: 1 },
            Rejection::Stopping,
        ] {
            let (_, _, advice) = told(&rejection);
            assert!(advice.wait.is_some() || advice.should_retry == Some(false), "{rejection:?}");
        }
    }
}

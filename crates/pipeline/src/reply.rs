//! Replies and rejections.

use crate::callers::Caller;
use crate::dialect::UnstreamedAnswer;
use crate::limit_description::LimitDescription;
use crate::relay::ReplyStream;
use crate::shortage::BudgetShortage;
use seawall_core::budget::{BudgetName, BudgetOwner};
use seawall_core::failure::Failure;
use seawall_core::in_flight::SlotRefusal;
use seawall_core::money::Money;
use seawall_core::quota::{LimitView, RetryAfter, RetryAfterPolicy};
use seawall_core::random::Draw;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Level, Rung, Tier};
use seawall_wire::reply::{ReplyEncoder, ReplyEvent};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The Retry-After where no better estimate exists.
pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The cause of [`Rejection::Unavailable`] for a credential that could not be looked up in the caller directory.
pub const CALLER_DIRECTORY_UNAVAILABLE: &str = "caller_directory_unavailable";
/// The cause of [`Rejection::Unavailable`] while reservations cannot be written to the journal.
pub const JOURNAL_UNAVAILABLE: &str = "journal_unavailable";

/// Why a request was rejected, before any model was called or after all of them failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request is malformed; the message says where.
    Malformed(String),
    /// The body did not arrive within `server.body_timeout`; the message names the time.
    BodyTimeout(String),
    /// The request is too large; the message says which part.
    TooLarge(String),
    /// Other request bodies use up the memory allowed for the caller, its network or all callers.
    BodyMemory(BodyScope),
    /// No route serves the chat face.
    ChatNotConfigured,
    /// The request has no valid credential.
    Unauthenticated {
        /// The message for the caller.
        message: String,
        /// The reason in the log.
        cause: &'static str,
    },
    /// The credential is unknown.
    UnknownCaller,
    /// The credential was revoked.
    Revoked,
    /// The credential has expired.
    Expired,
    /// The caller may not use this route.
    Forbidden,
    /// No route has this name.
    UnknownModel(String),
    /// The request is larger than this limit can ever admit.
    TooLargeForLimit(Arc<LimitDescription>),
    /// A limit is exhausted.
    RateLimited {
        /// The limit that rejected the request.
        limit: Arc<LimitDescription>,
        /// When to retry.
        retry_after: RetryAfter,
    },
    /// The idempotency key is already in use.
    Conflict(IdempotencyConflict),
    /// A budget is spent: what remains does not pay for one output token.
    BudgetExhausted {
        /// The budget.
        budget: BudgetScope,
        /// The remaining amount.
        remaining: Money,
        /// When the budget resets.
        resets: UtcTime,
    },
    /// A budget is held by calls in progress and may be released when they settle.
    BudgetHeld {
        /// The budget.
        budget: BudgetScope,
        /// When to retry.
        retry_after: RetryAfter,
    },
    /// The remaining budget is smaller than what the request may cost.
    ExceedsRemainingBudget {
        /// The budget.
        budget: BudgetScope,
        /// The remaining amount.
        remaining: Money,
        /// The request would fit with at most this many output tokens.
        max_tokens: u64,
    },
    /// The request alone may cost more than the budget of a whole day.
    ExceedsDailyBudget {
        /// What it may cost.
        max_cost: Money,
    },
    /// The cost has no bound or no price, or a bound that exceeds every budget; the message says what and why.
    UntrackedInput(String),
    /// A guardrail blocked one of the request's texts.
    Blocked {
        /// The name of the rule; never the text that it matches.
        rule: Box<str>,
    },
    /// An operator has switched off models for all callers.
    SwitchedOff,
    /// An operator has suspended this caller's access to models.
    CallerSuspended,
    /// No target can be called now: every breaker is open, all concurrency slots are taken, or every target is
    /// throttled or suspended for cost overruns. Also while the caller directory cannot be asked about a credential, and
    /// while the journal cannot be written. `cause` says which.
    Unavailable {
        /// When a target may be tried again, if known.
        retry_after: Option<Duration>,
        /// Whether the wait is short enough for a client to retry by itself.
        should_retry: bool,
        /// The reason in the log.
        cause: &'static str,
    },
    /// This caller, its network or all guests have reached their limit of concurrent calls.
    Concurrency {
        /// Whose limit it is.
        scope: ConcurrencyScope,
        /// When to retry, if known.
        retry_after: Option<Duration>,
    },
    /// All attempts failed; this is how the last one did.
    UpstreamFailed {
        /// The failure of the last attempt.
        failure: Failure,
        /// The vendor's error message, if the caller can act on it.
        message: Option<Box<str>>,
        /// The number of attempts made.
        attempts: u32,
    },
    /// The gateway contradicts itself, which is a bug: for example, a request counts against a limit that does not exist.
    Internal,
    /// The gateway is shutting down.
    ShuttingDown,
}

/// The budget that a request does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetScope {
    /// A daily budget: of the caller, of its tier or of all callers.
    Day,
    /// A budget by calendar window.
    Window {
        /// The budget.
        name: BudgetName,
        /// Its cap.
        cap: Money,
        /// The name of the key, the team or the tier.
        owner: Box<str>,
    },
}

impl BudgetScope {
    fn of(window: Option<(BudgetName, Money)>, caller: &Caller) -> Self {
        let Some((name, cap)) = window else { return Self::Day };
        let contract = caller.contract.as_deref();
        let owner = match name.owner {
            BudgetOwner::Key => contract.map(|contract| &*contract.name),
            BudgetOwner::Team => contract.and_then(|contract| contract.labels.team.as_deref()),
            BudgetOwner::Tier => Some(caller.tier.name()),
        };
        Self::Window { name, cap, owner: owner.unwrap_or_default().into() }
    }
}

impl fmt::Display for BudgetScope {
    /// As it is named in a sentence: `budget of key "web" ($50.00 per month)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Day => formatter.write_str("daily budget"),
            Self::Window { name: BudgetName { owner: kind, period }, cap, owner } => {
                write!(formatter, "budget of {} {owner:?} ({cap} per {period})", kind.name())
            }
        }
    }
}

/// Whose request bodies use up the memory allowed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyScope {
    /// The caller's bodies.
    Caller,
    /// All bodies from the caller's network.
    Network,
    /// The bodies of all callers.
    All,
}

/// Whose share of a target's concurrency slots is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyScope {
    /// The caller's share.
    Caller,
    /// The share of guests from the caller's network.
    Network,
    /// The share of all guests.
    Guests,
}

/// Why an idempotency key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencyConflict {
    /// The same request is in progress.
    InProgress,
    /// The same request has completed.
    Completed,
    /// The same request was in progress when the gateway stopped; its outcome is unknown.
    OutcomeUnknown,
    /// A different request used this key.
    KeyReused,
}

impl Rejection {
    /// All labels of rejections in logs and metrics.
    pub const LABELS: [&'static str; 28] = [
        "malformed",
        "body_timeout",
        "too_large",
        "body_memory",
        "body_memory_share",
        "chat_not_configured",
        "unauthenticated",
        "unknown_caller",
        "revoked",
        "expired",
        "forbidden",
        "unknown_model",
        "too_large_for_limit",
        "rate_limited",
        "conflict",
        "budget_exhausted",
        "budget_held",
        "exceeds_remaining_budget",
        "exceeds_daily_budget",
        "untracked_input",
        "blocked",
        "switched_off",
        "caller_suspended",
        "unavailable",
        "concurrency",
        "upstream_failed",
        "internal",
        "shutting_down",
    ];

    /// No model is available before this wait is over, as far as known. Client libraries sleep for as long as
    /// Retry-After says, so the policy sets the longest wait for which they are asked to retry.
    #[must_use]
    pub fn unavailable(
        retry_after: Option<Duration>,
        policy: &RetryAfterPolicy,
        cause: &'static str,
    ) -> Self {
        let should_retry = retry_after.unwrap_or(DEFAULT_RETRY_AFTER) <= policy.no_retry_above;
        Self::Unavailable { retry_after, should_retry, cause }
    }

    /// The target has free slots, but none for this caller.
    #[must_use]
    pub const fn concurrency(share: SlotRefusal, retry_after: Option<Duration>) -> Self {
        let scope = match share {
            SlotRefusal::NetworkShare => ConcurrencyScope::Network,
            SlotRefusal::GuestShare => ConcurrencyScope::Guests,
            SlotRefusal::CallerShare | SlotRefusal::Reserved | SlotRefusal::Full => ConcurrencyScope::Caller,
        };
        Self::Concurrency { scope, retry_after }
    }

    /// A guest tried to use a face that requires a credential.
    #[must_use]
    pub fn needs_credential() -> Self {
        let message = "this endpoint needs a credential: send an API key or a bearer token";
        Self::Unauthenticated { message: message.to_owned(), cause: "guest_not_admitted" }
    }

    /// A budget does not cover the caller's request. The policy and the draw determine the Retry-After for money that is
    /// held.
    pub(crate) fn of_shortage(
        shortage: BudgetShortage,
        caller: &Caller,
        policy: &RetryAfterPolicy,
        draw: Draw,
    ) -> Self {
        match shortage {
            BudgetShortage::Exhausted { budget, remaining, resets } => {
                Self::BudgetExhausted { budget: BudgetScope::of(budget, caller), remaining, resets }
            }
            BudgetShortage::Held { budget, settles_in } => {
                let retry_after = policy.advise(settles_in, draw);
                Self::BudgetHeld { budget: BudgetScope::of(budget, caller), retry_after }
            }
            BudgetShortage::ExceedsRemainingBudget { budget, remaining, max_tokens } => {
                let budget = BudgetScope::of(budget, caller);
                Self::ExceedsRemainingBudget { budget, remaining, max_tokens }
            }
        }
    }

    /// The reason in the log, where it says more than the caller's message.
    #[must_use]
    pub const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Unauthenticated { cause, .. } | Self::Unavailable { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::BodyTimeout(_) => "body_timeout",
            Self::TooLarge(_) => "too_large",
            Self::BodyMemory(BodyScope::All) => "body_memory",
            Self::BodyMemory(BodyScope::Caller | BodyScope::Network) => "body_memory_share",
            Self::ChatNotConfigured => "chat_not_configured",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::UnknownCaller => "unknown_caller",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Forbidden => "forbidden",
            Self::UnknownModel(_) => "unknown_model",
            Self::TooLargeForLimit(_) => "too_large_for_limit",
            Self::RateLimited { .. } => "rate_limited",
            Self::Conflict(_) => "conflict",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::BudgetHeld { .. } => "budget_held",
            Self::ExceedsRemainingBudget { .. } => "exceeds_remaining_budget",
            Self::ExceedsDailyBudget { .. } => "exceeds_daily_budget",
            Self::UntrackedInput(_) => "untracked_input",
            Self::Blocked { .. } => "blocked",
            Self::SwitchedOff => "switched_off",
            Self::CallerSuspended => "caller_suspended",
            Self::Unavailable { .. } => "unavailable",
            Self::Concurrency { .. } => "concurrency",
            Self::UpstreamFailed { .. } => "upstream_failed",
            Self::Internal => "internal",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// How an answer was produced; faces report it in response headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyMetadata {
    /// The caller's tier, once known.
    pub tier: Option<Tier>,
    /// The rung that answered.
    pub rung: Option<Rung>,
    /// The target that answered.
    pub target: Option<Arc<str>>,
    /// Attempts made so far.
    pub attempts: u32,
    /// The cost; `None` while a stream is in progress.
    pub cost: Option<Money>,
    /// Whether the price of a model that was called is unknown.
    pub is_cost_unknown: bool,
    /// The output limit that the gateway added, because the request set none and the remaining budget is small.
    pub max_tokens: Option<u32>,
    /// Latency that the gateway added up to this point.
    pub overhead: Option<Duration>,
    /// The degradation level.
    pub level: Option<Level>,
    /// The limit in the `RateLimit` header, and its name: the one with the least remaining, or, after a rate limit
    /// rejected the request, the one with the longest wait.
    pub reported_limit: Option<(LimitView, Arc<str>)>,
    /// The value of the `RateLimit-Policy` header: the limits per caller of the caller's tier, or the limit of another
    /// scope that rejected the request.
    pub policy: Option<Arc<str>>,
    /// When to retry after a rate limit rejected the request: the wait until the limit has room, plus jitter.
    pub retry_after: Option<Duration>,
    /// Why each target did not answer, if none did and the rejection does not say so. It is part of the error message.
    pub failed_targets: Option<Arc<str>>,
}

/// The reply that a face encodes in its dialect.
pub struct Reply<R: crate::Runtime> {
    /// The answer or rejection.
    pub content: ReplyContent<R>,
    /// How it was produced.
    pub metadata: ReplyMetadata,
}

/// The outcome of a request.
pub enum ReplyContent<R: crate::Runtime> {
    /// A complete answer that is not streamed.
    Unstreamed(UnstreamedAnswer),
    /// A streamed answer.
    Stream(Box<ReplyStream<R>>),
    /// A streamed answer that is already complete, and its encoder.
    CompleteStream(Vec<ReplyEvent>, ReplyEncoder),
    /// The request was rejected.
    Rejected(Rejection),
}

#[cfg(test)]
mod tests {
    use super::{BodyScope, BudgetScope, DEFAULT_RETRY_AFTER, IdempotencyConflict, Rejection};
    use crate::limit_description::LimitDescription;
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::in_flight::SlotRefusal;
    use seawall_core::money::Money;
    use seawall_core::quota::{RetryAfter, RetryAfterPolicy};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    #[test]
    fn the_rule_sets_the_longest_wait_of_a_client() {
        let longest = Duration::from_millis(2_500);
        let moment = Duration::from_nanos(1);
        for (longest, retry_after, expected) in [
            (longest, Some(longest), true),
            (longest, Some(longest + moment), false),
            (longest, None, true),
            (DEFAULT_RETRY_AFTER, None, true),
            (DEFAULT_RETRY_AFTER - moment, None, false),
        ] {
            let policy = RetryAfterPolicy { no_retry_above: longest, ..RetryAfterPolicy::default() };
            let rejection = Rejection::unavailable(retry_after, &policy, "busy");
            assert_eq!(
                rejection,
                Rejection::Unavailable { retry_after, should_retry: expected, cause: "busy" }
            );
        }
    }

    #[test]
    fn the_list_of_labels_has_every_rejection_once() {
        let retry_after = RetryAfter { delay: Duration::from_secs(1), should_retry: true };
        let failure = Failure::of(FailureKind::Throttled);
        let all = [
            Rejection::Malformed(String::new()),
            Rejection::BodyTimeout(String::new()),
            Rejection::TooLarge(String::new()),
            Rejection::BodyMemory(BodyScope::All),
            Rejection::BodyMemory(BodyScope::Caller),
            Rejection::ChatNotConfigured,
            Rejection::Unauthenticated { message: String::new(), cause: "key_malformed" },
            Rejection::UnknownCaller,
            Rejection::Revoked,
            Rejection::Expired,
            Rejection::Forbidden,
            Rejection::UnknownModel(String::new()),
            Rejection::TooLargeForLimit(LimitDescription::unknown("minute").into()),
            Rejection::RateLimited { limit: LimitDescription::unknown("minute").into(), retry_after },
            Rejection::Conflict(IdempotencyConflict::Completed),
            Rejection::BudgetExhausted {
                budget: BudgetScope::Day,
                remaining: Money::ZERO,
                resets: UtcTime::start_of_day(1),
            },
            Rejection::BudgetHeld { budget: BudgetScope::Day, retry_after },
            Rejection::ExceedsRemainingBudget {
                budget: BudgetScope::Day,
                remaining: Money::ZERO,
                max_tokens: 1,
            },
            Rejection::ExceedsDailyBudget { max_cost: Money::ZERO },
            Rejection::UntrackedInput(String::new()),
            Rejection::Blocked { rule: "deny_list.1".into() },
            Rejection::SwitchedOff,
            Rejection::CallerSuspended,
            Rejection::Unavailable { retry_after: None, should_retry: true, cause: "busy" },
            Rejection::concurrency(SlotRefusal::CallerShare, None),
            Rejection::UpstreamFailed { failure, message: None, attempts: 1 },
            Rejection::Internal,
            Rejection::ShuttingDown,
        ];
        assert_eq!(all.each_ref().map(Rejection::label), Rejection::LABELS);
    }
}

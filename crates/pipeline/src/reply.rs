//! What goes back to the caller.

use crate::limit_name::LimitName;
use crate::relay::ReplyStream;
use crate::shortage::BudgetShortage;
use crate::speech::WholeAnswer;
use bytes::Bytes;
use seawall_core::chance::Draw;
use seawall_core::failure::Failure;
use seawall_core::in_flight::SlotRefusal;
use seawall_core::money::Money;
use seawall_core::quota::{ComeBack, ComeBackRule, LimitView};
use seawall_core::strategy::Language;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Level, Rung, Tier};
use std::sync::Arc;
use std::time::Duration;

/// When to come back where that is soon, and nobody knows it better.
pub const SOON: Duration = Duration::from_secs(1);

/// A refusal, before any model was asked or after all of them failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request is malformed; the words say where.
    Malformed(String),
    /// It is larger than may be; the words say what.
    TooLarge(String),
    /// Bodies of other requests take all the memory that its caller, its address or all together may have for them.
    BodyMemory(BodyScope),
    /// Nobody chats here: no route has this face.
    NoChat,
    /// It has not shown who it is.
    Unauthenticated {
        /// What the caller is told.
        told: String,
        /// What the log is told.
        cause: &'static str,
    },
    /// Nobody is known by the credential it showed.
    UnknownCaller,
    /// The credential was taken back.
    Revoked,
    /// The caller may not use this route.
    Forbidden,
    /// No route has this name.
    UnknownModel(String),
    /// It is larger than this limit ever lets through.
    TooLargeForLimit(Arc<LimitName>),
    /// A limit has no room.
    Limited {
        /// Which.
        limit: Arc<LimitName>,
        /// When to come back.
        come_back: ComeBack,
    },
    /// Another request has the name that its caller gave it.
    Conflict(Conflict),
    /// The day's money is spent: what is left does not pay for one token of an answer.
    BudgetSpent {
        /// What is left.
        left: Money,
        /// When there will be more.
        resets: UtcTime,
    },
    /// The day's money is held by calls under way, and may come back when they have settled.
    BudgetHeld {
        /// When to come back.
        come_back: ComeBack,
    },
    /// There is money, and the request may cost more than that.
    ExceedsRemainingBudget {
        /// What is left.
        left: Money,
        /// With so many tokens of output at most it would fit.
        max_tokens: u64,
    },
    /// It alone may cost more than a whole day has.
    MoreThanADay {
        /// What it may cost.
        worst: Money,
    },
    /// What it may cost has no bound or no price, or a bound that no budget holds; the message says what and why.
    UntrackedInput(String),
    /// A guardrail stands before one of its texts.
    Blocked {
        /// The rule, never the text that it looks for.
        rule: Box<str>,
    },
    /// An operator has switched models off.
    SwitchedOff,
    /// Every target's breaker is open or every place is taken.
    Unavailable {
        /// When a target may be tried again, where that is known.
        retry_after: Option<Duration>,
        /// Whether a client may sleep through that wait by itself.
        worth_waiting: bool,
    },
    /// So many calls of this caller, its address or all guests are under way that no more may be.
    Concurrency {
        /// Whose.
        scope: ConcurrencyScope,
        /// When to come back, where that is known.
        retry_after: Option<Duration>,
    },
    /// Targets were tried, and this is how the last one failed.
    Exhausted {
        /// How.
        failure: Failure,
        /// The vendor's own words, where the caller can do something about it.
        words: Option<Box<str>>,
        /// Attempts made.
        attempts: u32,
    },
    /// The gateway is about to end.
    Stopping,
}

/// Whose bodies take all the memory there is for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyScope {
    /// The caller's.
    Caller,
    /// Those from the caller's address.
    Address,
    /// Those of all callers together.
    All,
}

/// Whose calls have their share of a target's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyScope {
    /// The caller's.
    Caller,
    /// Those of guests from the caller's address.
    Address,
    /// Those of all guests.
    Guests,
}

/// How a name for a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The same request is being worked on.
    InProgress,
    /// The same request has been done.
    Done,
    /// The same request was being worked on when the gateway ended; nobody knows what became of it.
    OutcomeUnknown,
    /// Another request has this name.
    OtherRequest,
}

impl Rejection {
    /// Every word that a refusal has for logs and metrics.
    pub const LABELS: [&'static str; 24] = [
        "malformed",
        "too_large",
        "body_memory",
        "body_memory_share",
        "no_chat",
        "unauthenticated",
        "unknown_caller",
        "revoked",
        "forbidden",
        "unknown_model",
        "too_large_for_limit",
        "limited",
        "conflict",
        "budget_spent",
        "budget_held",
        "exceeds_remaining_budget",
        "more_than_a_day",
        "untracked_input",
        "blocked",
        "switched_off",
        "unavailable",
        "concurrency",
        "exhausted",
        "stopping",
    ];

    /// No model can answer before this wait is over, as far as anybody knows it. Client libraries sleep through whatever they
    /// are told, so the rule says how long is too long for that.
    #[must_use]
    pub fn unavailable(retry_after: Option<Duration>, rule: &ComeBackRule) -> Self {
        let worth_waiting = retry_after.unwrap_or(SOON) <= rule.longest_worth_waiting;
        Self::Unavailable { retry_after, worth_waiting }
    }

    /// Places are left at a target, and none for this caller.
    #[must_use]
    pub const fn concurrency(share: SlotRefusal, retry_after: Option<Duration>) -> Self {
        let scope = match share {
            SlotRefusal::AddressShare => ConcurrencyScope::Address,
            SlotRefusal::GuestShare => ConcurrencyScope::Guests,
            SlotRefusal::CallerShare | SlotRefusal::Reserved | SlotRefusal::Full => ConcurrencyScope::Caller,
        };
        Self::Concurrency { scope, retry_after }
    }

    /// A guest asks where only callers with a credential are served.
    #[must_use]
    pub fn needs_credential() -> Self {
        let told = "this endpoint needs a credential: send an API key or a bearer token";
        Self::Unauthenticated { told: told.to_owned(), cause: "guest_not_admitted" }
    }

    /// The day's money does not pay for it; the rule and the draw say when to come back for money that is held.
    pub(crate) fn of_shortage(shortage: BudgetShortage, rule: &ComeBackRule, draw: Draw) -> Self {
        match shortage {
            BudgetShortage::Spent { left, resets } => Self::BudgetSpent { left, resets },
            BudgetShortage::Held { settles_in } => {
                Self::BudgetHeld { come_back: rule.hint(settles_in, draw) }
            }
            BudgetShortage::TooLarge { left, max_tokens } => {
                Self::ExceedsRemainingBudget { left, max_tokens }
            }
        }
    }

    /// More than the caller is told, for the log.
    #[must_use]
    pub const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Unauthenticated { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::TooLarge(_) => "too_large",
            Self::BodyMemory(BodyScope::All) => "body_memory",
            Self::BodyMemory(BodyScope::Caller | BodyScope::Address) => "body_memory_share",
            Self::NoChat => "no_chat",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::UnknownCaller => "unknown_caller",
            Self::Revoked => "revoked",
            Self::Forbidden => "forbidden",
            Self::UnknownModel(_) => "unknown_model",
            Self::TooLargeForLimit(_) => "too_large_for_limit",
            Self::Limited { .. } => "limited",
            Self::Conflict(_) => "conflict",
            Self::BudgetSpent { .. } => "budget_spent",
            Self::BudgetHeld { .. } => "budget_held",
            Self::ExceedsRemainingBudget { .. } => "exceeds_remaining_budget",
            Self::MoreThanADay { .. } => "more_than_a_day",
            Self::UntrackedInput(_) => "untracked_input",
            Self::Blocked { .. } => "blocked",
            Self::SwitchedOff => "switched_off",
            Self::Unavailable { .. } => "unavailable",
            Self::Concurrency { .. } => "concurrency",
            Self::Exhausted { .. } => "exhausted",
            Self::Stopping => "stopping",
        }
    }
}

/// What a caller is told of how its answer came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// What the caller is entitled to, once that is known.
    pub tier: Option<Tier>,
    /// Which way it was answered.
    pub rung: Option<Rung>,
    /// Which target answered.
    pub target: Option<Arc<str>>,
    /// Attempts made so far.
    pub attempts: u32,
    /// What it has cost; nothing while a stream goes on.
    pub cost: Option<Money>,
    /// What Seawall itself added until here.
    pub overhead: Option<Duration>,
    /// How far the shop has stepped down.
    pub level: Option<Level>,
    /// The limit with the least left, and what it is called.
    pub tightest: Option<(LimitView, Arc<str>)>,
    /// The limits that it belongs to, as a header of answers has them: those of the caller's tier, or the one of another
    /// scope that refused.
    pub policy: Option<Arc<str>>,
    /// When the limit with the least left has room again, where it refused.
    pub limit_resets: Option<Duration>,
    /// What we speak to this caller, where our own face knows it.
    pub language: Option<Language>,
}

/// What a face writes out.
pub struct Reply<R: crate::Runtime> {
    /// What came of it.
    pub content: ReplyContent<R>,
    /// How.
    pub notes: Notes,
}

/// What came of a request.
pub enum ReplyContent<R: crate::Runtime> {
    /// An answer in one piece.
    Whole(WholeAnswer),
    /// An answer in pieces.
    Stream(Box<ReplyStream<R>>),
    /// An answer in pieces that are all there.
    Pieces(Bytes),
    /// No answer.
    Rejected(Rejection),
}

#[cfg(test)]
mod tests {
    use super::{BodyScope, Conflict, Rejection, SOON};
    use crate::limit_name::LimitName;
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::in_flight::SlotRefusal;
    use seawall_core::money::Money;
    use seawall_core::quota::{ComeBack, ComeBackRule};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    #[test]
    fn how_long_a_client_may_sleep_is_the_word_of_the_rule() {
        let longest = Duration::from_millis(2_500);
        let moment = Duration::from_nanos(1);
        for (longest, retry_after, expected) in [
            (longest, Some(longest), true),
            (longest, Some(longest + moment), false),
            (longest, None, true),
            (SOON, None, true),
            (SOON - moment, None, false),
        ] {
            let rule = ComeBackRule { longest_worth_waiting: longest, ..ComeBackRule::default() };
            let told = Rejection::unavailable(retry_after, &rule);
            assert_eq!(told, Rejection::Unavailable { retry_after, worth_waiting: expected });
        }
    }

    #[test]
    fn the_list_of_words_has_every_refusal_once() {
        let come_back = ComeBack { after: Duration::from_secs(1), worth_waiting: true };
        let failure = Failure::of(FailureKind::Throttled);
        let all = [
            Rejection::Malformed(String::new()),
            Rejection::TooLarge(String::new()),
            Rejection::BodyMemory(BodyScope::All),
            Rejection::BodyMemory(BodyScope::Caller),
            Rejection::NoChat,
            Rejection::Unauthenticated { told: String::new(), cause: "key_shape" },
            Rejection::UnknownCaller,
            Rejection::Revoked,
            Rejection::Forbidden,
            Rejection::UnknownModel(String::new()),
            Rejection::TooLargeForLimit(LimitName::unknown("minute").into()),
            Rejection::Limited { limit: LimitName::unknown("minute").into(), come_back },
            Rejection::Conflict(Conflict::Done),
            Rejection::BudgetSpent { left: Money::ZERO, resets: UtcTime::start_of_day(1) },
            Rejection::BudgetHeld { come_back },
            Rejection::ExceedsRemainingBudget { left: Money::ZERO, max_tokens: 1 },
            Rejection::MoreThanADay { worst: Money::ZERO },
            Rejection::UntrackedInput(String::new()),
            Rejection::Blocked { rule: "deny_list.1".into() },
            Rejection::SwitchedOff,
            Rejection::Unavailable { retry_after: None, worth_waiting: true },
            Rejection::concurrency(SlotRefusal::CallerShare, None),
            Rejection::Exhausted { failure, words: None, attempts: 1 },
            Rejection::Stopping,
        ];
        assert_eq!(all.each_ref().map(Rejection::label), Rejection::LABELS);
    }
}

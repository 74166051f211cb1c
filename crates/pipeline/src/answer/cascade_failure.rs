//! Why the fallback cascade got no answer, and the rejection that results from it.

use super::target_causes::TargetCauses;
use crate::callers::Caller;
use crate::record::SkipKind;
use crate::reply::Rejection;
use crate::shortage::BudgetShortage;
use crate::target::GuardedTarget;
use seawall_core::failure::{FailureKind, Retryability};
use seawall_core::in_flight::SlotRefusal;
use seawall_core::money::Money;
use seawall_core::quota::RetryAfterPolicy;
use seawall_core::random::Draw;
use seawall_provider::CallError;
use seawall_wire::RequestError;
use std::sync::Arc;
use std::time::Duration;

/// Why a target was not tried.
#[derive(Debug, PartialEq)]
pub(super) enum SkipReason {
    /// All concurrency slots are taken; when to retry, if known.
    Busy(Option<Duration>),
    /// Slots are free, but the share of this caller or of guests is used up.
    ShareExhausted(SlotRefusal, Option<Duration>),
    /// The daily budget does not cover the call.
    Unaffordable(BudgetShortage),
    /// The call may cost this much, which is more than the budget of a whole day.
    ExceedsDailyBudget(Money),
    /// The reservation could not be written to the journal.
    JournalUnavailable,
    BreakerOpen(Option<Duration>),
    /// Not called for this long, because its calls cost more than was reserved.
    SuspendedForOverruns(Duration),
    /// Throttled, with the remaining retry-after.
    Throttled(Duration),
    /// The request cannot be expressed in the target's dialect.
    Untranslatable(RequestError),
    /// The cost at this target has no bound, no price or no budget that covers it; the message says why.
    Unbounded(String),
}

impl SkipReason {
    /// The reason without its details, for logs and events.
    pub(super) const fn kind(&self) -> SkipKind {
        match self {
            Self::Busy(_) => SkipKind::Busy,
            Self::ShareExhausted(..) => SkipKind::ConcurrencyShare,
            Self::Unaffordable(shortage) => shortage.kind(),
            Self::ExceedsDailyBudget(_) => SkipKind::ExceedsDailyBudget,
            Self::JournalUnavailable => SkipKind::JournalUnavailable,
            Self::BreakerOpen(_) => SkipKind::BreakerOpen,
            Self::SuspendedForOverruns(_) => SkipKind::CostOverruns,
            Self::Throttled(_) => SkipKind::Throttled,
            Self::Untranslatable(_) => SkipKind::UnsupportedByTarget,
            Self::Unbounded(_) => SkipKind::UntrackedInput,
        }
    }

    /// How long to wait before the target may be tried again, if known.
    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy(wait) | Self::BreakerOpen(wait) | Self::ShareExhausted(_, wait) => *wait,
            Self::Throttled(wait) | Self::SuspendedForOverruns(wait) => Some(*wait),
            Self::Unaffordable(BudgetShortage::Held { settles_in, .. }) => Some(*settles_in),
            Self::Unaffordable(_) | Self::ExceedsDailyBudget(_) | Self::JournalUnavailable => None,
            Self::Untranslatable(_) | Self::Unbounded(_) => None,
        }
    }
}

/// The shorter of two waits, as far as known.
pub(crate) fn soonest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// The reasons why no target answered.
#[derive(Default)]
pub(crate) struct CascadeFailure {
    /// How the last attempt failed.
    pub(super) failure: Option<CallError>,
    /// Why the last skipped target was skipped. A reason with a known wait takes precedence.
    skipped: Option<SkipReason>,
    /// The shortest wait until a skipped target may be tried.
    retry_after: Option<Duration>,
    /// The most actionable of the shortages for which targets were skipped.
    shortage: Option<BudgetShortage>,
    /// Why each target did not answer.
    pub(super) causes: TargetCauses,
}

impl CascadeFailure {
    /// Why each of these targets did not answer, in words, where the rejection does not say so.
    pub(super) fn describe_targets(&self, targets: &[Arc<GuardedTarget>]) -> Option<Arc<str>> {
        self.causes.describe(targets.iter().map(|target| &target.name))
    }

    pub(super) fn skip(&mut self, reason: SkipReason) {
        if let SkipReason::Unaffordable(other) = reason {
            self.shortage = Some(self.shortage.map_or(other, |one| one.more_actionable(other)));
        }
        // While one target is known to become available, the request can be retried, whatever the state of the others.
        if reason.retry_after().is_some() || self.retry_after.is_none() {
            self.retry_after = soonest(self.retry_after, reason.retry_after());
            self.skipped = Some(match (reason, self.shortage) {
                (SkipReason::Unaffordable(_), Some(shortage)) => SkipReason::Unaffordable(shortage),
                (reason, _) => reason,
            });
        }
    }

    /// Whether a target was skipped because its call will not fit into the daily budget, while the reported reason is
    /// another target's.
    pub(super) fn conceals_shortage(&self) -> bool {
        let will_not_fit = |shortage: &BudgetShortage| !matches!(shortage, BudgetShortage::Held { .. });
        self.shortage.as_ref().is_some_and(will_not_fit)
            && !matches!(self.skipped, Some(SkipReason::Unaffordable(_)))
    }

    /// Reports the shortage, because no target is worth waiting for.
    pub(super) fn report_shortage(&mut self) {
        if let Some(shortage) = self.shortage {
            (self.skipped, self.retry_after) = (Some(SkipReason::Unaffordable(shortage)), None);
        }
    }

    /// Whether another attempt could still succeed.
    pub(super) fn may_retry(&self) -> bool {
        self.failure.as_ref().is_none_or(|error| error.failure.retryability != Retryability::Never)
    }

    /// The label of the reason.
    pub(crate) fn label(&self) -> &'static str {
        match (&self.failure, &self.skipped) {
            (Some(error), _) => error.failure.kind.label(),
            (None, Some(reason)) => reason.kind().label(),
            (None, None) => "no_target",
        }
    }

    /// Whether the vendor's guardrail blocked it.
    pub(crate) fn is_filtered(&self) -> bool {
        self.failure.as_ref().is_some_and(|error| error.failure.kind == FailureKind::Filtered)
    }

    /// When to retry, if known.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.failure.as_ref().map_or(self.retry_after, |error| error.failure.retry_after)
    }

    /// The rejection for the caller; the policy sets the longest wait for which clients are asked to retry.
    pub(super) fn into_rejection(
        self,
        attempts: u32,
        caller: &Caller,
        policy: &RetryAfterPolicy,
        draw: Draw,
    ) -> Rejection {
        let cause = self.label();
        match (self.failure, self.skipped) {
            (Some(CallError { failure, message, .. }), _) => {
                Rejection::UpstreamFailed { failure, message, attempts }
            }
            (None, Some(SkipReason::Unaffordable(shortage))) => {
                Rejection::of_shortage(shortage, caller, policy, draw)
            }
            (None, Some(SkipReason::ExceedsDailyBudget(max_cost))) => {
                Rejection::ExceedsDailyBudget { max_cost }
            }
            (None, Some(SkipReason::ShareExhausted(share, _))) => {
                Rejection::concurrency(share, self.retry_after)
            }
            (None, Some(SkipReason::Untranslatable(error))) => Rejection::Malformed(error.to_string()),
            (None, Some(SkipReason::Unbounded(message))) => Rejection::UntrackedInput(message),
            // The provider named the time itself, so clients may wait for it.
            (None, Some(SkipReason::Throttled(_))) => {
                Rejection::Unavailable { retry_after: self.retry_after, should_retry: true, cause }
            }
            (None, _) => Rejection::unavailable(self.retry_after, policy, cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CascadeFailure, SkipReason, soonest};
    use crate::callers::{Caller, TierOrigin};
    use crate::reply::BudgetScope;
    use crate::reply::Rejection;
    use crate::shortage::BudgetShortage;
    use seawall_core::money::Money;
    use seawall_core::quota::{RetryAfter, RetryAfterPolicy};
    use seawall_core::random::Draw;
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Tier;
    use std::time::Duration;

    const SHORT: Duration = Duration::from_secs(3);
    const LONG: Duration = Duration::from_secs(15);
    fn caller() -> Caller {
        let (tier, origin) = (Tier::Guest, TierOrigin::Guest);
        Caller { id: 1, tier, origin, routes: None, contract: None, is_suspended: false, network: None }
    }

    const SPENT: BudgetShortage = spent(Money::from_nanos(1));

    const fn spent(remaining: Money) -> BudgetShortage {
        BudgetShortage::Exhausted { budget: None, remaining, resets: UtcTime::from_nanos(0) }
    }

    fn rejection_for(reasons: impl IntoIterator<Item = SkipReason>) -> Rejection {
        let mut failure = CascadeFailure::default();
        reasons.into_iter().for_each(|reason| failure.skip(reason));
        failure.into_rejection(0, &caller(), &RetryAfterPolicy::default(), Draw::LOWEST)
    }

    #[test]
    fn the_retry_after_is_the_soonest_of_all_targets_that_were_not_tried() {
        let soon = |cause| Rejection::Unavailable { retry_after: Some(SHORT), should_retry: true, cause };
        for (reasons, cause) in [
            (vec![SkipReason::BreakerOpen(Some(SHORT)), SkipReason::BreakerOpen(Some(LONG))], "breaker_open"),
            (vec![SkipReason::BreakerOpen(Some(LONG)), SkipReason::BreakerOpen(Some(SHORT))], "breaker_open"),
            (
                vec![
                    SkipReason::Busy(Some(SHORT)),
                    SkipReason::BreakerOpen(Some(LONG)),
                    SkipReason::Busy(None),
                ],
                "breaker_open",
            ),
            (
                vec![SkipReason::SuspendedForOverruns(LONG), SkipReason::BreakerOpen(Some(SHORT))],
                "breaker_open",
            ),
            (
                vec![SkipReason::BreakerOpen(Some(SHORT)), SkipReason::SuspendedForOverruns(LONG)],
                "cost_overruns",
            ),
            (vec![SkipReason::BreakerOpen(Some(SHORT)), SkipReason::Unaffordable(SPENT)], "breaker_open"),
            (
                vec![
                    SkipReason::Unaffordable(SPENT),
                    SkipReason::JournalUnavailable,
                    SkipReason::Busy(Some(SHORT)),
                ],
                "busy",
            ),
        ] {
            let names = format!("{reasons:?}");
            assert_eq!(rejection_for(reasons), soon(cause), "{names}");
        }
        let spent = |remaining| Rejection::BudgetExhausted {
            budget: BudgetScope::Day,
            remaining,
            resets: UtcTime::from_nanos(0),
        };
        assert_eq!(
            rejection_for([SkipReason::Busy(None), SkipReason::Unaffordable(SPENT)]),
            spent(Money::from_nanos(1))
        );
        let unknown = |cause| Rejection::Unavailable { retry_after: None, should_retry: true, cause };
        assert_eq!(
            rejection_for([SkipReason::Unaffordable(SPENT), SkipReason::BreakerOpen(None)]),
            unknown("breaker_open")
        );
        assert_eq!(rejection_for([]), unknown("no_target"));
    }

    #[test]
    fn with_the_budget_spent_no_target_is_worth_waiting_for() {
        let held = || SkipReason::Unaffordable(BudgetShortage::Held { budget: None, settles_in: SHORT });
        for (reasons, is_concealed) in [
            (vec![SkipReason::SuspendedForOverruns(LONG), SkipReason::Unaffordable(SPENT)], true),
            (vec![SkipReason::Unaffordable(SPENT), SkipReason::Throttled(SHORT)], true),
            (vec![SkipReason::Unaffordable(SPENT), SkipReason::Busy(None)], true),
            (vec![SkipReason::Busy(None), SkipReason::Unaffordable(SPENT)], false),
            (vec![SkipReason::Throttled(SHORT), held()], false),
            (vec![SkipReason::Throttled(SHORT)], false),
        ] {
            let names = format!("{reasons:?}");
            let mut failure = CascadeFailure::default();
            reasons.into_iter().for_each(|reason| failure.skip(reason));
            assert_eq!(failure.conceals_shortage(), is_concealed, "{names}");
            if is_concealed {
                failure.report_shortage();
                let rejection =
                    failure.into_rejection(0, &caller(), &RetryAfterPolicy::default(), Draw::LOWEST);
                let (remaining, resets) = (Money::from_nanos(1), UtcTime::from_nanos(0));
                assert_eq!(
                    rejection,
                    Rejection::BudgetExhausted { budget: BudgetScope::Day, remaining, resets },
                    "{names}"
                );
            }
        }
    }

    #[test]
    fn held_money_is_worth_waiting_for_and_the_best_offer_of_all_targets_is_reported() {
        let held = |settles_in| SkipReason::Unaffordable(BudgetShortage::Held { budget: None, settles_in });
        let offer = |max_tokens| {
            SkipReason::Unaffordable(BudgetShortage::ExceedsRemainingBudget {
                budget: None,
                remaining: Money::from_dollars(1),
                max_tokens,
            })
        };
        let retry_after = RetryAfter { delay: SHORT, should_retry: true };
        for reasons in [
            vec![held(SHORT)],
            vec![held(SHORT), SkipReason::Unaffordable(SPENT), offer(7)],
            vec![offer(7), held(LONG), held(SHORT)],
        ] {
            assert_eq!(
                rejection_for(reasons),
                Rejection::BudgetHeld { budget: BudgetScope::Day, retry_after }
            );
        }
        let best = Rejection::ExceedsRemainingBudget {
            budget: BudgetScope::Day,
            remaining: Money::from_dollars(1),
            max_tokens: 9,
        };
        assert_eq!(rejection_for([offer(7), SkipReason::Unaffordable(SPENT), offer(9), offer(8)]), best);
    }

    #[test]
    fn a_call_above_the_daily_budget_is_not_rejected_as_budget_spent() {
        let max_cost = Money::from_dollars(7);
        assert_eq!(
            rejection_for([SkipReason::ExceedsDailyBudget(max_cost)]),
            Rejection::ExceedsDailyBudget { max_cost }
        );
        let mut failure = CascadeFailure::default();
        failure.skip(SkipReason::ExceedsDailyBudget(max_cost));
        assert_eq!((failure.label(), failure.retry_after()), ("exceeds_daily_budget", None));
    }

    #[test]
    fn an_unknown_wait_is_longer_than_any_known_one() {
        assert_eq!(soonest(None, None), None);
        assert_eq!([soonest(None, Some(LONG)), soonest(Some(LONG), None)], [Some(LONG); 2]);
        assert_eq!([soonest(Some(SHORT), Some(LONG)), soonest(Some(LONG), Some(SHORT))], [Some(SHORT); 2]);
    }
}

//! Why no target answered, and the rejection that results from it.

use crate::reply::Rejection;
use crate::shortage::BudgetShortage;
use seawall_core::chance::Draw;
use seawall_core::failure::{FailureKind, Retryability};
use seawall_core::in_flight::SlotRefusal;
use seawall_core::money::Money;
use seawall_core::quota::ComeBackRule;
use seawall_provider::CallError;
use seawall_wire::RequestError;
use std::time::Duration;

/// Why a target was not tried.
#[derive(Debug, PartialEq)]
pub(super) enum Skipped {
    /// All concurrency slots are taken; when to retry, if known.
    Busy(Option<Duration>),
    /// Slots are free, but the share of this caller or of guests is used up.
    ShareTaken(SlotRefusal, Option<Duration>),
    /// The daily budget does not cover the call.
    Unaffordable(BudgetShortage),
    /// The call may cost this much, which is more than the budget of a whole day.
    TooDear(Money),
    /// The reservation could not be written to the journal.
    NoJournal,
    Open(Option<Duration>),
    /// Out of rotation for this long, because its calls cost more than was reserved.
    SetAside(Duration),
    /// Throttled, with the remaining retry-after.
    HeldBack(Duration),
    /// The request cannot be expressed in the target's dialect.
    Untellable(RequestError),
    /// The cost at this target has no bound, no price or no budget that covers it; the message says why.
    Unbounded(String),
}

impl Skipped {
    /// When it may be tried again, if known.
    const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Busy(wait) | Self::Open(wait) | Self::ShareTaken(_, wait) => *wait,
            Self::HeldBack(wait) | Self::SetAside(wait) => Some(*wait),
            Self::Unaffordable(BudgetShortage::Held { settles_in }) => Some(*settles_in),
            Self::Unaffordable(_) | Self::TooDear(_) | Self::NoJournal => None,
            Self::Untellable(_) | Self::Unbounded(_) => None,
        }
    }

    /// Whether the daily budget is completely spent.
    const fn nothing_is_left(&self) -> bool {
        matches!(self, Self::Unaffordable(BudgetShortage::Spent { left: Money::ZERO, .. }))
    }
}

/// The shorter of two waits, as far as known.
pub(super) fn soonest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// The reasons why no target answered.
#[derive(Default)]
pub(super) struct Unanswered {
    /// How the last attempt failed.
    pub(super) failure: Option<CallError>,
    /// Why the last skipped target was skipped. A reason with a known wait takes precedence.
    skipped: Option<Skipped>,
    /// The shortest wait until a skipped target may be tried.
    wait: Option<Duration>,
}

impl Unanswered {
    pub(super) fn skip(&mut self, reason: Skipped) {
        // With the budget spent, no target can be called, whatever its wait.
        if self.skipped.as_ref().is_some_and(Skipped::nothing_is_left) {
            return;
        }
        if reason.nothing_is_left() {
            (self.skipped, self.wait) = (Some(reason), None);
            return;
        }
        // While one target is known to become available, the request can be retried, whatever the state of the others.
        if reason.wait().is_some() || self.wait.is_none() {
            self.wait = soonest(self.wait, reason.wait());
            self.skipped = Some(match (self.skipped.take(), reason) {
                (Some(Skipped::Unaffordable(one)), Skipped::Unaffordable(other)) => {
                    Skipped::Unaffordable(one.more_hopeful(other))
                }
                (_, reason) => reason,
            });
        }
    }

    /// Whether another attempt could still succeed.
    pub(super) fn is_worth_another(&self) -> bool {
        self.failure.as_ref().is_none_or(|error| error.failure.retryability != Retryability::Nowhere)
    }

    /// The label of the reason.
    pub(super) fn label(&self) -> &'static str {
        match (&self.failure, &self.skipped) {
            (Some(error), _) => error.failure.kind.label(),
            (None, Some(Skipped::Unaffordable(shortage))) => shortage.label(),
            (None, Some(Skipped::TooDear(_))) => "more_than_a_day",
            (None, Some(Skipped::Open(_))) => "breaker_open",
            (None, Some(Skipped::SetAside(_))) => "set_aside",
            (None, Some(Skipped::Busy(_))) => "busy",
            (None, Some(Skipped::ShareTaken(..))) => "concurrency_share",
            (None, Some(Skipped::HeldBack(_))) => "held_back",
            (None, Some(Skipped::Untellable(_))) => "cannot_be_asked",
            (None, Some(Skipped::Unbounded(_))) => "untracked_input",
            (None, Some(Skipped::NoJournal)) => "books_cannot_be_written",
            (None, None) => "no_target",
        }
    }

    /// Whether the vendor's guardrail blocked it.
    pub(super) fn is_filtered(&self) -> bool {
        self.failure.as_ref().is_some_and(|error| error.failure.kind == FailureKind::Filtered)
    }

    /// When to retry, if known.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.failure.as_ref().map_or(self.wait, |error| error.failure.retry_after)
    }

    /// The rejection for the caller; the rule sets the longest wait for which clients are told to retry.
    pub(super) fn into_rejection(self, attempts: u32, rule: &ComeBackRule, draw: Draw) -> Rejection {
        let cause = self.label();
        match (self.failure, self.skipped) {
            (Some(CallError { failure, words }), _) => Rejection::Exhausted { failure, words, attempts },
            (None, Some(Skipped::Unaffordable(shortage))) => Rejection::of_shortage(shortage, rule, draw),
            (None, Some(Skipped::TooDear(worst))) => Rejection::MoreThanADay { worst },
            (None, Some(Skipped::ShareTaken(share, _))) => Rejection::concurrency(share, self.wait),
            (None, Some(Skipped::Untellable(error))) => Rejection::Malformed(error.to_string()),
            (None, Some(Skipped::Unbounded(message))) => Rejection::UntrackedInput(message),
            // The provider named the time itself, so clients may wait for it.
            (None, Some(Skipped::HeldBack(_))) => {
                Rejection::Unavailable { retry_after: self.wait, worth_waiting: true, cause }
            }
            (None, _) => Rejection::unavailable(self.wait, rule, cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Skipped, Unanswered, soonest};
    use crate::reply::Rejection;
    use crate::shortage::BudgetShortage;
    use seawall_core::chance::Draw;
    use seawall_core::money::Money;
    use seawall_core::quota::{ComeBack, ComeBackRule};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    const SHORT: Duration = Duration::from_secs(3);
    const LONG: Duration = Duration::from_secs(15);
    const SPENT: BudgetShortage = spent(Money::from_nanos(1));

    const fn spent(left: Money) -> BudgetShortage {
        BudgetShortage::Spent { left, resets: UtcTime::from_nanos(0) }
    }

    fn told(reasons: impl IntoIterator<Item = Skipped>) -> Rejection {
        let mut unanswered = Unanswered::default();
        reasons.into_iter().for_each(|reason| unanswered.skip(reason));
        unanswered.into_rejection(0, &ComeBackRule::default(), Draw::LOWEST)
    }

    #[test]
    fn the_hint_is_the_soonest_of_all_that_were_not_tried() {
        let soon = |cause| Rejection::Unavailable { retry_after: Some(SHORT), worth_waiting: true, cause };
        for (reasons, cause) in [
            (vec![Skipped::Open(Some(SHORT)), Skipped::Open(Some(LONG))], "breaker_open"),
            (vec![Skipped::Open(Some(LONG)), Skipped::Open(Some(SHORT))], "breaker_open"),
            (
                vec![Skipped::Busy(Some(SHORT)), Skipped::Open(Some(LONG)), Skipped::Busy(None)],
                "breaker_open",
            ),
            (vec![Skipped::SetAside(LONG), Skipped::Open(Some(SHORT))], "breaker_open"),
            (vec![Skipped::Open(Some(SHORT)), Skipped::SetAside(LONG)], "set_aside"),
            (vec![Skipped::Open(Some(SHORT)), Skipped::Unaffordable(SPENT)], "breaker_open"),
            (vec![Skipped::Unaffordable(SPENT), Skipped::NoJournal, Skipped::Busy(Some(SHORT))], "busy"),
        ] {
            let names = format!("{reasons:?}");
            assert_eq!(told(reasons), soon(cause), "{names}");
        }
        let spent = |left| Rejection::BudgetSpent { left, resets: UtcTime::from_nanos(0) };
        assert_eq!(told([Skipped::Busy(None), Skipped::Unaffordable(SPENT)]), spent(Money::from_nanos(1)));
        let unknown = |cause| Rejection::Unavailable { retry_after: None, worth_waiting: true, cause };
        assert_eq!(told([Skipped::Unaffordable(SPENT), Skipped::Open(None)]), unknown("breaker_open"));
        assert_eq!(told([]), unknown("no_target"));
    }

    #[test]
    fn where_no_money_is_left_no_target_that_comes_back_is_worth_waiting_for() {
        let nothing = || Skipped::Unaffordable(spent(Money::ZERO));
        let expected = Rejection::BudgetSpent { left: Money::ZERO, resets: UtcTime::from_nanos(0) };
        assert_eq!(told([Skipped::SetAside(LONG), nothing()]), expected);
        assert_eq!(told([nothing(), Skipped::HeldBack(SHORT), Skipped::Busy(None)]), expected);
    }

    #[test]
    fn money_that_is_held_is_waited_for_and_the_best_offer_of_all_targets_is_told() {
        let held = |settles_in| Skipped::Unaffordable(BudgetShortage::Held { settles_in });
        let offer = |max_tokens| {
            Skipped::Unaffordable(BudgetShortage::TooLarge { left: Money::from_dollars(1), max_tokens })
        };
        let come_back = ComeBack { after: SHORT, worth_waiting: true };
        for reasons in [
            vec![held(SHORT)],
            vec![held(SHORT), Skipped::Unaffordable(SPENT), offer(7)],
            vec![offer(7), held(LONG), held(SHORT)],
        ] {
            assert_eq!(told(reasons), Rejection::BudgetHeld { come_back });
        }
        let best = Rejection::ExceedsRemainingBudget { left: Money::from_dollars(1), max_tokens: 9 };
        assert_eq!(told([offer(7), Skipped::Unaffordable(SPENT), offer(9), offer(8)]), best);
    }

    #[test]
    fn a_call_that_no_day_has_room_for_is_not_told_that_the_day_is_spent() {
        let worst = Money::from_dollars(7);
        assert_eq!(told([Skipped::TooDear(worst)]), Rejection::MoreThanADay { worst });
        let mut unanswered = Unanswered::default();
        unanswered.skip(Skipped::TooDear(worst));
        assert_eq!((unanswered.label(), unanswered.retry_after()), ("more_than_a_day", None));
    }

    #[test]
    fn an_unknown_wait_is_longer_than_any_known_one() {
        assert_eq!(soonest(None, None), None);
        assert_eq!([soonest(None, Some(LONG)), soonest(Some(LONG), None)], [Some(LONG); 2]);
        assert_eq!([soonest(Some(SHORT), Some(LONG)), soonest(Some(LONG), Some(SHORT))], [Some(SHORT); 2]);
    }
}

//! The invariants of the core, as functions.
//!
//! Each invariant is one pure function over observations: it knows no implementation details. Property tests call
//! them, the simulator checks them over a whole simulated day, and the machines themselves call those that take no
//! longer than a few nanoseconds: a debug build panics, a release build counts the violation. A violation is a bug in
//! Seawall, whatever the input was.

mod violations;

pub(crate) use violations::enforce;
pub use violations::{ViolationCounts, violation_count};

use crate::deadline::Deadline;
use crate::history::Role;
use crate::money::Money;
use crate::setting::Ratio;
use crate::time::{Timestamp, nanos};
use crate::vocabulary::{Level, named_enum};
use std::time::Duration;

named_enum! {
    /// An invariant that holds at every moment.
    pub enum Invariant as "invariant" {
        /// No sliding window of a quota's period holds more than its limit.
        WindowWithinLimit = "window_within_limit",
        /// Over any span a smoothed rate admits at most its burst plus the rate times the span.
        RateWithinBurst = "rate_within_burst",
        /// Available units lie between zero and the capacity.
        UnitsWithinCapacity = "units_within_capacity",
        /// Consumed units equal granted units minus returned units.
        ConsumedMatchesGranted = "consumed_matches_granted",
        /// A refusal changes no state.
        RefusalChangesNothing = "refusal_changes_nothing",
        /// An open breaker passes no call.
        NoCallWhileOpen = "no_call_while_open",
        /// A half-open stage has no more probes than its size.
        ProbesWithinStage = "probes_within_stage",
        /// Within one episode a breaker's position never moves back.
        PhaseNeverRegresses = "phase_never_regresses",
        /// Retries and hedges stay within their share of first attempts, or within the in-flight floor.
        RetriesWithinShare = "retries_within_share",
        /// A backoff lies between its bounds.
        BackoffWithinBounds = "backoff_within_bounds",
        /// No attempt is started that cannot finish before the deadline.
        AttemptFitsDeadline = "attempt_fits_deadline",
        /// No request makes more attempts than its policy allows.
        AttemptsWithinLimit = "attempts_within_limit",
        /// Calls in flight never exceed the concurrency limit.
        InFlightWithinLimit = "in_flight_within_limit",
        /// A timeout is shorter than the one that contains it.
        ChildShorterThanParent = "child_shorter_than_parent",
        /// Posted plus held never exceeds the cap, except for cost above the maximum cost.
        SpendWithinCap = "spend_within_cap",
        /// The reserved amount equals the released amount plus the held amount.
        MoneyIsConserved = "money_is_conserved",
        /// Frames of a stream are consecutive, and nothing follows the ending.
        FramesAreConsecutive = "frames_are_consecutive",
        /// No frame exceeds the limit of its transport.
        FrameFitsTransport = "frame_fits_transport",
        /// Every queue entry is still waiting or has left exactly once.
        EveryEntryAccountedFor = "every_entry_accounted_for",
        /// A degradation level falls by one step at a time.
        LevelFallsByOneStep = "level_falls_by_one_step",
        /// No more input tokens are sent than the limit.
        InputWithinLimit = "input_within_limit",
        /// A conversation begins with the user, and roles alternate.
        RolesAlternate = "roles_alternate",
    }
}

impl Invariant {
    /// Description of the invariant, as a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::WindowWithinLimit => "No sliding window of a quota's period holds more than the limit.",
            Self::RateWithinBurst => {
                "Over any span a smoothed rate admits at most its burst plus the rate times the span."
            }
            Self::UnitsWithinCapacity => "The available units lie between zero and the capacity.",
            Self::ConsumedMatchesGranted => {
                "The consumed units equal the granted units minus the refunded units."
            }
            Self::RefusalChangesNothing => "A refusal changes no state.",
            Self::NoCallWhileOpen => "An open breaker passes no call.",
            Self::ProbesWithinStage => "A half-open stage has no more probes than its size.",
            Self::PhaseNeverRegresses => "Within one episode a breaker's phase never moves back.",
            Self::RetriesWithinShare => {
                "Retries and hedges stay within their share of first attempts, or within the in-flight floor."
            }
            Self::BackoffWithinBounds => "A backoff lies between its bounds.",
            Self::AttemptFitsDeadline => "No attempt is started that cannot finish before the deadline.",
            Self::AttemptsWithinLimit => "No request makes more attempts than its policy allows.",
            Self::InFlightWithinLimit => "Calls in flight never exceed the concurrency limit.",
            Self::ChildShorterThanParent => "A timeout is shorter than the one that contains it.",
            Self::SpendWithinCap => {
                "Posted plus held money never exceeds the cap, except for cost above the maximum cost."
            }
            Self::MoneyIsConserved => "The reserved amount equals the released amount plus the held amount.",
            Self::FramesAreConsecutive => {
                "Frames of a stream are consecutive, and nothing follows the ending."
            }
            Self::FrameFitsTransport => "No encoded frame exceeds the limit of its transport.",
            Self::EveryEntryAccountedFor => "Every queue entry is still waiting or has left exactly once.",
            Self::LevelFallsByOneStep => "A measured degradation level falls by one step at a time.",
            Self::InputWithinLimit => "No more input tokens are sent to a model than the limit.",
            Self::RolesAlternate => "A conversation begins with the user's turn, and roles alternate.",
        }
    }
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", invariant.name())]
pub struct Violation {
    /// The violated invariant.
    pub invariant: Invariant,
    /// What was observed.
    pub detail: String,
}

fn require(invariant: Invariant, holds: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { invariant, detail: detail() }) }
}

/// Admitted units over time: timestamp and number, in order of time.
pub type Admissions<'a> = &'a [(Timestamp, u64)];

/// [`Invariant::WindowWithinLimit`].
///
/// ```
/// use seawall_core::invariant::window_within_limit;
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let admitted = [(Timestamp::ZERO, 3), (Timestamp::ZERO + Duration::from_secs(59), 3)];
/// assert!(window_within_limit(&admitted, 6, Duration::from_secs(60)).is_ok());
/// assert!(window_within_limit(&admitted, 5, Duration::from_secs(60)).is_err());
/// ```
pub fn window_within_limit(admitted: Admissions<'_>, limit: u64, period: Duration) -> Result<(), Violation> {
    let mut oldest = admitted.iter().peekable();
    let mut held = 0_u128;
    for (when, units) in admitted {
        held += u128::from(*units);
        while let Some((_, units)) = oldest.next_if(|(first, _)| *when - *first >= period) {
            held = held.saturating_sub(u128::from(*units));
        }
        require(Invariant::WindowWithinLimit, held <= u128::from(limit), || {
            format!("{held} units of {limit} in the {period:?} up to {when}")
        })?;
    }
    Ok(())
}

/// [`Invariant::RateWithinBurst`], with one unit per `unit` at the steady rate.
pub fn rate_within_burst(admitted: Admissions<'_>, burst: u64, unit: Duration) -> Result<(), Violation> {
    // A continuously filled token bucket that must never run dry, which is equivalent to checking every span.
    let (unit, mut last) = (u128::from(nanos(unit)), None);
    let full = u128::from(burst) * unit;
    let mut level = full;
    for (when, units) in admitted {
        let since = last.map_or(Duration::ZERO, |last| *when - last);
        last = Some(*when);
        level = (level + since.as_nanos()).min(full);
        let cost = u128::from(*units) * unit;
        require(Invariant::RateWithinBurst, cost <= level, || {
            format!("{units} units admitted at {when} with {} left", level / unit)
        })?;
        level -= cost;
    }
    Ok(())
}

/// [`Invariant::UnitsWithinCapacity`]. Unsigned numbers cannot be negative, so that only the upper bound is checked.
pub fn units_within_capacity(available: u64, capacity: u64) -> Result<(), Violation> {
    require(Invariant::UnitsWithinCapacity, available <= capacity, || format!("{available} of {capacity}"))
}

/// [`Invariant::ConsumedMatchesGranted`].
pub fn consumed_matches_granted(consumed: u64, granted: u64, refunded: u64) -> Result<(), Violation> {
    require(Invariant::ConsumedMatchesGranted, granted.checked_sub(refunded) == Some(consumed), || {
        format!("{consumed} consumed, {granted} granted, {refunded} refunded")
    })
}

/// [`Invariant::RefusalChangesNothing`].
pub fn refusal_changes_nothing<T: PartialEq + std::fmt::Debug>(
    before: &T,
    after: &T,
) -> Result<(), Violation> {
    require(Invariant::RefusalChangesNothing, before == after, || format!("{before:?} became {after:?}"))
}

/// [`Invariant::NoCallWhileOpen`], for a call that passed at `now` through a breaker last seen open until
/// `open_until`.
pub fn no_call_while_open(now: Timestamp, open_until: Option<Timestamp>) -> Result<(), Violation> {
    let open = open_until.filter(|until| now < *until);
    require(Invariant::NoCallWhileOpen, open.is_none(), || format!("a call at {now}, open until {open:?}"))
}

/// [`Invariant::ProbesWithinStage`].
pub fn probes_within_stage(under_way: u32, succeeded: u32, size: u32) -> Result<(), Violation> {
    let probes = under_way.saturating_add(succeeded);
    require(Invariant::ProbesWithinStage, probes <= size, || {
        format!("{under_way} + {succeeded} in a stage of {size}")
    })
}

/// [`Invariant::PhaseNeverRegresses`], for positions of which a later one is greater.
pub fn phase_never_regresses<T: PartialOrd + std::fmt::Debug>(
    before: &T,
    after: &T,
) -> Result<(), Violation> {
    require(Invariant::PhaseNeverRegresses, before <= after, || format!("{before:?} became {after:?}"))
}

/// [`Invariant::RetriesWithinShare`], for a retry that was granted after `retries` earlier ones in the window, of which
/// `in_flight` were still in flight.
pub fn retries_within_share(
    first_attempts: u64,
    retries: u64,
    in_flight: u64,
    (share, floor): (Ratio, u64),
) -> Result<(), Violation> {
    let within_share = retries < share.of(first_attempts);
    require(Invariant::RetriesWithinShare, within_share || in_flight < floor, || {
        format!(
            "a retry was granted after {retries} retries for {first_attempts} first attempts, with {in_flight} in flight"
        )
    })
}

/// [`Invariant::BackoffWithinBounds`].
pub fn backoff_within_bounds(wait: Duration, min: Duration, max: Duration) -> Result<(), Violation> {
    require(Invariant::BackoffWithinBounds, min <= wait && wait <= max, || {
        format!("{wait:?} is not between {min:?} and {max:?}")
    })
}

/// [`Invariant::AttemptFitsDeadline`], for an attempt of duration `attempt` after a backoff of `wait` from `now`.
pub fn attempt_fits_deadline(
    now: Timestamp,
    wait: Duration,
    attempt: Duration,
    deadline: Deadline,
) -> Result<(), Violation> {
    require(Invariant::AttemptFitsDeadline, deadline.has_room(now, wait.saturating_add(attempt)), || {
        format!("a wait of {wait:?} and an attempt of {attempt:?} from {now} end after {}", deadline.moment())
    })
}

/// [`Invariant::AttemptsWithinLimit`].
pub fn attempts_within_limit(attempts: u32, limit: u32) -> Result<(), Violation> {
    require(Invariant::AttemptsWithinLimit, attempts <= limit, || format!("{attempts} of {limit}"))
}

/// [`Invariant::InFlightWithinLimit`].
pub fn in_flight_within_limit(in_flight: u32, limit: u32) -> Result<(), Violation> {
    require(Invariant::InFlightWithinLimit, in_flight <= limit, || format!("{in_flight} of {limit}"))
}

/// [`Invariant::ChildShorterThanParent`].
pub fn child_shorter_than_parent(child: Duration, parent: Duration) -> Result<(), Violation> {
    require(Invariant::ChildShorterThanParent, child < parent, || format!("{child:?} inside {parent:?}"))
}

/// [`Invariant::SpendWithinCap`], with a total cost of `overrun` above the maximum costs.
pub fn spend_within_cap(posted: Money, held: Money, overrun: Money, cap: Money) -> Result<(), Violation> {
    let holds = posted.saturating_add(held) <= cap.saturating_add(overrun);
    require(Invariant::SpendWithinCap, holds, || format!("{posted} posted and {held} held of {cap}"))
}

/// [`Invariant::MoneyIsConserved`].
pub fn money_is_conserved(reserved: Money, released: Money, held: Money) -> Result<(), Violation> {
    require(Invariant::MoneyIsConserved, released.checked_add(held) == Some(reserved), || {
        format!("{reserved} reserved, {released} released, {held} held")
    })
}

/// [`Invariant::FramesAreConsecutive`], for a frame that a client receives after those up to `last` on one connection.
pub fn frames_are_consecutive(index: u64, last: Option<u64>, ended: bool) -> Result<(), Violation> {
    let expected = last.map_or(Some(0), |last| last.checked_add(1));
    require(Invariant::FramesAreConsecutive, !ended && expected == Some(index), || {
        format!("{index} after {last:?}{}", if ended { " and the ending" } else { "" })
    })
}

/// [`Invariant::FrameFitsTransport`].
pub fn frame_fits_transport(bytes: usize, limit: usize) -> Result<(), Violation> {
    require(Invariant::FrameFitsTransport, bytes <= limit, || format!("{bytes} of {limit} bytes"))
}

/// [`Invariant::EveryEntryAccountedFor`], for a queue that `entered` requests have entered, that `left` have left by reason,
/// and in which `inside` still wait.
pub fn every_entry_accounted_for(entered: u64, left: &[u64], inside: u64) -> Result<(), Violation> {
    let accounted = left.iter().fold(u128::from(inside), |sum, count| sum + u128::from(*count));
    require(Invariant::EveryEntryAccountedFor, accounted == u128::from(entered), || {
        format!("{entered} entered, {left:?} left, {inside} waiting")
    })
}

/// [`Invariant::LevelFallsByOneStep`]. A level may rise by any number of steps.
pub fn level_falls_by_one_step(before: Level, after: Level) -> Result<(), Violation> {
    require(Invariant::LevelFallsByOneStep, before.index() <= after.index() + 1, || {
        format!("{before} became {after}")
    })
}

/// [`Invariant::InputWithinLimit`].
pub fn input_within_limit(tokens: u64, limit: u64) -> Result<(), Violation> {
    require(Invariant::InputWithinLimit, tokens <= limit, || format!("{tokens} of {limit}"))
}

/// [`Invariant::RolesAlternate`], for the turns of a conversation as they are sent.
pub fn roles_alternate(roles: &[Role]) -> Result<(), Violation> {
    let expected = [Role::User, Role::Assistant].into_iter().cycle();
    require(Invariant::RolesAlternate, roles.iter().copied().eq(expected.take(roles.len())), || {
        format!("{roles:?}")
    })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

//! The invariants of the core, as functions.
//!
//! Each invariant is one pure function over observations: it knows no implementation details. Property tests call
//! them, the simulator checks them over a whole simulated day, and a running gateway counts violations. A violation is
//! a bug in Seawall, whatever the input was.

use crate::deadline::Deadline;
use crate::history::Role;
use crate::money::Money;
use crate::setting::Ratio;
use crate::time::{Timestamp, nanos};
use crate::vocabulary::{Level, words};
use std::time::Duration;

words! {
    /// An invariant that holds at every moment.
    pub enum Law as "law" {
        /// No sliding window of a quota's period holds more than its limit.
        WindowWithinLimit = "window_within_limit",
        /// Over any span a smoothed rate admits at most its burst plus the rate times the span.
        RateWithinBurst = "rate_within_burst",
        /// Available units lie between zero and the capacity.
        UnitsWithinCapacity = "units_within_capacity",
        /// Consumed units equal granted units minus returned units.
        ConsumedIsGranted = "consumed_is_granted",
        /// A refusal changes no state.
        RefusalLeavesNoTrace = "refusal_leaves_no_trace",
        /// An open breaker passes no call.
        NothingPassesWhileOpen = "nothing_passes_while_open",
        /// A half-open stage has no more probes than its size.
        ProbesWithinStage = "probes_within_stage",
        /// Within one episode a breaker's position never moves back.
        StandNeverGoesBack = "stand_never_goes_back",
        /// Retries and hedges stay within their share of first attempts, or within the in-flight floor.
        RetriesWithinShare = "retries_within_share",
        /// A backoff lies between its bounds.
        WaitWithinBounds = "wait_within_bounds",
        /// No attempt is started that cannot finish before the deadline.
        AttemptFitsDeadline = "attempt_fits_deadline",
        /// No request makes more attempts than its policy allows.
        AttemptsWithinLimit = "attempts_within_limit",
        /// Calls in flight never exceed the concurrency limit.
        InFlightWithinLimit = "in_flight_within_limit",
        /// A timeout is shorter than the one that contains it.
        ChildShorterThanParent = "child_shorter_than_parent",
        /// Posted plus held never exceeds the cap, except for cost above the worst case.
        SpendWithinCap = "spend_within_cap",
        /// The reserved amount equals the released amount plus the held amount.
        MoneyIsConserved = "money_is_conserved",
        /// Frames of a stream are consecutive, and nothing follows the ending.
        FramesFollowEachOther = "frames_follow_each_other",
        /// No frame exceeds the limit of its transport.
        FrameFitsTransport = "frame_fits_transport",
        /// Every queue entry is still waiting or has left exactly once.
        EveryEntryAccountedFor = "every_entry_accounted_for",
        /// A degradation level falls by one step at a time.
        LevelFallsByOneStep = "level_falls_by_one_step",
        /// No more input tokens are sent than the limit.
        InputWithinLimit = "input_within_limit",
        /// A conversation begins with the user, and roles alternate.
        RolesTakeTurns = "roles_take_turns",
    }
}

impl Law {
    /// Description of the invariant, as a sentence.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            Self::WindowWithinLimit => {
                "No window of a quota's period, wherever it begins, holds more than the limit."
            }
            Self::RateWithinBurst => {
                "Over any span a smoothed rate admits at most its burst and what the rate brings in that span."
            }
            Self::UnitsWithinCapacity => "What is available lies between nothing and the capacity.",
            Self::ConsumedIsGranted => "What was consumed is what was granted less what was given back.",
            Self::RefusalLeavesNoTrace => "A refusal leaves everything as it was.",
            Self::NothingPassesWhileOpen => "While a breaker is open nothing passes.",
            Self::ProbesWithinStage => "A trial has no more probes than its stage.",
            Self::StandNeverGoesBack => "Within an episode a breaker never goes back.",
            Self::RetriesWithinShare => {
                "A retry or hedge stays within its share of first attempts, or within what may always be in flight."
            }
            Self::WaitWithinBounds => "A wait lies between its bounds.",
            Self::AttemptFitsDeadline => "No attempt is started that cannot finish in time.",
            Self::AttemptsWithinLimit => "No request makes more attempts than its policy allows.",
            Self::InFlightWithinLimit => "There are never more calls in flight than the limit.",
            Self::ChildShorterThanParent => "A time limit is shorter than the one around it.",
            Self::SpendWithinCap => {
                "What is posted and held never passes the cap, but for what calls cost beyond their worst case."
            }
            Self::MoneyIsConserved => "What was reserved is what has been released and what is held.",
            Self::FramesFollowEachOther => {
                "Frames of a stream follow each other without a gap, and nothing follows the ending."
            }
            Self::FrameFitsTransport => "No frame, as it is sent, is longer than its transport takes.",
            Self::EveryEntryAccountedFor => {
                "Who entered a queue is still inside or has left it exactly once."
            }
            Self::LevelFallsByOneStep => "A measured degradation level falls by one step at a time.",
            Self::InputWithinLimit => "No more tokens are sent to a model than the limit.",
            Self::RolesTakeTurns => "What is sent begins with the user's turn, and roles take turns.",
        }
    }
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", law.name())]
pub struct Violation {
    /// The violated invariant.
    pub law: Law,
    /// What was observed.
    pub detail: String,
}

fn hold(law: Law, holds: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { law, detail: detail() }) }
}

/// Admitted units over time: timestamp and number, in order of time.
pub type Admissions<'a> = &'a [(Timestamp, u64)];

/// [`Law::WindowWithinLimit`].
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
        hold(Law::WindowWithinLimit, held <= u128::from(limit), || {
            format!("{held} of {limit} in the {period:?} up to {when}")
        })?;
    }
    Ok(())
}

/// [`Law::RateWithinBurst`], with one unit per `unit` at the steady rate.
pub fn rate_within_burst(admitted: Admissions<'_>, burst: u64, unit: Duration) -> Result<(), Violation> {
    // A continuously filled token bucket that must never run dry, which is equivalent to checking every span.
    let (unit, mut last) = (u128::from(nanos(unit)), None);
    let full = u128::from(burst) * unit;
    let mut level = full;
    for (when, units) in admitted {
        let since = last.map_or(Duration::ZERO, |last| *when - last);
        last = Some(*when);
        level = (level + since.as_nanos()).min(full);
        let taken = u128::from(*units) * unit;
        hold(Law::RateWithinBurst, taken <= level, || {
            format!("{units} at {when} with {} left", level / unit)
        })?;
        level -= taken;
    }
    Ok(())
}

/// [`Law::UnitsWithinCapacity`]. Unsigned numbers cannot be negative, so that only the upper bound is checked.
pub fn units_within_capacity(available: u64, capacity: u64) -> Result<(), Violation> {
    hold(Law::UnitsWithinCapacity, available <= capacity, || format!("{available} of {capacity}"))
}

/// [`Law::ConsumedIsGranted`].
pub fn consumed_is_granted(consumed: u64, granted: u64, given_back: u64) -> Result<(), Violation> {
    hold(Law::ConsumedIsGranted, granted.checked_sub(given_back) == Some(consumed), || {
        format!("{consumed} consumed, {granted} granted, {given_back} given back")
    })
}

/// [`Law::RefusalLeavesNoTrace`].
pub fn refusal_leaves_no_trace<T: PartialEq + std::fmt::Debug>(
    before: &T,
    after: &T,
) -> Result<(), Violation> {
    hold(Law::RefusalLeavesNoTrace, before == after, || format!("{before:?} became {after:?}"))
}

/// [`Law::NothingPassesWhileOpen`], for a call that passed at `now` through a breaker last seen open until
/// `open_until`.
pub fn nothing_passes_while_open(now: Timestamp, open_until: Option<Timestamp>) -> Result<(), Violation> {
    let open = open_until.filter(|until| now < *until);
    hold(Law::NothingPassesWhileOpen, open.is_none(), || format!("a call at {now}, open until {open:?}"))
}

/// [`Law::ProbesWithinStage`].
pub fn probes_within_stage(under_way: u32, succeeded: u32, size: u32) -> Result<(), Violation> {
    let probes = under_way.saturating_add(succeeded);
    hold(Law::ProbesWithinStage, probes <= size, || format!("{under_way} + {succeeded} in a stage of {size}"))
}

/// [`Law::StandNeverGoesBack`], for positions of which a later one is greater.
pub fn stand_never_goes_back<T: PartialOrd + std::fmt::Debug>(
    before: &T,
    after: &T,
) -> Result<(), Violation> {
    hold(Law::StandNeverGoesBack, before <= after, || format!("{before:?} became {after:?}"))
}

/// [`Law::RetriesWithinShare`], for a retry that was granted after `retries` earlier ones in the window, of which
/// `in_flight` were still in flight.
pub fn retries_within_share(
    first_attempts: u64,
    retries: u64,
    in_flight: u64,
    (share, floor): (Ratio, u64),
) -> Result<(), Violation> {
    let within_share = retries < share.of(first_attempts);
    hold(Law::RetriesWithinShare, within_share || in_flight < floor, || {
        format!(
            "one more than {retries} retries of {first_attempts} first attempts with {in_flight} in flight"
        )
    })
}

/// [`Law::WaitWithinBounds`].
pub fn wait_within_bounds(wait: Duration, least: Duration, most: Duration) -> Result<(), Violation> {
    hold(Law::WaitWithinBounds, least <= wait && wait <= most, || {
        format!("{wait:?} is not between {least:?} and {most:?}")
    })
}

/// [`Law::AttemptFitsDeadline`], for an attempt of duration `attempt` after a backoff of `wait` from `now`.
pub fn attempt_fits_deadline(
    now: Timestamp,
    wait: Duration,
    attempt: Duration,
    deadline: Deadline,
) -> Result<(), Violation> {
    hold(Law::AttemptFitsDeadline, deadline.has_room(now, wait.saturating_add(attempt)), || {
        format!("{wait:?} and {attempt:?} from {now} end after {}", deadline.moment())
    })
}

/// [`Law::AttemptsWithinLimit`].
pub fn attempts_within_limit(attempts: u32, limit: u32) -> Result<(), Violation> {
    hold(Law::AttemptsWithinLimit, attempts <= limit, || format!("{attempts} of {limit}"))
}

/// [`Law::InFlightWithinLimit`].
pub fn in_flight_within_limit(in_flight: u32, limit: u32) -> Result<(), Violation> {
    hold(Law::InFlightWithinLimit, in_flight <= limit, || format!("{in_flight} of {limit}"))
}

/// [`Law::ChildShorterThanParent`].
pub fn child_shorter_than_parent(child: Duration, parent: Duration) -> Result<(), Violation> {
    hold(Law::ChildShorterThanParent, child < parent, || format!("{child:?} inside {parent:?}"))
}

/// [`Law::SpendWithinCap`], with a total cost of `overrun` above the worst cases.
pub fn spend_within_cap(posted: Money, held: Money, overrun: Money, cap: Money) -> Result<(), Violation> {
    let holds = posted.saturating_add(held) <= cap.saturating_add(overrun);
    hold(Law::SpendWithinCap, holds, || format!("{posted} posted and {held} held of {cap}"))
}

/// [`Law::MoneyIsConserved`].
pub fn money_is_conserved(reserved: Money, released: Money, held: Money) -> Result<(), Violation> {
    hold(Law::MoneyIsConserved, released.checked_add(held) == Some(reserved), || {
        format!("{reserved} reserved, {released} released, {held} held")
    })
}

/// [`Law::FramesFollowEachOther`], for a frame that a client receives after those up to `last` on one connection.
pub fn frames_follow_each_other(index: u64, last: Option<u64>, ended: bool) -> Result<(), Violation> {
    let expected = last.map_or(Some(0), |last| last.checked_add(1));
    hold(Law::FramesFollowEachOther, !ended && expected == Some(index), || {
        format!("{index} after {last:?}{}", if ended { " and the ending" } else { "" })
    })
}

/// [`Law::FrameFitsTransport`].
pub fn frame_fits_transport(bytes: usize, limit: usize) -> Result<(), Violation> {
    hold(Law::FrameFitsTransport, bytes <= limit, || format!("{bytes} of {limit} bytes"))
}

/// [`Law::EveryEntryAccountedFor`], for a queue that `entered` requests have entered, that `left` have left by reason,
/// and in which `inside` still wait.
pub fn every_entry_accounted_for(entered: u64, left: &[u64], inside: u64) -> Result<(), Violation> {
    let accounted = left.iter().fold(u128::from(inside), |sum, count| sum + u128::from(*count));
    hold(Law::EveryEntryAccountedFor, accounted == u128::from(entered), || {
        format!("{entered} entered, {left:?} left, {inside} inside")
    })
}

/// [`Law::LevelFallsByOneStep`]. A level may rise by any number of steps.
pub fn level_falls_by_one_step(before: Level, after: Level) -> Result<(), Violation> {
    hold(Law::LevelFallsByOneStep, before.index() <= after.index() + 1, || format!("{before} became {after}"))
}

/// [`Law::InputWithinLimit`].
pub fn input_within_limit(tokens: u64, limit: u64) -> Result<(), Violation> {
    hold(Law::InputWithinLimit, tokens <= limit, || format!("{tokens} of {limit}"))
}

/// [`Law::RolesTakeTurns`], for the turns of a conversation as they are sent.
pub fn roles_take_turns(roles: &[Role]) -> Result<(), Violation> {
    let expected = [Role::User, Role::Assistant].into_iter().cycle();
    hold(Law::RolesTakeTurns, roles.iter().copied().eq(expected.take(roles.len())), || format!("{roles:?}"))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

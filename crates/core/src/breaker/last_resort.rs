//! Calls that pass an open breaker because there is no other target.
//!
//! **Why?** A breaker protects callers from a failing target by sending them to another one. If there is no other
//! target, blocking for a whole `open_for` only prolongs the outage. Two kinds of calls may pass then. A *single probe*
//! passes every five seconds; its success starts the trial at once. A *panic* call passes if its caller prefers a slow
//! answer to none, provided that the target is blocked only for slow answers or because the probes of a trial are in
//! flight.
//!
//! A panic call that fails counts like a failed probe: it ends a trial. `failure_threshold` such failures in a row turn
//! the reason of an open breaker from slow into failing, and then no further panic call passes. If most of these failures
//! are one caller's, it is quarantined instead. After one caller's single probe has failed, another caller may send one
//! at once.

use super::attribution::CallerKey;
use super::machine::{BreakerState, Probe, SINGLE_PROBE_INTERVAL, StageResult, TripReason};
use super::types::PermitKind;
use super::{Breaker, BreakerDecision, BreakerMode, BreakerPermit, PROBE_GRACE, RejectReason};
use crate::deadline::Deadline;
use crate::failure::Health;
use crate::time::Timestamp;
use std::time::Duration;

/// Which calls may pass a breaker that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastResort {
    /// Allow one probe every five seconds, because there is no other target.
    pub single_probe: bool,
    /// Allow any call to a target that is only slow, because a late answer is better than none.
    pub panic: bool,
}

impl RejectReason {
    /// Whether a target that is blocked for this reason is presumably still answering.
    #[must_use]
    pub const fn allows_panic(self) -> bool {
        match self {
            Self::Open(reason) => reason.is_slow_answers(),
            Self::ProbesInFlight => true,
            Self::ForcedOpen => false,
        }
    }
}

impl Breaker {
    /// Requests a permit for one call when there is no other target.
    pub fn acquire_last_resort(
        &mut self,
        caller: Option<CallerKey>,
        now: Timestamp,
        attempt: Deadline,
        allowed: LastResort,
    ) -> BreakerDecision {
        let decision = self.acquire_for(caller, now, attempt);
        let BreakerDecision::Rejected { reason, retry_after } = decision else { return decision };
        if self.mode != BreakerMode::Automatic {
            return decision;
        }
        if allowed.single_probe
            && let Some(permit) = self.single_probe(caller, now, attempt)
        {
            return BreakerDecision::Permitted(permit);
        }
        if allowed.panic && reason.allows_panic() {
            self.panic_calls = self.panic_calls.saturating_add(1);
            return BreakerDecision::Permitted(self.new_permit(caller, PermitKind::Panic));
        }
        // The next single probe may pass before the breaker leaves the open state.
        let sooner =
            |wait: Duration| if allowed.single_probe { wait.min(SINGLE_PROBE_INTERVAL) } else { wait };
        BreakerDecision::Rejected { reason, retry_after: retry_after.map(sooner) }
    }

    /// The number of calls that passed a blocking breaker because the target was only slow and there was no other.
    #[must_use]
    pub const fn panic_calls(&self) -> u64 {
        self.panic_calls
    }

    fn single_probe(
        &mut self,
        caller: Option<CallerKey>,
        now: Timestamp,
        attempt: Deadline,
    ) -> Option<BreakerPermit> {
        let expires = attempt.within(now, self.settings.max_open_for).moment() + PROBE_GRACE;
        let permit = self.new_permit(caller, PermitKind::SingleProbe);
        let BreakerState::Open { opening, .. } = &mut self.machine_mut(permit.is_quarantined).state else {
            return None;
        };
        let is_not_to_blame =
            opening.sole_failed.is_some_and(|failed| caller.is_some_and(|caller| caller != failed));
        let is_due = now >= opening.next_probe || is_not_to_blame;
        if opening.probe.is_some() || !is_due {
            return None;
        }
        opening.probe = Some(Probe { serial: permit.serial, expires });
        Some(permit)
    }

    pub(super) fn record_single_probe(&mut self, permit: &BreakerPermit, health: Health, now: Timestamp) {
        let machine = self.machine_mut(permit.is_quarantined);
        let BreakerState::Open { opening, .. } = &mut machine.state else { return };
        let Some(probe) = opening.probe.take_if(|probe| probe.serial == permit.serial) else { return };
        if !matches!(health, Health::Good | Health::Slow) {
            let is_second = opening.sole_failed.is_some_and(|failed| Some(failed) != permit.caller);
            opening.sole_failed = permit.caller.filter(|_| !is_second);
            opening.next_probe = now + SINGLE_PROBE_INTERVAL;
            return;
        }
        // The single probe counts as the first probe of the trial.
        if !permit.is_quarantined {
            return self.begin_stage_with(0, probe, health, now);
        }
        let _ = machine.enter_stage(0, now);
        let result = match &mut self.quarantine {
            Some(quarantine) => quarantine.machine.record_earlier_probe(&self.settings, probe, health),
            None => None,
        };
        self.conclude_quarantine_stage(result, now);
    }

    pub(super) fn record_panic_call(&mut self, permit: &BreakerPermit, health: Health, now: Timestamp) {
        let threshold = self.settings.failure_threshold;
        let failed = match &mut self.machine_mut(permit.is_quarantined).state {
            BreakerState::Open { opening, .. } => {
                match health {
                    Health::Good | Health::Slow => opening.panic_failures = 0,
                    Health::Bad => opening.panic_failures = opening.panic_failures.saturating_add(1),
                    Health::TimedOut | Health::Unknown => {}
                }
                (opening.panic_failures >= threshold).then_some(TripReason::ConsecutiveFailures)
            }
            BreakerState::HalfOpen(_) => (health == Health::Bad).then_some(TripReason::ProbeFailed),
            BreakerState::Suspect { .. } | BreakerState::Closed { .. } => None,
        };
        if permit.is_quarantined {
            return self.conclude_quarantine_stage(failed.map(StageResult::Failed), now);
        }
        match health {
            Health::Bad => self.blame.record_failure(permit.caller, now),
            Health::Good | Health::Slow => self.blame.end_streak(),
            Health::TimedOut | Health::Unknown => {}
        }
        let Some(reason) = failed else { return };
        let dominant_caller = self.dominant_caller(reason);
        match (&mut self.machine.state, dominant_caller) {
            // For the other callers the target is still only slow.
            (BreakerState::Open { opening, .. }, Some(caller)) => {
                opening.panic_failures = 0;
                self.blame.end_streak();
                self.quarantine(caller, reason, now);
            }
            _ => self.open(reason, now),
        }
    }
}

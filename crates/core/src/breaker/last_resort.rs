//! Calls that pass although a breaker blocks, because no other target can be asked.
//!
//! **Why?** A breaker protects callers from a target that does not answer, by leaving them to another target. Where there is
//! no other, blocking for a whole `open_for` only adds to the outage. Two kinds of calls pass then: one *single probe* every
//! five seconds, whose success begins the trial at once; and, where the target is blocked only for slow answers or because
//! the probes of a trial are under way, any call that its caller would rather have slowly than not at all (*panic*).
//!
//! A panic call that fails is as telling as a probe that fails: it ends a trial, and so many in a row as open a closed
//! breaker turn "slow" into "failing", which no further call passes.

use super::blame::CallerKey;
use super::machine::{Probe, SINGLE_PROBE_EVERY, State, TripReason};
use super::types::Role;
use super::{AcquireDecision, Breaker, BreakerMode, BreakerPermit, PROBE_GRACE, RejectReason};
use crate::deadline::Deadline;
use crate::failure::Health;
use crate::time::Timestamp;
use std::time::Duration;

/// What may pass a breaker that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastResort {
    /// One probe every five seconds: no other target can be asked.
    pub single_probe: bool,
    /// Any call to a target that is only slow: its caller would rather wait than have no answer.
    pub panic: bool,
}

impl RejectReason {
    /// Whether a target that is blocked for this reason still answers, as far as anybody knows.
    #[must_use]
    pub const fn allows_panic(self) -> bool {
        match self {
            Self::Open(reason) => reason.is_slow_answers(),
            Self::ProbesTaken => true,
            Self::ForcedOpen => false,
        }
    }
}

impl Breaker {
    /// Asks to make one call when no other target can be asked.
    pub fn acquire_last_resort(
        &mut self,
        caller: Option<CallerKey>,
        now: Timestamp,
        attempt: Deadline,
        allowed: LastResort,
    ) -> AcquireDecision {
        let decision = self.acquire_for(caller, now, attempt);
        let AcquireDecision::Rejected { reason, retry_after } = decision else { return decision };
        if self.mode != BreakerMode::Automatic {
            return decision;
        }
        if allowed.single_probe
            && let Some(permit) = self.single_probe(caller, now, attempt)
        {
            return AcquireDecision::Permitted(permit);
        }
        if allowed.panic && reason.allows_panic() {
            self.panic_calls = self.panic_calls.saturating_add(1);
            return AcquireDecision::Permitted(self.new_permit(caller, Role::Panic));
        }
        // The next probe passes sooner than the opening ends.
        let sooner = |wait: Duration| if allowed.single_probe { wait.min(SINGLE_PROBE_EVERY) } else { wait };
        AcquireDecision::Rejected { reason, retry_after: retry_after.map(sooner) }
    }

    /// Calls that passed although the breaker blocked, because the target was only slow and there was no other.
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
        let expires = attempt.within(now, self.settings.open_cap).moment() + PROBE_GRACE;
        let permit = self.new_permit(caller, Role::SingleProbe);
        let State::Open { opening, .. } = &mut self.machine_mut(permit.is_own).state else { return None };
        if opening.probe.is_some() || now < opening.next_probe {
            return None;
        }
        opening.probe = Some(Probe { serial: permit.serial, expires });
        Some(permit)
    }

    pub(super) fn judge_single_probe(&mut self, permit: &BreakerPermit, health: Health, now: Timestamp) {
        let settings = self.settings.clone();
        let machine = self.machine_mut(permit.is_own);
        let State::Open { opening, .. } = &mut machine.state else { return };
        if opening.probe.is_none_or(|probe| probe.serial != permit.serial) {
            return;
        }
        let probe = opening.probe.take();
        opening.next_probe = now + SINGLE_PROBE_EVERY;
        if !matches!(health, Health::Good | Health::Slow) {
            return;
        }
        // It stands for the first probe of the trial.
        let began = machine.enter_stage(0, now);
        if let State::HalfOpen(trial) = &mut machine.state {
            trial.probes.extend(probe);
        }
        let judged = machine.judge_probe(&settings, permit.serial, health, now);
        if permit.is_own {
            self.release(judged.as_ref(), now);
        } else {
            self.note(Some(began));
            self.note(judged);
        }
    }

    pub(super) fn judge_panic(&mut self, permit: &BreakerPermit, health: Health, now: Timestamp) {
        let settings = self.settings.clone();
        let machine = self.machine_mut(permit.is_own);
        let fails = health == Health::Bad;
        let reason = match &mut machine.state {
            State::Open { opening, .. } => {
                match health {
                    Health::Good | Health::Slow => opening.panic_failures = 0,
                    Health::Bad => opening.panic_failures = opening.panic_failures.saturating_add(1),
                    Health::Cut | Health::Unknown => {}
                }
                (opening.panic_failures >= settings.failure_threshold)
                    .then_some(TripReason::ConsecutiveFailures)
            }
            State::HalfOpen(_) => fails.then_some(TripReason::ProbeFailed),
            State::Suspect { .. } | State::Closed { .. } => None,
        };
        if let Some(reason) = reason {
            let transition = machine.open(&settings, reason, now);
            if !permit.is_own {
                self.note(Some(transition));
            }
        }
    }
}

//! Opens a breaker for one caller only.
//!
//! When one caller accounts for most of the failures behind a trip, the breaker opens for that caller, which later gets
//! a trial of its own. The first call of any other caller is a probe: its success closes the breaker for the others, or
//! resumes the trial that the failures interrupted; its failure opens the breaker for all. If there is only one caller,
//! its own trial closes the breaker.

use super::attribution::CallerKey;
use super::machine::{BreakerMachine, BreakerPhase, BreakerState, Probe, StageResult, TripReason};
use super::{Breaker, RejectReason};
use crate::failure::Health;
use crate::setting::Ratio;
use crate::time::Timestamp;

/// A caller with at least this share of the failures is quarantined.
const QUARANTINE_SHARE: Ratio = Ratio::of_percent::<80>();

/// The quarantined caller and the state machine of its own trial.
#[derive(Clone, Debug)]
pub(super) struct Quarantine {
    pub(super) caller: CallerKey,
    pub(super) machine: BreakerMachine,
}

impl Breaker {
    /// Opens for the dominant caller only, or for all callers if there is none.
    pub(super) fn open(&mut self, reason: TripReason, now: Timestamp) {
        let transition = match self.dominant_caller(reason) {
            Some(caller) => {
                self.quarantine(caller, reason, now);
                self.machine.suspect(reason, now)
            }
            None => {
                self.quarantine = None;
                self.machine.open(&self.settings, reason, now)
            }
        };
        self.record_transition(Some(transition));
    }

    /// Acts on the result of a stage of the breaker's own trial.
    pub(super) fn conclude_stage(&mut self, result: Option<StageResult>, now: Timestamp) {
        match result {
            None => {}
            Some(StageResult::Failed(reason)) => self.open(reason, now),
            Some(StageResult::Passed) => {
                let transition = self.machine.pass_stage(&self.settings, now);
                self.record_transition(Some(transition));
            }
        }
    }

    /// Opens for this caller only, for as long as the breaker would have opened for all.
    pub(super) fn quarantine(&mut self, caller: CallerKey, reason: TripReason, now: Timestamp) {
        let mut machine = self.machine.clone();
        let _ = machine.open(&self.settings, reason, now);
        self.quarantine = Some(Box::new(Quarantine { caller, machine }));
    }

    /// The caller to quarantine for a trip for this reason.
    pub(super) fn dominant_caller(&self, reason: TripReason) -> Option<CallerKey> {
        // A second trip while one caller is already quarantined is not the doing of a single caller.
        if self.quarantine.is_some() { None } else { self.blame.dominant_caller(reason, QUARANTINE_SHARE) }
    }

    /// The state machine that decides on this caller's calls, and whether it is the quarantine's own.
    pub(super) fn machine_for(&self, caller: Option<CallerKey>) -> (&BreakerMachine, bool) {
        match &self.quarantine {
            Some(quarantine) if Some(quarantine.caller) == caller => (&quarantine.machine, true),
            _ => (&self.machine, false),
        }
    }

    pub(super) fn machine_mut(&mut self, is_quarantined: bool) -> &mut BreakerMachine {
        match &mut self.quarantine {
            Some(quarantine) if is_quarantined => &mut quarantine.machine,
            _ => &mut self.machine,
        }
    }

    /// Records the result of a probe by the quarantined caller.
    pub(super) fn record_quarantine_probe(&mut self, serial: u64, health: Health, now: Timestamp) {
        let Some(quarantine) = &mut self.quarantine else { return };
        let result = quarantine.machine.record_probe(&self.settings, serial, health);
        self.conclude_quarantine_stage(result, now);
    }

    /// Acts on the result of a stage of the quarantined caller's trial.
    pub(super) fn conclude_quarantine_stage(&mut self, result: Option<StageResult>, now: Timestamp) {
        let (Some(quarantine), Some(result)) = (&mut self.quarantine, result) else { return };
        let transition = match result {
            StageResult::Failed(reason) => quarantine.machine.open(&self.settings, reason, now),
            StageResult::Passed => quarantine.machine.pass_stage(&self.settings, now),
        };
        if transition.to == BreakerPhase::Closed {
            self.release(now);
        }
    }

    /// Ends the quarantine of a caller that has passed its trial. Such a trial shows that the target works, so it closes
    /// the breaker for the others too.
    fn release(&mut self, now: Timestamp) {
        self.quarantine = None;
        if !matches!(self.machine.state, BreakerState::Closed { .. }) {
            let transition = self.machine.close(now);
            self.record_transition(Some(transition));
        }
    }

    /// Records the result of the first probe by another caller.
    pub(super) fn record_suspect_probe(&mut self, serial: u64, health: Health, now: Timestamp) {
        let BreakerState::Suspect { stage, probe } = &mut self.machine.state else { return };
        let Some(own) = probe.take_if(|probe| probe.serial == serial) else { return };
        match (health, *stage) {
            (Health::Unknown | Health::TimedOut, _) => {}
            (Health::Bad, _) => self.open(TripReason::ProbeFailed, now),
            (Health::Good | Health::Slow, None) => {
                let transition = self.machine.close(now);
                self.record_transition(Some(transition));
            }
            (Health::Good | Health::Slow, Some(stage)) => self.begin_stage_with(stage, own, health, now),
        }
    }

    /// Enters a stage of the breaker's own trial with the result of a probe that was sent before.
    pub(super) fn begin_stage_with(&mut self, stage: usize, probe: Probe, health: Health, now: Timestamp) {
        let transition = self.machine.enter_stage(stage, now);
        self.record_transition(Some(transition));
        let result = self.machine.record_earlier_probe(&self.settings, probe, health);
        self.conclude_stage(result, now);
    }

    /// The phase to display during a quarantine: the quarantined caller's own trial until another caller has probed.
    pub(super) fn visible_phase(&self, caller: Option<CallerKey>) -> BreakerPhase {
        match (&self.machine.state, &self.quarantine, caller) {
            (_, Some(quarantine), Some(caller)) if quarantine.caller == caller => quarantine.machine.phase(),
            (BreakerState::Suspect { .. }, Some(quarantine), None) => quarantine.machine.phase(),
            (BreakerState::Suspect { .. }, _, _) => BreakerPhase::HalfOpen { stage: 0 },
            _ => self.machine.phase(),
        }
    }

    /// Rejects further calls of other callers while the first such call is in flight.
    pub(super) const fn suspect_rejection(probe: Option<&Probe>) -> Option<RejectReason> {
        if probe.is_some() { Some(RejectReason::ProbesInFlight) } else { None }
    }
}

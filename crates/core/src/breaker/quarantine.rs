//! Opens a breaker for one caller only.
//!
//! When one caller accounts for most of the failures behind a trip, the breaker opens for that caller, which later gets
//! a trial of its own. The first call of any other caller is a probe: its success closes the breaker for the others,
//! its failure opens it for all. If there is only one caller, its own trial closes the breaker.

use super::blame::CallerKey;
use super::machine::{BreakerPhase, Machine, Probe, State, Transition, TripReason};
use super::{Breaker, RejectReason};
use crate::failure::Health;
use crate::setting::Ratio;
use crate::time::Timestamp;

/// A caller with at least this share of the failures is quarantined.
const CULPRIT_SHARE: Ratio = Ratio::of_percent::<80>();

/// The quarantined caller and the state machine of its own trial.
#[derive(Clone, Debug)]
pub(super) struct Quarantine {
    pub(super) caller: CallerKey,
    pub(super) machine: Machine,
}

impl Breaker {
    /// Opens for the culprit only, or for all callers if there is none.
    pub(super) fn open(&mut self, reason: TripReason, now: Timestamp) {
        // A second trip while one caller is already quarantined is not the doing of a single caller.
        let culprit = match self.quarantine.take() {
            None => self.blame.culprit(reason, CULPRIT_SHARE),
            Some(_) => None,
        };
        let transition = match culprit {
            Some(caller) => {
                let mut machine = Machine::new();
                let _ = machine.open(&self.settings, reason, now);
                self.quarantine = Some(Box::new(Quarantine { caller, machine }));
                self.machine.suspect(reason, now)
            }
            None => self.machine.open(&self.settings, reason, now),
        };
        self.note(Some(transition));
    }

    /// The state machine that decides on this caller's calls, and whether it is the quarantine's own.
    pub(super) fn machine_for(&self, caller: Option<CallerKey>) -> (&Machine, bool) {
        match &self.quarantine {
            Some(quarantine) if Some(quarantine.caller) == caller => (&quarantine.machine, true),
            _ => (&self.machine, false),
        }
    }

    pub(super) fn machine_mut(&mut self, is_own: bool) -> &mut Machine {
        match &mut self.quarantine {
            Some(quarantine) if is_own => &mut quarantine.machine,
            _ => &mut self.machine,
        }
    }

    /// Records the result of a probe by the quarantined caller.
    pub(super) fn judge_culprit(&mut self, serial: u64, health: Health, now: Timestamp) {
        let Some(quarantine) = &mut self.quarantine else { return };
        let transition = quarantine.machine.judge_probe(&self.settings, serial, health, now);
        self.release(transition.as_ref(), now);
    }

    /// Ends the quarantine of a caller that has passed its trial. Closes the breaker too if no other caller has probed
    /// it meanwhile.
    pub(super) fn release(&mut self, transition: Option<&Transition>, now: Timestamp) {
        if transition.is_none_or(|transition| transition.to != BreakerPhase::Closed) {
            return;
        }
        self.quarantine = None;
        if matches!(self.machine.state, State::Suspect { .. }) {
            let transition = self.machine.close(now);
            self.note(Some(transition));
        }
    }

    /// Records the result of the first probe by another caller.
    pub(super) fn judge_suspicion(&mut self, serial: u64, health: Health, now: Timestamp) {
        let State::Suspect { probe } = &mut self.machine.state else { return };
        if probe.is_none_or(|probe| probe.serial != serial) {
            return;
        }
        *probe = None;
        let transition = match health {
            Health::Unknown | Health::Cut => return,
            Health::Good | Health::Slow => self.machine.close(now),
            Health::Bad => {
                self.quarantine = None;
                self.machine.open(&self.settings, TripReason::ProbeFailed, now)
            }
        };
        self.note(Some(transition));
    }

    /// The phase to display during a quarantine: the quarantined caller's own trial until another caller has probed.
    pub(super) fn visible_phase(&self, caller: Option<CallerKey>) -> BreakerPhase {
        match (&self.machine.state, &self.quarantine, caller) {
            (_, Some(quarantine), Some(caller)) if quarantine.caller == caller => quarantine.machine.phase(),
            (State::Suspect { .. }, Some(quarantine), None) => quarantine.machine.phase(),
            (State::Suspect { .. }, _, _) => BreakerPhase::HalfOpen { stage: 0 },
            _ => self.machine.phase(),
        }
    }

    /// Rejects further calls of other callers while the first such call is in flight.
    pub(super) const fn suspicion_rejects(probe: Option<&Probe>) -> Option<RejectReason> {
        if probe.is_some() { Some(RejectReason::ProbesTaken) } else { None }
    }
}

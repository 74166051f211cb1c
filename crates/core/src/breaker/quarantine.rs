//! Opens a breaker for one caller only.
//!
//! When one caller accounts for most of the failures behind a trip, the breaker opens for that caller, which later gets
//! a trial of its own. The first call of any other caller is a probe: its success closes the breaker for the others,
//! its failure opens it for all. If there is only one caller, its own trial closes the breaker.

use super::attribution::CallerKey;
use super::machine::{BreakerMachine, BreakerPhase, BreakerState, Probe, Transition, TripReason};
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
        // A second trip while one caller is already quarantined is not the doing of a single caller.
        let dominant_caller = match self.quarantine.take() {
            None => self.blame.dominant_caller(reason, QUARANTINE_SHARE),
            Some(_) => None,
        };
        let transition = match dominant_caller {
            Some(caller) => {
                let mut machine = BreakerMachine::new();
                let _ = machine.open(&self.settings, reason, now);
                self.quarantine = Some(Box::new(Quarantine { caller, machine }));
                self.machine.suspect(reason, now)
            }
            None => self.machine.open(&self.settings, reason, now),
        };
        self.record_transition(Some(transition));
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
        let transition = quarantine.machine.record_probe(&self.settings, serial, health, now);
        self.release(transition.as_ref(), now);
    }

    /// Ends the quarantine of a caller that has passed its trial. Closes the breaker too if no other caller has probed
    /// it meanwhile.
    pub(super) fn release(&mut self, transition: Option<&Transition>, now: Timestamp) {
        if transition.is_none_or(|transition| transition.to != BreakerPhase::Closed) {
            return;
        }
        self.quarantine = None;
        if matches!(self.machine.state, BreakerState::Suspect { .. }) {
            let transition = self.machine.close(now);
            self.record_transition(Some(transition));
        }
    }

    /// Records the result of the first probe by another caller.
    pub(super) fn record_suspect_probe(&mut self, serial: u64, health: Health, now: Timestamp) {
        let BreakerState::Suspect { probe } = &mut self.machine.state else { return };
        if probe.is_none_or(|probe| probe.serial != serial) {
            return;
        }
        *probe = None;
        let transition = match health {
            Health::Unknown | Health::TimedOut => return,
            Health::Good | Health::Slow => self.machine.close(now),
            Health::Bad => {
                self.quarantine = None;
                self.machine.open(&self.settings, TripReason::ProbeFailed, now)
            }
        };
        self.record_transition(Some(transition));
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

//! A breaker that is open for one caller.
//!
//! When one caller has most of the failures that open a breaker, it opens for that caller, who has a trial of its own later.
//! The first call of any other caller is a probe: its success closes the breaker for the others, its failure opens it for
//! all. Where there is only one caller, its own trial closes the breaker.

use super::blame::CallerKey;
use super::machine::{BreakerPhase, Machine, Probe, State, Transition, TripReason};
use super::{Breaker, RejectReason};
use crate::failure::Health;
use crate::setting::Ratio;
use crate::time::Timestamp;

/// Who has this share of the failures is the one to blame.
const CULPRIT_SHARE: Ratio = Ratio::of_percent::<80>();

/// The caller for whom alone a breaker is open, and how its own trial goes.
#[derive(Clone, Debug)]
pub(super) struct Quarantine {
    pub(super) caller: CallerKey,
    pub(super) machine: Machine,
}

impl Breaker {
    /// Opens for the caller that is to blame, or for all where nobody is.
    pub(super) fn open(&mut self, reason: TripReason, now: Timestamp) {
        // A second one to blame while the first is still shut out: this is no longer one caller's doing.
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

    /// The machine that decides over this caller's calls, and whether that is one of its own.
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

    /// Takes in how a probe of the caller that is to blame went.
    pub(super) fn judge_culprit(&mut self, serial: u64, health: Health, now: Timestamp) {
        let Some(quarantine) = &mut self.quarantine else { return };
        let transition = quarantine.machine.judge_probe(&self.settings, serial, health, now);
        self.release(transition.as_ref(), now);
    }

    /// A caller that has passed its trial is one of all again; so is everybody, where nobody else has asked meanwhile.
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

    /// Takes in what another caller's probe found.
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

    /// What operators see while it is open for one caller: that caller's trial as long as nobody else has asked.
    pub(super) fn visible_phase(&self, caller: Option<CallerKey>) -> BreakerPhase {
        match (&self.machine.state, &self.quarantine, caller) {
            (_, Some(quarantine), Some(caller)) if quarantine.caller == caller => quarantine.machine.phase(),
            (State::Suspect { .. }, Some(quarantine), None) => quarantine.machine.phase(),
            (State::Suspect { .. }, _, _) => BreakerPhase::HalfOpen { stage: 0 },
            _ => self.machine.phase(),
        }
    }

    /// Whether a call of another caller than the one to blame has to wait for the first such call.
    pub(super) const fn suspicion_rejects(probe: Option<&Probe>) -> Option<RejectReason> {
        if probe.is_some() { Some(RejectReason::ProbesTaken) } else { None }
    }
}

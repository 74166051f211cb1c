//! Changes the settings of a live breaker.

use super::attribution::FailureAttribution;
use super::machine::BreakerState;
use super::window::HealthWindow;
use super::{Breaker, BreakerSettings, SharedBreaker};
use crate::time::Timestamp;

impl Breaker {
    /// Applies new settings without changing the state: only later outcomes are judged by them.
    ///
    /// An open breaker keeps its timer. The window keeps its counts if its length is unchanged, and starts empty
    /// otherwise. If the stages changed, a trial in progress restarts at its first stage, and results of its earlier
    /// probes are ignored.
    pub fn apply_settings(&mut self, settings: BreakerSettings, now: Timestamp) {
        // Transitions that were already due happen under the settings that were in force then.
        self.advance(now);
        if settings.window != self.settings.window {
            self.window = HealthWindow::new(settings.window);
            self.blame = FailureAttribution::new(settings.window);
        }
        let has_other_stages = settings.half_open_stages() != self.settings.half_open_stages();
        self.settings = settings;
        if let Some(quarantine) = self.quarantine.as_mut().filter(|_| has_other_stages)
            && matches!(quarantine.machine.state, BreakerState::HalfOpen(_))
        {
            let _ = quarantine.machine.enter_stage(0, now);
        }
        if has_other_stages && matches!(self.machine.state, BreakerState::HalfOpen(_)) {
            let transition = self.machine.enter_stage(0, now);
            self.record_transition(Some(transition));
        }
    }
}

impl SharedBreaker {
    /// Applies new settings; see [`Breaker::apply_settings`].
    pub fn apply_settings(&self, settings: BreakerSettings, now: Timestamp) {
        self.with(|breaker| breaker.apply_settings(settings, now));
    }
}

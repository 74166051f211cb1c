//! Other settings for a breaker that is at work.

use super::blame::Blame;
use super::machine::State;
use super::window::HealthWindow;
use super::{Breaker, BreakerSettings, SharedBreaker};
use crate::time::Timestamp;

impl Breaker {
    /// Has other settings from now on and stays where it stands: what changed is how the next outcome is judged.
    ///
    /// Open, it stays open until the moment that it had. The window keeps its outcomes if it is as long as before, and
    /// begins empty otherwise. A trial whose stages are others begins again at its first stage, and what comes back of
    /// probes from before says nothing.
    pub fn change(&mut self, settings: BreakerSettings, now: Timestamp) {
        // What was due before is due by the settings that were in force then.
        self.advance(now);
        if settings.window != self.settings.window {
            self.window = HealthWindow::new(settings.window);
            self.blame = Blame::new(settings.window);
        }
        let has_other_stages = settings.stages() != self.settings.stages();
        self.settings = settings;
        if let Some(quarantine) = self.quarantine.as_mut().filter(|_| has_other_stages)
            && matches!(quarantine.machine.state, State::HalfOpen(_))
        {
            let _ = quarantine.machine.enter_stage(0, now);
        }
        if has_other_stages && matches!(self.machine.state, State::HalfOpen(_)) {
            let transition = self.machine.enter_stage(0, now);
            self.note(Some(transition));
        }
    }
}

impl SharedBreaker {
    /// Has other settings from now on; see [`Breaker::change`].
    pub fn change(&self, settings: BreakerSettings, now: Timestamp) {
        self.with(|breaker| breaker.change(settings, now));
    }
}

//! Splits the time of an unstreamed request into phases.

use super::Deadline;
use crate::setting::{SettingError, ordered, positive};
use crate::time::Timestamp;
use std::time::Duration;

/// Time limits of the phases of a request.
///
/// The phases around the model have fixed limits. The model gets the remaining time minus a reserve for saving and
/// responding; with less than a useful minimum it is not called.
///
/// ```
/// use seawall_core::deadline::{Deadline, Phases};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let phases = Phases::default();
/// let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(28));
/// let model = phases.model(deadline, Timestamp::ZERO).unwrap();
/// assert_eq!(model.remaining(Timestamp::ZERO), Duration::from_secs(25));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    session: Duration,
    prompt: Duration,
    save: Duration,
    after_model: Duration,
    min_model_time: Duration,
}

/// Too little time is left to call a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too little time for a model call: {left:?} left, {needed:?} needed")]
pub struct InsufficientTime {
    /// The time that the model would have had.
    pub left: Duration,
    /// The minimum for a useful call.
    pub needed: Duration,
}

impl Default for Phases {
    fn default() -> Self {
        Self {
            session: Duration::from_secs(2),
            prompt: Duration::from_millis(500),
            save: Duration::from_secs(2),
            after_model: Duration::from_secs(3),
            min_model_time: Duration::from_secs(5),
        }
    }
}

impl Phases {
    /// Limits for loading the session, building the prompt and saving, the reserve after the model, and the minimum
    /// time for a model call. Saving must fit into the reserve.
    pub fn new(
        session: Duration,
        prompt: Duration,
        save: Duration,
        after_model: Duration,
        min_model_time: Duration,
    ) -> Result<Self, SettingError> {
        positive("session", session)?;
        positive("prompt", prompt)?;
        positive("save", save)?;
        positive("min_model_time", min_model_time)?;
        ordered(("save", save), ("after_model", after_model))?;
        Ok(Self { session, prompt, save, after_model, min_model_time })
    }

    /// The deadline for loading the session.
    #[must_use]
    pub fn session(&self, request: Deadline, now: Timestamp) -> Deadline {
        request.within(now, self.session)
    }

    /// The deadline for building the prompt.
    #[must_use]
    pub fn prompt(&self, request: Deadline, now: Timestamp) -> Deadline {
        request.within(now, self.prompt)
    }

    /// The deadline for the model call, or an error if too little time is left.
    pub fn model(&self, request: Deadline, now: Timestamp) -> Result<Deadline, InsufficientTime> {
        let model = request.reserving(self.after_model);
        let left = model.remaining(now);
        if left < self.min_model_time {
            return Err(InsufficientTime { left, needed: self.min_model_time });
        }
        Ok(model)
    }

    /// The deadline for saving the session.
    #[must_use]
    pub fn save(&self, request: Deadline, now: Timestamp) -> Deadline {
        request.within(now, self.save)
    }
}

#[cfg(test)]
mod tests {
    use super::{InsufficientTime, Phases};
    use crate::deadline::Deadline;
    use crate::time::Timestamp;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_model_gets_the_rest_or_is_not_asked() {
        let phases = Phases::default();
        let now = Timestamp::ZERO + SECOND;
        let enough = Deadline::after(now, SECOND * 8);
        assert_eq!(phases.model(enough, now), Ok(Deadline::after(now, SECOND * 5)));
        let short = Deadline::after(now, Duration::from_millis(7_999));
        let left = Duration::from_millis(4_999);
        let refusal = phases.model(short, now).unwrap_err();
        assert_eq!(refusal, InsufficientTime { left, needed: SECOND * 5 });
        assert_eq!(refusal.to_string(), "too little time for a model call: 4.999s left, 5s needed");
    }

    #[test]
    fn fixed_phases_end_at_their_limit_or_with_the_request() {
        let phases = Phases::default();
        let now = Timestamp::ZERO;
        let request = Deadline::after(now, SECOND * 28);
        assert_eq!(phases.session(request, now).remaining(now), SECOND * 2);
        assert_eq!(phases.prompt(request, now).remaining(now), SECOND / 2);
        assert_eq!(phases.save(request, now).remaining(now), SECOND * 2);
        let nearly_over = Deadline::after(now, Duration::from_millis(10));
        assert_eq!(phases.session(nearly_over, now), nearly_over);
        assert_eq!(phases.prompt(nearly_over, now), nearly_over);
        assert_eq!(phases.save(nearly_over, now), nearly_over);
    }

    #[test]
    fn phases_that_make_no_sense_cannot_be_built() {
        let refused = |session, prompt, save, after, minimum| {
            Phases::new(session, prompt, save, after, minimum).unwrap_err().to_string()
        };
        let zero = Duration::ZERO;
        assert_eq!(refused(zero, SECOND, SECOND, SECOND, SECOND), "session: must be longer than 0s");
        assert_eq!(refused(SECOND, zero, SECOND, SECOND, SECOND), "prompt: must be longer than 0s");
        assert_eq!(refused(SECOND, SECOND, zero, SECOND, SECOND), "save: must be longer than 0s");
        assert_eq!(refused(SECOND, SECOND, SECOND, SECOND, zero), "min_model_time: must be longer than 0s");
        assert_eq!(
            refused(SECOND, SECOND, SECOND * 4, SECOND * 3, SECOND),
            "save: 4s is longer than after_model (3s)"
        );
        let phases = Phases::new(SECOND * 2, SECOND / 2, SECOND * 2, SECOND * 3, SECOND * 5).unwrap();
        assert_eq!(phases, Phases::default());
    }
}

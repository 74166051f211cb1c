//! What an operator can switch off, and what is only being tried.

use crate::vocabulary::{Mode, words};

words! {
    /// A switch. All are on unless somebody has thrown them; a switch that cannot be read is on.
    pub enum Switch as "switch" {
        /// Limits by caller and by route.
        RateLimit = "rate_limit_enabled",
        /// What a warning or a spent day mean for models.
        CostBreaker = "cost_circuit_breaker_enabled",
        /// What the level means for models.
        Degradation = "degradation_controller_enabled",
        /// The smaller service for guests.
        GuestLite = "guest_lite_pipeline_enabled",
        /// The ceiling of the night.
        OffPeak = "off_peak_tier_ceiling_enabled",
        /// Models as a whole. Off, none is called, whoever asks.
        ModelInvocation = "model_invocation_enabled",
    }
}

words! {
    /// What can be tried before it is enforced. Models as a whole are not among them: they are on or off, and there is
    /// no verdict that could be recorded instead.
    pub enum Protection as "protection" {
        /// Limits by caller and by route.
        RateLimit = "rate_limit",
        /// What a warning or a spent day mean for models.
        CostBreaker = "cost_circuit_breaker",
        /// What the level means for models.
        Degradation = "degradation_controller",
        /// The smaller service for guests.
        GuestLite = "guest_lite_pipeline",
        /// The ceiling of the night.
        OffPeak = "off_peak_tier_ceiling",
    }
}

impl Protection {
    /// What switches it off.
    #[must_use]
    pub const fn switch(self) -> Switch {
        match self {
            Self::RateLimit => Switch::RateLimit,
            Self::CostBreaker => Switch::CostBreaker,
            Self::Degradation => Switch::Degradation,
            Self::GuestLite => Switch::GuestLite,
            Self::OffPeak => Switch::OffPeak,
        }
    }
}

/// How the switches stand and in which mode each protection is.
///
/// ```
/// use seawall_core::evaluator::{Protection, Protections, Switch};
/// use seawall_core::vocabulary::Mode;
///
/// let mut protections = Protections::default();
/// protections.set_mode(Protection::Degradation, Mode::Observe);
/// assert_eq!(protections.mode(Protection::Degradation), Mode::Observe);
/// protections.throw(Switch::Degradation, false);
/// assert_eq!(protections.mode(Protection::Degradation), Mode::Off);
/// ```
///
/// Models as a whole have no mode:
///
/// ```compile_fail
/// use seawall_core::evaluator::{Protections, Switch};
/// use seawall_core::vocabulary::Mode;
///
/// Protections::default().set_mode(Switch::ModelInvocation, Mode::Off);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protections {
    on: [bool; Switch::ALL.len()],
    modes: [Mode; Protection::ALL.len()],
}

impl Default for Protections {
    /// Everything on and enforced: what holds when nobody can say what should.
    fn default() -> Self {
        Self { on: [true; Switch::ALL.len()], modes: [Mode::Enforce; Protection::ALL.len()] }
    }
}

impl Protections {
    /// Throws a switch.
    pub fn throw(&mut self, switch: Switch, on: bool) {
        self.on[switch.index()] = on;
    }

    /// Chooses what a protection does while it is on.
    pub fn set_mode(&mut self, protection: Protection, mode: Mode) {
        self.modes[protection.index()] = mode;
    }

    /// Whether a switch is on.
    #[must_use]
    pub const fn is_on(&self, switch: Switch) -> bool {
        self.on[switch.index()]
    }

    /// What a protection does. Switched off it acts on nothing; it goes on measuring.
    #[must_use]
    pub const fn mode(&self, protection: Protection) -> Mode {
        if self.is_on(protection.switch()) { self.modes[protection.index()] } else { Mode::Off }
    }

    /// Whether some protection only says what it would do.
    #[must_use]
    pub fn observes(&self) -> bool {
        Protection::ALL.into_iter().any(|protection| self.mode(protection) == Mode::Observe)
    }
}

//! The switch and the mode of each protection.

use crate::vocabulary::{Mode, named_enum};

named_enum! {
    /// A switch that turns a protection, or all model calls, off at once. On means that it works, which is the default; a
    /// switch that cannot be read counts as on.
    pub enum Switch as "switch" {
        /// Rate limits per caller and per route.
        RateLimit = "rate_limit_enabled",
        /// The effect of the cost state on models.
        CostBreaker = "cost_circuit_breaker_enabled",
        /// The effect of the degradation level on models.
        Degradation = "degradation_controller_enabled",
        /// The reduced pipeline for guests.
        GuestLite = "guest_lite_pipeline_enabled",
        /// The ceiling of the off-peak hours.
        OffPeak = "off_peak_ceiling_enabled",
        /// All model calls. When it is off, no model is called for any caller.
        ModelInvocation = "model_invocation_enabled",
    }
}

named_enum! {
    /// A protection that can run in observe mode before it is enforced. Model invocation is not one: it is on or off,
    /// and has no decision that could be recorded instead.
    pub enum Protection as "protection" {
        /// Rate limits per caller and per route.
        RateLimit = "rate_limit",
        /// The effect of the cost state on models.
        CostBreaker = "cost_circuit_breaker",
        /// The effect of the degradation level on models.
        Degradation = "degradation_controller",
        /// The reduced pipeline for guests.
        GuestLite = "guest_lite_pipeline",
        /// The ceiling of the off-peak hours.
        OffPeak = "off_peak_ceiling",
    }
}

impl Protection {
    /// The switch that turns the protection off.
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

/// State of the switches, and the mode of each protection.
///
/// ```
/// use seawall_core::evaluator::{Protection, Protections, Switch};
/// use seawall_core::vocabulary::Mode;
///
/// let mut protections = Protections::default();
/// protections.set_mode(Protection::Degradation, Mode::Observe);
/// assert_eq!(protections.mode(Protection::Degradation), Mode::Observe);
/// protections.set_switch(Switch::Degradation, false);
/// assert_eq!(protections.mode(Protection::Degradation), Mode::Off);
/// ```
///
/// Model invocation has no mode:
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
    /// Everything on and enforced: the fail-safe default if the settings cannot be read.
    fn default() -> Self {
        Self { on: [true; Switch::ALL.len()], modes: [Mode::Enforce; Protection::ALL.len()] }
    }
}

impl Protections {
    /// Turns a switch on or off.
    pub fn set_switch(&mut self, switch: Switch, on: bool) {
        self.on[switch.index()] = on;
    }

    /// Sets the mode of a protection, which applies while its switch is on.
    pub fn set_mode(&mut self, protection: Protection, mode: Mode) {
        self.modes[protection.index()] = mode;
    }

    /// Whether a switch is on.
    #[must_use]
    pub const fn is_on(&self, switch: Switch) -> bool {
        self.on[switch.index()]
    }

    /// The effective mode of a protection. With its switch off it has no effect, but keeps measuring.
    #[must_use]
    pub const fn mode(&self, protection: Protection) -> Mode {
        if self.is_on(protection.switch()) { self.modes[protection.index()] } else { Mode::Off }
    }

    /// Whether any protection is in observe mode.
    #[must_use]
    pub fn observes(&self) -> bool {
        Protection::ALL.into_iter().any(|protection| self.mode(protection) == Mode::Observe)
    }
}

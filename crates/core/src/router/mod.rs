//! What a request is worth: its priority, the best model it may use, and what is tried before any model.
//!
//! The answer depends on who asks, what about, and when. It is one row of a [table](RouteReason::rule) that can be
//! printed; the reason is the row's name and travels with the request.
//!
//! **When it acts.** Once per request, before the plan is made. Prime callers, and standard callers with something in
//! the cart, go first and get everything. Standard callers get a prepared answer first, and in the evening peak (19:00
//! to 23:00 in Japan) a fast model instead of a strong one. Guests get a prepared or kept answer, and a fast model only
//! for what those cannot answer.
//!
//! **What it will not do.** It verifies nobody: the tier is what identification found, and a tier that could not be
//! found is a guest's, because doubt goes to the cheap side. It does not know the night, the load, the budget or the
//! switches; whoever combines those takes the lowest ceiling of all.
//!
//! ```
//! use seawall_core::router::{RouteSituation, RouterOptions};
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Priority, Tier};
//! use std::time::Duration;
//!
//! let router = RouterOptions::default().check().unwrap();
//! let caller = RouteSituation::of(Some(Tier::Standard));
//! let noon_in_tokyo = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(3 * 3_600);
//! let route = router.route(&caller, noon_in_tokyo);
//! assert_eq!((route.priority, route.ceiling), (Priority::Normal, Ceiling::Strong));
//!
//! let eight_in_the_evening = noon_in_tokyo + Duration::from_secs(8 * 3_600);
//! assert_eq!(router.route(&caller, eight_in_the_evening).ceiling, Ceiling::Fast);
//! ```

mod table;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use table::{RouteReason, RouteRule};

use crate::hours::{Hours, HoursOptions};
use crate::setting::SettingError;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Intent, Priority, Tier, words};
use arrayvec::ArrayVec;

words! {
    /// What a request is for.
    pub enum Purpose as "purpose" {
        /// Somebody waits for the answer.
        Caller = "caller",
        /// Nobody waits for the answer.
        Background = "background",
        /// To see whether we still answer.
        HealthCheck = "health_check",
    }
}

words! {
    /// What was missing or special about a request, beside the rule that held.
    pub enum RouteNote as "route note" {
        /// The caller's tier could not be found.
        TierUnknown = "tier_unknown",
        /// Nobody could tell what the message is about.
        IntentMissing = "intent_missing",
        /// Nobody waits: the priority is bulk, the rest is what the caller would get.
        Background = "background",
    }
}

impl RouteNote {
    /// The note as a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TierUnknown => "The tier could not be found, so the caller is treated as a guest.",
            Self::IntentMissing => "Nobody could tell what the message is about.",
            Self::Background => "Nobody waits for it, so everybody else goes first.",
        }
    }
}

/// What the router must know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSituation {
    /// What it is for.
    pub purpose: Purpose,
    /// The verified tier; none where it could not be found.
    pub tier: Option<Tier>,
    /// Whether the caller's cart holds anything.
    pub has_cart: bool,
    /// What the message is about; none where nobody said. Means the same as [`Intent::Unknown`].
    pub intent: Option<Intent>,
    /// Whether what finds intents works.
    pub classifier_available: bool,
    /// Whether guests get the small treatment.
    pub guest_lite: bool,
}

impl RouteSituation {
    /// Somebody of this tier with an empty cart and a message that nobody has classified, on a normal day.
    #[must_use]
    pub const fn of(tier: Option<Tier>) -> Self {
        Self {
            purpose: Purpose::Caller,
            tier,
            has_cart: false,
            intent: None,
            classifier_available: true,
            guest_lite: true,
        }
    }

    fn known_intent(&self) -> Option<Intent> {
        self.intent.filter(|intent| *intent != Intent::Unknown)
    }
}

/// How a request is to be treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Whose turn comes first.
    pub priority: Priority,
    /// Whether to look things up for the model.
    pub use_retrieval: bool,
    /// The best model it may use.
    pub ceiling: Ceiling,
    /// Whether a prepared answer is tried before anything else.
    pub template_first: bool,
    /// Whether nothing but prepared and kept answers is tried.
    pub cache_only: bool,
    /// The rule that held.
    pub reason: RouteReason,
    /// What was missing or special.
    pub notes: RouteNotes,
}

/// What was missing or special about a request, each once.
pub type RouteNotes = ArrayVec<RouteNote, { RouteNote::ALL.len() }>;

/// Settings of a router as somebody wrote them; [`RouterOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOptions {
    /// When so many people shop that strong models are kept for those who buy.
    pub evening_peak: HoursOptions,
}

impl Default for RouterOptions {
    /// From 19:00 to 23:00 in Japan.
    fn default() -> Self {
        Self { evening_peak: HoursOptions::japan(19, 23) }
    }
}

impl RouterOptions {
    /// Refuses hours that make no sense.
    pub fn check(self) -> Result<Router, SettingError> {
        Ok(Router { evening_peak: self.evening_peak.check()? })
    }
}

/// Chooses routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    evening_peak: Hours,
}

impl Default for Router {
    /// With the evening peak from 19:00 to 23:00 in Japan.
    fn default() -> Self {
        Self { evening_peak: Hours::EVENING_PEAK }
    }
}

impl Router {
    /// The route of a request at this moment.
    #[must_use]
    pub fn route(&self, situation: &RouteSituation, utc: UtcTime) -> Route {
        route(situation, self.evening_peak.contains(utc))
    }

    /// The evening peak, for timers and reports.
    #[must_use]
    pub const fn evening_peak(&self) -> &Hours {
        &self.evening_peak
    }
}

/// The route of a request, inside or outside the evening peak.
#[must_use]
pub fn route(situation: &RouteSituation, in_peak: bool) -> Route {
    let reason = reason(situation, in_peak);
    let rule = reason.rule();
    let background = situation.purpose == Purpose::Background;
    let mut notes = RouteNotes::new();
    // A health check has neither tier nor intent, and misses neither.
    if situation.purpose != Purpose::HealthCheck {
        if situation.tier.is_none() {
            notes.push(RouteNote::TierUnknown);
        }
        if situation.known_intent().is_none() {
            notes.push(RouteNote::IntentMissing);
        }
    }
    if background {
        notes.push(RouteNote::Background);
    }
    Route {
        priority: if background { Priority::Bulk } else { rule.priority },
        use_retrieval: rule.retrieval_for.contains(&situation.known_intent().unwrap_or(Intent::Unknown)),
        ceiling: rule.ceiling,
        template_first: rule.template_first,
        cache_only: rule.ceiling == Ceiling::None,
        reason,
        notes,
    }
}

/// The rule that holds.
fn reason(situation: &RouteSituation, in_peak: bool) -> RouteReason {
    if situation.purpose == Purpose::HealthCheck {
        return RouteReason::HealthCheck;
    }
    match situation.tier {
        Some(Tier::Prime) => RouteReason::Prime,
        Some(Tier::Standard) if situation.has_cart => RouteReason::StandardWithCart,
        Some(Tier::Standard) if in_peak => RouteReason::StandardInPeak,
        Some(Tier::Standard) => RouteReason::Standard,
        // A guest's cart is not proof of anything.
        Some(Tier::Guest) | None => guest_reason(situation),
    }
}

fn guest_reason(situation: &RouteSituation) -> RouteReason {
    if !situation.guest_lite {
        return RouteReason::GuestFull;
    }
    match situation.known_intent() {
        Some(Intent::Faq | Intent::ProductDiscovery | Intent::Promotion | Intent::Chitchat) => {
            RouteReason::GuestLite
        }
        // Most of what guests ask needs no model. While nobody can tell which part does, none gets one.
        None if !situation.classifier_available => RouteReason::GuestUnclassified,
        _ => RouteReason::GuestFast,
    }
}

//! Routing rules: a request's priority, its ceiling, and whether templates come before models.
//!
//! The result depends on the caller's tier, the intent and the time of day. It is one row of a printable
//! [table](RoutingReason::rule); the reason is the row's name and is propagated with the request.
//!
//! **When it acts.** Once per request, before the plan is made. Prime callers, and standard callers with items in
//! their cart, have priority and get everything. Standard callers get a template first, and during the evening peak
//! (19:00 to 23:00 in Japan) a fast model instead of a strong one. Guests get a template or a cached answer, and a
//! fast model only if those cannot answer.
//!
//! **What it does not do.** It authenticates no one: the tier is the result of identification, and an unknown tier is
//! treated as a guest's, the cheapest. It does not consider the off-peak hours, the load, the budget or the switches;
//! the evaluator combines those and takes the lowest ceiling.
//!
//! ```
//! use seawall_core::router::{RoutingSituation, RouterOptions};
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Priority, Tier};
//! use std::time::Duration;
//!
//! let router = RouterOptions::default().check().unwrap();
//! let caller = RoutingSituation::of(Some(Tier::Standard));
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

pub use table::{RoutingReason, RoutingRule};

use crate::hours::{Hours, HoursOptions};
use crate::setting::SettingError;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Intent, Priority, Tier, named_enum};
use arrayvec::ArrayVec;

named_enum! {
    /// What a request is for.
    pub enum RequestPurpose as "purpose" {
        /// A user waits for the response.
        Caller = "caller",
        /// Background work; no user waits for the response.
        Background = "background",
        /// A health check.
        HealthCheck = "health_check",
    }
}

named_enum! {
    /// What was missing or special about a request, besides the rule that applied.
    pub enum RoutingNote as "route note" {
        /// The caller's tier is unknown.
        TierUnknown = "tier_unknown",
        /// The intent is unknown.
        IntentMissing = "intent_missing",
        /// Background work: the priority is bulk, the rest is what the caller would get.
        Background = "background",
    }
}

impl RoutingNote {
    /// The note as a sentence.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TierUnknown => "The tier is unknown; the caller is treated as a guest.",
            Self::IntentMissing => "The intent is unknown.",
            Self::Background => "Background work: all interactive requests have priority.",
        }
    }
}

/// The router's input for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingSituation {
    /// What the request is for.
    pub purpose: RequestPurpose,
    /// The verified tier; `None` if it is unknown.
    pub tier: Option<Tier>,
    /// Whether the caller's shopping cart has items.
    pub has_cart: bool,
    /// The classified intent. `None` means the same as [`Intent::Unknown`].
    pub intent: Option<Intent>,
    /// Whether the intent classifier is available.
    pub classifier_available: bool,
    /// Whether guests get the reduced pipeline.
    pub guest_lite: bool,
}

impl RoutingSituation {
    /// An unclassified message of a caller of this tier, with an empty cart and everything available.
    #[must_use]
    pub const fn of(tier: Option<Tier>) -> Self {
        Self {
            purpose: RequestPurpose::Caller,
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

/// How a request is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingDecision {
    /// Scheduling priority in the queue.
    pub priority: Priority,
    /// Whether retrieval is used.
    pub use_retrieval: bool,
    /// The highest grade that may be used.
    pub ceiling: Ceiling,
    /// Whether a template is tried before anything else.
    pub template_first: bool,
    /// Whether only templates and cached answers are tried.
    pub cache_only: bool,
    /// The rule that applied.
    pub reason: RoutingReason,
    /// What was missing or special.
    pub notes: RoutingNotes,
}

/// The notes of a route, each at most once.
pub type RoutingNotes = ArrayVec<RoutingNote, { RoutingNote::ALL.len() }>;

/// Router settings before validation; see [`RouterOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOptions {
    /// The busiest hours, in which strong models are reserved for callers who are about to buy.
    pub evening_peak: HoursOptions,
}

impl Default for RouterOptions {
    /// From 19:00 to 23:00 in Japan.
    fn default() -> Self {
        Self { evening_peak: HoursOptions::japan(19, 23) }
    }
}

impl RouterOptions {
    /// Fails on invalid hours.
    pub fn check(self) -> Result<Router, SettingError> {
        Ok(Router { evening_peak: self.evening_peak.check()? })
    }
}

/// Chooses routes. See the [module](self).
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
    /// The route of a request at this time.
    #[must_use]
    pub fn route(&self, situation: &RoutingSituation, utc: UtcTime) -> RoutingDecision {
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
pub fn route(situation: &RoutingSituation, in_peak: bool) -> RoutingDecision {
    let reason = reason(situation, in_peak);
    let rule = reason.rule();
    let background = situation.purpose == RequestPurpose::Background;
    let mut notes = RoutingNotes::new();
    // Health checks have neither tier nor intent, so that these are not noted as missing.
    if situation.purpose != RequestPurpose::HealthCheck {
        if situation.tier.is_none() {
            notes.push(RoutingNote::TierUnknown);
        }
        if situation.known_intent().is_none() {
            notes.push(RoutingNote::IntentMissing);
        }
    }
    if background {
        notes.push(RoutingNote::Background);
    }
    RoutingDecision {
        priority: if background { Priority::Bulk } else { rule.priority },
        use_retrieval: rule.retrieval_for.contains(&situation.known_intent().unwrap_or(Intent::Unknown)),
        ceiling: rule.ceiling,
        template_first: rule.template_first,
        cache_only: rule.ceiling == Ceiling::None,
        reason,
        notes,
    }
}

/// The rule that applies.
fn reason(situation: &RoutingSituation, in_peak: bool) -> RoutingReason {
    if situation.purpose == RequestPurpose::HealthCheck {
        return RoutingReason::HealthCheck;
    }
    match situation.tier {
        Some(Tier::Prime) => RoutingReason::Prime,
        Some(Tier::Standard) if situation.has_cart => RoutingReason::StandardWithCart,
        Some(Tier::Standard) if in_peak => RoutingReason::StandardInPeak,
        Some(Tier::Standard) => RoutingReason::Standard,
        // A guest's cart is ignored: it proves nothing about the caller.
        Some(Tier::Guest) | None => guest_reason(situation),
    }
}

fn guest_reason(situation: &RoutingSituation) -> RoutingReason {
    if !situation.guest_lite {
        return RoutingReason::GuestFull;
    }
    match situation.known_intent() {
        Some(Intent::Faq | Intent::ProductDiscovery | Intent::Promotion | Intent::Chitchat) => {
            RoutingReason::GuestLite
        }
        // Most guest messages need no model. While they cannot be classified, none gets one.
        None if !situation.classifier_available => RoutingReason::GuestUnclassified,
        _ => RoutingReason::GuestFast,
    }
}

//! Routing rules: a message's priority, its ceiling, and whether templates come before models.
//!
//! The result depends on the caller's tier, the intent and the time of day. It is one row of a printable
//! [table](RoutingReason::rule); the reason is the row's name and is propagated with the request.
//!
//! **When it acts.** Once per message, before the plan is made. Prime callers, and standard callers with items in
//! their cart, have priority and get everything. Standard callers get a template first, and during the evening peak
//! a fast model instead of a strong one. Guests get a template or a cached answer, and a fast model only if those cannot
//! answer.
//!
//! **What it does not do.** It authenticates no one: the tier is the result of identification, and an unknown tier is
//! treated as a guest's, the cheapest. It does not consider the off-peak hours, the load, the budget or the switches;
//! the [evaluator](seawall_core::evaluator) combines those and takes the lowest ceiling.
//!
//! ```
//! use seawall_assistant::router::{Router, RoutingSituation};
//! use seawall_core::hours::HoursOptions;
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Priority, Tier};
//! use std::time::Duration;
//!
//! // From 19:00 to 23:00 in Japan.
//! let router = Router::new(HoursOptions::full_hours(19, 23, 9 * 60).check().unwrap());
//! let caller = RoutingSituation::of(Some(Tier::Standard));
//! let noon_in_tokyo = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(3 * 3_600);
//! let routing = router.route(&caller, noon_in_tokyo);
//! assert_eq!((routing.priority, routing.ceiling), (Priority::Normal, Ceiling::Strong));
//!
//! let eight_in_the_evening = noon_in_tokyo + Duration::from_secs(8 * 3_600);
//! assert_eq!(router.route(&caller, eight_in_the_evening).ceiling, Ceiling::Fast);
//! ```

mod table;
#[cfg(test)]
mod tests;

pub use table::{RoutingReason, RoutingRule};

use crate::intent::Intent;
use seawall_core::evaluator::{RequestPurpose, Routing, RoutingNote, RoutingNotes};
use seawall_core::hours::Hours;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Priority, Tier};

/// The router's input for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingSituation {
    /// What the message is for.
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

/// Chooses the routing of messages. See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    evening_peak: Hours,
}

impl Router {
    /// A router with these peak hours, in which strong models are reserved for callers who are about to buy.
    #[must_use]
    pub const fn new(evening_peak: Hours) -> Self {
        Self { evening_peak }
    }

    /// The routing of a message at this time.
    #[must_use]
    pub fn route(&self, situation: &RoutingSituation, utc: UtcTime) -> Routing {
        route(situation, self.evening_peak.contains(utc))
    }

    /// The evening peak, for timers and reports.
    #[must_use]
    pub const fn evening_peak(&self) -> &Hours {
        &self.evening_peak
    }
}

/// The routing of a message, inside or outside the evening peak.
#[must_use]
pub fn route(situation: &RoutingSituation, in_peak: bool) -> Routing {
    let reason = RoutingReason::of(situation, in_peak);
    let rule = reason.rule();
    let intent = situation.intent.unwrap_or(Intent::Unknown);
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
    Routing {
        priority: if background { Priority::Bulk } else { rule.priority },
        ceiling: rule.ceiling,
        template_first: rule.template_first,
        use_retrieval: rule.retrieval_for.contains(&intent),
        retrieval_need: intent.retrieval_need(),
        intent: intent.name(),
        reason: reason.name(),
        notes,
    }
}

impl RoutingReason {
    /// The rule that applies to a message, inside or outside the evening peak.
    #[must_use]
    pub fn of(situation: &RoutingSituation, in_peak: bool) -> Self {
        if situation.purpose == RequestPurpose::HealthCheck {
            return Self::HealthCheck;
        }
        match situation.tier {
            Some(Tier::Prime) => Self::Prime,
            Some(Tier::Standard) if situation.has_cart => Self::StandardWithCart,
            Some(Tier::Standard) if in_peak => Self::StandardInPeak,
            Some(Tier::Standard) => Self::Standard,
            // A guest's cart is ignored: it proves nothing about the caller.
            Some(Tier::Guest) | None => guest_reason(situation),
        }
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

//! How a request is treated before load, budget and switches are considered.

use crate::vocabulary::{Ceiling, Priority, RetrievalNeed, Tier, named_enum};
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

/// The notes of a routing, each at most once.
pub type RoutingNotes = ArrayVec<RoutingNote, { RoutingNote::ALL.len() }>;

/// The name of an intent that could not be determined.
const UNKNOWN_INTENT: &str = "unknown";

/// How a request is treated, before the evaluator considers load, budget and switches.
///
/// A router that knows what requests are about decides it and names its rule and the intent, which the evaluator only
/// prints. Requests without such a router have the routing of their [tier](Self::by_tier).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Scheduling priority in the queue.
    pub priority: Priority,
    /// The highest grade that may be used.
    pub ceiling: Ceiling,
    /// Whether a template is tried before anything else.
    pub template_first: bool,
    /// Whether the rule allows retrieval.
    pub use_retrieval: bool,
    /// How much the answer depends on retrieval.
    pub retrieval_need: RetrievalNeed,
    /// The name of the intent that `retrieval_need` follows from.
    pub intent: &'static str,
    /// The name of the rule that applied.
    pub reason: &'static str,
    /// What was missing or special.
    pub notes: RoutingNotes,
}

impl Routing {
    /// The routing of a request of which only the purpose and the tier are known. An unknown tier is treated as a
    /// guest's, the cheapest.
    ///
    /// ```
    /// use seawall_core::evaluator::{RequestPurpose, Routing};
    /// use seawall_core::vocabulary::{Ceiling, Priority, Tier};
    ///
    /// let guest = Routing::by_tier(RequestPurpose::Caller, Some(Tier::Guest));
    /// assert_eq!((guest.priority, guest.ceiling), (Priority::Low, Ceiling::Fast));
    /// assert_eq!(Routing::by_tier(RequestPurpose::Caller, None).reason, guest.reason);
    /// ```
    #[must_use]
    pub fn by_tier(purpose: RequestPurpose, tier: Option<Tier>) -> Self {
        let (reason, priority, ceiling, template_first) = match (purpose, tier) {
            (RequestPurpose::HealthCheck, _) => (purpose.name(), Priority::Critical, Ceiling::Fast, false),
            (_, Some(Tier::Prime)) => (Tier::Prime.name(), Priority::High, Ceiling::Strong, false),
            (_, Some(Tier::Standard)) => (Tier::Standard.name(), Priority::Normal, Ceiling::Strong, true),
            (_, Some(Tier::Guest) | None) => (Tier::Guest.name(), Priority::Low, Ceiling::Fast, true),
        };
        let mut notes = RoutingNotes::new();
        // Health checks have no tier, so that it is not noted as missing.
        if tier.is_none() && purpose != RequestPurpose::HealthCheck {
            notes.push(RoutingNote::TierUnknown);
        }
        let is_background = purpose == RequestPurpose::Background;
        if is_background {
            notes.push(RoutingNote::Background);
        }
        Self {
            priority: if is_background { Priority::Bulk } else { priority },
            ceiling,
            template_first,
            use_retrieval: true,
            retrieval_need: RetrievalNeed::Optional,
            intent: UNKNOWN_INTENT,
            reason,
            notes,
        }
    }
}

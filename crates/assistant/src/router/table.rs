//! The routing rules, one row each.

use crate::intent::Intent;
use seawall_core::vocabulary::{Ceiling, Priority, named_enum};

named_enum! {
    /// The rule that applied to a request.
    pub enum RoutingReason as "route reason" {
        /// A health check.
        HealthCheck = "health_check",
        /// A prime caller.
        Prime = "prime",
        /// A standard caller with items in the cart.
        StandardWithCart = "standard_with_cart",
        /// A standard caller outside the evening peak.
        Standard = "standard",
        /// A standard caller in the evening peak.
        StandardInPeak = "standard_in_peak",
        /// A guest whose intent needs no model.
        GuestLite = "guest_lite",
        /// A guest whose message cannot be classified at present.
        GuestUnclassified = "guest_unclassified",
        /// A guest with any other message.
        GuestFast = "guest_fast",
        /// A guest while the reduced pipeline is switched off.
        GuestFull = "guest_full",
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingRule {
    /// When the rule applies, as a sentence.
    pub text: &'static str,
    /// Scheduling priority in the queue.
    pub priority: Priority,
    /// The highest grade; `None` allows templates and cached answers only.
    pub ceiling: Ceiling,
    /// Whether a template is tried before anything else.
    pub template_first: bool,
    /// The intents that use retrieval. A missing intent counts as unknown.
    pub retrieval_for: &'static [Intent],
}

/// Intents for which a standard caller without a cart gets retrieval.
const FACTS: &[Intent] = &[Intent::Faq, Intent::ProductQuestion, Intent::Recommendation];
/// Intents for which a guest gets retrieval. FAQ has templates.
const PRODUCT_FACTS: &[Intent] = &[Intent::ProductQuestion, Intent::Recommendation];

impl RoutingReason {
    /// The row of this rule.
    #[must_use]
    pub const fn rule(self) -> RoutingRule {
        match self {
            Self::HealthCheck => RoutingRule {
                text: "A health check: straight to a fast model, with the highest priority.",
                priority: Priority::Critical,
                ceiling: Ceiling::Fast,
                template_first: false,
                retrieval_for: &[],
            },
            Self::Prime => RoutingRule {
                text: "A prime caller: a strong model and retrieval, with or without a cart.",
                priority: Priority::High,
                ceiling: Ceiling::Strong,
                template_first: false,
                retrieval_for: &Intent::ALL,
            },
            Self::StandardWithCart => RoutingRule {
                text: "A standard caller with items in the cart: a strong model and retrieval.",
                priority: Priority::High,
                ceiling: Ceiling::Strong,
                template_first: false,
                retrieval_for: &Intent::ALL,
            },
            Self::Standard => RoutingRule {
                text: "A standard caller outside the evening peak: a prepared answer, or a strong model.",
                priority: Priority::Normal,
                ceiling: Ceiling::Strong,
                template_first: true,
                retrieval_for: FACTS,
            },
            Self::StandardInPeak => RoutingRule {
                text: "A standard caller in the evening peak: a prepared answer, or a fast model.",
                priority: Priority::Normal,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: FACTS,
            },
            Self::GuestLite => RoutingRule {
                text: "A guest with a frequent question, a search, an offer or small talk: no model.",
                priority: Priority::Low,
                ceiling: Ceiling::None,
                template_first: true,
                retrieval_for: &[],
            },
            Self::GuestUnclassified => RoutingRule {
                text: "A guest whose message cannot be classified because the classifier is unavailable: no model.",
                priority: Priority::Low,
                ceiling: Ceiling::None,
                template_first: true,
                retrieval_for: &[],
            },
            Self::GuestFast => RoutingRule {
                text: "A guest with any other message: a prepared answer, or a fast model.",
                priority: Priority::Low,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: PRODUCT_FACTS,
            },
            Self::GuestFull => RoutingRule {
                text: "A guest while guest_lite is off: as a standard caller in the peak, with low priority.",
                priority: Priority::Low,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: FACTS,
            },
        }
    }
}

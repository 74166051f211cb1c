//! The routing rules, one row each.

use crate::vocabulary::{Ceiling, Intent, Priority, words};

words! {
    /// The rule that applied to a request.
    pub enum RouteReason as "route reason" {
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
pub struct RouteRule {
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

impl RouteReason {
    /// The row of this rule.
    #[must_use]
    pub const fn rule(self) -> RouteRule {
        match self {
            Self::HealthCheck => RouteRule {
                text: "A health check: the shortest way to a model, before everybody.",
                priority: Priority::Critical,
                ceiling: Ceiling::Fast,
                template_first: false,
                retrieval_for: &[],
            },
            Self::Prime => RouteRule {
                text: "A prime caller gets everything, cart or not.",
                priority: Priority::High,
                ceiling: Ceiling::Strong,
                template_first: false,
                retrieval_for: &Intent::ALL,
            },
            Self::StandardWithCart => RouteRule {
                text: "A standard caller with something in the cart gets everything.",
                priority: Priority::High,
                ceiling: Ceiling::Strong,
                template_first: false,
                retrieval_for: &Intent::ALL,
            },
            Self::Standard => RouteRule {
                text: "A standard caller outside the evening peak: a prepared answer, or a strong model.",
                priority: Priority::Normal,
                ceiling: Ceiling::Strong,
                template_first: true,
                retrieval_for: FACTS,
            },
            Self::StandardInPeak => RouteRule {
                text: "A standard caller in the evening peak: a prepared answer, or a fast model.",
                priority: Priority::Normal,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: FACTS,
            },
            Self::GuestLite => RouteRule {
                text: "A guest with a frequent question, a search, an offer or small talk: no model.",
                priority: Priority::Low,
                ceiling: Ceiling::None,
                template_first: true,
                retrieval_for: &[],
            },
            Self::GuestUnclassified => RouteRule {
                text: "A guest whose message nobody can classify while the classifier is away: no model.",
                priority: Priority::Low,
                ceiling: Ceiling::None,
                template_first: true,
                retrieval_for: &[],
            },
            Self::GuestFast => RouteRule {
                text: "A guest with any other message: a prepared answer, or a fast model.",
                priority: Priority::Low,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: PRODUCT_FACTS,
            },
            Self::GuestFull => RouteRule {
                text: "A guest while the small treatment is off: as a standard caller in the peak, but last.",
                priority: Priority::Low,
                ceiling: Ceiling::Fast,
                template_first: true,
                retrieval_for: FACTS,
            },
        }
    }
}

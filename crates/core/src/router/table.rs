//! The rules, one row each.

use crate::vocabulary::{Ceiling, Intent, Priority, words};

words! {
    /// The rule that held for a request.
    pub enum RouteReason as "route reason" {
        /// It only asks whether we still answer.
        HealthCheck = "health_check",
        /// A prime caller.
        Prime = "prime",
        /// A standard caller who is about to buy.
        StandardWithCart = "standard_with_cart",
        /// A standard caller outside the evening peak.
        Standard = "standard",
        /// A standard caller in the evening peak.
        StandardInPeak = "standard_in_peak",
        /// A guest who asks what needs no model.
        GuestLite = "guest_lite",
        /// A guest whose message nobody can classify at present.
        GuestUnclassified = "guest_unclassified",
        /// A guest who asks something else.
        GuestFast = "guest_fast",
        /// A guest while the small treatment is switched off.
        GuestFull = "guest_full",
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// For whom it holds, as a sentence.
    pub text: &'static str,
    /// Whose turn comes first.
    pub priority: Priority,
    /// The best model; none means prepared and kept answers only.
    pub ceiling: Ceiling,
    /// Whether a prepared answer is tried before anything else.
    pub template_first: bool,
    /// The intents for which things are looked up. A missing intent counts as unknown.
    pub retrieval_for: &'static [Intent],
}

/// What a known caller without a cart may need facts for.
const FACTS: &[Intent] = &[Intent::Faq, Intent::ProductQuestion, Intent::Recommendation];
/// What a guest may need facts for. A frequent question has a prepared answer.
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

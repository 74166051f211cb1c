//! The plan of a chat message: the router first, then `core`'s evaluator.
//!
//! The [router](crate::router) knows the shop and the [evaluator](seawall_core::evaluator) the state of the gateway. What the
//! first decides is an input of the second, which takes the lowest ceiling of all its inputs and records each that restricts.
//!
//! ```
//! use seawall_assistant::intent::Intent;
//! use seawall_assistant::plan::MessageSituation;
//! use seawall_assistant::router::Router;
//! use seawall_core::evaluator::{PlanPolicy, Posture};
//! use seawall_core::hours::HoursOptions;
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::Tier;
//!
//! let router = Router::new(HoursOptions::full_hours(19, 23, 9 * 60).check().unwrap());
//! let question = MessageSituation { intent: Some(Intent::Faq), ..MessageSituation::of(7, Tier::Guest) };
//! let (policy, now) = (PlanPolicy::default(), UtcTime::from_civil(2026, 11, 15));
//! let plan = router.plan(&policy, &Posture::default(), &question, now).plan;
//! assert!(!plan.calls_models());
//! assert_eq!(plan.binding().map(ToString::to_string).collect::<Vec<_>>(), ["router:guest_lite=none"]);
//! ```

#[cfg(test)]
mod tests;

use crate::intent::Intent;
use crate::router::{Router, RoutingSituation};
use seawall_core::evaluator::{
    Evaluation, FaceKind, PlanPolicy, PlanSituation, Posture, RequestPurpose, evaluate,
};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};

/// What is known of a chat message when its plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSituation {
    /// What the message is for.
    pub purpose: RequestPurpose,
    /// The caller's number.
    pub caller: u64,
    /// The verified tier; `None` if it is unknown.
    pub tier: Option<Tier>,
    /// Whether the caller's shopping cart has items.
    pub has_cart: bool,
    /// The intent, if it was classified.
    pub intent: Option<Intent>,
    /// Whether an operator has suspended this caller's access to models.
    pub is_suspended: bool,
    /// The grade that is sufficient for the question, if a complexity estimate exists.
    pub hint: Option<Ceiling>,
}

impl MessageSituation {
    /// A message of a caller of this tier, with nothing else known.
    #[must_use]
    pub const fn of(caller: u64, tier: Tier) -> Self {
        Self {
            purpose: RequestPurpose::Caller,
            caller,
            tier: Some(tier),
            has_cart: false,
            intent: None,
            is_suspended: false,
            hint: None,
        }
    }
}

impl Router {
    /// The plan of a chat message.
    #[must_use]
    pub fn plan(
        &self,
        policy: &PlanPolicy,
        posture: &Posture,
        message: &MessageSituation,
        utc: UtcTime,
    ) -> Evaluation {
        evaluate(policy, posture, &self.situation(posture, message, utc), utc)
    }

    /// What the evaluator has to know of a chat message. Whether guests get the reduced pipeline is the evaluator's
    /// decision, so that it receives both routings where they may differ.
    #[must_use]
    pub fn situation(&self, posture: &Posture, message: &MessageSituation, utc: UtcTime) -> PlanSituation {
        let full = RoutingSituation {
            purpose: message.purpose,
            tier: message.tier,
            has_cart: message.has_cart,
            intent: message.intent,
            classifier_available: posture.classifier_available,
            guest_lite: false,
        };
        let is_guest = matches!(message.tier, Some(Tier::Guest) | None);
        PlanSituation {
            face: FaceKind::Chat,
            caller: message.caller,
            tier: message.tier,
            routing: self.route(&full, utc),
            guest_lite_routing: is_guest
                .then(|| self.route(&RoutingSituation { guest_lite: true, ..full }, utc)),
            is_suspended: message.is_suspended,
            hint: message.hint,
        }
    }
}

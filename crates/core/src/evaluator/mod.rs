//! Policy evaluation: combines settings, the control plane's posture and the facts of one request into a plan.
//!
//! The settings' [`PlanPolicy`], the control plane's [`Posture`] and the request's [`PlanSituation`] produce a [`Plan`]:
//! the rungs to try, the highest grade and the retrieval depth. No other code reads switches, cost states or hours, so that there is one
//! place to find out why an answer was degraded.
//!
//! **When it acts.** Once per request, on a snapshot. The inputs are evaluated in a fixed order: an operator's
//! override, the switches, the cost states, the level, the intent, the off-peak hours, the router, the hint. The
//! lowest ceiling wins, whichever input sets it, and every input that restricts the plan is recorded as a [`PlanReason`].
//!
//! **Shadow mode.** A protection in observe mode does not affect the plan; a second plan shows the result with it. A
//! protection that is switched off affects neither.
//!
//! **What it does not do.** It does not look at circuit breakers: they act later, and only lower the grade. The API
//! face ([`FaceKind::Api`]) is transparent: only an operator can block its models, and the caller then receives an error
//! instead of a substitute. From the router it takes the priority, by purpose and tier, with the notes that explain
//! it.
//!
//! ```
//! use seawall_core::evaluator::{PlanPolicy, PlanSituation, Posture, evaluate};
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Level, Rung, Tier};
//! use std::time::Duration;
//!
//! let policy = PlanPolicy::default();
//! let posture = Posture { level: Level::HighLoad, ..Posture::default() };
//! let noon_in_tokyo = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(3 * 3_600);
//! let plan = evaluate(&policy, &posture, &PlanSituation::of(7, Tier::Prime), noon_in_tokyo).plan;
//! assert_eq!(plan.ceiling, Ceiling::Fast);
//! assert_eq!(plan.binding().map(ToString::to_string).collect::<Vec<_>>(), ["level:high_load=fast"]);
//! assert_eq!(plan.rungs.first(), Some(&Rung::FastModel));
//! ```

mod plan;
mod shop_hours;
mod switches;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use plan::{Allowance, Plan, PlanInput, PlanReason, PlanReasons};
pub use shop_hours::ShopHours;
pub use switches::{Protection, Protections, Switch};

use crate::ladder::{LevelPermits, RetrievalBypass};
use crate::rollout::Experiment;
use crate::router::{RequestPurpose, RoutingDecision, RoutingNote, RoutingNotes, RoutingSituation};
use crate::setting::Factor;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, CostState, Grade, Intent, Level, Mode, Priority, Rung, Tier};
use arrayvec::ArrayVec;

/// What the settings define for every plan. It changes only with the settings.
#[derive(Clone, Debug, Default)]
pub struct PlanPolicy {
    /// Switches and modes of the protections.
    pub protections: Protections,
    /// The guests that get the reduced pipeline; all guests if `None`.
    pub guest_lite: Option<Experiment>,
    /// The evening peak and the off-peak hours.
    pub hours: ShopHours,
}

/// The control plane's state that every plan reads: what was measured, and what an operator ordered.
///
/// Nothing in it comes from the settings. A reload and the control plane can therefore publish independently, and
/// neither overwrites the other with old values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posture {
    /// An operator's ceiling for all requests.
    pub ceiling_override: Option<Ceiling>,
    /// Cost state of each tier, in the order of [`Tier::ALL`].
    pub tier_costs: [CostState; 3],
    /// Cost state of the global daily budget.
    pub day_cost: CostState,
    /// Current level of the degradation ladder.
    pub level: Level,
    /// Whether the intent classifier is available.
    pub classifier_available: bool,
    /// Factor on rate limits during a rollout.
    pub limit_factor: Factor,
    /// Factor on budgets during a rollout.
    pub budget_factor: Factor,
}

impl Default for Posture {
    /// The state before anything was measured or ordered: everything normal.
    fn default() -> Self {
        Self {
            ceiling_override: None,
            tier_costs: [CostState::Normal; 3],
            day_cost: CostState::Normal,
            level: Level::Normal,
            classifier_available: true,
            limit_factor: Factor::ONE,
            budget_factor: Factor::ONE,
        }
    }
}

/// The kind of face on which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceKind {
    /// The chat: always answers, with the best rung available.
    Chat,
    /// A vendor-compatible API: the requested model, or an error with the reason.
    Api,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSituation {
    /// The face on which it arrived. An API request is treated as chat if its route is configured that way.
    pub face: FaceKind,
    /// What the request is for.
    pub purpose: RequestPurpose,
    /// The caller's number.
    pub caller: u64,
    /// The caller's tier; `None` if it is unknown.
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

impl PlanSituation {
    /// A chat message of a caller of this tier, with nothing else known.
    #[must_use]
    pub const fn of(caller: u64, tier: Tier) -> Self {
        Self {
            face: FaceKind::Chat,
            purpose: RequestPurpose::Caller,
            caller,
            tier: Some(tier),
            has_cart: false,
            intent: None,
            is_suspended: false,
            hint: None,
        }
    }

    /// An unknown tier falls back to the cheapest one.
    fn known_tier(&self) -> Tier {
        self.tier.unwrap_or(Tier::Guest)
    }

    fn known_intent(&self) -> Intent {
        self.intent.unwrap_or(Intent::Unknown)
    }
}

/// The plan in force, and the plan of shadow mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The plan to carry out.
    pub plan: Plan,
    /// The plan if every protection in observe mode were enforced; `None` if there is none.
    pub shadow: Option<Plan>,
}

/// Evaluates the plan of one request.
#[must_use]
pub fn evaluate(
    policy: &PlanPolicy,
    posture: &Posture,
    situation: &PlanSituation,
    utc: UtcTime,
) -> Evaluation {
    let enforced = |protection| policy.protections.mode(protection) == Mode::Enforce;
    let tried = |protection| policy.protections.mode(protection) != Mode::Off;
    Evaluation {
        plan: plan(policy, posture, situation, utc, enforced),
        shadow: policy.protections.observes().then(|| plan(policy, posture, situation, utc, tried)),
    }
}

fn plan(
    policy: &PlanPolicy,
    posture: &Posture,
    situation: &PlanSituation,
    utc: UtcTime,
    acts: impl Fn(Protection) -> bool,
) -> Plan {
    let mut builder = PlanBuilder { allowed: Allowance::ALL, reasons: PlanReasons::new() };
    apply_operator_settings(policy, posture, situation, &mut builder);
    let route = route_request(policy, posture, situation, utc, &acts);
    if situation.face == FaceKind::Api {
        return builder.into_api_plan(route);
    }
    let tier = situation.known_tier();
    if acts(Protection::CostBreaker) {
        let state = posture.tier_costs[tier.index()];
        builder.restrict(PlanInput::TierCost(state), cost_allowance(state));
        builder.restrict(PlanInput::DayCost(posture.day_cost), cost_allowance(posture.day_cost));
    }
    let level = if acts(Protection::Degradation) { posture.level } else { Level::Normal };
    builder.restrict(PlanInput::Level(level), level_allowance(level, situation));
    let intent = situation.known_intent();
    builder.restrict(PlanInput::Intent(intent), intent_allowance(intent));
    if acts(Protection::OffPeak) {
        let night = policy.hours.off_peak().decide(tier, route.priority, utc);
        let templates_first = night.template_and_cache_first();
        builder.restrict(
            PlanInput::OffPeak,
            Allowance { ceiling: night.ceiling(), templates_first, ..Allowance::ALL },
        );
    }
    builder.restrict(PlanInput::Router(route.reason), route_allowance(&route));
    if let Some(ceiling) = situation.hint {
        builder.restrict(PlanInput::Hint, Allowance { ceiling, ..Allowance::ALL });
    }
    builder.into_chat_plan(route.priority, route.notes)
}

/// Operator settings apply to all requests and in every mode: they are not protections and have no observe mode.
fn apply_operator_settings(
    policy: &PlanPolicy,
    posture: &Posture,
    situation: &PlanSituation,
    builder: &mut PlanBuilder,
) {
    let at_most = |ceiling| Allowance { ceiling, ..Allowance::ALL };
    if let Some(ceiling) = posture.ceiling_override {
        // An API caller that requested one model is never given another, so that a ceiling either blocks or has no
        // effect.
        let ceiling = if situation.face == FaceKind::Api && ceiling != Ceiling::None {
            Ceiling::Strong
        } else {
            ceiling
        };
        builder.restrict(PlanInput::Override, at_most(ceiling));
    }
    if situation.is_suspended {
        builder.restrict(PlanInput::CallerSuspended, at_most(Ceiling::None));
    }
    if !policy.protections.is_on(Switch::ModelInvocation) {
        builder.restrict(PlanInput::ModelsOff, at_most(Ceiling::None));
    }
}

fn route_request(
    policy: &PlanPolicy,
    posture: &Posture,
    situation: &PlanSituation,
    utc: UtcTime,
    acts: impl Fn(Protection) -> bool,
) -> RoutingDecision {
    let is_chosen = || policy.guest_lite.is_none_or(|experiment| experiment.includes(situation.caller));
    let situation = RoutingSituation {
        purpose: situation.purpose,
        tier: situation.tier,
        has_cart: situation.has_cart,
        intent: situation.intent,
        classifier_available: posture.classifier_available,
        guest_lite: acts(Protection::GuestLite) && is_chosen(),
    };
    policy.hours.router().route(&situation, utc)
}

fn cost_allowance(state: CostState) -> Allowance {
    let ceiling = match state {
        CostState::Normal => return Allowance::ALL,
        CostState::Warning => Ceiling::Fast,
        CostState::Spent => Ceiling::None,
    };
    Allowance { ceiling, templates_first: true, ..Allowance::ALL }
}

fn level_allowance(level: Level, situation: &PlanSituation) -> Allowance {
    let permits = LevelPermits::of(level);
    // Intents that need no retrieval at any level are not attributed to the level.
    let is_bypassed =
        permits.bypass > RetrievalBypass::NotNeeded && permits.bypass.covers(situation.known_intent());
    Allowance {
        ceiling: permits.ceiling(situation.known_tier()),
        templates_first: false,
        chunks: if is_bypassed { 0 } else { permits.chunks },
        reranker: permits.reranker,
    }
}

fn intent_allowance(intent: Intent) -> Allowance {
    let needs_none = RetrievalBypass::NotNeeded.covers(intent);
    Allowance { chunks: if needs_none { 0 } else { Allowance::ALL.chunks }, ..Allowance::ALL }
}

fn route_allowance(route: &RoutingDecision) -> Allowance {
    Allowance {
        ceiling: route.ceiling,
        templates_first: route.template_first,
        chunks: if route.use_retrieval { Allowance::ALL.chunks } else { 0 },
        reranker: true,
    }
}

/// Accumulates the restrictions and their reasons.
struct PlanBuilder {
    allowed: Allowance,
    reasons: PlanReasons,
}

impl PlanBuilder {
    fn restrict(&mut self, input: PlanInput, allows: Allowance) {
        self.allowed = self.allowed.and(allows);
        // The capacity covers every input, and each is recorded once.
        if allows != Allowance::ALL && !self.reasons.is_full() {
            self.reasons.push(PlanReason { input, allows });
        }
    }

    /// An API request gets its models or nothing. API requests have no intent, so that the note about a missing one is
    /// dropped.
    fn into_api_plan(self, route: RoutingDecision) -> Plan {
        let mut notes = route.notes;
        notes.retain(|note| *note != RoutingNote::IntentMissing);
        let rungs = [Rung::StrongModel, Rung::FastModel];
        let may_ask = |_: &Rung| self.allowed.ceiling != Ceiling::None;
        Plan {
            priority: route.priority,
            ceiling: self.allowed.ceiling,
            rungs: rungs.into_iter().filter(may_ask).collect(),
            chunks: 0,
            reranker: false,
            reasons: self.reasons,
            notes,
        }
    }

    fn into_chat_plan(self, priority: Priority, notes: RoutingNotes) -> Plan {
        let Allowance { ceiling, templates_first, chunks, reranker } = self.allowed;
        let calls_models = ceiling != Ceiling::None;
        let prepared_first = templates_first || !calls_models;
        let is_tried = |rung: &Rung| match rung {
            Rung::Template => prepared_first,
            // High-priority requests skip the fresh cache and get a generated answer.
            Rung::FreshCache => prepared_first || priority > Priority::High,
            Rung::StrongModel => ceiling.allows(Grade::Strong),
            Rung::FastModel => ceiling.allows(Grade::Fast),
            Rung::StaleCache | Rung::Faq | Rung::Apology => true,
        };
        let chunks = if calls_models { chunks } else { 0 };
        Plan {
            priority,
            ceiling,
            rungs: Rung::ALL.into_iter().filter(is_tried).collect::<ArrayVec<_, { Rung::ALL.len() }>>(),
            chunks,
            reranker: reranker && chunks > 0,
            reasons: self.reasons,
            notes,
        }
    }
}

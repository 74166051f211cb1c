//! Policy evaluation: combines the control plane's posture with the facts of one request into a plan.
//!
//! The control plane's [`Posture`] and the request's [`PlanSituation`] produce a [`Plan`]: the rungs to try, the
//! highest grade and the retrieval depth. No other code reads switches, cost states or hours, so that there is one
//! place to find out why an answer was degraded.
//!
//! **When it acts.** Once per request, on a snapshot. The inputs are evaluated in a fixed order: an operator's
//! override, the switches, the cost states, the level, the intent, the off-peak hours, the router, the hint. The
//! lowest ceiling wins, whichever input sets it, and every input that restricts the plan is recorded as a [`PlanReason`].
//! What the router decided arrives with the request, as a [`Routing`].
//!
//! **Shadow mode.** A protection in observe mode does not affect the plan; a second plan shows the result with it. A
//! protection that is switched off affects neither.
//!
//! **What it does not do.** It does not look at circuit breakers: they act later, and only lower the grade. The API
//! face ([`FaceKind::Api`]) is transparent: only an operator can block its models, and the caller then receives an error
//! instead of a substitute. Of its routing it takes the priority, with the notes that explain it.
//!
//! ```
//! use seawall_core::evaluator::{PlanPolicy, PlanSituation, Posture, evaluate};
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Level, Rung, Tier};
//!
//! let policy = PlanPolicy::default();
//! let posture = Posture { level: Level::HighLoad, ..Posture::default() };
//! let now = UtcTime::from_civil(2026, 11, 15);
//! let plan = evaluate(&policy, &posture, &PlanSituation::of(7, Tier::Prime), now).plan;
//! assert_eq!(plan.ceiling, Ceiling::Fast);
//! assert_eq!(plan.binding().map(ToString::to_string).collect::<Vec<_>>(), ["level:high_load=fast"]);
//! assert_eq!(plan.rungs.first(), Some(&Rung::FastModel));
//! ```

mod plan;
mod routing;
mod switches;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use plan::{Allowance, Plan, PlanInput, PlanReason, PlanReasons};
pub use routing::{RequestPurpose, Routing, RoutingNote, RoutingNotes};
pub use switches::{Protection, Protections, Switch};

use crate::hours::OffPeak;
use crate::ladder::{LevelPermits, RetrievalBypass};
use crate::rollout::Experiment;
use crate::setting::Factor;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, CostState, Grade, Level, Mode, Priority, RetrievalNeed, Rung, Tier};
use arrayvec::ArrayVec;

/// What the settings define for every plan. It changes only with the settings.
#[derive(Clone, Debug, Default)]
pub struct PlanPolicy {
    /// Switches and modes of the protections.
    pub protections: Protections,
    /// The guests that get the reduced pipeline; all guests if `None`.
    pub guest_lite: Option<Experiment>,
    /// The off-peak hours; `None` if there are none.
    pub off_peak: Option<OffPeak>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSituation {
    /// The face on which it arrived. An API request is treated as chat if its route is configured that way.
    pub face: FaceKind,
    /// The caller's number.
    pub caller: u64,
    /// The caller's tier; `None` if it is unknown.
    pub tier: Option<Tier>,
    /// How the request is treated before load, budget and switches are considered.
    pub routing: Routing,
    /// The routing with the reduced pipeline for guests; `None` if it is the same.
    pub guest_lite_routing: Option<Routing>,
    /// Whether an operator has suspended this caller's access to models.
    pub is_suspended: bool,
    /// The grade that is sufficient for the question, if a complexity estimate exists.
    pub hint: Option<Ceiling>,
}

impl PlanSituation {
    /// A chat message of a caller of this tier, with nothing else known.
    #[must_use]
    pub fn of(caller: u64, tier: Tier) -> Self {
        Self {
            face: FaceKind::Chat,
            caller,
            tier: Some(tier),
            routing: Routing::by_tier(RequestPurpose::Caller, Some(tier)),
            guest_lite_routing: None,
            is_suspended: false,
            hint: None,
        }
    }

    /// An unknown tier falls back to the cheapest one.
    fn known_tier(&self) -> Tier {
        self.tier.unwrap_or(Tier::Guest)
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
    let routing = routing(policy, situation, &acts);
    if situation.face == FaceKind::Api {
        return builder.into_api_plan(routing);
    }
    let tier = situation.known_tier();
    if acts(Protection::CostBreaker) {
        let state = posture.tier_costs[tier.index()];
        builder.restrict(PlanInput::TierCost(state), cost_allowance(state));
        builder.restrict(PlanInput::DayCost(posture.day_cost), cost_allowance(posture.day_cost));
    }
    let level = if acts(Protection::Degradation) { posture.level } else { Level::Normal };
    builder.restrict(PlanInput::Level(level), level_allowance(level, tier, routing.retrieval_need));
    builder.restrict(PlanInput::Intent(routing.intent), intent_allowance(routing.retrieval_need));
    if let Some(off_peak) = policy.off_peak.as_ref().filter(|_| acts(Protection::OffPeak)) {
        let decision = off_peak.decide(tier, routing.priority, utc);
        let templates_first = decision.template_and_cache_first();
        builder.restrict(
            PlanInput::OffPeak,
            Allowance { ceiling: decision.ceiling(), templates_first, ..Allowance::ALL },
        );
    }
    builder.restrict(PlanInput::Router(routing.reason), routing_allowance(routing));
    if let Some(ceiling) = situation.hint {
        builder.restrict(PlanInput::Hint, Allowance { ceiling, ..Allowance::ALL });
    }
    builder.into_chat_plan(routing.priority, routing.notes.clone())
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

/// The routing that applies to the request: that of the reduced pipeline if it is in force for this caller.
fn routing<'a>(
    policy: &PlanPolicy,
    situation: &'a PlanSituation,
    acts: impl Fn(Protection) -> bool,
) -> &'a Routing {
    let is_chosen = || policy.guest_lite.is_none_or(|experiment| experiment.includes(situation.caller));
    match &situation.guest_lite_routing {
        Some(reduced) if acts(Protection::GuestLite) && is_chosen() => reduced,
        _ => &situation.routing,
    }
}

fn cost_allowance(state: CostState) -> Allowance {
    let ceiling = match state {
        CostState::Normal => return Allowance::ALL,
        CostState::Warning => Ceiling::Fast,
        CostState::Spent => Ceiling::None,
    };
    Allowance { ceiling, templates_first: true, ..Allowance::ALL }
}

fn level_allowance(level: Level, tier: Tier, need: RetrievalNeed) -> Allowance {
    let permits = LevelPermits::of(level);
    // Intents that need no retrieval at any level are not attributed to the level.
    let is_bypassed = permits.bypass > RetrievalBypass::NotNeeded && permits.bypass.covers(need);
    Allowance {
        ceiling: permits.ceiling(tier),
        templates_first: false,
        chunks: if is_bypassed { 0 } else { permits.chunks },
        reranker: permits.reranker,
    }
}

fn intent_allowance(need: RetrievalNeed) -> Allowance {
    let needs_none = RetrievalBypass::NotNeeded.covers(need);
    Allowance { chunks: if needs_none { 0 } else { Allowance::ALL.chunks }, ..Allowance::ALL }
}

fn routing_allowance(routing: &Routing) -> Allowance {
    Allowance {
        ceiling: routing.ceiling,
        templates_first: routing.template_first,
        chunks: if routing.use_retrieval { Allowance::ALL.chunks } else { 0 },
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
    fn into_api_plan(self, routing: &Routing) -> Plan {
        let mut notes = routing.notes.clone();
        notes.retain(|note| *note != RoutingNote::IntentMissing);
        let rungs = [Rung::StrongModel, Rung::FastModel];
        let may_ask = |_: &Rung| self.allowed.ceiling != Ceiling::None;
        Plan {
            priority: routing.priority,
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

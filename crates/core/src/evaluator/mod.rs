//! What may be done for one request, by everybody who has a say.
//!
//! The control plane's verdict on the shop ([`Posture`]) and the facts of one request ([`PlanSituation`]) make a
//! [`Plan`]: the rungs to try, the highest grade, how much to retrieve. Nobody else reads switches, states or hours, so
//! that there is one place to look for why an answer was not better.
//!
//! **When it acts.** Once per request, from a snapshot. The voices are asked in a fixed order: an operator's override, the
//! switches, the money, the level, the intent, the night, the router, the hint. The lowest ceiling wins, whoever names it, and everyone
//! who allows less than everything is kept as a [`Reason`].
//!
//! **Trying a protection.** In observe mode it has no say in the plan; a second plan says what would have been with it.
//! Switched off, it has none in either.
//!
//! **What it will not do.** It does not look at breakers: they act later, and only downwards. A programming interface
//! ([`Face::Api`]) is transparent: only an operator can keep it from its models, and it is told so instead of being given
//! something else. What it takes from the router is its priority, by purpose and tier, with the notes that explain it.
//!
//! ```
//! use seawall_core::evaluator::{PlanSituation, Posture, evaluate};
//! use seawall_core::time::UtcTime;
//! use seawall_core::vocabulary::{Ceiling, Level, Rung, Tier};
//! use std::time::Duration;
//!
//! let posture = Posture { level: Level::HighLoad, ..Posture::default() };
//! let noon_in_tokyo = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(3 * 3_600);
//! let plan = evaluate(&posture, &PlanSituation::of(7, Tier::Prime), noon_in_tokyo).plan;
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

pub use plan::{Allowance, Plan, Reason, Reasons, Voice};
pub use shop_hours::ShopHours;
pub use switches::{Protection, Protections, Switch};

use crate::ladder::{LevelPermits, RetrievalBypass};
use crate::rollout::Experiment;
use crate::router::{Purpose, Route, RouteNote, RouteNotes, RouteSituation};
use crate::setting::Factor;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, CostState, Grade, Intent, Level, Mode, Priority, Rung, Tier};
use arrayvec::ArrayVec;

/// The control plane's verdict, which every plan reads.
#[derive(Clone, Debug)]
pub struct Posture {
    /// How the switches stand.
    pub protections: Protections,
    /// An operator's ceiling for everybody.
    pub ceiling_override: Option<Ceiling>,
    /// How each tier's money stands, in the order of [`Tier::ALL`].
    pub tier_costs: [CostState; 3],
    /// How everybody's money stands.
    pub day_cost: CostState,
    /// How far the shop has stepped down.
    pub level: Level,
    /// Whether intents can be told.
    pub classifier_available: bool,
    /// The guests who get the smaller service; all of them where nothing is said.
    pub guest_lite: Option<Experiment>,
    /// What the evening and the night mean.
    pub hours: ShopHours,
    /// What limits are multiplied with while they are brought in.
    pub limit_factor: Factor,
    /// What budgets are multiplied with while they are brought in.
    pub budget_factor: Factor,
}

impl Default for Posture {
    /// What holds before anything was read: every protection on and enforced, all well.
    fn default() -> Self {
        Self {
            protections: Protections::default(),
            ceiling_override: None,
            tier_costs: [CostState::Normal; 3],
            day_cost: CostState::Normal,
            level: Level::Normal,
            classifier_available: true,
            guest_lite: None,
            hours: ShopHours::default(),
            limit_factor: Factor::ONE,
            budget_factor: Factor::ONE,
        }
    }
}

/// Where a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// The shop's chat: it always answers, with whatever it can.
    Chat,
    /// A vendor's programming interface: the model that was asked for, or a reason why not.
    Api,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSituation {
    /// Where it came in. A programming interface whose route asks for it is treated as a chat.
    pub face: Face,
    /// What it is for.
    pub purpose: Purpose,
    /// Who asks.
    pub caller: u64,
    /// What the caller is entitled to; `None` where nobody could say.
    pub tier: Option<Tier>,
    /// Whether there is something in the cart.
    pub has_cart: bool,
    /// What it is about, where that is known.
    pub intent: Option<Intent>,
    /// Whether an operator holds this caller down.
    pub is_clamped: bool,
    /// The grade that is enough for the question, where somebody could tell.
    pub hint: Option<Ceiling>,
}

impl PlanSituation {
    /// A message of a caller of this tier, of whom nothing else is known.
    #[must_use]
    pub const fn of(caller: u64, tier: Tier) -> Self {
        Self {
            face: Face::Chat,
            purpose: Purpose::Caller,
            caller,
            tier: Some(tier),
            has_cart: false,
            intent: None,
            is_clamped: false,
            hint: None,
        }
    }

    /// Doubt goes to the cheap side.
    fn known_tier(&self) -> Tier {
        self.tier.unwrap_or(Tier::Guest)
    }

    fn known_intent(&self) -> Intent {
        self.intent.unwrap_or(Intent::Unknown)
    }
}

/// A plan, and the one that would have been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// What to do.
    pub plan: Plan,
    /// What to do if every protection that is being tried were in force; `None` where none is.
    pub would_be: Option<Plan>,
}

/// Makes the plan of one request.
#[must_use]
pub fn evaluate(posture: &Posture, situation: &PlanSituation, utc: UtcTime) -> Evaluation {
    let enforced = |protection| posture.protections.mode(protection) == Mode::Enforce;
    let tried = |protection| posture.protections.mode(protection) != Mode::Off;
    Evaluation {
        plan: plan(posture, situation, utc, enforced),
        would_be: posture.protections.observes().then(|| plan(posture, situation, utc, tried)),
    }
}

fn plan(
    posture: &Posture,
    situation: &PlanSituation,
    utc: UtcTime,
    acts: impl Fn(Protection) -> bool,
) -> Plan {
    let mut hearing = Hearing { allowed: Allowance::ALL, reasons: Reasons::new() };
    hear_operator(posture, situation, &mut hearing);
    let route = routed(posture, situation, utc, &acts);
    if situation.face == Face::Api {
        return hearing.into_api_plan(route);
    }
    let tier = situation.known_tier();
    if acts(Protection::CostBreaker) {
        let state = posture.tier_costs[tier.index()];
        hearing.hear(Voice::TierCost(state), of_cost(state));
        hearing.hear(Voice::DayCost(posture.day_cost), of_cost(posture.day_cost));
    }
    let level = if acts(Protection::Degradation) { posture.level } else { Level::Normal };
    hearing.hear(Voice::Level(level), of_level(level, situation));
    let intent = situation.known_intent();
    hearing.hear(Voice::Intent(intent), of_intent(intent));
    if acts(Protection::OffPeak) {
        let night = posture.hours.off_peak().decide(tier, route.priority, utc);
        let templates_first = night.template_and_cache_first();
        hearing
            .hear(Voice::OffPeak, Allowance { ceiling: night.ceiling(), templates_first, ..Allowance::ALL });
    }
    hearing.hear(Voice::Router(route.reason), of_route(&route));
    if let Some(ceiling) = situation.hint {
        hearing.hear(Voice::Hint, Allowance { ceiling, ..Allowance::ALL });
    }
    hearing.into_chat_plan(route.priority, route.notes)
}

/// What an operator says holds for everybody and in every mode: it is not a protection that is being tried.
fn hear_operator(posture: &Posture, situation: &PlanSituation, hearing: &mut Hearing) {
    let at_most = |ceiling| Allowance { ceiling, ..Allowance::ALL };
    if let Some(ceiling) = posture.ceiling_override {
        // Who asked a programming interface for one model is not given another.
        let ceiling =
            if situation.face == Face::Api && ceiling != Ceiling::None { Ceiling::Strong } else { ceiling };
        hearing.hear(Voice::Override, at_most(ceiling));
    }
    if situation.is_clamped {
        hearing.hear(Voice::Clamp, at_most(Ceiling::None));
    }
    if !posture.protections.is_on(Switch::ModelInvocation) {
        hearing.hear(Voice::ModelsOff, at_most(Ceiling::None));
    }
}

fn routed(
    posture: &Posture,
    situation: &PlanSituation,
    utc: UtcTime,
    acts: impl Fn(Protection) -> bool,
) -> Route {
    let is_chosen = || posture.guest_lite.is_none_or(|experiment| experiment.includes(situation.caller));
    let situation = RouteSituation {
        purpose: situation.purpose,
        tier: situation.tier,
        has_cart: situation.has_cart,
        intent: situation.intent,
        classifier_available: posture.classifier_available,
        guest_lite: acts(Protection::GuestLite) && is_chosen(),
    };
    posture.hours.router().route(&situation, utc)
}

fn of_cost(state: CostState) -> Allowance {
    let ceiling = match state {
        CostState::Normal => return Allowance::ALL,
        CostState::Warning => Ceiling::Fast,
        CostState::Spent => Ceiling::None,
    };
    Allowance { ceiling, templates_first: true, ..Allowance::ALL }
}

fn of_level(level: Level, situation: &PlanSituation) -> Allowance {
    let permits = LevelPermits::of(level);
    // What needs nothing looked up at any level is no doing of this one.
    let is_bypassed =
        permits.bypass > RetrievalBypass::NeedsNone && permits.bypass.covers(situation.known_intent());
    Allowance {
        ceiling: permits.ceiling(situation.known_tier()),
        templates_first: false,
        chunks: if is_bypassed { 0 } else { permits.chunks },
        reranker: permits.reranker,
    }
}

fn of_intent(intent: Intent) -> Allowance {
    let needs_none = RetrievalBypass::NeedsNone.covers(intent);
    Allowance { chunks: if needs_none { 0 } else { Allowance::ALL.chunks }, ..Allowance::ALL }
}

fn of_route(route: &Route) -> Allowance {
    Allowance {
        ceiling: route.ceiling,
        templates_first: route.template_first,
        chunks: if route.use_retrieval { Allowance::ALL.chunks } else { 0 },
        reranker: true,
    }
}

/// What is left after everybody was heard.
struct Hearing {
    allowed: Allowance,
    reasons: Reasons,
}

impl Hearing {
    fn hear(&mut self, voice: Voice, allows: Allowance) {
        self.allowed = self.allowed.and(allows);
        // There is a place for every voice, and each speaks once.
        if allows != Allowance::ALL && !self.reasons.is_full() {
            self.reasons.push(Reason { voice, allows });
        }
    }

    /// A programming interface has its models or nothing. Nobody tells it what a message is about, so that this is
    /// not worth a note.
    fn into_api_plan(self, route: Route) -> Plan {
        let mut notes = route.notes;
        notes.retain(|note| *note != RouteNote::IntentMissing);
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

    fn into_chat_plan(self, priority: Priority, notes: RouteNotes) -> Plan {
        let Allowance { ceiling, templates_first, chunks, reranker } = self.allowed;
        let calls_models = ceiling != Ceiling::None;
        let prepared_first = templates_first || !calls_models;
        let is_tried = |rung: &Rung| match rung {
            Rung::Template => prepared_first,
            // Those who go first get an answer made for them.
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

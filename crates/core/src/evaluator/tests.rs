mod any_request;

use super::{
    Evaluation, FaceKind, Plan, PlanInput, PlanPolicy, PlanSituation, Posture, Protection, Protections,
    RequestPurpose, Routing, RoutingNote, Switch,
};
use crate::hours::{HoursOptions, OffPeak, OffPeakOptions};
use crate::rollout::Experiment;
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, CostState, Level, Mode, Priority, RetrievalNeed, Rung, Tier};
use std::time::Duration;

/// A day in November, at this time.
fn clock(hour: u64, minute: u64) -> UtcTime {
    UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(hour * 3_600 + minute * 60)
}

fn noon() -> UtcTime {
    clock(12, 0)
}

/// Off-peak hours from 23:00 to 08:00.
fn night() -> OffPeakOptions {
    OffPeakOptions::of(HoursOptions::full_hours(23, 8, 0))
}

/// Everything that a plan depends on besides the request, in one value.
#[derive(Clone, Debug)]
struct Inputs {
    protections: Protections,
    guest_lite: Option<Experiment>,
    off_peak: Option<OffPeak>,
    ceiling_override: Option<Ceiling>,
    tier_costs: [CostState; 3],
    day_cost: CostState,
    level: Level,
    classifier_available: bool,
}

impl Default for Inputs {
    fn default() -> Self {
        let PlanPolicy { protections, guest_lite, off_peak } = PlanPolicy::default();
        let Posture { ceiling_override, tier_costs, day_cost, level, classifier_available, .. } =
            Posture::default();
        Self {
            protections,
            guest_lite,
            off_peak,
            ceiling_override,
            tier_costs,
            day_cost,
            level,
            classifier_available,
        }
    }
}

impl Inputs {
    fn split(&self) -> (PlanPolicy, Posture) {
        let Self { protections, guest_lite, off_peak, ceiling_override, tier_costs, day_cost, .. } =
            self.clone();
        let Self { level, classifier_available, .. } = *self;
        let policy = PlanPolicy { protections, guest_lite, off_peak };
        let normal = Posture::default();
        let posture =
            Posture { ceiling_override, tier_costs, day_cost, level, classifier_available, ..normal };
        (policy, posture)
    }
}

fn evaluate(inputs: &Inputs, situation: &PlanSituation, utc: UtcTime) -> Evaluation {
    let (policy, posture) = inputs.split();
    super::evaluate(&policy, &posture, situation, utc)
}

/// A normal posture with off-peak hours.
fn normal() -> Inputs {
    Inputs { off_peak: Some(night().check().unwrap()), ..Inputs::default() }
}

/// A caller whom the router treats as it treats a prime one.
fn privileged(tier: Tier) -> PlanSituation {
    let routing = Routing::by_tier(RequestPurpose::Caller, Some(Tier::Prime));
    PlanSituation { routing, ..PlanSituation::of(7, tier) }
}

/// A guest who gets no model from the reduced pipeline.
fn lite_guest() -> PlanSituation {
    let full = PlanSituation::of(7, Tier::Guest);
    let reduced = Routing {
        ceiling: Ceiling::None,
        use_retrieval: false,
        reason: "guest_lite",
        ..full.routing.clone()
    };
    PlanSituation { guest_lite_routing: Some(reduced), ..full }
}

fn standard() -> PlanSituation {
    PlanSituation::of(7, Tier::Standard)
}

fn plan(posture: &Inputs, situation: &PlanSituation, utc: UtcTime) -> Plan {
    evaluate(posture, situation, utc).plan
}

fn chain(plan: &Plan) -> Vec<String> {
    plan.reasons.iter().map(ToString::to_string).collect()
}

fn thrown(switch: Switch) -> Inputs {
    let mut posture = normal();
    posture.protections.set_switch(switch, false);
    posture
}

fn observing(protection: Protection, posture: &Inputs) -> Inputs {
    let mut posture = posture.clone();
    posture.protections.set_mode(protection, Mode::Observe);
    posture
}

#[test]
fn the_hour_decides_the_ceiling_of_callers_who_are_not_exempt() {
    let posture = normal();
    let flag_off = thrown(Switch::OffPeak);
    let none = Inputs::default();
    let high = privileged(Tier::Standard);
    for (posture, at, ceiling) in [
        (&posture, noon(), Ceiling::Strong),
        (&posture, clock(23, 30), Ceiling::Fast),
        (&flag_off, clock(23, 30), Ceiling::Strong),
        (&none, clock(23, 30), Ceiling::Strong),
        (&posture, clock(23, 0), Ceiling::Fast),
        (&posture, UtcTime::from_nanos(clock(23, 0).as_nanos() - 1), Ceiling::Strong),
        (&posture, clock(32, 0), Ceiling::Strong),
        (&posture, UtcTime::from_nanos(clock(32, 0).as_nanos() - 1), Ceiling::Fast),
    ] {
        assert_eq!(plan(posture, &high, at).ceiling, ceiling, "{at:?}");
        assert_eq!(plan(posture, &standard(), at).ceiling, ceiling, "{at:?}");
    }
    let off_peak = plan(&posture, &high, clock(23, 30));
    assert_eq!(off_peak.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    assert_eq!(off_peak.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::OffPeak]);
    let exempt = OffPeakOptions { exempt_priorities: vec![Priority::High], ..night() };
    let posture = Inputs { off_peak: Some(exempt.check().unwrap()), ..posture };
    assert_eq!(plan(&posture, &high, clock(23, 30)).ceiling, Ceiling::Strong);
    assert_eq!(plan(&posture, &standard(), clock(23, 30)).ceiling, Ceiling::Fast);
}

#[test]
fn the_lowest_ceiling_wins_and_every_restriction_is_a_reason() {
    let posture = Inputs {
        ceiling_override: Some(Ceiling::None),
        level: Level::HighLoad,
        tier_costs: [CostState::Normal, CostState::Warning, CostState::Normal],
        ..normal()
    };
    let plan = plan(&posture, &privileged(Tier::Standard), noon());
    assert_eq!(plan.ceiling, Ceiling::None);
    assert_eq!(chain(&plan), ["override=none", "tier_cost:warning=fast", "level:high_load=fast"]);
    assert_eq!(plan.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::Override]);
    assert!(!plan.calls_models());
    assert_eq!((plan.chunks, plan.reranker), (0, false));
}

#[test]
fn a_plan_that_allows_everything_has_no_reasons() {
    let plan = plan(&normal(), &PlanSituation::of(1, Tier::Prime), noon());
    assert_eq!(chain(&plan), Vec::<String>::new());
    assert_eq!(plan.binding().count(), 0);
    let rungs = [Rung::StrongModel, Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology];
    assert_eq!((plan.rungs.as_slice(), plan.chunks, plan.reranker), (rungs.as_slice(), 3, true));
    assert_eq!(plan.priority, Priority::High);
}

#[test]
fn what_the_router_takes_away_is_attributed_to_its_rule() {
    let all = Routing::by_tier(RequestPurpose::Caller, Some(Tier::Prime));
    let posture = normal();
    let routed = |routing: Routing| {
        let routing = Routing { reason: "some_rule", ..routing };
        plan(&posture, &PlanSituation { routing, ..PlanSituation::of(1, Tier::Prime) }, noon())
    };
    let fast = routed(Routing { ceiling: Ceiling::Fast, ..all.clone() });
    assert_eq!((chain(&fast), fast.ceiling), (vec!["router:some_rule=fast".to_owned()], Ceiling::Fast));
    let prepared = routed(Routing { template_first: true, ..all.clone() });
    assert_eq!(chain(&prepared), ["router:some_rule=strong"]);
    assert_eq!(prepared.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::StrongModel]);
    let bare = routed(Routing { use_retrieval: false, ..all.clone() });
    assert_eq!(chain(&bare), ["router:some_rule=strong"]);
    assert_eq!((bare.chunks, bare.reranker, bare.ceiling), (0, false, Ceiling::Strong));
    assert_eq!(chain(&routed(all)), Vec::<String>::new());
}

#[test]
fn lower_priorities_try_the_fresh_cache_before_a_model() {
    let posture = normal();
    let plan_of = |routing| {
        let situation = PlanSituation { routing, ..PlanSituation::of(7, Tier::Standard) };
        plan(&posture, &situation, noon())
    };
    let by_tier = Routing::by_tier;
    let normal = plan_of(by_tier(RequestPurpose::Caller, Some(Tier::Standard)));
    assert_eq!(normal.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::StrongModel]);
    let check = plan_of(by_tier(RequestPurpose::HealthCheck, Some(Tier::Standard)));
    assert_eq!((check.priority, check.rungs.first()), (Priority::Critical, Some(&Rung::FastModel)));
    let bulk = plan_of(by_tier(RequestPurpose::Background, Some(Tier::Prime)));
    assert_eq!(bulk.priority, Priority::Bulk);
    assert_eq!(bulk.rungs.first(), Some(&Rung::FreshCache));
}

#[test]
fn without_a_router_the_tier_decides() {
    let posture = normal();
    for (tier, ceiling, first) in [
        (Some(Tier::Prime), Ceiling::Strong, Rung::StrongModel),
        (Some(Tier::Standard), Ceiling::Strong, Rung::Template),
        (Some(Tier::Guest), Ceiling::Fast, Rung::Template),
        (None, Ceiling::Fast, Rung::Template),
    ] {
        let routing = Routing::by_tier(RequestPurpose::Caller, tier);
        let name = tier.unwrap_or(Tier::Guest).name();
        assert_eq!((routing.reason, routing.intent), (name, "unknown"));
        let plan = plan(&posture, &PlanSituation { tier, routing, ..standard() }, noon());
        assert_eq!((plan.ceiling, plan.rungs.first(), plan.chunks), (ceiling, Some(&first), 3));
    }
}

#[test]
fn the_reduced_pipeline_replaces_the_routing_of_its_guests() {
    let reduced = plan(&normal(), &lite_guest(), noon());
    assert!(!reduced.calls_models());
    assert_eq!(chain(&reduced), ["router:guest_lite=none"]);
    assert_eq!(
        reduced.rungs.as_slice(),
        [Rung::Template, Rung::FreshCache, Rung::StaleCache, Rung::Faq, Rung::Apology]
    );
    let off = plan(&thrown(Switch::GuestLite), &lite_guest(), noon());
    assert_eq!((off.ceiling, chain(&off)), (Ceiling::Fast, vec!["router:guest=fast".to_owned()]));
    let same = PlanSituation { guest_lite_routing: None, ..lite_guest() };
    assert!(plan(&normal(), &same, noon()).calls_models());
}

#[test]
fn levels_take_away_step_by_step() {
    let at = |level, situation: &PlanSituation| plan(&Inputs { level, ..normal() }, situation, noon());
    let needing = |tier| {
        let situation = privileged(tier);
        let routing = Routing { retrieval_need: RetrievalNeed::Required, ..situation.routing.clone() };
        PlanSituation { routing, ..situation }
    };
    let prime = needing(Tier::Prime);
    let elevated = at(Level::Elevated, &prime);
    assert_eq!((elevated.ceiling, elevated.chunks, elevated.reranker), (Ceiling::Strong, 3, false));
    assert_eq!(chain(&elevated), ["level:elevated=strong"]);
    let overload = at(Level::Overload, &needing(Tier::Standard));
    assert_eq!((overload.ceiling, overload.chunks), (Ceiling::Fast, 1));
    assert!(!at(Level::Overload, &needing(Tier::Guest)).calls_models());
    let unknown = PlanSituation { tier: None, ..needing(Tier::Prime) };
    assert!(!at(Level::Overload, &unknown).calls_models(), "an unknown tier is a guest's");
    for tier in Tier::ALL {
        let plan = at(Level::Emergency, &needing(tier));
        assert_eq!((plan.calls_models(), plan.chunks), (false, 0));
    }
    let mut off = Inputs { level: Level::Emergency, ..normal() };
    off.protections.set_switch(Switch::Degradation, false);
    assert_eq!(plan(&off, &prime, noon()).ceiling, Ceiling::Strong);
}

#[test]
fn money_that_runs_out_takes_strong_models_first_and_then_all_by_tier() {
    let costs = |prime, standard, day| Inputs {
        tier_costs: [prime, standard, CostState::Normal],
        day_cost: day,
        ..normal()
    };
    let prime = PlanSituation::of(1, Tier::Prime);
    let spent = costs(CostState::Normal, CostState::Spent, CostState::Normal);
    assert_eq!(plan(&spent, &standard(), noon()).ceiling, Ceiling::None);
    assert_eq!(plan(&spent, &prime, noon()).ceiling, Ceiling::Strong);
    let warned = plan(&costs(CostState::Warning, CostState::Normal, CostState::Normal), &prime, noon());
    assert_eq!(warned.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    let all = costs(CostState::Normal, CostState::Normal, CostState::Spent);
    assert_eq!(chain(&plan(&all, &prime, noon())), ["day_cost:spent=none"]);
    let mut off = all;
    off.protections.set_switch(Switch::CostBreaker, false);
    assert_eq!(plan(&off, &prime, noon()).ceiling, Ceiling::Strong);
}

#[test]
fn a_protection_in_observe_mode_changes_only_the_shadow_plan() {
    let spent = Inputs { day_cost: CostState::Spent, ..normal() };
    assert_eq!(evaluate(&spent, &standard(), noon()).shadow, None);
    let evaluation = evaluate(&observing(Protection::CostBreaker, &spent), &standard(), noon());
    assert_eq!(evaluation.plan.ceiling, Ceiling::Strong);
    let shadow = evaluation.shadow.unwrap();
    assert_eq!(
        (shadow.ceiling, chain(&shadow).first().map(String::as_str)),
        (Ceiling::None, Some("day_cost:spent=none"))
    );

    let guests = observing(Protection::GuestLite, &normal());
    let evaluation = evaluate(&guests, &lite_guest(), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let loaded = Inputs { level: Level::Emergency, ..normal() };
    let evaluation = evaluate(&observing(Protection::Degradation, &loaded), &standard(), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let evaluation = evaluate(&observing(Protection::OffPeak, &normal()), &standard(), clock(2, 0));
    assert_eq!(
        (evaluation.plan.ceiling, evaluation.shadow.unwrap().ceiling),
        (Ceiling::Strong, Ceiling::Fast)
    );

    // A protection that is switched off is not in the shadow plan either, even while another is observed.
    let mut off = observing(Protection::CostBreaker, &spent);
    off.protections.set_switch(Switch::CostBreaker, false);
    assert_eq!(evaluate(&off, &standard(), noon()).shadow, None);
    let off = observing(Protection::OffPeak, &off);
    assert_eq!(evaluate(&off, &standard(), noon()).shadow.unwrap().ceiling, Ceiling::Strong);
}

#[test]
fn an_operator_is_obeyed_in_every_mode() {
    let mut posture = thrown(Switch::ModelInvocation);
    for protection in Protection::ALL {
        posture.protections.set_mode(protection, Mode::Observe);
    }
    let off = plan(&posture, &standard(), noon());
    assert_eq!((off.ceiling, off.reasons[0].input), (Ceiling::None, PlanInput::ModelsOff));
    let suspended = PlanSituation { is_suspended: true, ..standard() };
    assert_eq!(plan(&normal(), &suspended, noon()).reasons[0].input, PlanInput::CallerSuspended);
    assert!(!plan(&normal(), &suspended, noon()).calls_models());
    let easy = PlanSituation { hint: Some(Ceiling::Fast), ..privileged(Tier::Standard) };
    assert_eq!(plan(&normal(), &easy, noon()).binding().next().unwrap().input, PlanInput::Hint);
}

#[test]
fn a_programming_interface_is_transparent_to_all_but_an_operator() {
    let api = || PlanSituation { face: FaceKind::Api, ..lite_guest() };
    let strictest = Inputs {
        level: Level::Emergency,
        day_cost: CostState::Spent,
        ceiling_override: Some(Ceiling::Fast),
        ..normal()
    };
    let through = plan(&strictest, &api(), clock(2, 0));
    assert_eq!(
        (through.ceiling, through.rungs.as_slice()),
        (Ceiling::Strong, [Rung::StrongModel, Rung::FastModel].as_slice())
    );
    assert_eq!(chain(&through), Vec::<String>::new());
    assert_eq!((through.chunks, through.reranker), (0, false));
    for (posture, situation, input) in [
        (Inputs { ceiling_override: Some(Ceiling::None), ..normal() }, api(), PlanInput::Override),
        (thrown(Switch::ModelInvocation), api(), PlanInput::ModelsOff),
        (normal(), PlanSituation { is_suspended: true, ..api() }, PlanInput::CallerSuspended),
    ] {
        let kept_out = plan(&posture, &situation, noon());
        assert!(kept_out.rungs.is_empty() && !kept_out.calls_models());
        assert_eq!(kept_out.binding().map(|reason| reason.input).collect::<Vec<_>>(), [input]);
    }
}

#[test]
fn a_programming_interface_has_the_priority_of_its_purpose_and_tier() {
    for (purpose, tier, priority, notes) in [
        (RequestPurpose::Caller, Some(Tier::Prime), Priority::High, &[][..]),
        (RequestPurpose::Caller, Some(Tier::Standard), Priority::Normal, &[]),
        (RequestPurpose::Caller, Some(Tier::Guest), Priority::Low, &[]),
        (RequestPurpose::Caller, None, Priority::Low, &[RoutingNote::TierUnknown]),
        (RequestPurpose::Background, Some(Tier::Prime), Priority::Bulk, &[RoutingNote::Background]),
        (
            RequestPurpose::Background,
            None,
            Priority::Bulk,
            &[RoutingNote::TierUnknown, RoutingNote::Background],
        ),
        (RequestPurpose::HealthCheck, Some(Tier::Guest), Priority::Critical, &[]),
        (RequestPurpose::HealthCheck, None, Priority::Critical, &[]),
    ] {
        let routing = Routing::by_tier(purpose, tier);
        let situation = PlanSituation { face: FaceKind::Api, tier, routing, ..standard() };
        let plan = plan(&normal(), &situation, clock(20, 0));
        assert_eq!((plan.priority, plan.notes.as_slice()), (priority, notes), "{purpose} {tier:?}");
        assert_eq!((plan.ceiling, plan.reasons.len()), (Ceiling::Strong, 0));
    }
}

#[test]
fn a_plan_repeats_the_notes_of_its_routing() {
    let notes = RoutingNote::ALL.into_iter().collect();
    let chat = PlanSituation { routing: Routing { notes, ..standard().routing }, ..standard() };
    assert_eq!(plan(&normal(), &chat, noon()).notes.as_slice(), RoutingNote::ALL);
    // An API request has no intent that could be missing.
    let api = PlanSituation { face: FaceKind::Api, ..chat };
    let noted = [RoutingNote::TierUnknown, RoutingNote::Background];
    assert_eq!(plan(&normal(), &api, noon()).notes.as_slice(), noted);
    assert_eq!(RoutingNote::ALL.map(|note| note.text().ends_with('.')), [true; 3]);
}

#[test]
fn intents_without_retrieval_are_attributed_to_the_intent() {
    let about = |intent, retrieval_need| {
        let situation = PlanSituation::of(7, Tier::Prime);
        let routing = Routing { intent, retrieval_need, ..situation.routing.clone() };
        PlanSituation { routing, ..situation }
    };
    for posture in [normal(), thrown(Switch::Degradation)] {
        for need in RetrievalNeed::ALL {
            let plan = plan(&posture, &about("order", need), noon());
            let needs_none = need == RetrievalNeed::None;
            let expected = if needs_none { vec!["intent:order=strong".to_owned()] } else { vec![] };
            assert_eq!((chain(&plan), plan.chunks), (expected, if needs_none { 0 } else { 3 }));
        }
    }
    // A level that skips retrieval for further intents is recorded as the reason.
    let loaded = Inputs { level: Level::HighLoad, ..normal() };
    for (need, chunks, reasons) in [
        (RetrievalNeed::Required, 1, &["level:high_load=fast"][..]),
        (RetrievalNeed::Optional, 0, &["level:high_load=fast"]),
        (RetrievalNeed::None, 0, &["level:high_load=fast", "intent:order=strong"]),
    ] {
        let plan = plan(&loaded, &about("order", need), noon());
        assert_eq!(plan.chunks, chunks, "{need}");
        assert_eq!(chain(&plan), reasons);
    }
}

#[test]
fn each_protection_has_its_own_switch_and_mode() {
    for protection in Protection::ALL {
        assert_eq!(format!("{}_enabled", protection.name()), protection.switch().name());
        let mut protections = Protections::default();
        protections.set_mode(protection, Mode::Observe);
        let observed = Protection::ALL.map(|other| protections.mode(other) == Mode::Observe);
        assert_eq!(observed, Protection::ALL.map(|other| other == protection));
        assert!(protections.observes());
        protections.set_switch(protection.switch(), false);
        assert_eq!((protections.mode(protection), protections.observes()), (Mode::Off, false));
    }
    assert!(!Protection::ALL.iter().any(|protection| protection.switch() == Switch::ModelInvocation));
}

#[test]
fn an_experiment_gives_its_guests_the_smaller_service_and_the_others_the_larger() {
    let experiment = Experiment::new("guest_lite", 10.0).unwrap();
    let posture = Inputs { guest_lite: Some(experiment), ..normal() };
    let is_small = |caller| !plan(&posture, &PlanSituation { caller, ..lite_guest() }, noon()).calls_models();
    let small = (0..10_000).filter(|caller| is_small(*caller)).count();
    assert!((900..1_100).contains(&small), "{small}");
    assert!((0..1_000).all(|caller| is_small(caller) == experiment.includes(caller)));
}

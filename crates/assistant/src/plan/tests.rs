use super::MessageSituation;
use crate::intent::Intent;
use crate::router::Router;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use seawall_core::evaluator::{
    Allowance, Evaluation, Plan, PlanInput, PlanPolicy, Posture, Protection, Protections, RequestPurpose,
    RoutingNote, Switch,
};
use seawall_core::hours::{HoursOptions, OffPeak, OffPeakOptions};
use seawall_core::rollout::Experiment;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, CostState, Level, Mode, Priority, Rung, Tier};
use std::time::Duration;

/// From one full hour to another, in Japan.
fn in_japan(start: u32, end: u32) -> HoursOptions {
    HoursOptions::full_hours(start, end, 9 * 60)
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

/// A normal posture with the shop's off-peak hours.
fn normal() -> Inputs {
    Inputs { off_peak: Some(OffPeakOptions::of(in_japan(23, 8)).check().unwrap()), ..Inputs::default() }
}

fn evaluate(posture: &Inputs, message: &MessageSituation, utc: UtcTime) -> Evaluation {
    let (policy, posture) = posture.split();
    Router::new(in_japan(19, 23).check().unwrap()).plan(&policy, &posture, message, utc)
}

/// A day in November in Tokyo, at this time.
fn tokyo(hour: u64, minute: u64) -> UtcTime {
    let midnight = UtcTime::from_civil(2026, 11, 14) + Duration::from_secs(15 * 3_600);
    midnight + Duration::from_secs(hour * 3_600 + minute * 60)
}

fn noon() -> UtcTime {
    tokyo(12, 0)
}

fn standard() -> MessageSituation {
    MessageSituation::of(7, Tier::Standard)
}

fn guest(intent: Intent) -> MessageSituation {
    MessageSituation { intent: Some(intent), ..MessageSituation::of(7, Tier::Guest) }
}

fn plan(posture: &Inputs, situation: &MessageSituation, utc: UtcTime) -> Plan {
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
fn the_hour_decides_what_a_caller_without_a_cart_gets() {
    let posture = normal();
    let with_cart = MessageSituation { has_cart: true, ..standard() };
    let flag_off = thrown(Switch::OffPeak);
    for (posture, situation, at, ceiling) in [
        (&posture, standard(), noon(), Ceiling::Strong),
        (&posture, standard(), tokyo(20, 0), Ceiling::Fast),
        (&posture, with_cart, tokyo(20, 0), Ceiling::Strong),
        (&posture, with_cart, tokyo(23, 30), Ceiling::Fast),
        (&flag_off, with_cart, tokyo(23, 30), Ceiling::Strong),
        (&flag_off, standard(), tokyo(23, 30), Ceiling::Strong),
        (&posture, with_cart, tokyo(23, 0), Ceiling::Fast),
        (&posture, with_cart, UtcTime::from_nanos(tokyo(23, 0).as_nanos() - 1), Ceiling::Strong),
        (&posture, with_cart, tokyo(32, 0), Ceiling::Strong),
        (&posture, with_cart, UtcTime::from_nanos(tokyo(32, 0).as_nanos() - 1), Ceiling::Fast),
    ] {
        assert_eq!(plan(posture, &situation, at).ceiling, ceiling, "{situation:?} at {at:?}");
    }
    let night = plan(&posture, &with_cart, tokyo(23, 30));
    assert_eq!(night.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    assert_eq!(night.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::OffPeak]);
    let exempt =
        OffPeakOptions { exempt_priorities: vec![Priority::High], ..OffPeakOptions::of(in_japan(23, 8)) };
    let posture = Inputs { off_peak: Some(exempt.check().unwrap()), ..posture };
    assert_eq!(plan(&posture, &with_cart, tokyo(23, 30)).ceiling, Ceiling::Strong);
}

#[test]
fn the_lowest_ceiling_wins_and_every_restriction_is_a_reason() {
    let posture = Inputs {
        ceiling_override: Some(Ceiling::None),
        level: Level::HighLoad,
        tier_costs: [CostState::Normal, CostState::Warning, CostState::Normal],
        ..normal()
    };
    let high = MessageSituation { has_cart: true, intent: Some(Intent::Recommendation), ..standard() };
    let plan = plan(&posture, &high, noon());
    assert_eq!(plan.ceiling, Ceiling::None);
    assert_eq!(chain(&plan), ["override=none", "tier_cost:warning=fast", "level:high_load=fast"]);
    assert_eq!(plan.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::Override]);
    assert!(!plan.calls_models());
    assert_eq!((plan.chunks, plan.reranker), (0, false));
}

#[test]
fn a_plan_that_allows_everything_has_no_reasons() {
    let situation =
        MessageSituation { intent: Some(Intent::Recommendation), ..MessageSituation::of(1, Tier::Prime) };
    let plan = plan(&normal(), &situation, noon());
    assert_eq!(chain(&plan), Vec::<String>::new());
    assert_eq!(plan.binding().count(), 0);
    let rungs = [Rung::StrongModel, Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology];
    assert_eq!((plan.rungs.as_slice(), plan.chunks, plan.reranker), (rungs.as_slice(), 3, true));
    assert_eq!(plan.priority, Priority::High);
}

#[test]
fn lower_priorities_try_the_fresh_cache_before_a_model() {
    let posture = normal();
    let plan_of = |situation| plan(&posture, &situation, noon());
    let normal = plan_of(MessageSituation { intent: Some(Intent::Order), ..standard() });
    assert_eq!(normal.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::StrongModel]);
    assert_eq!((normal.chunks, normal.reranker), (0, false));
    let check = MessageSituation { purpose: RequestPurpose::HealthCheck, ..standard() };
    assert_eq!(plan_of(check).priority, Priority::Critical);
    let bulk = MessageSituation { purpose: RequestPurpose::Background, has_cart: true, ..standard() };
    assert_eq!(plan_of(bulk).priority, Priority::Bulk);
    assert_eq!(plan_of(bulk).rungs.first(), Some(&Rung::FreshCache));
}

#[test]
fn guests_get_a_model_only_for_what_cannot_be_prepared() {
    let posture = normal();
    let faq = plan(&posture, &guest(Intent::Faq), noon());
    assert!(!faq.calls_models());
    assert_eq!(
        faq.rungs.as_slice(),
        [Rung::Template, Rung::FreshCache, Rung::StaleCache, Rung::Faq, Rung::Apology]
    );
    let question = plan(&posture, &guest(Intent::ProductQuestion), noon());
    assert_eq!((question.ceiling, question.chunks), (Ceiling::Fast, 3));
    assert_eq!(question.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    let unknown = MessageSituation { tier: None, ..guest(Intent::Faq) };
    assert!(!plan(&posture, &unknown, noon()).calls_models());
}

#[test]
fn levels_take_away_step_by_step() {
    let at = |level, situation: &MessageSituation| plan(&Inputs { level, ..normal() }, situation, noon());
    let prime =
        MessageSituation { intent: Some(Intent::Recommendation), ..MessageSituation::of(1, Tier::Prime) };
    let elevated = at(Level::Elevated, &prime);
    assert_eq!((elevated.ceiling, elevated.chunks, elevated.reranker), (Ceiling::Strong, 3, false));
    assert_eq!(chain(&elevated), ["level:elevated=strong"]);
    let overload = at(Level::Overload, &MessageSituation { tier: Some(Tier::Standard), ..prime });
    assert_eq!((overload.ceiling, overload.chunks), (Ceiling::Fast, 1));
    assert!(!at(Level::Overload, &guest(Intent::Recommendation)).calls_models());
    for number in 0..1_000 {
        let situation = MessageSituation {
            caller: number,
            tier: Some(Tier::ALL[usize::try_from(number % 3).unwrap()]),
            intent: Some(Intent::ALL[usize::try_from(number % 8).unwrap()]),
            has_cart: number % 2 == 0,
            ..standard()
        };
        let plan = at(Level::Emergency, &situation);
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
    let prime = MessageSituation { intent: Some(Intent::Faq), ..MessageSituation::of(1, Tier::Prime) };
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
    let evaluation = evaluate(&guests, &guest(Intent::Faq), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let loaded = Inputs { level: Level::Emergency, ..normal() };
    let evaluation = evaluate(&observing(Protection::Degradation, &loaded), &standard(), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let evaluation = evaluate(&observing(Protection::OffPeak, &normal()), &standard(), tokyo(2, 0));
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
    let suspended = MessageSituation { is_suspended: true, ..standard() };
    assert_eq!(plan(&normal(), &suspended, noon()).reasons[0].input, PlanInput::CallerSuspended);
    assert!(!plan(&normal(), &suspended, noon()).calls_models());
    let easy = MessageSituation { hint: Some(Ceiling::Fast), has_cart: true, ..standard() };
    assert_eq!(plan(&normal(), &easy, noon()).binding().next().unwrap().input, PlanInput::Hint);
}

#[test]
fn a_plan_says_what_was_missing_or_special() {
    let notes = |situation: &MessageSituation| plan(&normal(), situation, noon()).notes.to_vec();
    let known = guest(Intent::ProductQuestion);
    assert_eq!(notes(&known), []);
    assert_eq!(notes(&MessageSituation { tier: None, ..known }), [RoutingNote::TierUnknown]);
    assert_eq!(notes(&MessageSituation { intent: None, ..known }), [RoutingNote::IntentMissing]);
    let all = MessageSituation { tier: None, intent: None, purpose: RequestPurpose::Background, ..known };
    assert_eq!(notes(&all), RoutingNote::ALL);
}

#[test]
fn intents_without_retrieval_are_attributed_to_the_intent() {
    let about = |intent| MessageSituation { intent: Some(intent), ..MessageSituation::of(7, Tier::Prime) };
    for posture in [normal(), thrown(Switch::Degradation)] {
        for intent in Intent::ALL {
            let plan = plan(&posture, &about(intent), noon());
            let needs_none = matches!(intent, Intent::Promotion | Intent::Order | Intent::Chitchat);
            let expected = if needs_none { vec![format!("intent:{intent}=strong")] } else { vec![] };
            assert_eq!((chain(&plan), plan.chunks), (expected, if needs_none { 0 } else { 3 }));
        }
    }
    // A level that skips retrieval for further intents is recorded as the reason.
    let loaded = Inputs { level: Level::HighLoad, ..normal() };
    for (intent, chunks, reasons) in [
        (Intent::Faq, 1, &["level:high_load=fast"][..]),
        (Intent::ProductDiscovery, 0, &["level:high_load=fast"]),
        (Intent::Order, 0, &["level:high_load=fast", "intent:order=strong"]),
    ] {
        let plan = plan(&loaded, &about(intent), noon());
        assert_eq!(plan.chunks, chunks, "{intent}");
        assert_eq!(chain(&plan), reasons);
    }
}

#[test]
fn an_experiment_gives_its_guests_the_smaller_service_and_the_others_the_larger() {
    let experiment = Experiment::new("guest_lite", 10.0).unwrap();
    let posture = Inputs { guest_lite: Some(experiment), ..normal() };
    let is_small =
        |caller| !plan(&posture, &MessageSituation { caller, ..guest(Intent::Faq) }, noon()).calls_models();
    let small = (0..10_000).filter(|caller| is_small(*caller)).count();
    assert!((900..1_100).contains(&small), "{small}");
    assert!((0..1_000).all(|caller| is_small(caller) == experiment.includes(caller)));
}

#[test]
fn without_the_classifier_unknown_callers_are_guests() {
    let posture = Inputs { classifier_available: false, ..normal() };
    let nobody = MessageSituation { tier: None, intent: None, ..standard() };
    assert!(plan(&posture, &nobody, noon()).ceiling < Ceiling::Strong);
    let known = plan(&posture, &standard(), noon());
    assert_eq!(known.ceiling, Ceiling::Strong);
    assert!(known.reasons.iter().any(|reason| matches!(reason.input, PlanInput::Router(_))));
}

fn postures() -> impl Strategy<Value = Inputs> {
    let cost = || select(CostState::ALL.to_vec());
    let modes = proptest::collection::vec((select(Mode::ALL.to_vec()), any::<bool>()), Protection::ALL.len());
    let models = any::<bool>();
    let ceiling = proptest::option::of(select(Ceiling::ALL.to_vec()));
    (modes, models, ceiling, [cost(), cost(), cost()], cost(), select(Level::ALL.to_vec()), any::<bool>())
        .prop_map(|(modes, models, ceiling_override, tier_costs, day_cost, level, classifier_available)| {
            let mut posture =
                Inputs { ceiling_override, tier_costs, day_cost, level, classifier_available, ..normal() };
            for (protection, (mode, on)) in Protection::ALL.into_iter().zip(modes) {
                posture.protections.set_mode(protection, mode);
                posture.protections.set_switch(protection.switch(), on);
            }
            posture.protections.set_switch(Switch::ModelInvocation, models);
            posture
        })
}

fn situations() -> impl Strategy<Value = MessageSituation> {
    let tier = proptest::option::of(select(Tier::ALL.to_vec()));
    let intent = proptest::option::of(select(Intent::ALL.to_vec()));
    let hint = proptest::option::of(select(Ceiling::ALL.to_vec()));
    (select(RequestPurpose::ALL.to_vec()), any::<u64>(), tier, any::<bool>(), intent, any::<bool>(), hint)
        .prop_map(|(purpose, caller, tier, has_cart, intent, is_suspended, hint)| MessageSituation {
            purpose,
            caller,
            tier,
            has_cart,
            intent,
            is_suspended,
            hint,
        })
}

proptest! {
    #[test]
    fn a_plan_is_what_all_its_reasons_allow_and_no_less(
        posture in postures(), situation in situations(), seconds in 0..200_000_u64,
    ) {
        let utc = noon() + Duration::from_secs(seconds);
        let evaluation = evaluate(&posture, &situation, utc);
        for plan in [Some(&evaluation.plan), evaluation.shadow.as_ref()].into_iter().flatten() {
            let allowed = plan.reasons.iter().fold(Allowance::ALL, |all, reason| all.and(reason.allows));
            prop_assert_eq!(plan.ceiling, allowed.ceiling);
            prop_assert!(plan.reasons.iter().all(|reason| reason.allows != Allowance::ALL));
            prop_assert!(plan.reasons.iter().all(|reason| reason.input != PlanInput::Level(Level::Normal)));
            prop_assert_eq!(plan.notes.contains(&RoutingNote::Background), plan.priority == Priority::Bulk);
            prop_assert_eq!(plan.binding().count() > 0, plan.ceiling < Ceiling::Strong);
            prop_assert_eq!(plan.calls_models(), plan.ceiling != Ceiling::None);
            prop_assert!(plan.rungs.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
            prop_assert!(!plan.rungs.contains(&Rung::StrongModel) || plan.ceiling == Ceiling::Strong);
            prop_assert_eq!(plan.rungs.last(), Some(&Rung::Apology));
            prop_assert_eq!(plan.chunks, if plan.calls_models() { allowed.chunks } else { 0 });
            prop_assert!(plan.calls_models() || plan.rungs.first() == Some(&Rung::Template));
        }
        // The shadow plan is never less strict.
        if let Some(shadow) = &evaluation.shadow {
            prop_assert!(shadow.ceiling <= evaluation.plan.ceiling);
        }
    }
}

use super::{
    Allowance, Evaluation, FaceKind, Plan, PlanInput, PlanPolicy, PlanSituation, Posture, Protection,
    Protections, ShopHours, Switch,
};
use crate::hours::{HoursOptions, OffPeak, OffPeakOptions};
use crate::rollout::Experiment;
use crate::router::{RequestPurpose, Router, RouterOptions, RoutingNote};
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, CostState, Intent, Level, Mode, Priority, Rung, Tier};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use std::time::Duration;

/// A day in November in Tokyo, at this time.
fn tokyo(hour: u64, minute: u64) -> UtcTime {
    let midnight = UtcTime::from_civil(2026, 11, 14) + Duration::from_secs(15 * 3_600);
    midnight + Duration::from_secs(hour * 3_600 + minute * 60)
}

fn noon() -> UtcTime {
    tokyo(12, 0)
}

fn standard() -> PlanSituation {
    PlanSituation::of(7, Tier::Standard)
}

fn guest(intent: Intent) -> PlanSituation {
    PlanSituation { intent: Some(intent), ..PlanSituation::of(7, Tier::Guest) }
}

/// The settings and the state that a plan is made from.
#[derive(Clone, Debug, Default)]
struct PlanBasis {
    policy: PlanPolicy,
    posture: Posture,
}

impl From<Posture> for PlanBasis {
    fn from(posture: Posture) -> Self {
        Self { policy: PlanPolicy::default(), posture }
    }
}

fn evaluate(basis: &PlanBasis, situation: &PlanSituation, utc: UtcTime) -> Evaluation {
    super::evaluate(&basis.policy, &basis.posture, situation, utc)
}

fn plan(basis: &PlanBasis, situation: &PlanSituation, utc: UtcTime) -> Plan {
    evaluate(basis, situation, utc).plan
}

fn chain(plan: &Plan) -> Vec<String> {
    plan.reasons.iter().map(ToString::to_string).collect()
}

fn thrown(switch: Switch) -> PlanBasis {
    let mut basis = PlanBasis::default();
    basis.policy.protections.set_switch(switch, false);
    basis
}

fn observing(protection: Protection, basis: &PlanBasis) -> PlanBasis {
    let mut basis = basis.clone();
    basis.policy.protections.set_mode(protection, Mode::Observe);
    basis
}

#[test]
fn the_hour_decides_what_a_caller_without_a_cart_gets() {
    let basis = PlanBasis::default();
    let with_cart = PlanSituation { has_cart: true, ..standard() };
    let flag_off = thrown(Switch::OffPeak);
    for (basis, situation, at, ceiling) in [
        (&basis, standard(), noon(), Ceiling::Strong),
        (&basis, standard(), tokyo(20, 0), Ceiling::Fast),
        (&basis, with_cart, tokyo(20, 0), Ceiling::Strong),
        (&basis, with_cart, tokyo(23, 30), Ceiling::Fast),
        (&flag_off, with_cart, tokyo(23, 30), Ceiling::Strong),
        (&flag_off, standard(), tokyo(23, 30), Ceiling::Strong),
        (&basis, with_cart, tokyo(23, 0), Ceiling::Fast),
        (&basis, with_cart, UtcTime::from_nanos(tokyo(23, 0).as_nanos() - 1), Ceiling::Strong),
        (&basis, with_cart, tokyo(32, 0), Ceiling::Strong),
        (&basis, with_cart, UtcTime::from_nanos(tokyo(32, 0).as_nanos() - 1), Ceiling::Fast),
    ] {
        assert_eq!(plan(basis, &situation, at).ceiling, ceiling, "{situation:?} at {at:?}");
    }
    let night = plan(&basis, &with_cart, tokyo(23, 30));
    assert_eq!(night.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    assert_eq!(night.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::OffPeak]);
    let exempt = OffPeakOptions { exempt_priorities: vec![Priority::High], ..OffPeakOptions::default() };
    let hours = ShopHours::new(Router::default(), exempt.check().unwrap()).unwrap();
    let basis = PlanBasis { policy: PlanPolicy { hours, ..basis.policy }, ..basis };
    assert_eq!(plan(&basis, &with_cart, tokyo(23, 30)).ceiling, Ceiling::Strong);
}

#[test]
fn the_lowest_ceiling_wins_and_every_restriction_is_a_reason() {
    let posture = Posture {
        ceiling_override: Some(Ceiling::None),
        level: Level::HighLoad,
        tier_costs: [CostState::Normal, CostState::Warning, CostState::Normal],
        ..Posture::default()
    };
    let high = PlanSituation { has_cart: true, intent: Some(Intent::Recommendation), ..standard() };
    let plan = plan(&posture.into(), &high, noon());
    assert_eq!(plan.ceiling, Ceiling::None);
    assert_eq!(chain(&plan), ["override=none", "tier_cost:warning=fast", "level:high_load=fast"]);
    assert_eq!(plan.binding().map(|reason| reason.input).collect::<Vec<_>>(), [PlanInput::Override]);
    assert!(!plan.calls_models());
    assert_eq!((plan.chunks, plan.reranker), (0, false));
}

#[test]
fn a_plan_that_allows_everything_has_no_reasons() {
    let situation =
        PlanSituation { intent: Some(Intent::Recommendation), ..PlanSituation::of(1, Tier::Prime) };
    let plan = plan(&PlanBasis::default(), &situation, noon());
    assert_eq!(chain(&plan), Vec::<String>::new());
    assert_eq!(plan.binding().count(), 0);
    let rungs = [Rung::StrongModel, Rung::FastModel, Rung::StaleCache, Rung::Faq, Rung::Apology];
    assert_eq!((plan.rungs.as_slice(), plan.chunks, plan.reranker), (rungs.as_slice(), 3, true));
    assert_eq!(plan.priority, Priority::High);
}

#[test]
fn lower_priorities_try_the_fresh_cache_before_a_model() {
    let basis = PlanBasis::default();
    let plan_of = |situation| plan(&basis, &situation, noon());
    let normal = plan_of(PlanSituation { intent: Some(Intent::Order), ..standard() });
    assert_eq!(normal.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::StrongModel]);
    assert_eq!((normal.chunks, normal.reranker), (0, false));
    let check = PlanSituation { purpose: RequestPurpose::HealthCheck, ..standard() };
    assert_eq!(plan_of(check).priority, Priority::Critical);
    let bulk = PlanSituation { purpose: RequestPurpose::Background, has_cart: true, ..standard() };
    assert_eq!(plan_of(bulk).priority, Priority::Bulk);
    assert_eq!(plan_of(bulk).rungs.first(), Some(&Rung::FreshCache));
}

#[test]
fn guests_get_a_model_only_for_what_cannot_be_prepared() {
    let basis = PlanBasis::default();
    let faq = plan(&basis, &guest(Intent::Faq), noon());
    assert!(!faq.calls_models());
    assert_eq!(
        faq.rungs.as_slice(),
        [Rung::Template, Rung::FreshCache, Rung::StaleCache, Rung::Faq, Rung::Apology]
    );
    let question = plan(&basis, &guest(Intent::ProductQuestion), noon());
    assert_eq!((question.ceiling, question.chunks), (Ceiling::Fast, 3));
    assert_eq!(question.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    let unknown = PlanSituation { tier: None, ..guest(Intent::Faq) };
    assert!(!plan(&basis, &unknown, noon()).calls_models());
}

#[test]
fn levels_take_away_step_by_step() {
    let at = |level, situation: &PlanSituation| {
        plan(&Posture { level, ..Posture::default() }.into(), situation, noon())
    };
    let prime = PlanSituation { intent: Some(Intent::Recommendation), ..PlanSituation::of(1, Tier::Prime) };
    let elevated = at(Level::Elevated, &prime);
    assert_eq!((elevated.ceiling, elevated.chunks, elevated.reranker), (Ceiling::Strong, 3, false));
    assert_eq!(chain(&elevated), ["level:elevated=strong"]);
    let overload = at(Level::Overload, &PlanSituation { tier: Some(Tier::Standard), ..prime });
    assert_eq!((overload.ceiling, overload.chunks), (Ceiling::Fast, 1));
    assert!(!at(Level::Overload, &guest(Intent::Recommendation)).calls_models());
    for number in 0..1_000 {
        let situation = PlanSituation {
            caller: number,
            tier: Some(Tier::ALL[usize::try_from(number % 3).unwrap()]),
            intent: Some(Intent::ALL[usize::try_from(number % 8).unwrap()]),
            has_cart: number % 2 == 0,
            ..standard()
        };
        let plan = at(Level::Emergency, &situation);
        assert_eq!((plan.calls_models(), plan.chunks), (false, 0));
    }
    let mut off = PlanBasis::from(Posture { level: Level::Emergency, ..Posture::default() });
    off.policy.protections.set_switch(Switch::Degradation, false);
    assert_eq!(plan(&off, &prime, noon()).ceiling, Ceiling::Strong);
}

#[test]
fn money_that_runs_out_takes_strong_models_first_and_then_all_by_tier() {
    let costs = |prime, standard, day| {
        PlanBasis::from(Posture {
            tier_costs: [prime, standard, CostState::Normal],
            day_cost: day,
            ..Posture::default()
        })
    };
    let prime = PlanSituation { intent: Some(Intent::Faq), ..PlanSituation::of(1, Tier::Prime) };
    let spent = costs(CostState::Normal, CostState::Spent, CostState::Normal);
    assert_eq!(plan(&spent, &standard(), noon()).ceiling, Ceiling::None);
    assert_eq!(plan(&spent, &prime, noon()).ceiling, Ceiling::Strong);
    let warned = plan(&costs(CostState::Warning, CostState::Normal, CostState::Normal), &prime, noon());
    assert_eq!(warned.rungs[..3], [Rung::Template, Rung::FreshCache, Rung::FastModel]);
    let all = costs(CostState::Normal, CostState::Normal, CostState::Spent);
    assert_eq!(chain(&plan(&all, &prime, noon())), ["day_cost:spent=none"]);
    let mut off = all;
    off.policy.protections.set_switch(Switch::CostBreaker, false);
    assert_eq!(plan(&off, &prime, noon()).ceiling, Ceiling::Strong);
}

#[test]
fn a_protection_in_observe_mode_changes_only_the_shadow_plan() {
    let spent = PlanBasis::from(Posture { day_cost: CostState::Spent, ..Posture::default() });
    assert_eq!(evaluate(&spent, &standard(), noon()).shadow, None);
    let evaluation = evaluate(&observing(Protection::CostBreaker, &spent), &standard(), noon());
    assert_eq!(evaluation.plan.ceiling, Ceiling::Strong);
    let shadow = evaluation.shadow.unwrap();
    assert_eq!(
        (shadow.ceiling, chain(&shadow).first().map(String::as_str)),
        (Ceiling::None, Some("day_cost:spent=none"))
    );

    let guests = observing(Protection::GuestLite, &PlanBasis::default());
    let evaluation = evaluate(&guests, &guest(Intent::Faq), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let loaded = PlanBasis::from(Posture { level: Level::Emergency, ..Posture::default() });
    let evaluation = evaluate(&observing(Protection::Degradation, &loaded), &standard(), noon());
    assert!(evaluation.plan.calls_models() && !evaluation.shadow.unwrap().calls_models());

    let evaluation =
        evaluate(&observing(Protection::OffPeak, &PlanBasis::default()), &standard(), tokyo(2, 0));
    assert_eq!(
        (evaluation.plan.ceiling, evaluation.shadow.unwrap().ceiling),
        (Ceiling::Strong, Ceiling::Fast)
    );

    // A protection that is switched off is not in the shadow plan either, even while another is observed.
    let mut off = observing(Protection::CostBreaker, &spent);
    off.policy.protections.set_switch(Switch::CostBreaker, false);
    assert_eq!(evaluate(&off, &standard(), noon()).shadow, None);
    let off = observing(Protection::OffPeak, &off);
    assert_eq!(evaluate(&off, &standard(), noon()).shadow.unwrap().ceiling, Ceiling::Strong);
}

#[test]
fn an_operator_is_obeyed_in_every_mode() {
    let mut basis = thrown(Switch::ModelInvocation);
    for protection in Protection::ALL {
        basis.policy.protections.set_mode(protection, Mode::Observe);
    }
    let off = plan(&basis, &standard(), noon());
    assert_eq!((off.ceiling, off.reasons[0].input), (Ceiling::None, PlanInput::ModelsOff));
    let suspended = PlanSituation { is_suspended: true, ..standard() };
    assert_eq!(plan(&PlanBasis::default(), &suspended, noon()).reasons[0].input, PlanInput::CallerSuspended);
    assert!(!plan(&PlanBasis::default(), &suspended, noon()).calls_models());
    let easy = PlanSituation { hint: Some(Ceiling::Fast), has_cart: true, ..standard() };
    assert_eq!(plan(&PlanBasis::default(), &easy, noon()).binding().next().unwrap().input, PlanInput::Hint);
}

#[test]
fn a_programming_interface_is_transparent_to_all_but_an_operator() {
    let api = PlanSituation { face: FaceKind::Api, ..guest(Intent::Faq) };
    let strictest = Posture {
        level: Level::Emergency,
        day_cost: CostState::Spent,
        ceiling_override: Some(Ceiling::Fast),
        ..Posture::default()
    };
    let through = plan(&strictest.into(), &api, tokyo(2, 0));
    assert_eq!(
        (through.ceiling, through.rungs.as_slice()),
        (Ceiling::Strong, [Rung::StrongModel, Rung::FastModel].as_slice())
    );
    assert_eq!(chain(&through), Vec::<String>::new());
    assert_eq!((through.chunks, through.reranker), (0, false));
    let blocked = Posture { ceiling_override: Some(Ceiling::None), ..Posture::default() };
    for (basis, situation, input) in [
        (blocked.into(), api, PlanInput::Override),
        (thrown(Switch::ModelInvocation), api, PlanInput::ModelsOff),
        (PlanBasis::default(), PlanSituation { is_suspended: true, ..api }, PlanInput::CallerSuspended),
    ] {
        let kept_out = plan(&basis, &situation, noon());
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
    ] {
        let situation = PlanSituation { face: FaceKind::Api, purpose, tier, ..standard() };
        let plan = plan(&PlanBasis::default(), &situation, tokyo(20, 0));
        assert_eq!((plan.priority, plan.notes.as_slice()), (priority, notes), "{purpose} {tier:?}");
        assert_eq!((plan.ceiling, plan.reasons.len()), (Ceiling::Strong, 0));
    }
}

#[test]
fn a_plan_says_what_was_missing_or_special() {
    let notes = |situation: &PlanSituation| plan(&PlanBasis::default(), situation, noon()).notes.to_vec();
    let known = guest(Intent::ProductQuestion);
    assert_eq!(notes(&known), []);
    assert_eq!(notes(&PlanSituation { tier: None, ..known }), [RoutingNote::TierUnknown]);
    assert_eq!(notes(&PlanSituation { intent: None, ..known }), [RoutingNote::IntentMissing]);
    let all = PlanSituation { tier: None, intent: None, purpose: RequestPurpose::Background, ..known };
    assert_eq!(notes(&all), RoutingNote::ALL);
}

#[test]
fn intents_without_retrieval_are_attributed_to_the_intent() {
    let about = |intent| PlanSituation { intent: Some(intent), ..PlanSituation::of(7, Tier::Prime) };
    for basis in [PlanBasis::default(), thrown(Switch::Degradation)] {
        for intent in Intent::ALL {
            let plan = plan(&basis, &about(intent), noon());
            let needs_none = matches!(intent, Intent::Promotion | Intent::Order | Intent::Chitchat);
            let expected = if needs_none { vec![format!("intent:{intent}=strong")] } else { vec![] };
            assert_eq!((chain(&plan), plan.chunks), (expected, if needs_none { 0 } else { 3 }));
        }
    }
    // A level that skips retrieval for further intents is recorded as the reason.
    let loaded = PlanBasis::from(Posture { level: Level::HighLoad, ..Posture::default() });
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
fn an_evening_and_a_night_that_overlap_are_refused_by_the_names_of_both() {
    let hours = |evening: (u32, u32), night: (u32, u32)| {
        let router = RouterOptions { evening_peak: HoursOptions::japan(evening.0, evening.1) };
        let night =
            OffPeakOptions { hours: HoursOptions::japan(night.0, night.1), ..OffPeakOptions::default() };
        ShopHours::new(router.check().unwrap(), night.check().unwrap())
    };
    assert_eq!(ShopHours::new(Router::default(), OffPeak::default()), Ok(ShopHours::default()));
    assert_eq!(hours((19, 23), (23, 8)), Ok(ShopHours::default()));
    assert!(hours((8, 23), (23, 8)).is_ok());
    for (evening, night) in [((19, 23), (22, 8)), ((7, 23), (23, 8)), ((1, 2), (23, 8))] {
        let error = hours(evening, night).unwrap_err().to_string();
        assert!(error.contains("evening_peak") && error.contains("off_peak"), "{error}");
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
    let policy = PlanPolicy { guest_lite: Some(experiment), ..PlanPolicy::default() };
    let basis = PlanBasis { policy, posture: Posture::default() };
    let is_small =
        |caller| !plan(&basis, &PlanSituation { caller, ..guest(Intent::Faq) }, noon()).calls_models();
    let small = (0..10_000).filter(|caller| is_small(*caller)).count();
    assert!((900..1_100).contains(&small), "{small}");
    assert!((0..1_000).all(|caller| is_small(caller) == experiment.includes(caller)));
}

#[test]
fn without_the_classifier_unknown_callers_are_guests() {
    let basis = PlanBasis::from(Posture { classifier_available: false, ..Posture::default() });
    let nobody = PlanSituation { tier: None, intent: None, ..standard() };
    assert!(plan(&basis, &nobody, noon()).ceiling < Ceiling::Strong);
    let known = plan(&basis, &standard(), noon());
    assert_eq!(known.ceiling, Ceiling::Strong);
    assert!(known.reasons.iter().any(|reason| matches!(reason.input, PlanInput::Router(_))));
}

fn plan_bases() -> impl Strategy<Value = PlanBasis> {
    let cost = || select(CostState::ALL.to_vec());
    let modes = proptest::collection::vec((select(Mode::ALL.to_vec()), any::<bool>()), Protection::ALL.len());
    let models = any::<bool>();
    let ceiling = proptest::option::of(select(Ceiling::ALL.to_vec()));
    (modes, models, ceiling, [cost(), cost(), cost()], cost(), select(Level::ALL.to_vec()), any::<bool>())
        .prop_map(|(modes, models, ceiling_override, tier_costs, day_cost, level, classifier_available)| {
            let posture = Posture {
                ceiling_override,
                tier_costs,
                day_cost,
                level,
                classifier_available,
                ..Posture::default()
            };
            let mut policy = PlanPolicy::default();
            for (protection, (mode, on)) in Protection::ALL.into_iter().zip(modes) {
                policy.protections.set_mode(protection, mode);
                policy.protections.set_switch(protection.switch(), on);
            }
            policy.protections.set_switch(Switch::ModelInvocation, models);
            PlanBasis { policy, posture }
        })
}

fn situations() -> impl Strategy<Value = PlanSituation> {
    let tier = proptest::option::of(select(Tier::ALL.to_vec()));
    let intent = proptest::option::of(select(Intent::ALL.to_vec()));
    let hint = proptest::option::of(select(Ceiling::ALL.to_vec()));
    let face = select(vec![FaceKind::Chat, FaceKind::Chat, FaceKind::Api]);
    (
        face,
        select(RequestPurpose::ALL.to_vec()),
        any::<u64>(),
        tier,
        any::<bool>(),
        intent,
        any::<bool>(),
        hint,
        Just(()),
    )
        .prop_map(|(face, purpose, caller, tier, has_cart, intent, is_suspended, hint, ())| {
            PlanSituation { face, purpose, caller, tier, has_cart, intent, is_suspended, hint }
        })
}

proptest! {
    #[test]
    fn a_plan_is_what_all_its_reasons_allow_and_no_less(
        basis in plan_bases(), situation in situations(), seconds in 0..200_000_u64,
    ) {
        let utc = noon() + Duration::from_secs(seconds);
        let evaluation = evaluate(&basis, &situation, utc);
        for plan in [Some(&evaluation.plan), evaluation.shadow.as_ref()].into_iter().flatten() {
            let allowed = plan.reasons.iter().fold(Allowance::ALL, |all, reason| all.and(reason.allows));
            prop_assert_eq!(plan.ceiling, allowed.ceiling);
            prop_assert!(plan.reasons.iter().all(|reason| reason.allows != Allowance::ALL));
            prop_assert!(plan.reasons.iter().all(|reason| reason.input != PlanInput::Level(Level::Normal)));
            prop_assert_eq!(plan.notes.contains(&RoutingNote::Background), plan.priority == Priority::Bulk);
            prop_assert_eq!(plan.binding().count() > 0, plan.ceiling < Ceiling::Strong);
            prop_assert_eq!(plan.calls_models(), plan.ceiling != Ceiling::None);
            prop_assert!(plan.rungs.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
            prop_assert!(!plan.rungs.contains(&Rung::StrongModel) || plan.ceiling == Ceiling::Strong || situation.face == FaceKind::Api);
            if situation.face == FaceKind::Chat {
                prop_assert_eq!(plan.rungs.last(), Some(&Rung::Apology));
                prop_assert_eq!(plan.chunks, if plan.calls_models() { allowed.chunks } else { 0 });
                prop_assert!(plan.calls_models() || plan.rungs.first() == Some(&Rung::Template));
            }
        }
        // The shadow plan is never less strict.
        if let Some(shadow) = &evaluation.shadow {
            prop_assert!(shadow.ceiling <= evaluation.plan.ceiling);
        }
    }
}

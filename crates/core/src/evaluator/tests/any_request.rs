//! What holds for the plan of any request under any posture.

use super::super::{
    Allowance, FaceKind, PlanInput, PlanSituation, Protection, RequestPurpose, Routing, RoutingNote, Switch,
};
use super::{Inputs, evaluate, noon, normal};
use crate::vocabulary::{Ceiling, CostState, Level, Mode, Priority, RetrievalNeed, Rung, Tier};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use std::time::Duration;

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

fn routings() -> impl Strategy<Value = Routing> {
    let tier = proptest::option::of(select(Tier::ALL.to_vec()));
    let purpose = select(RequestPurpose::ALL.to_vec());
    let (ceiling, need) = (select(Ceiling::ALL.to_vec()), select(RetrievalNeed::ALL.to_vec()));
    (purpose, tier, ceiling, any::<bool>(), any::<bool>(), need).prop_map(
        |(purpose, tier, ceiling, template_first, use_retrieval, retrieval_need)| {
            let by_tier = Routing::by_tier(purpose, tier);
            Routing { ceiling, template_first, use_retrieval, retrieval_need, ..by_tier }
        },
    )
}

fn situations() -> impl Strategy<Value = PlanSituation> {
    let tier = proptest::option::of(select(Tier::ALL.to_vec()));
    let hint = proptest::option::of(select(Ceiling::ALL.to_vec()));
    let face = select(vec![FaceKind::Chat, FaceKind::Chat, FaceKind::Api]);
    (face, any::<u64>(), tier, routings(), any::<bool>(), any::<bool>(), hint).prop_map(
        |(face, caller, tier, routing, has_lite, is_suspended, hint)| {
            // The reduced pipeline only takes away.
            let lite = Routing { ceiling: Ceiling::None, use_retrieval: false, ..routing.clone() };
            let guest_lite_routing = has_lite.then_some(lite);
            PlanSituation { face, caller, tier, routing, guest_lite_routing, is_suspended, hint }
        },
    )
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

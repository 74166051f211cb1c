use super::{Router, RoutingReason, RoutingSituation, route};
use crate::intent::Intent;
use seawall_core::evaluator::{RequestPurpose, Routing, RoutingNote};
use seawall_core::hours::HoursOptions;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Priority, Tier};
use std::time::Duration;

/// Every combination of inputs, inside and outside the evening peak.
fn every_situation() -> Vec<(RoutingSituation, bool)> {
    let mut all = Vec::new();
    let tiers = [Some(Tier::Prime), Some(Tier::Standard), Some(Tier::Guest), None];
    let intents = Intent::ALL.into_iter().map(Some).chain([None]);
    for intent in intents {
        for purpose in RequestPurpose::ALL {
            for tier in tiers {
                for bits in 0..16_u8 {
                    let bit = |place: u8| bits & (1 << place) != 0;
                    let (has_cart, classifier_available, guest_lite) = (bit(0), bit(1), bit(2));
                    let situation = RoutingSituation {
                        purpose,
                        tier,
                        has_cart,
                        intent,
                        classifier_available,
                        guest_lite,
                    };
                    all.push((situation, bit(3)));
                }
            }
        }
    }
    all
}

/// Naive reference: derives each property from the inputs directly, without rules and reasons.
fn naive(situation: &RoutingSituation, in_peak: bool) -> (Priority, bool, Ceiling, bool, bool) {
    let RoutingSituation { purpose, tier, has_cart, intent, classifier_available, guest_lite } = *situation;
    if purpose == RequestPurpose::HealthCheck {
        return (Priority::Critical, false, Ceiling::Fast, false, false);
    }
    let intent = intent.map_or("unknown", Intent::name);
    let guest = !matches!(tier, Some(Tier::Prime | Tier::Standard));
    let high = !guest && (tier == Some(Tier::Prime) || has_cart);
    let needs_no_model = ["faq", "product_discovery", "promotion", "chitchat"].contains(&intent)
        || (intent == "unknown" && !classifier_available);
    let cache_only = guest && guest_lite && needs_no_model;
    let about_products = ["product_question", "recommendation"].contains(&intent);
    let retrieval = high || about_products || (intent == "faq" && !cache_only);
    let ceiling = if cache_only {
        Ceiling::None
    } else if high || (!guest && !in_peak) {
        Ceiling::Strong
    } else {
        Ceiling::Fast
    };
    let priority = match (purpose, high, guest) {
        (RequestPurpose::Background, ..) => Priority::Bulk,
        (_, true, _) => Priority::High,
        (_, _, true) => Priority::Low,
        _ => Priority::Normal,
    };
    (priority, retrieval, ceiling, !high, cache_only)
}

#[test]
fn every_combination_of_inputs_has_the_route_that_follows_from_them() {
    let all = every_situation();
    assert_eq!(all.len(), 9 * 3 * 4 * 16);
    for (situation, in_peak) in all {
        let Routing { priority, use_retrieval, ceiling, template_first, intent, retrieval_need, .. } =
            route(&situation, in_peak);
        let known = situation.intent.unwrap_or(Intent::Unknown);
        assert_eq!((intent, retrieval_need), (known.name(), known.retrieval_need()));
        assert_eq!(
            (priority, use_retrieval, ceiling, template_first, ceiling == Ceiling::None),
            naive(&situation, in_peak),
            "{situation:?} {in_peak}"
        );
    }
}

#[test]
fn every_rule_is_reached_and_says_what_its_route_says() {
    let mut reached = [0; RoutingReason::ALL.len()];
    for (situation, in_peak) in every_situation() {
        let route = route(&situation, in_peak);
        let reason = RoutingReason::of(&situation, in_peak);
        let rule = reason.rule();
        reached[reason.index()] += 1;
        assert_eq!(route.reason, reason.name());
        assert_eq!((route.ceiling, route.template_first), (rule.ceiling, rule.template_first));
    }
    assert!(reached.iter().all(|count| *count > 0), "{reached:?}");
    for reason in RoutingReason::ALL {
        assert!(reason.rule().text.ends_with('.'));
    }
}

#[test]
fn what_is_missing_or_special_is_noted() {
    for (situation, in_peak) in every_situation() {
        let check = situation.purpose == RequestPurpose::HealthCheck;
        let mut expected = Vec::new();
        if situation.tier.is_none() && !check {
            expected.push(RoutingNote::TierUnknown);
        }
        if matches!(situation.intent, None | Some(Intent::Unknown)) && !check {
            expected.push(RoutingNote::IntentMissing);
        }
        if situation.purpose == RequestPurpose::Background {
            expected.push(RoutingNote::Background);
        }
        assert_eq!(route(&situation, in_peak).notes.as_slice(), expected);
    }
    assert_eq!(RoutingNote::ALL.map(|note| note.text().ends_with('.')), [true; 3]);
    let texts: std::collections::BTreeSet<_> = RoutingNote::ALL.map(RoutingNote::text).into();
    assert_eq!(texts.len(), 3);
}

#[test]
fn a_standard_caller_gets_the_strong_model_at_noon_and_the_fast_one_in_the_evening() {
    let router = Router::new(HoursOptions::full_hours(19, 23, 9 * 60).check().unwrap());
    assert_eq!(router.evening_peak().to_string(), "19:00-23:00 UTC+09:00");
    let midnight = UtcTime::from_civil(2026, 11, 14) + Duration::from_secs(15 * 3_600);
    let caller = RoutingSituation::of(Some(Tier::Standard));
    let with_cart = RoutingSituation { has_cart: true, ..caller };
    for (seconds, ceiling, reason) in [
        (12 * 3_600, Ceiling::Strong, RoutingReason::Standard),
        (19 * 3_600 - 1, Ceiling::Strong, RoutingReason::Standard),
        (19 * 3_600, Ceiling::Fast, RoutingReason::StandardInPeak),
        (20 * 3_600, Ceiling::Fast, RoutingReason::StandardInPeak),
        (23 * 3_600 - 1, Ceiling::Fast, RoutingReason::StandardInPeak),
        (23 * 3_600, Ceiling::Strong, RoutingReason::Standard),
    ] {
        let moment = midnight + Duration::from_secs(seconds);
        let route = router.route(&caller, moment);
        assert_eq!((route.ceiling, route.reason), (ceiling, reason.name()), "{seconds}");
        let high = router.route(&with_cart, moment);
        assert_eq!((high.priority, high.ceiling), (Priority::High, Ceiling::Strong));
    }
}

#[test]
fn a_guest_with_a_frequent_question_reaches_no_model_and_with_a_product_question_a_fast_one() {
    let guest =
        |intent| route(&RoutingSituation { intent, ..RoutingSituation::of(Some(Tier::Guest)) }, false);
    let faq = guest(Some(Intent::Faq));
    assert_eq!((faq.ceiling, faq.use_retrieval), (Ceiling::None, false));
    let question = guest(Some(Intent::ProductQuestion));
    assert_eq!((question.ceiling, question.template_first), (Ceiling::Fast, true));
    assert!(question.use_retrieval);
    assert_eq!(guest(None).reason, RoutingReason::GuestFast.name());
}

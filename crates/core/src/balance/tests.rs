use super::{BalanceMember, BalanceStrategy, LOAD_FACTOR, MIN_LOAD_BOUND, PeakEwma, balance};
use crate::random::SeededRandom;
use crate::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

fn member(id: u64, weight: u32) -> BalanceMember {
    BalanceMember { id, weight, is_available: true, in_flight: 0, latency: Duration::from_millis(10) }
}

fn members(weights: &[u32]) -> Vec<BalanceMember> {
    (1..).zip(weights).map(|(id, weight)| member(SeededRandom::new(id).draw().bits(), *weight)).collect()
}

fn any_members() -> impl Strategy<Value = Vec<BalanceMember>> {
    let one = (any::<u64>(), 0_u32..100, any::<bool>(), 0_u32..50, 0_u64..5_000);
    vec(one, 1..12).prop_map(|all| {
        let member = |(id, weight, is_available, in_flight, millis)| BalanceMember {
            id,
            weight,
            is_available,
            in_flight,
            latency: Duration::from_millis(millis),
        };
        all.into_iter().map(member).collect()
    })
}

#[test]
fn equal_costs_keep_every_member_in_use() {
    let members = members(&[1, 1, 1, 1]);
    let mut firsts = [0_u32; 4];
    let mut random = SeededRandom::new(9);
    for _ in 0..4_000 {
        firsts[balance(BalanceStrategy::LeastLatency, &members, random.draw().bits())[0]] += 1;
    }
    // Of two random ones the earlier: only the last of the sorted list is never the better one.
    assert!(firsts[..3].iter().all(|count| *count > 500), "{firsts:?}");
}

#[test]
fn shares_are_within_three_sigma_of_the_weights() {
    const DRAWS: u32 = 200_000;
    let weights = [32, 24, 20, 1];
    let (members, mut random, mut firsts) = (members(&weights), SeededRandom::new(7), [0_u32; 4]);
    for _ in 0..DRAWS {
        firsts[balance(BalanceStrategy::Weighted, &members, random.draw().bits())[0]] += 1;
    }
    for (weight, first) in weights.into_iter().zip(firsts) {
        let share = f64::from(weight) / 77.0;
        let (expected, sigma) = (share * f64::from(DRAWS), (share * (1.0 - share) * f64::from(DRAWS)).sqrt());
        assert!((f64::from(first) - expected).abs() < 3.0 * sigma, "{firsts:?}");
    }
}

#[test]
fn a_hot_prompt_spills_over_once_its_member_has_more_than_its_share() {
    let mut members = members(&[1, 1, 1]);
    let mut most = 0;
    for _ in 0..300 {
        let first = balance(BalanceStrategy::Affinity, &members, 42)[0];
        members[first].in_flight += 1;
        most = most.max(members[first].in_flight);
    }
    let all: Vec<u32> = members.iter().map(|member| member.in_flight).collect();
    // One of three with 1.25 times its share, and the others share the rest.
    assert!(all.iter().all(|calls| *calls >= 50) && most == 125, "{all:?}");
}

#[test]
fn with_few_calls_a_prompt_stays_where_it_is() {
    let mut members = members(&[1, 1, 1]);
    let home = balance(BalanceStrategy::Affinity, &members, 42)[0];
    for _ in 0..MIN_LOAD_BOUND {
        assert_eq!(balance(BalanceStrategy::Affinity, &members, 42)[0], home);
        members[home].in_flight += 1;
    }
    assert_ne!(balance(BalanceStrategy::Affinity, &members, 42)[0], home);
}

proptest! {
    #[test]
    fn every_member_is_tried_once_and_unavailable_ones_last(members in any_members(), key: u64) {
        for strategy in BalanceStrategy::ALL {
            let order = balance(strategy, &members, key);
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..members.len()).collect::<Vec<_>>());
            let available: Vec<bool> = order.iter().map(|index| members[*index].is_available).collect();
            prop_assert!(available.is_sorted_by(|one, other| one >= other), "{:?} {:?}", strategy, available);
            prop_assert_eq!(&order, &balance(strategy, &members, key));
        }
    }

    #[test]
    fn power_of_two_choices_never_picks_an_unavailable_member_while_another_is_available(members in any_members(), key: u64) {
        let first = balance(BalanceStrategy::LeastLatency, &members, key)[0];
        prop_assert!(members[first].is_available || members.iter().all(|member| !member.is_available));
    }

    #[test]
    fn power_of_two_choices_never_picks_the_most_expensive_of_several(members in any_members(), key: u64) {
        let usable: Vec<&BalanceMember> = members.iter().filter(|member| member.is_available && member.weight > 0).collect();
        let cost = |member: &BalanceMember| member.latency.as_secs_f64() * f64::from(member.in_flight + 1) / f64::from(member.weight);
        let first = &members[balance(BalanceStrategy::LeastLatency, &members, key)[0]];
        if usable.len() > 1 {
            let worst = usable.iter().map(|member| cost(member)).fold(0.0, f64::max);
            let best = usable.iter().map(|member| cost(member)).fold(f64::MAX, f64::min);
            prop_assert!(cost(first) < worst || best >= worst);
        }
    }

    #[test]
    fn shares_follow_the_weights_whatever_they_are(weights in vec(1_u32..50, 2..7), seed: u64) {
        const DRAWS: u32 = 20_000;
        let members = members(&weights);
        let mut random = SeededRandom::new(seed);
        let mut firsts = vec![0_u32; members.len()];
        for _ in 0..DRAWS {
            firsts[balance(BalanceStrategy::Weighted, &members, random.draw().bits())[0]] += 1;
        }
        let all: u32 = weights.iter().sum();
        let chi_square: f64 = weights.iter().zip(&firsts).map(|(weight, first)| {
            let expected = f64::from(*weight) / f64::from(all) * f64::from(DRAWS);
            (f64::from(*first) - expected).powi(2) / expected
        }).sum();
        // Three sigma of its distribution, and as much again because hundreds of cases are drawn.
        let freedom = (weights.len() - 1) as f64;
        prop_assert!(chi_square < freedom + 3.0 * (2.0 * freedom).sqrt() + 18.0, "{:?} of {:?}: {}", firsts, weights, chi_square);
    }

    #[test]
    fn when_a_member_leaves_only_its_own_keys_move(ids in proptest::collection::hash_set(any::<u64>(), 2..8), gone: usize, seed: u64) {
        let all: Vec<BalanceMember> = ids.into_iter().map(|id| member(id, 1)).collect();
        let gone = gone % all.len();
        let mut without = all.clone();
        without[gone].is_available = false;
        let mut random = SeededRandom::new(seed);
        let mut moved = 0_u32;
        for _ in 0..2_000 {
            let key = random.draw().bits();
            let before = balance(BalanceStrategy::Affinity, &all, key)[0];
            let after = balance(BalanceStrategy::Affinity, &without, key)[0];
            prop_assert!(before == after || before == gone);
            moved += u32::from(before != after);
        }
        // Its share, within five sigma.
        let share = 1.0 / all.len() as f64;
        let bound = 2_000.0 * share + 5.0 * (2_000.0 * share * (1.0 - share)).sqrt();
        prop_assert!(f64::from(moved) <= bound, "{} of {}", moved, all.len());
    }

    #[test]
    fn no_member_exceeds_its_bound_while_another_is_below_its_own(weights in vec(1_u32..5, 2..6), keys in vec(0_u64..3, 1..400)) {
        let mut members = members(&weights);
        let all = f64::from(weights.iter().sum::<u32>());
        for key in keys {
            let first = balance(BalanceStrategy::Affinity, &members, key)[0];
            members[first].in_flight += 1;
            let calls = f64::from(members.iter().map(|member| member.in_flight).sum::<u32>());
            let bound = (LOAD_FACTOR * calls * f64::from(members[first].weight) / all).ceil();
            prop_assert!(f64::from(members[first].in_flight) <= bound.max(f64::from(MIN_LOAD_BOUND)));
        }
    }

    #[test]
    fn a_latency_is_never_below_the_last_sample_nor_above_the_highest(samples in vec((0_u64..5_000, 0_u64..20_000), 1..50)) {
        let (mut latency, mut now, mut highest) = (PeakEwma::default(), Timestamp::ZERO, Duration::ZERO);
        for (wait, millis) in samples {
            now = now + Duration::from_millis(wait);
            let sample = Duration::from_millis(millis);
            highest = highest.max(sample);
            latency.record(sample, now);
            let value = latency.value(now) + Duration::from_micros(1);
            prop_assert!(sample <= value && latency.value(now) <= highest + Duration::from_micros(1));
            prop_assert!(latency.value(now + Duration::from_secs(1)) <= value);
        }
    }
}

//! Sessions share a class evenly, whatever one of them does.

use super::{at, enter, of, queue};
use crate::queue::{EnterDecision, QueueOptions, QueueRequest, WaitQueue};
use crate::vocabulary::{Grade, Priority};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::collections::{BTreeMap, VecDeque};

/// Jain's fairness index: 1 when all have the same share, 1/n when one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

fn large(quantum: u64) -> WaitQueue {
    WaitQueue::new(QueueOptions { capacity: 1_000_000, quantum, ..QueueOptions::default() }.check().unwrap())
}

#[test]
fn one_who_comes_after_nine_hundred_of_another_is_served_second_at_the_latest() {
    for served_before in [0, 1, 2, 450] {
        let mut queue = queue();
        for _ in 0..900 {
            enter(&mut queue, &of(Priority::Normal, 1), 0);
        }
        for _ in 0..served_before {
            let _served = queue.next(Grade::Fast, at(0)).unwrap();
        }
        enter(&mut queue, &of(Priority::Normal, 2), 0);
        let first_two = [(); 2].map(|()| queue.next(Grade::Fast, at(0)).unwrap().session);
        assert!(first_two.contains(&2), "{first_two:?}");
    }
}

#[test]
fn a_hundred_times_the_requests_is_not_a_larger_share() {
    let mut queue = large(1);
    let mut served = [0.0; 100];
    for tick in 0..200 {
        for session in 0..100 {
            for _ in 0..if session == 0 { 100 } else { 1 } {
                enter(&mut queue, &of(Priority::Normal, session), tick);
            }
        }
        for _ in 0..50 {
            let session = queue.next(Grade::Fast, at(tick)).unwrap().session;
            served[usize::try_from(session).unwrap()] += 1.0;
        }
    }
    assert!(jain(&served) >= 0.99, "{}", jain(&served));
    assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
}

#[test]
fn a_session_that_always_comes_back_with_one_gets_one_turn_a_round() {
    let mut queue = large(1);
    for session in 0..10 {
        for _ in 0..200 {
            enter(&mut queue, &of(Priority::Normal, session), 0);
        }
    }
    enter(&mut queue, &of(Priority::Normal, 99), 0);
    let mut turns = 0;
    for _ in 0..1_100 {
        if queue.next(Grade::Fast, at(0)).unwrap().session == 99 {
            turns += 1;
            enter(&mut queue, &of(Priority::Normal, 99), 0);
        }
    }
    assert_eq!(turns, 100);
}

#[test]
fn sessions_share_by_cost_and_a_debt_outlasts_an_empty_line() {
    // Session 1 requests 5,000 units at a time and returns only once it was served; the others request 1,000.
    let mut queue = large(1_000);
    let ask = |session, cost| QueueRequest { cost, ..of(Priority::Normal, session) };
    for session in 2..=4 {
        for _ in 0..1_000 {
            enter(&mut queue, &ask(session, 1_000), 0);
        }
    }
    enter(&mut queue, &ask(1, 5_000), 0);
    let mut units: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..1_600 {
        let session = queue.next(Grade::Fast, at(0)).unwrap().session;
        *units.entry(session).or_default() += if session == 1 { 5_000 } else { 1_000 };
        if session == 1 {
            enter(&mut queue, &ask(1, 5_000), 0);
        }
    }
    assert_eq!(units.into_values().collect::<Vec<_>>(), [500_000; 4]);
}

#[test]
fn a_turn_is_worth_its_quantum() {
    let mut queue = large(3);
    for session in [1, 2] {
        for _ in 0..8 {
            enter(
                &mut queue,
                &QueueRequest { cost: u64::from(session == 2), ..of(Priority::Normal, session) },
                0,
            );
        }
    }
    let order: Vec<u64> = (0..9).map(|_| queue.next(Grade::Fast, at(0)).unwrap().session).collect();
    assert_eq!(order, [1, 1, 1, 2, 2, 2, 1, 1, 1], "a cost of nothing counts as one");
}

#[test]
fn whatever_a_request_costs_the_others_have_sixty_four_turns_at_most_before_the_next() {
    let mut queue = large(2);
    for _ in 0..2 {
        enter(&mut queue, &QueueRequest { cost: u64::MAX, ..of(Priority::Normal, 1) }, 0);
    }
    for _ in 0..300 {
        enter(&mut queue, &QueueRequest { cost: 2, ..of(Priority::Normal, 2) }, 0);
    }
    let order: Vec<u64> = (0..100).map(|_| queue.next(Grade::Fast, at(0)).unwrap().session).collect();
    let turns: Vec<usize> = (0..100).filter(|place| order[*place] == 1).collect();
    assert_eq!(turns, [0, 65]);
}

#[test]
fn a_session_that_finds_the_class_empty_owes_nothing() {
    let mut queue = large(1);
    enter(&mut queue, &QueueRequest { cost: 50, ..of(Priority::Normal, 1) }, 0);
    let _served = queue.next(Grade::Fast, at(0)).unwrap();
    enter(&mut queue, &of(Priority::Normal, 1), 0);
    enter(&mut queue, &of(Priority::Normal, 2), 0);
    assert_eq!(queue.next(Grade::Fast, at(0)).unwrap().session, 1);
}

#[test]
fn a_deadline_keeps_one_session_from_filling_the_queue() {
    let mut queue = queue();
    let mut refused_others = 0;
    let mut now = 0;
    for tick in 0..3_000_u64 {
        now = tick * 10;
        for _ in 0..10 {
            let _any =
                queue.enter(&QueueRequest { deadline: at(now + 3_000), ..of(Priority::Normal, 0) }, at(now));
        }
        let other = QueueRequest { deadline: at(now + 3_000), ..of(Priority::Normal, 1 + tick % 20) };
        if tick % 10 == 0 && matches!(queue.enter(&other, at(now)), EnterDecision::Refused { .. }) {
            refused_others += 1;
        }
        let _place = if tick % 4 == 0 { queue.next(Grade::Strong, at(now)) } else { None };
    }
    assert_eq!(refused_others, 0);
    assert!(queue.stats(at(now)).size < 200, "{:?}", queue.stats(at(now)));
}

proptest! {
    /// With a cost of one, round numbers are equivalent to plain round robin.
    #[test]
    fn with_equal_costs_turns_are_a_circle(steps in vec((0_u64..6, 0_u8..3), 1..200)) {
        let mut queue = large(1);
        let mut circle: VecDeque<u64> = VecDeque::new();
        let mut waiting: BTreeMap<u64, u64> = BTreeMap::new();
        for (session, action) in steps {
            if action > 0 {
                enter(&mut queue, &of(Priority::Normal, session), 0);
                *waiting.entry(session).or_default() += 1;
                if !circle.contains(&session) {
                    circle.push_back(session);
                }
            } else {
                let expected = circle.pop_front();
                prop_assert_eq!(queue.next(Grade::Fast, at(0)).map(|left| left.session), expected);
                if let Some(session) = expected {
                    let left = waiting.get_mut(&session).unwrap();
                    *left -= 1;
                    if *left > 0 {
                        circle.push_back(session);
                    }
                }
            }
        }
    }

    /// No entry waits for more others than estimated, unless one arrives later.
    #[test]
    fn the_estimate_counts_nobody_too_few(
        steps in vec((0_usize..5, 0_u64..6, 0_u8..4), 1..120),
        place in 0_usize..5,
        session in 0_u64..7,
    ) {
        let mut queue = large(1);
        for (place, session, action) in steps {
            if action > 0 {
                enter(&mut queue, &of(Priority::ALL[place], session), 0);
            } else {
                let _any = queue.next(Grade::Fast, at(0));
            }
        }
        let above: usize = queue.rings[..place].iter().map(|ring| ring.usable(Grade::Fast)).sum();
        let ring = &queue.rings[place];
        let (estimate, is_new) = (above + ring.ahead(session, Grade::Fast), ring.is_new(session));
        let ticket = enter(&mut queue, &of(Priority::ALL[place], session), 0);
        let mut before = 0;
        while queue.next(Grade::Fast, at(0)).unwrap().ticket != ticket {
            before += 1;
        }
        prop_assert!(before <= estimate, "{} {}", before, estimate);
        prop_assert!(before == estimate || !is_new, "exact for who has nothing waiting: {} {}", before, estimate);
    }
}

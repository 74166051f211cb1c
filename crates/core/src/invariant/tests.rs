use super::{
    Invariant, Violation, ViolationCounts, attempt_fits_deadline, attempts_within_limit,
    backoff_within_bounds, child_shorter_than_parent, consumed_matches_granted, enforce,
    every_entry_accounted_for, frame_fits_transport, frames_are_consecutive, in_flight_within_limit,
    input_within_limit, level_falls_by_one_step, money_is_conserved, no_call_while_open,
    phase_never_regresses, probes_within_stage, rate_within_burst, refusal_changes_nothing,
    retries_within_share, roles_alternate, spend_within_cap, units_within_capacity, violation_count,
    window_within_limit,
};
use crate::deadline::Deadline;
use crate::history::Role;
use crate::money::Money;
use crate::setting::Ratio;
use crate::time::Timestamp;
use crate::vocabulary::Level;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};
use std::collections::BTreeSet;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + SECOND * u32::try_from(seconds).unwrap()
}

fn broken(result: Result<(), Violation>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn each_invariant_holds_at_its_edge_and_breaks_beyond_it() {
    assert_eq!(window_within_limit(&[(at(0), 2), (at(60), 2)], 2, SECOND * 60), Ok(()));
    assert_eq!(window_within_limit(&[(at(0), 2)], 2, Duration::ZERO), Ok(()));
    let enormous = [(at(0), u64::MAX), (at(1), u64::MAX), (at(100), 0)];
    assert!(window_within_limit(&enormous, u64::MAX, SECOND * 60).is_err());
    assert_eq!(window_within_limit(&enormous, u64::MAX, SECOND), Ok(()));
    let one_minute = window_within_limit(&[(at(0), 2), (at(59), 1)], 2, SECOND * 60);
    assert_eq!(broken(one_minute), "window_within_limit: 3 units of 2 in the 60s up to 59s");

    assert_eq!(rate_within_burst(&[(at(0), 5), (at(1), 1), (at(2), 1)], 5, SECOND), Ok(()));
    assert_eq!(
        broken(rate_within_burst(&[(at(0), 5), (at(1), 2)], 5, SECOND)),
        "rate_within_burst: 2 units admitted at 1s with 1 left"
    );
    assert!(rate_within_burst(&[(at(0), 5), (at(100), 6)], 5, SECOND).is_err());

    assert_eq!(units_within_capacity(20, 20), Ok(()));
    assert_eq!(broken(units_within_capacity(21, 20)), "units_within_capacity: 21 of 20");

    assert_eq!(consumed_matches_granted(3, 5, 2), Ok(()));
    assert_eq!(
        broken(consumed_matches_granted(4, 5, 2)),
        "consumed_matches_granted: 4 consumed, 5 granted, 2 refunded"
    );
    assert!(consumed_matches_granted(0, 1, 2).is_err());

    assert_eq!(refusal_changes_nothing(&[1, 2], &[1, 2]), Ok(()));
    assert_eq!(broken(refusal_changes_nothing(&1, &2)), "refusal_changes_nothing: 1 became 2");

    assert_eq!(no_call_while_open(at(9), None), Ok(()));
    assert_eq!(no_call_while_open(at(9), Some(at(9))), Ok(()));
    assert!(broken(no_call_while_open(at(8), Some(at(9)))).starts_with("no_call_while_open: a call at 8s"));

    assert_eq!(probes_within_stage(2, 1, 3), Ok(()));
    assert_eq!(broken(probes_within_stage(2, 2, 3)), "probes_within_stage: 2 + 2 in a stage of 3");

    assert_eq!(phase_never_regresses(&(1, 2), &(1, 2)), Ok(()));
    assert_eq!(
        broken(phase_never_regresses(&(1, 2), &(1, 1))),
        "phase_never_regresses: (1, 2) became (1, 1)"
    );

    let fifth = Ratio::percent("share", 20.0).unwrap();
    assert_eq!(retries_within_share(100, 19, 9, (fifth, 3)), Ok(()));
    assert_eq!(retries_within_share(100, 20, 2, (fifth, 3)), Ok(()));
    assert_eq!(
        broken(retries_within_share(100, 20, 3, (fifth, 3))),
        "retries_within_share: a retry was granted after 20 retries for 100 first attempts, with 3 in flight"
    );

    assert_eq!(backoff_within_bounds(SECOND, SECOND, SECOND), Ok(()));
    assert_eq!(
        broken(backoff_within_bounds(SECOND, SECOND * 2, SECOND * 3)),
        "backoff_within_bounds: 1s is not between 2s and 3s"
    );
    assert!(backoff_within_bounds(SECOND * 4, SECOND * 2, SECOND * 3).is_err());

    assert_eq!(attempt_fits_deadline(at(1), SECOND, SECOND, Deadline::at(at(3))), Ok(()));
    assert_eq!(
        broken(attempt_fits_deadline(at(2), SECOND, SECOND, Deadline::at(at(3)))),
        "attempt_fits_deadline: a wait of 1s and an attempt of 1s from 2s end after 3s"
    );

    assert_eq!(attempts_within_limit(6, 6), Ok(()));
    assert_eq!(broken(attempts_within_limit(7, 6)), "attempts_within_limit: 7 of 6");
    assert_eq!(in_flight_within_limit(6, 6), Ok(()));
    assert_eq!(broken(in_flight_within_limit(7, 6)), "in_flight_within_limit: 7 of 6");
    assert_eq!(child_shorter_than_parent(SECOND, SECOND * 2), Ok(()));
    assert_eq!(broken(child_shorter_than_parent(SECOND, SECOND)), "child_shorter_than_parent: 1s inside 1s");

    let [one, two, four] = [1, 2, 4].map(Money::from_dollars);
    assert_eq!(spend_within_cap(two, one, one, two), Ok(()));
    assert_eq!(
        broken(spend_within_cap(two, one, Money::ZERO, two)),
        "spend_within_cap: $2.00 posted and $1.00 held of $2.00"
    );
    assert_eq!(money_is_conserved(four, two, two), Ok(()));
    assert_eq!(
        broken(money_is_conserved(four, two, one)),
        "money_is_conserved: $4.00 reserved, $2.00 released, $1.00 held"
    );
    assert_eq!(frames_are_consecutive(0, None, false), Ok(()));
    assert_eq!(frames_are_consecutive(4, Some(3), false), Ok(()));
    assert!(frames_are_consecutive(1, None, false).is_err());
    assert!(frames_are_consecutive(0, Some(u64::MAX), false).is_err());
    assert_eq!(broken(frames_are_consecutive(5, Some(3), false)), "frames_are_consecutive: 5 after Some(3)");
    assert_eq!(
        broken(frames_are_consecutive(4, Some(3), true)),
        "frames_are_consecutive: 4 after Some(3) and the ending"
    );
    assert_eq!(frame_fits_transport(9, 9), Ok(()));
    assert_eq!(broken(frame_fits_transport(10, 9)), "frame_fits_transport: 10 of 9 bytes");
    assert_eq!(every_entry_accounted_for(10, &[1, 2, 3], 4), Ok(()));
    assert!(every_entry_accounted_for(11, &[1, 2, 3], 4).is_err());
    assert_eq!(
        broken(every_entry_accounted_for(9, &[1, 2, 3], 4)),
        "every_entry_accounted_for: 9 entered, [1, 2, 3] left, 4 waiting"
    );

    assert_eq!(level_falls_by_one_step(Level::HighLoad, Level::Elevated), Ok(()));
    assert_eq!(level_falls_by_one_step(Level::Normal, Level::Emergency), Ok(()));
    assert_eq!(
        broken(level_falls_by_one_step(Level::HighLoad, Level::Normal)),
        "level_falls_by_one_step: high_load became normal"
    );
    assert_eq!(input_within_limit(6, 6), Ok(()));
    assert_eq!(broken(input_within_limit(7, 6)), "input_within_limit: 7 of 6");
    let (user, assistant) = (Role::User, Role::Assistant);
    assert_eq!(roles_alternate(&[]), Ok(()));
    assert_eq!(roles_alternate(&[user, assistant, user]), Ok(()));
    assert_eq!(broken(roles_alternate(&[assistant])), "roles_alternate: [Assistant]");
    assert_eq!(broken(roles_alternate(&[user, user])), "roles_alternate: [User, User]");
}

#[test]
fn invariants_have_distinct_names_and_descriptions() {
    let names: BTreeSet<&str> = Invariant::ALL.iter().map(|invariant| invariant.name()).collect();
    let descriptions: BTreeSet<&str> =
        Invariant::ALL.iter().map(|invariant| invariant.description()).collect();
    assert_eq!((names.len(), descriptions.len()), (Invariant::ALL.len(), Invariant::ALL.len()));
    assert!(descriptions.iter().all(|description| description.len() > 20 && description.ends_with('.')));
}

proptest! {
    /// The fast checks agree with checking every span.
    #[test]
    fn windows_and_rates_equal_a_look_at_every_span(
        steps in vec((0_u64..20, 0_u64..4), 1..30),
        limit in 1_u64..12,
    ) {
        let mut now = 0;
        let admitted: Vec<(Timestamp, u64)> = steps.iter().map(|(wait, units)| {
            now += wait;
            (at(now), *units)
        }).collect();
        let spans = || (0..admitted.len()).flat_map(|from| (from..admitted.len()).map(move |to| (from, to)));
        let units = |(from, to): (usize, usize)| admitted[from..=to].iter().map(|(_, units)| units).sum::<u64>();
        let length = |(from, to): (usize, usize)| (admitted[to].0 - admitted[from].0).as_secs();
        let window = spans().filter(|span| length(*span) < 60).all(|span| units(span) <= limit);
        prop_assert_eq!(window_within_limit(&admitted, limit, SECOND * 60).is_ok(), window);
        let rate = spans().all(|span| units(span) <= limit + length(span) / 2);
        prop_assert_eq!(rate_within_burst(&admitted, limit, SECOND * 2).is_ok(), rate);
    }
}

#[test]
fn a_violation_is_counted_under_its_name() {
    let counts = ViolationCounts::new();
    assert!(!counts.record(&Ok(())));
    for invariant in Invariant::ALL {
        assert!(counts.record(&Err(Violation { invariant, detail: String::new() })));
        assert_eq!(counts.count(invariant), 1);
    }
    assert_eq!(Invariant::ALL.map(|invariant| counts.count(invariant)), [1; Invariant::ALL.len()]);
}

#[test]
fn a_debug_build_panics_at_a_violation_and_counts_it() {
    let before = violation_count(Invariant::MoneyIsConserved);
    enforce(Ok(()));
    assert_eq!(violation_count(Invariant::MoneyIsConserved), before);
    let violated = std::panic::catch_unwind(|| {
        enforce(money_is_conserved(Money::MAX, Money::ZERO, Money::ZERO));
    });
    assert_eq!(violated.is_err(), cfg!(debug_assertions));
    assert_eq!(violation_count(Invariant::MoneyIsConserved), before + 1);
}

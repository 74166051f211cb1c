use super::{DAY, ask, at, dollars, nanos, on, small_ledger};
use crate::budget::{
    BudgetEntry, CostCause, CostChange, CostDecision, CostMachine, CostOptions, CostReading, CostSettings,
};
use crate::money::{Money, Usage};
use crate::vocabulary::{CostState, Tier};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, proptest};
use std::time::Duration;

const HOUR: u64 = 3_600;
use CostState::{Normal, Spent, Warning};

fn settings() -> CostSettings {
    CostOptions::default().check().unwrap()
}

fn machine() -> CostMachine {
    CostMachine::new(settings(), at(0))
}

/// With a cap of $5,000.
fn reading(posted: u64, projected: u64) -> CostReading {
    let (posted, projected) = (dollars(posted), dollars(projected));
    CostReading { posted, cap: dollars(5_000), projected, min_request_cost: Money::ZERO }
}

fn change(from: CostState, to: CostState, cause: CostCause) -> Option<CostChange> {
    Some(CostChange { from, to, cause })
}

#[test]
fn the_warning_begins_at_four_fifths_of_the_cap() {
    let mut machine = machine();
    assert_eq!(machine.tick(&reading(3_999, 9_000), at(0)).state, Normal);
    let at_share = machine.tick(&reading(4_000, 4_100), at(60));
    assert_eq!(at_share.change, change(Normal, Warning, CostCause::WarningReached));
    assert_eq!((machine.state(), machine.since()), (Warning, at(60).monotonic));
    assert_eq!(
        machine.tick(&reading(4_001, 4_800), at(61)),
        CostDecision { state: Warning, change: None, is_stuck: false }
    );
}

#[test]
fn a_recovered_projection_ends_the_warning_after_ten_minutes() {
    let mut machine = machine();
    let evening = 22 * HOUR;
    let _ = machine.tick(&reading(4_200, 4_320), at(evening));
    // The calm period starts at the first tick within the warning state.
    assert_eq!(machine.tick(&reading(4_200, 4_320), at(evening + 1)).state, Warning);
    assert_eq!(machine.tick(&reading(4_205, 4_750), at(evening + 600)).state, Warning);
    let calm = machine.tick(&reading(4_210, 4_320), at(evening + 601));
    assert_eq!(calm.change, change(Warning, Normal, CostCause::ProjectionRecovered));
    assert_eq!(machine.tick(&reading(4_400, 5_000), at(evening + 700)).state, Normal);
    let high = machine.tick(&reading(4_400, 5_001), at(evening + 701));
    assert_eq!(high.change, change(Normal, Warning, CostCause::ProjectionAboveCap));
    // The second warning ends in the same way.
    let _ = machine.tick(&reading(4_400, 4_750), at(evening + 800));
    assert_eq!(machine.tick(&reading(4_400, 4_750), at(evening + 1_400)).state, Normal);
}

#[test]
fn a_projection_above_the_threshold_restarts_the_ten_minutes() {
    let mut machine = machine();
    let _ = machine.tick(&reading(4_200, 4_900), at(0));
    let _ = machine.tick(&reading(4_200, 4_750), at(10));
    let _ = machine.tick(&reading(4_200, 4_751), at(300));
    let _ = machine.tick(&reading(4_200, 4_750), at(310));
    assert_eq!(machine.tick(&reading(4_200, 4_750), at(909)).state, Warning);
    assert_eq!(machine.tick(&reading(4_200, 4_750), at(910)).state, Normal);
}

#[test]
fn a_spent_day_stays_spent_until_midnight_whatever_the_pace() {
    let mut machine = machine();
    let spent = machine.tick(&reading(5_000, 5_000), at(HOUR));
    assert_eq!(spent.change, change(Normal, Spent, CostCause::CapReached));
    assert_eq!(machine.tick(&reading(4_000, 4_000), at(23 * HOUR)).state, Spent);
    let morning = machine.tick(&reading(0, 100), at(DAY));
    assert_eq!(morning.change, change(Spent, Normal, CostCause::NewDay));
}

#[test]
fn a_clock_that_was_a_day_ahead_decides_nothing_about_the_real_next_day() {
    let mut machine = machine();
    assert_eq!(machine.tick(&reading(5_000, 5_000), on(0, 60)).state, Spent);
    let ahead = machine.tick(&reading(0, 0), on(1, 120));
    assert_eq!(ahead.change, change(Spent, Normal, CostCause::NewDay));
    // Back on the right day, whose own figures mark it as spent.
    assert_eq!(machine.tick(&reading(5_000, 5_000), on(0, 180)).state, Spent);
    assert_eq!(machine.tick(&reading(0, 0), on(1, DAY)).state, Normal);
    // When the wall clock moves back, the earlier day is judged by its own figures, good or bad.
    let _ = machine.tick(&reading(5_000, 5_000), on(1, DAY + 1));
    let back = machine.tick(&reading(4_100, 4_900), on(0, DAY + 2));
    assert_eq!(back.change, change(Spent, Warning, CostCause::NewDay));
}

#[test]
fn a_day_on_which_nothing_fits_any_more_is_spent() {
    let mut machine = machine();
    let max_cost = nanos(27_360_000);
    let posted = dollars(5_000).saturating_sub(max_cost);
    let just_fits = CostReading { posted, min_request_cost: max_cost, ..reading(0, 5_000) };
    assert_eq!(machine.tick(&just_fits, at(0)).state, Warning);
    // Unknown minimum cost: only the cap itself counts.
    let unknown = CostReading {
        min_request_cost: Money::ZERO,
        posted: dollars(5_000).saturating_sub(nanos(1)),
        ..just_fits
    };
    assert_eq!(machine.tick(&unknown, at(1)).state, Warning);
    let too_little = CostReading { posted: posted.saturating_add(nanos(1)), ..just_fits };
    assert_eq!(machine.tick(&too_little, at(2)).change, change(Warning, Spent, CostCause::CapReached));
    let huge = CostReading {
        posted: Money::MAX,
        cap: Money::MAX,
        projected: Money::MAX,
        min_request_cost: Money::MAX,
    };
    assert_eq!(CostMachine::new(settings(), at(0)).tick(&huge, at(0)).state, Spent);
}

#[test]
fn a_book_that_refuses_everything_is_reported_as_spent() {
    let mut ledger = small_ledger();
    let (max_cost, mut callers) = (27, 0);
    while let Ok(id) = ledger.reserve(&ask(callers, Tier::Standard, max_cost), at(0)) {
        let _ = ledger.apply(&BudgetEntry::Posted { id, usage: Usage::default(), cost: nanos(7) });
        callers += 1;
    }
    let (posted, cap) = (ledger.tier(0, Tier::Standard).posted, ledger.tier_cap(0, Tier::Standard));
    assert!(posted < cap);
    let reading = CostReading { posted, cap, projected: posted, min_request_cost: nanos(max_cost) };
    assert_eq!(machine().tick(&reading, at(1)).state, Spent);
}

#[test]
fn another_cap_ends_only_a_spent_day() {
    let mut machine = machine();
    let _ = machine.tick(&reading(5_000, 6_000), at(0));
    let raised = CostReading { cap: dollars(6_000), ..reading(5_000, 6_000) };
    assert_eq!(machine.tick(&raised, at(1)).change, change(Spent, Warning, CostCause::CapChanged));
    // A raised cap does not end a warning early, however large it is.
    let ample = CostReading { cap: dollars(10_000), ..raised };
    assert_eq!(machine.tick(&ample, at(2)).change, None);
    assert_eq!(machine.tick(&ample, at(602)).change, change(Warning, Normal, CostCause::ProjectionRecovered));
    let low = CostReading { cap: dollars(4_000), ..raised };
    assert_eq!(machine.tick(&low, at(603)).change, change(Normal, Spent, CostCause::CapReached));
    assert_eq!(machine.tick(&CostReading { cap: dollars(4_001), ..raised }, at(604)).change, None);
    let nothing = CostReading {
        posted: Money::ZERO,
        cap: Money::ZERO,
        projected: Money::ZERO,
        min_request_cost: Money::ZERO,
    };
    assert_eq!(machine.tick(&nothing, at(605)).state, Spent);
}

#[test]
fn a_small_cap_change_neither_restores_a_warning_nor_delays_recovery() {
    let mut machine = machine();
    let with_cap = |cap| CostReading { cap: dollars(cap), ..reading(4_200, 4_320) };
    let _ = machine.tick(&with_cap(5_000), at(0));
    let _ = machine.tick(&with_cap(5_000), at(1));
    let _ = machine.tick(&with_cap(5_005), at(300));
    assert_eq!(
        machine.tick(&with_cap(5_010), at(601)).change,
        change(Warning, Normal, CostCause::ProjectionRecovered)
    );
    assert_eq!(machine.tick(&with_cap(5_015), at(660)).state, Normal);
    assert_eq!(
        machine.tick(&with_cap(4_300), at(720)).change,
        change(Normal, Warning, CostCause::ProjectionAboveCap)
    );
}

#[test]
fn resetting_what_is_normal_does_not_take_the_warning_away() {
    let mut machine = machine();
    assert_eq!(machine.reset(at(0)).change, None);
    assert_eq!(machine.tick(&reading(4_500, 4_990), at(60)).state, Warning);
}

#[test]
fn a_new_day_that_is_spent_at_once_has_its_own_alarm() {
    let mut machine = machine();
    let spent = reading(5_000, 5_000);
    let _ = machine.tick(&spent, at(0));
    assert!(machine.tick(&spent, at(4 * HOUR)).is_stuck);
    let midnight = machine.tick(&spent, at(DAY));
    assert_eq!((midnight.change, midnight.is_stuck, machine.since()), (None, false, at(DAY).monotonic));
    assert!(!machine.tick(&spent, at(DAY + 4 * HOUR - 1)).is_stuck);
    assert!(machine.tick(&spent, at(DAY + 4 * HOUR)).is_stuck);
    assert!(!machine.tick(&spent, at(DAY + 5 * HOUR)).is_stuck);
}

#[test]
fn recovery_of_yesterday_does_not_apply_today() {
    let mut machine = machine();
    let _ = machine.tick(&reading(4_200, 4_300), at(0));
    let _ = machine.tick(&reading(4_200, 4_300), at(1));
    assert_eq!(machine.tick(&reading(4_200, 4_300), at(601)).state, Normal);
    let today = machine.tick(&reading(4_000, 4_300), at(DAY));
    assert_eq!(today.change, change(Normal, Warning, CostCause::NewDay));
}

#[test]
fn an_operator_ends_a_warning_and_the_figures_may_restore_it() {
    let mut machine = machine();
    let _ = machine.tick(&reading(4_200, 4_900), at(0));
    let reset = machine.reset(at(1));
    assert_eq!((reset.state, reset.change), (Normal, change(Warning, Normal, CostCause::Operator)));
    assert_eq!(machine.reset(at(1)).change, None);
    assert_eq!(machine.tick(&reading(4_200, 4_900), at(2)).state, Normal);
    assert_eq!(machine.tick(&reading(4_200, 5_001), at(3)).state, Warning);
    let _ = machine.tick(&reading(5_000, 5_001), at(4));
    let _ = machine.reset(at(5));
    assert_eq!(machine.tick(&reading(5_000, 5_001), at(6)).state, Spent);
}

#[test]
fn a_stuck_budget_is_reported_once_per_day() {
    let mut machine = machine();
    let _ = machine.tick(&reading(5_000, 5_000), at(100));
    assert!(!machine.tick(&reading(5_000, 5_000), at(4 * HOUR + 99)).is_stuck);
    assert!(machine.tick(&reading(5_000, 5_000), at(4 * HOUR + 100)).is_stuck);
    assert!(!machine.tick(&reading(5_000, 5_000), at(9 * HOUR)).is_stuck);
    let _ = machine.tick(&reading(0, 0), at(DAY));
    let _ = machine.tick(&reading(5_000, 5_000), at(DAY + 1));
    assert!(!machine.tick(&reading(5_000, 5_000), at(DAY + 4 * HOUR)).is_stuck);
    assert!(machine.tick(&reading(5_000, 5_000), at(DAY + 4 * HOUR + 1)).is_stuck);
    // A budget in the normal state is never stuck.
    let mut calm = CostMachine::new(settings(), at(0));
    assert!(!calm.tick(&reading(1, 1), at(20 * HOUR)).is_stuck);
}

#[test]
fn an_hour_above_150_percent_of_the_baseline_exceeds_the_velocity() {
    let settings = settings();
    assert!(!settings.exceeds_velocity(dollars(150), Some(dollars(100))));
    assert!(settings.exceeds_velocity(dollars(150).saturating_add(nanos(1)), Some(dollars(100))));
    assert!(!settings.exceeds_velocity(dollars(150), None));
    assert!(!settings.exceeds_velocity(dollars(150), Some(Money::ZERO)));
    assert_eq!(settings.min_baseline_days(), 3);
}

#[test]
fn stale_states_are_tightened() {
    let settings = settings();
    let [five, fifteen] = [300, 900].map(Duration::from_secs);
    let later = |age: Duration| age + Duration::from_nanos(1);
    for (tier, age, believed) in [
        (Tier::Guest, five, [Normal, Warning, Spent]),
        (Tier::Prime, later(five), [Warning, Warning, Spent]),
        (Tier::Guest, fifteen, [Warning, Warning, Spent]),
        (Tier::Guest, later(fifteen), [Spent, Spent, Spent]),
        (Tier::Standard, later(fifteen), [Warning, Warning, Spent]),
        (Tier::Prime, later(fifteen), [Warning, Warning, Spent]),
    ] {
        assert_eq!(
            CostState::ALL.map(|state| settings.effective_state(state, tier, age)),
            believed,
            "{tier} {age:?}"
        );
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let options = CostOptions::default();
    let problem = |options: CostOptions| options.check().unwrap_err().setting();
    assert_eq!(problem(CostOptions { warning: 101.0, ..options }), "warning");
    assert_eq!(problem(CostOptions { recovery_threshold: f64::NAN, ..options }), "recovery_threshold");
    assert_eq!(problem(CostOptions { velocity: -1.0, ..options }), "velocity");
    assert_eq!(problem(CostOptions { renotify_after: Duration::ZERO, ..options }), "renotify_after");
    assert_eq!(problem(CostOptions { expired_after: Duration::ZERO, ..options }), "stale_after");
}

proptest! {
    /// Invariants: every transition has a cause, a spent day stays spent, and the warning does not flap: a warning
    /// that ended returns only with a projection above the cap.
    #[test]
    fn the_state_does_not_flap(steps in vec((1..400_u64, 0..60_u64, 3_000..6_000_u64), 1..80)) {
        let mut machine = machine();
        let (mut now, mut posted) = (0, 3_900);
        let mut warned_before = false;
        for (wait, spend, projected) in steps {
            (now, posted) = (now + wait, posted + spend);
            let before = machine.state();
            let decision = machine.tick(&reading(posted, projected), at(now.min(DAY - 1)));
            match decision.change {
                Some(CostChange { from, to, cause }) => {
                    prop_assert!(from == before && to == decision.state && from != to);
                    prop_assert!(from != Spent);
                    prop_assert!((to == Spent) == (cause == CostCause::CapReached));
                    if to == Warning {
                        let was_due = if warned_before { projected > 5_000 } else { posted >= 4_000 };
                        prop_assert!(was_due);
                        warned_before = true;
                    }
                }
                None => prop_assert!(before == decision.state),
            }
            prop_assert!((posted >= 5_000) <= (decision.state == Spent));
        }
    }
}

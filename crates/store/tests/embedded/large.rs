//! A database with a million calls.

use crate::child::report_line;
use crate::support::{Running, command, options, time_of_round, wait};
use seawall_core::money::{Money, Usage};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::EmbeddedStore;
use seawall_store::{CallId, Certainty, Ledger, UsageEvent};
use seawall_testkit::TestDirectory;
use std::path::Path;
use std::time::{Duration, Instant};

const MANY: u64 = 1_000_000;
const TOGETHER: u64 = 20_000;

fn event(number: u64) -> UsageEvent {
    UsageEvent {
        id: CallId {
            request: u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835),
            attempt: 0,
        },
        at: time_of_round(0).utc + Duration::from_micros(number),
        day: time_of_round(0).utc.day(),
        caller: number % 50_000,
        tier: Tier::ALL[usize::try_from(number % 3).unwrap()],
        model: "a model with a name of usual length".into(),
        usage: Usage { input: 1_000, output: 200, ..Usage::default() },
        cost: Money::from_nanos(number % 1_000),
        certainty: Certainty::Reported,
        labels: Default::default(),
    }
}

/// The child: posts the million, reports it, and continues until it is killed.
pub(crate) fn fill(data_dir: &Path) {
    let store = EmbeddedStore::open(data_dir, options(), time_of_round(0)).unwrap().store;
    for first in (0..MANY).step_by(usize::try_from(TOGETHER).unwrap()) {
        let events: Vec<UsageEvent> = (first..first + TOGETHER).map(event).collect();
        wait(store.post(&events)).unwrap();
    }
    report_line("full");
    for number in MANY.. {
        wait(store.post(&[event(number)])).unwrap();
        report_line(number);
    }
}

/// Slow in debug builds, where it would measure the wrong thing.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long opening takes is what is tested")]
fn a_million_calls_are_opened_within_a_second_after_a_kill_and_after_a_clean_end() {
    let scratch = TestDirectory::new().unwrap();
    let mut child = Running::start(command("fill", scratch.path(), 0));
    assert_eq!(child.line().as_deref(), Some("full"));
    let mut last = MANY;
    while last < MANY + 10 {
        last = child.line().unwrap().parse().unwrap();
    }
    if let Some(line) = child.kill().last() {
        last = line.parse().unwrap();
    }
    for way in ["after a kill", "after a clean end"] {
        let began = Instant::now();
        let store = EmbeddedStore::open(scratch.path(), options(), time_of_round(0)).unwrap().store;
        let took = began.elapsed();
        println!("{way}: opened in {took:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        let day = wait(store.day(time_of_round(0).utc.day())).unwrap();
        let calls: u64 = day.tiers.iter().map(|tier| tier.calls).sum();
        assert!(calls == last + 1 || calls == last + 2, "{calls} of {last}");
        let cost: u64 = (0..calls).map(|number| number % 1_000).sum();
        assert_eq!(day.tiers.iter().map(|tier| tier.cost).sum::<Money>(), Money::from_nanos(cost));
        assert_eq!(day.callers, 50_000);
    }
}

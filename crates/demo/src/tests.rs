//! The demonstration with a substitute for Seawall, and other tests of the crate.

mod cutter;
mod proxy;
mod restart;

use crate::{DemoOptions, wait_past_midnight};
use seawall_core::time::UtcTime;
use std::time::Duration;

#[test]
fn it_takes_from_ten_seconds_to_twenty_minutes() {
    for (seconds, is_good) in [(0, false), (9, false), (10, true), (1_200, true), (1_201, false)] {
        assert_eq!(DemoOptions { seconds, seed: 1 }.check().is_ok(), is_good, "{seconds}");
    }
    let error = DemoOptions { seconds: 9, seed: 1 }.check().unwrap_err();
    assert!(error.to_string().contains("9 must be between 10 and 1200"), "{error}");
}

#[test]
fn the_cap_grows_with_the_time() {
    let cap = |seconds| DemoOptions { seconds, seed: 1 }.check().unwrap().cap().to_string();
    assert_eq!((cap(10), cap(60)), ("$0.20".to_owned(), "$0.70".to_owned()));
}

#[test]
fn a_midnight_that_would_come_in_between_is_waited_for() {
    let midnight = UtcTime::from_civil(2026, 11, 16);
    let before = |seconds: u64| UtcTime::from_nanos(midnight.as_nanos() - seconds * 1_000_000_000);
    let takes = Duration::from_secs(90);
    assert_eq!(wait_past_midnight(before(91), takes), Duration::ZERO);
    assert_eq!(wait_past_midnight(before(90), takes), Duration::from_secs(91));
    assert_eq!(wait_past_midnight(midnight, takes), Duration::ZERO);
}

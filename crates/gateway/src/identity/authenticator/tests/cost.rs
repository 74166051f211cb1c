//! Benchmark of key authentication. Ignored by default, because it measures:
//! `cargo test -p seawall-gateway --release identity::authenticator::tests::cost -- --ignored --nocapture`.

use super::{Asked, Desk, noon};
use crate::identity::authenticator::{AuthenticationDecision, caller_options};
use crate::identity::hash_api_key;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::CallerResolver;
use std::hint::black_box;
use std::time::Duration;

/// The time of one run: minimum and median of many rounds. A round is shorter than a scheduler time slice on a busy
/// machine, so the minimum is that of an uninterrupted round; the median shows how busy the machine was.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn cost(mut work: impl FnMut()) -> (Duration, Duration) {
    const EACH: u32 = 1_000;
    let mut rounds: Vec<Duration> = (0..201)
        .map(|_| {
            let start = std::time::Instant::now();
            (0..EACH).for_each(|_| work());
            start.elapsed() / EACH
        })
        .collect();
    rounds.sort_unstable();
    (rounds[0], rounds[100])
}

#[test]
#[ignore = "measures"]
fn a_listed_key_costs_less_than_a_microsecond_beyond_its_hash() {
    let node = Desk::new();
    let authenticator = node.authenticator("");
    let key = format!("sw_{}_{}", "a".repeat(16), "b".repeat(52));
    let callers =
        CallerResolver::new(caller_options(&node.settings(""), &[(Tier::Prime, key.clone())], None));
    let requested = Asked::new(&[("content-type", "application/json"), ("x-api-key", &key)]);
    let now = noon();
    let hashed = cost(|| {
        black_box(hash_api_key(black_box(&key)));
    });
    let inspected = cost(|| {
        black_box(requested.before(&authenticator, now).is_ok());
    });
    let whole = cost(|| {
        let Ok(AuthenticationDecision::Identified(identity)) = requested.before(&authenticator, now) else {
            panic!()
        };
        black_box(callers.find_cached(&identity, Timestamp::ZERO).unwrap().unwrap());
    });
    println!("least and middle: hash {hashed:?}, shown {inspected:?}, known {whole:?}");
    assert!(whole.0 - hashed.0 < Duration::from_micros(1));
}

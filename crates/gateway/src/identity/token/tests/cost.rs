//! Benchmark of token verification, first and cached. Ignored by default, because it measures:
//! `cargo test -p seawall-gateway --release identity::token::tests::cost -- --ignored --nocapture`.

use super::signer::{claims, issuers, now, token};
use crate::identity::token::{TokenAlgorithm, TokenIssuers};
use serde_json::json;
use std::hint::black_box;
use std::time::Duration;

/// The time of one run, the minimum of several rounds.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn cost(mut work: impl FnMut(usize)) -> Duration {
    const EACH: u32 = 2_000;
    let round = |work: &mut dyn FnMut(usize)| {
        let start = std::time::Instant::now();
        (0..EACH as usize).for_each(&mut *work);
        start.elapsed() / EACH
    };
    (0..5).map(|_| round(&mut work)).min().unwrap_or_default()
}

#[test]
#[ignore = "measures"]
fn a_known_token_costs_less_than_a_microsecond() {
    for algorithm in [TokenAlgorithm::Rs256, TokenAlgorithm::Es256, TokenAlgorithm::EdDsa] {
        let issuers: TokenIssuers = issuers();
        let mut claims = claims();
        // A realistic token length.
        claims["scope"] = json!("read ".repeat(60));
        let token = token(algorithm, &claims);
        let checked = cost(|_| {
            black_box(issuers.check(black_box(&token), now()).unwrap());
        });
        issuers.verify(&token, now()).unwrap();
        let known = cost(|_| {
            black_box(issuers.verify(black_box(&token), now()).unwrap());
        });
        println!("{algorithm:?}, {} bytes: checked {checked:?}, known {known:?}", token.len());
        assert!(known < Duration::from_micros(1) && known * 5 < checked);
    }
}

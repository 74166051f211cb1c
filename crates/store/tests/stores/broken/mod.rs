//! Stores that are broken on purpose: the conformance suite must detect every one of them (mutation tests).
//!
//! Each is a correct store in memory with one typical flaw.

mod keeping;
mod money;
mod sharing;

use crate::conformance::{Effort, TestResult};
use std::fmt::Debug;

/// Enough cases to detect each of these flaws, with a wide margin.
const EFFORT: Effort = Effort { cases: 1_000, threads: 4 };

/// Yields, so that other threads interleave.
fn dawdle() {
    for _ in 0..20 {
        std::thread::yield_now();
    }
}

/// Asserts that the suite detects every flaw.
fn notices<F: Copy + Debug>(flaws: &[F], judge: impl Fn(F) -> TestResult) {
    for flaw in flaws {
        assert!(judge(*flaw).is_err(), "{flaw:?} went unnoticed");
    }
}

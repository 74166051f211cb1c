//! Stores that are broken on purpose: the suite has to notice every one of them.
//!
//! Each is a good store in memory with one flaw, of the kind that is easily made.

mod keeping;
mod money;
mod sharing;

use crate::conformance::{Effort, Verdict};
use std::fmt::Debug;

/// Enough to notice each of these flaws, with a wide margin.
const EFFORT: Effort = Effort { cases: 1_000, threads: 4 };

/// Lets other threads come in between.
fn dawdle() {
    for _ in 0..200 {
        std::thread::yield_now();
    }
}

/// The suite has something to say about every flaw.
fn notices<F: Copy + Debug>(flaws: &[F], judge: impl Fn(F) -> Verdict) {
    for flaw in flaws {
        assert!(judge(*flaw).is_err(), "{flaw:?} went unnoticed");
    }
}

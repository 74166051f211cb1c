//! What a running program does about a violation: a debug build panics, a release build counts it.
//!
//! **Why a static?** A violation is a bug of the program, not of one machine, and the machines that could detect one
//! are spread over the process. Nothing reads the counts to decide; they are exported as a metric.

use super::{Invariant, Violation};
use std::sync::atomic::{AtomicU64, Ordering};

/// The violations of the whole process.
static PROCESS: ViolationCounts = ViolationCounts::new();

/// Counts of violations, by invariant.
#[derive(Debug)]
pub struct ViolationCounts([AtomicU64; Invariant::ALL.len()]);

impl ViolationCounts {
    /// Counts that are all zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Invariant::ALL.len()])
    }

    /// Counts the violation, if it is one. Returns whether it is.
    pub fn record(&self, checked: &Result<(), Violation>) -> bool {
        let Err(violation) = checked else { return false };
        self.0[violation.invariant.index()].fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The number of violations of this invariant.
    #[must_use]
    pub fn count(&self, invariant: Invariant) -> u64 {
        self.0[invariant.index()].load(Ordering::Relaxed)
    }
}

impl Default for ViolationCounts {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of violations of this invariant since the process started.
#[must_use]
pub fn violation_count(invariant: Invariant) -> u64 {
    PROCESS.count(invariant)
}

/// Panics in a debug build if an invariant is violated, and counts the violation in a release build: a request that
/// was decided wrongly must not take the process down with it.
#[inline]
pub(crate) fn enforce(checked: Result<(), Violation>) {
    if let Err(violation) = checked {
        report(violation);
    }
}

#[cold]
fn report(violation: Violation) {
    let checked = Err(violation);
    PROCESS.record(&checked);
    debug_assert!(checked.is_ok(), "an invariant is violated: {checked:?}");
}

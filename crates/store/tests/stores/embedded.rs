//! The embedded store in the conformance suite.

use crate::conformance::{self, Effort, Parked};
use seawall_core::budget::{BudgetLimits, BudgetOptions};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use seawall_testkit::TestDirectory;
use std::cell::Cell;
use std::fs;
use std::time::Duration;

/// The stores that a test creates, in a directory that is removed when the test ends. On a RAM disk where there is one,
/// because the behaviour of disks has its own tests.
struct Stores {
    root: TestDirectory,
    made: Cell<u64>,
}

impl Stores {
    fn new() -> Self {
        Self { root: TestDirectory::in_memory().unwrap(), made: Cell::new(0) }
    }

    fn with_limits(&self, limits: BudgetLimits) -> EmbeddedStore {
        // The previous store has been dropped and is not needed any more.
        let before = self.root.path().join(self.made.get().to_string());
        let _ = fs::remove_dir_all(before);
        self.made.set(self.made.get() + 1);
        let data_dir = self.root.path().join(self.made.get().to_string());
        // Shortly before the start of the suite's clock: a ledger that has been open for days forgets the first of
        // them.
        let now = Now::new(Timestamp::ZERO + Duration::from_secs(999_999), UtcTime::from_civil(2026, 11, 15));
        EmbeddedStore::open(&data_dir, EmbeddedOptions::new(limits), now).unwrap().store
    }

    fn make(&self) -> EmbeddedStore {
        self.with_limits(BudgetOptions::default().check().unwrap())
    }
}

/// Files take longer than memory, so fewer cases are run.
fn effort() -> Effort {
    let effort = Effort::default();
    Effort { cases: effort.cases.div_ceil(4), ..effort }
}

#[test]
fn the_ledger_in_a_directory_conforms() {
    let stores = Stores::new();
    conformance::ledger(effort(), &Parked, |limits| stores.with_limits(limits)).unwrap();
}

#[test]
fn sessions_in_a_directory_conform() {
    let stores = Stores::new();
    conformance::sessions(effort(), &Parked, || stores.make()).unwrap();
}

#[test]
fn the_directory_in_a_directory_conforms() {
    let stores = Stores::new();
    conformance::directory(effort(), &Parked, || stores.make()).unwrap();
}

#[test]
fn switches_in_a_directory_conform() {
    let stores = Stores::new();
    conformance::switches(effort(), &Parked, || stores.make()).unwrap();
}

#[test]
fn claims_in_a_directory_conform() {
    let stores = Stores::new();
    conformance::claims(effort(), &Parked, || stores.make()).unwrap();
}

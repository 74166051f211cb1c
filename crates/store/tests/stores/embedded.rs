//! The embedded store in the conformance suite.

use crate::conformance::{self, Effort, Parked};
use seawall_core::budget::{BudgetLimits, BudgetOptions};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The stores that a test creates, in a directory that is removed when the test ends. On a RAM disk where there is one,
/// because the behaviour of disks has its own tests.
struct Stores {
    root: PathBuf,
    made: Cell<u64>,
}

impl Stores {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = place.join(format!("seawall-conformance-{}-{number}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self { root, made: Cell::new(0) }
    }

    fn with_limits(&self, limits: BudgetLimits) -> EmbeddedStore {
        // The previous store has been dropped and is not needed any more.
        let before = self.root.join(self.made.get().to_string());
        let _ = fs::remove_dir_all(before);
        self.made.set(self.made.get() + 1);
        let data_dir = self.root.join(self.made.get().to_string());
        // Shortly before the start of the suite's clock: a ledger that has been open for days forgets the first of
        // them.
        let now = Now::new(Timestamp::ZERO + Duration::from_secs(999_999), UtcTime::from_civil(2026, 11, 15));
        EmbeddedStore::open(&data_dir, EmbeddedOptions::new(limits), now).unwrap().store
    }

    fn make(&self) -> EmbeddedStore {
        self.with_limits(BudgetOptions::default().check().unwrap())
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
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

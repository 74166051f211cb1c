//! The writer thread.

use super::{event, fill, noon, open, options, read_all, wait};
use crate::StoreError;
use crate::embedded::codec::{RowEncoder, STORE};
use crate::embedded::rows::TableKind;
use crate::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::ledger::{Ledger, PostSummary};
use crate::node_ledger::{Journal, JournalRecord};
use seawall_core::budget::{BudgetEntry, ReservationId};
use seawall_testkit::TestDirectory;
use std::time::Duration;

#[test]
fn a_failure_before_any_change_fails_alone() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    let failing = store.write::<()>(|_, _| Err(StoreError::failed(STORE, "of its own accord")));
    let working = store.write(|batch, _| batch.put(TableKind::Trail, b"x", b"y"));
    assert_eq!(wait(working), Ok(()));
    assert_eq!(wait(failing), Err(StoreError::failed(STORE, "of its own accord")));
    assert_eq!(wait(store.post(&[event(1)])), Ok(PostSummary { inserted: 1, duplicates: 0 }));
}

#[test]
fn after_a_failed_transaction_nothing_is_written_until_the_directory_is_reopened() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    fill(&store);
    let before = read_all(&store).unwrap();
    let error = StoreError::failed(STORE, "in the middle");
    let half = store.write::<()>(|batch, _| {
        batch.put(TableKind::Totals, &RowEncoder::default().u64(0).key(), b"half")?;
        Err(StoreError::failed(STORE, "in the middle"))
    });
    assert_eq!(wait(half), Err(error.clone()));
    assert_eq!(wait(store.post(&[event(500)])), Err(error));
    assert_eq!(read_all(&store).unwrap(), before);
    drop(store);
    let store = open(scratch.path()).unwrap().store;
    assert_eq!(read_all(&store).unwrap(), before);
    assert_eq!(
        wait(store.post(&[event(500), event(1), event(500)])),
        Ok(PostSummary { inserted: 1, duplicates: 2 })
    );
}

#[test]
fn a_panic_inside_a_transaction_is_an_error() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    let panicking = store.write::<()>(|_, _| panic!("a page that makes no sense"));
    assert!(wait(panicking).is_err());
    let error = wait(store.post(&[event(1)])).unwrap_err();
    assert_eq!(error.to_string(), "the embedded store failed: the database panicked on damaged data");
    assert!(store.read::<()>(|_| panic!("another")).is_err());
}

#[test]
fn a_row_that_was_damaged_is_an_error_and_not_a_number() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    let day = noon().utc.day();
    wait(store.post(&[event(1)])).unwrap();
    let damage = store.write(move |batch, _| {
        let key = RowEncoder::default().u64(day).byte(3).u64(1).key();
        batch.put(TableKind::Totals, &key, &[1; 52])
    });
    wait(damage).unwrap();
    assert!(matches!(wait(store.caller(day, 1)), Err(StoreError::Failed { .. })));
    assert!(matches!(wait(store.post(&[event(4)])), Err(StoreError::Failed { .. })));
    // The failed task has changed nothing, so that others succeed.
    assert_eq!(wait(store.post(&[event(2)])), Ok(PostSummary { inserted: 1, duplicates: 0 }));
}

#[test]
fn concurrent_posts_are_all_answered_and_nothing_is_counted_twice() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..40 {
                    // Half of the events are the same in all threads.
                    let own = event(1_000 * (thread + 1) + number);
                    wait(store.post(&[event(number), own])).unwrap();
                }
            });
        }
    });
    let day = wait(store.day(noon().utc.day())).unwrap();
    assert_eq!(day.tiers.iter().map(|tier| tier.calls).sum::<u64>(), 40 * 17);
    assert_eq!((day.callers, day.models.len()), (3, 2));
    let spenders = wait(store.top_spenders(noon().utc.day(), 5)).unwrap();
    assert_eq!(spenders.iter().map(|(_, totals)| totals.calls).sum::<u64>(), 40 * 17);
    assert!(spenders.is_sorted_by(|one, next| one.1.cost >= next.1.cost));
}

#[test]
fn the_journal_is_synced_without_a_request() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.write(&[JournalRecord::Entry(BudgetEntry::Voided(ReservationId(1)))]).unwrap();
    let mut waits = 0;
    while opened.journal.is_unsynced() {
        std::thread::park_timeout(Duration::from_millis(1));
        waits += 1;
        assert!(waits < 10_000, "it never was");
    }
}

#[test]
fn a_write_that_exceeds_a_frame_is_refused_and_the_journal_continues() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened =
        EmbeddedStore::open(scratch.path(), EmbeddedOptions { segment_bytes: 64, ..options() }, noon())
            .unwrap();
    let large = event(1);
    let large = JournalRecord::Event(crate::UsageEvent { model: "x".repeat(2 << 20).into(), ..large });
    assert!(matches!(opened.journal.write(&[large]), Err(StoreError::Failed { .. })));
    opened.journal.write(&[]).unwrap();
    opened.journal.write(&[JournalRecord::Event(event(2))]).unwrap();
    drop(opened);
    let opened = open(scratch.path()).unwrap();
    assert_eq!((opened.report.replayed, opened.report.truncated), (1, None));
    assert_eq!(wait(opened.store.post(&[event(2)])), Ok(PostSummary { inserted: 0, duplicates: 1 }));
}

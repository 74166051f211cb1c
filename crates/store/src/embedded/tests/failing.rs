//! Disk failures, and the errors they cause.

use super::recovery::{Node, call, posted};
use super::{contents, event, noon, open, options, wait};
use crate::StoreError;
use crate::embedded::codec::{RowEncoder, STORE};
use crate::embedded::rows::TableKind;
use crate::embedded::segment::{list, segment_path};
use crate::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use crate::ledger::{Ledger, PostSummary};
use crate::node_ledger::{Journal, JournalRecord};
use crate::sessions::{RequestTokens, Sessions};
use crate::switches::Switches;
use seawall_core::budget::{BudgetEntry, ReservationId};
use seawall_testkit::TestDirectory;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn record(number: u64) -> JournalRecord {
    JournalRecord::Entry(BudgetEntry::Voided(ReservationId(number)))
}

/// A file that accepts writes and fails to sync. It stays open as long as the returned reader.
fn pipe() -> (File, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(writer)), reader)
}

#[test]
fn a_failed_sync_is_not_forgotten_in_the_next_segment() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    let (file, _reader) = pipe();
    opened.journal.put_segment(file);
    opened.journal.write(&[record(1)]).unwrap();
    let mut waits = 0;
    while opened.journal.write(&[]).is_ok() {
        std::thread::park_timeout(Duration::from_millis(1));
        waits += 1;
        assert!(waits < 5_000, "nobody has noticed");
    }
    let path = segment_path(scratch.path(), 1);
    opened.journal.put_segment(File::options().append(true).open(path).unwrap());
    assert!(opened.journal.buffer(&[record(2)]).is_err());
    let error = opened.journal.write(&[record(2)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the embedded store is unavailable: cannot sync the journal; check the disk and restart the gateway"
    );
}

#[test]
fn a_segment_that_is_not_synced_has_no_successor_after_any_number_of_attempts() {
    let scratch = TestDirectory::in_memory().unwrap();
    let full = EmbeddedOptions { segment_bytes: 1, ..options() };
    let mut opened = EmbeddedStore::open(scratch.path(), full, noon()).unwrap();
    let (file, _reader) = pipe();
    opened.journal.put_segment(file);
    let error = opened.journal.write(&[record(1)]).unwrap_err();
    // A system reports a failed sync once. A retry would report success.
    let path = segment_path(scratch.path(), 1);
    opened.journal.put_segment(File::options().append(true).open(path).unwrap());
    assert_eq!(opened.journal.write(&[record(1)]), Err(error));
    assert_eq!(list(scratch.path()).unwrap(), [1]);
}

#[test]
fn a_segment_that_could_not_be_created_is_created_later() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut node = Node::with(scratch.path(), EmbeddedOptions { segment_bytes: 1, ..options() });
    node.reserve(1, 10, noon());
    // A directory blocks the name of the next segment, as if the disk had no room for another file.
    let next = segment_path(scratch.path(), list(scratch.path()).unwrap().last().unwrap() + 1);
    fs::create_dir(&next).unwrap();
    let error = node.opened.journal.write(&[record(1)]).unwrap_err();
    assert!(error.is_transient(), "{error}");
    fs::remove_dir(&next).unwrap();
    node.reserve(2, 10, noon());
    drop(node);
    let node = Node::open(scratch.path());
    assert_eq!(node.opened.report.charged.iter().map(|event| event.id).collect::<Vec<_>>(), [1, 2].map(call));
    assert_eq!(posted(&node.opened.budget_ledger), (20, 0));
}

#[test]
fn a_failed_truncation_ends_the_journal() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    let path = segment_path(scratch.path(), 1);
    opened.journal.put_segment(File::open(&path).unwrap());
    let error = opened.journal.write(&[record(1)]).unwrap_err();
    opened.journal.put_segment(File::options().append(true).open(&path).unwrap());
    assert_eq!(opened.journal.write(&[record(1)]), Err(error));
}

#[test]
fn a_journal_that_cannot_be_checkpointed_does_not_grow_without_bound() {
    let scratch = TestDirectory::in_memory().unwrap();
    let small = EmbeddedOptions { segment_bytes: 1, ..options() };
    let mut node = Node::with(scratch.path(), small);
    let half = node.opened.store.write::<()>(|batch, _| {
        batch.put(TableKind::Totals, b"half", b"")?;
        Err(StoreError::failed(STORE, "in the middle"))
    });
    assert!(wait(half).is_err());
    let mut written = 0;
    while written < 1_000 && node.opened.journal.write(&[record(written)]).is_ok() {
        written += 1;
        // The reply comes after the checkpoints that were ordered before it.
        let _ = wait(node.opened.store.post(&[]));
    }
    assert_eq!(written, 16);
    assert_eq!(list(scratch.path()).unwrap().len(), 17);
    drop(node);
    let node = Node::open(scratch.path());
    assert_eq!(node.opened.report.replayed, 16);
}

#[test]
fn a_deleted_lock_file_does_not_admit_a_second_process() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = open(scratch.path()).unwrap();
    fs::remove_file(scratch.path().join("lock")).unwrap();
    let before = contents(scratch.path());
    assert!(matches!(open(scratch.path()), Err(OpenError::InUse { .. })));
    assert_eq!(contents(scratch.path()), before);
    drop(opened);
    assert!(open(scratch.path()).is_ok());
}

struct Rude;

impl Wake for Rude {
    fn wake(self: Arc<Self>) {
        panic!("whoever waits falls over");
    }
}

#[test]
fn a_waker_that_panics_does_not_stop_the_writer() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    let (go, stop) = channel::<()>();
    // The writer is blocked, so that the next future that is polled is woken by the writer.
    let held = opened.store.write(move |_, _| {
        let _ = stop.recv();
        Ok(())
    });
    let events = [event(1)];
    let mut post = Box::pin(Ledger::post(&opened.store, &events));
    let waker = Waker::from(Arc::new(Rude));
    assert!(post.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go.send(()).unwrap();
    wait(held).unwrap();
    drop(post);
    assert_eq!(
        wait(opened.store.post(&[event(1), event(2)])),
        Ok(PostSummary { inserted: 1, duplicates: 1 })
    );
    opened.journal.write(&[record(1)]).unwrap();
    let mut waits = 0;
    while opened.journal.is_unsynced() {
        std::thread::park_timeout(Duration::from_millis(1));
        waits += 1;
        assert!(waits < 5_000, "it never was made durable");
    }
}

/// Holds a store until it is woken, and drops it then, on the thread that wakes it.
struct LastHolder(std::sync::Mutex<Option<EmbeddedStore>>, std::sync::mpsc::Sender<bool>);

impl Wake for LastHolder {
    fn wake(self: Arc<Self>) {
        let store = crate::lock(&self.0).take();
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(store)));
        self.1.send(dropped.is_ok()).unwrap();
    }
}

#[test]
fn the_last_handle_may_be_dropped_on_the_writers_own_thread() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = open(scratch.path()).unwrap();
    let (go, stop) = channel::<()>();
    let _held = opened.store.write(move |_, _| {
        let _ = stop.recv();
        Ok(())
    });
    let mut waiting = Box::pin(opened.store.write(|_, _| Ok(())));
    let (sender, receiver) = channel();
    let holder = LastHolder(std::sync::Mutex::new(Some(opened.store)), sender);
    let waker = Waker::from(Arc::new(holder));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(opened.journal);
    go.send(()).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(true));
}

#[test]
fn a_stored_conversation_with_too_many_turns_is_invalid() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    let append =
        |request| wait(store.append(&super::session(), request, &[], RequestTokens::default(), noon()));
    append(1).unwrap();
    let name = crate::embedded::codec::key_hash("session", 7, "a long talk");
    for (turns, requests) in [([0, u64::MAX], [0, 1]), ([5, 4], [0, 1]), ([0, 0], [0, 257]), ([0, 0], [1, 0])]
    {
        let row = [0, 0, turns[0], turns[1], requests[0], requests[1], 1];
        let row = row.iter().fold(RowEncoder::default(), |output, number| output.u64(*number)).row();
        wait(store.write(move |batch, _| batch.put(TableKind::Sessions, &name, &row))).unwrap();
        let error = append(2).unwrap_err();
        assert_eq!(error.to_string(), "the embedded store failed: a row of table sessions is invalid");
    }
    // The failed task has changed nothing, so that others succeed.
    wait(store.post(&[event(2)])).unwrap();
}

#[test]
fn an_existing_audit_trail_is_not_overwritten() {
    let scratch = TestDirectory::in_memory().unwrap();
    let store = open(scratch.path()).unwrap().store;
    super::fill(&store);
    let trail = wait(store.trail(0, 100)).unwrap();
    wait(store.write(|batch, _| batch.remove(TableKind::Switches, b"state"))).unwrap();
    let ordered = trail[0].order.clone();
    assert!(matches!(wait(store.apply(&ordered, 0)), Err(StoreError::Failed { .. })));
    assert_eq!(wait(store.trail(0, 100)).unwrap(), trail);
}

//! Buffered records: what may wait for the next write, and what happens to it.

use super::recovery::{Node, call, cost_of_day, posted};
use super::{contents, noon, open, options};
use crate::embedded::segment::{HEADER_BYTES, list, read, segment_path};
use crate::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::node_ledger::{Journal, JournalRecord, LedgerCall, NodeLedger, ReserveError};
use crate::usage::Certainty;
use seawall_core::budget::{BudgetEntry, BudgetSource, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_testkit::TestDirectory;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn record(number: u64) -> JournalRecord {
    JournalRecord::Entry(BudgetEntry::Voided(ReservationId(number)))
}

/// The payload size of each frame in the first segment.
fn frames(data_dir: &Path) -> Vec<usize> {
    let path = segment_path(data_dir, 1);
    read(&path, 1, true).unwrap().frames().map(<[u8]>::len).collect()
}

#[test]
fn a_buffered_record_is_written_before_the_next_record_in_one_frame() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.stop_flusher();
    opened.journal.buffer(&[record(1)]).unwrap();
    opened.journal.buffer(&[record(200)]).unwrap();
    assert_eq!(fs::metadata(segment_path(scratch.path(), 1)).unwrap().len(), HEADER_BYTES as u64);
    opened.journal.write(&[record(3)]).unwrap();
    let path = segment_path(scratch.path(), 1);
    let text = read(&path, 1, true).unwrap();
    let written: Vec<&[u8]> = text.frames().collect();
    assert_eq!(written, [&[0, 0, 0, 3, 1, 2, 1, 0, 0, 0, 4, 1, 2, 200, 1, 0, 0, 0, 3, 1, 2, 3][..]]);
    opened.journal.write(&[record(4)]).unwrap();
    assert_eq!(frames(scratch.path()), [22, 7], "what was written is not written again");
}

#[test]
fn a_buffered_record_is_written_and_synced_without_further_writes() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    for round in 1..4 {
        opened.journal.buffer(&[record(round)]).unwrap();
        let mut waits = 0;
        while opened.journal.is_unsynced() {
            std::thread::park_timeout(Duration::from_millis(1));
            waits += 1;
            assert!(waits < 10_000, "it never was");
        }
        assert_eq!(frames(scratch.path()).len() as u64, round);
    }
}

#[test]
fn a_buffered_record_is_written_when_the_journal_is_dropped() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.stop_flusher();
    opened.journal.buffer(&[record(1)]).unwrap();
    drop(opened.journal);
    assert_eq!(frames(scratch.path()), [7]);
    assert!(opened.report.created);
}

#[test]
fn a_buffered_end_that_is_lost_in_a_crash_is_charged_once_at_maximum_cost() {
    let (scratch, crashed) = (TestDirectory::in_memory().unwrap(), TestDirectory::in_memory().unwrap());
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.stop_flusher();
    let ledger = NodeLedger::with_ledger(opened.budget_ledger, opened.journal);
    let reserve = |number: u128| {
        let attempt = LedgerCall { id: call(number), model: "strong".into(), labels: Default::default() };
        ledger.reserve(&super::recovery::ask(number, 100), attempt, noon()).unwrap()
    };
    let first = reserve(1);
    first.post(Usage::default(), Money::from_nanos(30), Certainty::Reported, noon());
    let second = reserve(2);
    second.post(Usage::default(), Money::from_nanos(40), Certainty::Reported, noon());
    assert_eq!(ledger.day(noon().utc.day()).posted.as_nanos(), 70);
    assert!(ledger.take_events(9).is_empty(), "the ledger learns of them from the journal");
    for (path, bytes) in contents(scratch.path()) {
        fs::write(crashed.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    drop((ledger, opened.store));
    for (data_dir, cost, charged) in [(&crashed, 130, 1), (&crashed, 130, 0), (&scratch, 70, 0)] {
        let node = Node::open(data_dir.path());
        assert_eq!(node.opened.report.charged.len(), charged);
        assert_eq!((posted(&node.opened.budget_ledger), cost_of_day(&node.opened)), ((cost, 0), (2, cost)));
    }
}

#[test]
fn the_first_write_covers_all_buffered_holds() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.stop_flusher();
    let ledger = NodeLedger::with_ledger(opened.budget_ledger, opened.journal);
    let begin = |number: u128| {
        let attempt = LedgerCall { id: call(number), model: "strong".into(), labels: Default::default() };
        ledger.begin(&super::recovery::ask(number, 100), attempt, None, noon()).unwrap()
    };
    let [first, second, third] = [1, 2, 3].map(begin);
    assert_eq!((frames(scratch.path()).len(), first.is_written()), (0, false));
    assert_eq!(ledger.day(noon().utc.day()).held.as_nanos(), 300, "it is held all the same");
    let first = first.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 1);
    // What is buffered after the first write waits until a record has to be written.
    let fourth = begin(4);
    let second = second.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 1);
    drop(third);
    let fourth = fourth.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 2);
    drop((first, second, fourth, ledger, opened.store));
    let node = Node::open(scratch.path());
    assert_eq!((posted(&node.opened.budget_ledger), cost_of_day(&node.opened)), ((300, 0), (3, 300)));
}

#[test]
fn a_hold_that_cannot_be_written_is_released() {
    let scratch = TestDirectory::in_memory().unwrap();
    let full = EmbeddedOptions { segment_bytes: 1, ..options() };
    let mut opened = EmbeddedStore::open(scratch.path(), full, noon()).unwrap();
    opened.journal.stop_flusher();
    let next = segment_path(scratch.path(), list(scratch.path()).unwrap().last().unwrap() + 1);
    fs::create_dir(&next).unwrap();
    let ledger = NodeLedger::with_ledger(opened.budget_ledger, opened.journal);
    let begin = |number: u128| {
        let attempt = LedgerCall { id: call(number), model: "strong".into(), labels: Default::default() };
        ledger.begin(&super::recovery::ask(number, 100), attempt, None, noon()).unwrap()
    };
    let (first, second) = (begin(1), begin(2));
    assert!(matches!(first.write(), Err(ReserveError::Journal(_))));
    assert_eq!(ledger.day(noon().utc.day()).held.as_nanos(), 100);
    fs::remove_dir(&next).unwrap();
    let second = second.write().unwrap();
    drop((second, ledger, opened.store));
    let node = Node::open(scratch.path());
    assert_eq!((posted(&node.opened.budget_ledger), cost_of_day(&node.opened)), ((100, 0), (1, 100)));
}

#[test]
fn buffered_records_that_fill_a_frame_are_written() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.stop_flusher();
    let many: u64 = 20_000;
    for number in 0..many {
        opened.journal.buffer(&[record(number)]).unwrap();
    }
    let written = frames(scratch.path());
    assert!(written.len() == 2 && written.iter().all(|length| *length <= 1 << 16), "{written:?}");
    opened.journal.write(&vec![record(1); 8_000]).unwrap();
    drop(opened);
    assert_eq!(open(scratch.path()).unwrap().report.replayed as u64, many + 8_000);
}

#[test]
fn a_buffered_record_survives_a_failed_write() {
    let scratch = TestDirectory::in_memory().unwrap();
    let full = EmbeddedOptions { segment_bytes: 1, ..options() };
    let mut opened = EmbeddedStore::open(scratch.path(), full, noon()).unwrap();
    opened.journal.stop_flusher();
    opened.journal.buffer(&[record(1)]).unwrap();
    let next = segment_path(scratch.path(), list(scratch.path()).unwrap().last().unwrap() + 1);
    fs::create_dir(&next).unwrap();
    assert!(opened.journal.write(&[record(2)]).is_err());
    fs::remove_dir(&next).unwrap();
    drop(opened);
    assert_eq!(open(scratch.path()).unwrap().report.replayed, 1);
}

#[test]
fn calls_of_a_node_with_leases_are_spooled() {
    let scratch = TestDirectory::in_memory().unwrap();
    let leases = EmbeddedOptions { source: BudgetSource::Leases { node: 4 }, ..options() };
    let leased = EmbeddedStore::open(scratch.path(), leases, noon()).unwrap();
    assert!(!leased.journal.feeds_ledger());
    drop(leased);
    assert!(open(TestDirectory::in_memory().unwrap().path()).unwrap().journal.feeds_ledger());
}

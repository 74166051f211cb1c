//! Noted records: what may wait for the next write, and what becomes of it.

use super::recovery::{Node, call, cost_of_day, posted};
use super::{Scratch, contents, noon, open, options};
use crate::books::{Attempt, Books, Journal, JournalRecord, ReserveError};
use crate::embedded::segment::{HEADER, list, read, segment_path};
use crate::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::usage::Certainty;
use seawall_core::budget::{BudgetSource, Entry, ReservationId};
use seawall_core::money::{Money, Usage};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn record(number: u64) -> JournalRecord {
    JournalRecord::Entry(Entry::Voided(ReservationId(number)))
}

/// The payload size of each frame in the first segment.
fn frames(folder: &Path) -> Vec<usize> {
    let path = segment_path(folder, 1);
    read(&path, 1, true).unwrap().frames().map(<[u8]>::len).collect()
}

#[test]
fn a_note_goes_with_the_next_write_in_one_frame_and_before_it() {
    let scratch = Scratch::new();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.dismiss_caretaker();
    opened.journal.note(&[record(1)]).unwrap();
    opened.journal.note(&[record(200)]).unwrap();
    assert_eq!(fs::metadata(segment_path(scratch.path(), 1)).unwrap().len(), HEADER as u64);
    opened.journal.write(&[record(3)]).unwrap();
    let path = segment_path(scratch.path(), 1);
    let text = read(&path, 1, true).unwrap();
    let written: Vec<&[u8]> = text.frames().collect();
    assert_eq!(written, [&[0, 0, 0, 3, 1, 2, 1, 0, 0, 0, 4, 1, 2, 200, 1, 0, 0, 0, 3, 1, 2, 3][..]]);
    opened.journal.write(&[record(4)]).unwrap();
    assert_eq!(frames(scratch.path()), [22, 7], "what was written is not written again");
}

#[test]
fn a_note_that_nobody_follows_is_written_and_made_durable_by_itself() {
    let scratch = Scratch::new();
    let mut opened = open(scratch.path()).unwrap();
    for round in 1..4 {
        opened.journal.note(&[record(round)]).unwrap();
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
fn a_note_is_written_when_the_journal_is_dropped() {
    let scratch = Scratch::new();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.dismiss_caretaker();
    opened.journal.note(&[record(1)]).unwrap();
    drop(opened.journal);
    assert_eq!(frames(scratch.path()), [7]);
    assert!(opened.report.created);
}

#[test]
fn an_end_that_was_only_noted_when_the_process_died_is_charged_at_its_worst_once() {
    let (scratch, crashed) = (Scratch::new(), Scratch::new());
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.dismiss_caretaker();
    let books = Books::with_book(opened.book, opened.journal);
    let reserve = |number: u128| {
        let attempt = Attempt { id: call(number), model: "strong".into() };
        books.reserve(&super::recovery::ask(number, 100), attempt, noon()).unwrap()
    };
    let first = reserve(1);
    first.post(Usage::default(), Money::from_nanos(30), Certainty::Told, noon());
    let second = reserve(2);
    second.post(Usage::default(), Money::from_nanos(40), Certainty::Told, noon());
    assert_eq!(books.day(noon().utc.day()).posted.as_nanos(), 70);
    assert!(books.take_events(9).is_empty(), "the ledger learns of them from the journal");
    for (path, bytes) in contents(scratch.path()) {
        fs::write(crashed.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    drop((books, opened.store));
    for (folder, cost, charged) in [(&crashed, 130, 1), (&crashed, 130, 0), (&scratch, 70, 0)] {
        let node = Node::open(folder.path());
        assert_eq!(node.opened.report.charged.len(), charged);
        assert_eq!((posted(&node.opened.book), cost_of_day(&node.opened)), ((cost, 0), (2, cost)));
    }
}

#[test]
fn what_several_hold_is_written_for_all_by_the_first_and_not_again() {
    let scratch = Scratch::new();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.dismiss_caretaker();
    let books = Books::with_book(opened.book, opened.journal);
    let begin = |number: u128| {
        let attempt = Attempt { id: call(number), model: "strong".into() };
        books.begin(&super::recovery::ask(number, 100), attempt, None, noon()).unwrap()
    };
    let [first, second, third] = [1, 2, 3].map(begin);
    assert_eq!((frames(scratch.path()).len(), first.is_written()), (0, false));
    assert_eq!(books.day(noon().utc.day()).held.as_nanos(), 300, "it is held all the same");
    let first = first.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 1);
    // What is noted after the first write waits until a record has to be written.
    let fourth = begin(4);
    let second = second.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 1);
    drop(third);
    let fourth = fourth.write().unwrap();
    assert_eq!(frames(scratch.path()).len(), 2);
    drop((first, second, fourth, books, opened.store));
    let node = Node::open(scratch.path());
    assert_eq!((posted(&node.opened.book), cost_of_day(&node.opened)), ((300, 0), (3, 300)));
}

#[test]
fn what_is_held_and_cannot_be_written_is_given_back() {
    let scratch = Scratch::new();
    let full = EmbeddedOptions { segment: 1, ..options() };
    let mut opened = EmbeddedStore::open(scratch.path(), full, noon()).unwrap();
    opened.journal.dismiss_caretaker();
    let next = segment_path(scratch.path(), list(scratch.path()).unwrap().last().unwrap() + 1);
    fs::create_dir(&next).unwrap();
    let books = Books::with_book(opened.book, opened.journal);
    let begin = |number: u128| {
        let attempt = Attempt { id: call(number), model: "strong".into() };
        books.begin(&super::recovery::ask(number, 100), attempt, None, noon()).unwrap()
    };
    let (first, second) = (begin(1), begin(2));
    assert!(matches!(first.write(), Err(ReserveError::Journal(_))));
    assert_eq!(books.day(noon().utc.day()).held.as_nanos(), 100);
    fs::remove_dir(&next).unwrap();
    let second = second.write().unwrap();
    drop((second, books, opened.store));
    let node = Node::open(scratch.path());
    assert_eq!((posted(&node.opened.book), cost_of_day(&node.opened)), ((100, 0), (1, 100)));
}

#[test]
fn notes_that_fill_a_frame_are_written_without_anybody_else() {
    let scratch = Scratch::new();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.dismiss_caretaker();
    let many: u64 = 20_000;
    for number in 0..many {
        opened.journal.note(&[record(number)]).unwrap();
    }
    let written = frames(scratch.path());
    assert!(written.len() == 2 && written.iter().all(|length| *length <= 1 << 16), "{written:?}");
    opened.journal.write(&vec![record(1); 8_000]).unwrap();
    drop(opened);
    assert_eq!(open(scratch.path()).unwrap().report.replayed as u64, many + 8_000);
}

#[test]
fn a_note_outlives_a_write_that_failed() {
    let scratch = Scratch::new();
    let full = EmbeddedOptions { segment: 1, ..options() };
    let mut opened = EmbeddedStore::open(scratch.path(), full, noon()).unwrap();
    opened.journal.dismiss_caretaker();
    opened.journal.note(&[record(1)]).unwrap();
    let next = segment_path(scratch.path(), list(scratch.path()).unwrap().last().unwrap() + 1);
    fs::create_dir(&next).unwrap();
    assert!(opened.journal.write(&[record(2)]).is_err());
    fs::remove_dir(&next).unwrap();
    drop(opened);
    assert_eq!(open(scratch.path()).unwrap().report.replayed, 1);
}

#[test]
fn calls_of_a_node_on_leases_are_told_to_whoever_asks() {
    let scratch = Scratch::new();
    let leases = EmbeddedOptions { source: BudgetSource::Leases { node: 4 }, ..options() };
    let leased = EmbeddedStore::open(scratch.path(), leases, noon()).unwrap();
    assert!(!leased.journal.feeds_ledger());
    drop(leased);
    assert!(open(Scratch::new().path()).unwrap().journal.feeds_ledger());
}

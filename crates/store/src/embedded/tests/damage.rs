//! Damaged files are either refused with a reason or harmless, and never cause a panic.

use super::{fill, noon, open, options};
use crate::embedded::data_dir::DATABASE_FILE;
use crate::embedded::segment::segment_path;
use crate::embedded::{EmbeddedStore, OpenError};
use crate::node_ledger::{LedgerCall, NodeLedger};
use crate::usage::CallId;
use seawall_core::budget::ReservationRequest;
use seawall_core::history::TokenLimits;
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_testkit::TestDirectory;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The distance between flipped bytes, so that every page and every kind of row is hit.
const STEP: usize = 97;

#[test]
fn a_database_with_any_flipped_byte_is_rejected_or_valid() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = open(scratch.path()).unwrap();
    fill(&opened.store);
    drop(opened);
    let files: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    let database = files.iter().find(|(name, _)| name == DATABASE_FILE).unwrap().1.clone();
    let places = (0..database.len().min(1 << 20))
        .step_by(STEP)
        .chain([16_693])
        .filter(|offset| *offset < database.len());
    let (mut refused, mut good) = (0, 0);
    for offset in places {
        let copy = TestDirectory::in_memory().unwrap();
        for (name, bytes) in &files {
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        let mut damaged = database.clone();
        damaged[offset] ^= 0xff;
        fs::write(copy.path().join(DATABASE_FILE), &damaged).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| match open(copy.path()) {
            Ok(opened) => {
                drop(opened);
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }));
        match outcome {
            Ok(Ok(())) => good += 1,
            Ok(Err(OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Newer { .. })) => {
                refused += 1;
            }
            Ok(Err(other)) => panic!("byte {offset}: {other}"),
            Err(_) => panic!("byte {offset} of {} ends in a panic", database.len()),
        }
    }
    assert!(refused > 0 && good > 0, "{refused} refused, {good} good");
}

/// A closed data directory whose journal contains a reservation, and the number of that segment.
fn reserved() -> (TestDirectory, u64) {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = EmbeddedStore::open(scratch.path(), options(), noon()).unwrap();
    let database = NodeLedger::with_ledger(opened.budget_ledger, opened.journal);
    let ask = ReservationRequest {
        caller: 7,
        tier: Tier::Prime,
        session: None,
        limits: TokenLimits::default(),
        input: 2,
        output: 1,
        max_cost: Money::from_nanos(5),
        expires: Timestamp::NEVER,
        windows: Default::default(),
    };
    let attempt = LedgerCall {
        id: CallId { request: 1, attempt: 0 },
        model: "strong".into(),
        labels: Default::default(),
    };
    // The hold is open while the copy is made, as if the process had crashed here.
    let hold = database.reserve(&ask, attempt, noon()).unwrap();
    let segments = crate::embedded::segment::list(scratch.path()).unwrap();
    let copy = TestDirectory::in_memory().unwrap();
    for entry in fs::read_dir(scratch.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    drop(hold);
    (copy, *segments.last().unwrap())
}

#[test]
fn an_emptied_or_deleted_segment_is_detected() {
    let (data_dir, number) = reserved();
    assert_eq!(open(data_dir.path()).unwrap().report.charged.len(), 1, "as it was left");
    for length in [Some(0), Some(7), None] {
        let (data_dir, number) = reserved();
        let path = segment_path(data_dir.path(), number);
        match length {
            Some(length) => fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let refusal = open(data_dir.path()).unwrap_err();
        let words = refusal.to_string();
        assert!(matches!(refusal, OpenError::Damaged { .. }), "{length:?}: {words}");
        assert!(
            words.contains("journal") && words.contains("restore the data directory from a backup"),
            "{words}"
        );
    }
    let _ = number;
}

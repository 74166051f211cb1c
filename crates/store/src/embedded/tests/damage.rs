//! Damaged files are either refused with a reason or harmless, and never cause a panic.

use super::{Scratch, fill, noon, open, options};
use crate::books::{Attempt, Books};
use crate::embedded::folder::BOOKS;
use crate::embedded::segment::segment_path;
use crate::embedded::{EmbeddedStore, OpenError};
use crate::usage::CallId;
use seawall_core::budget::Ask;
use seawall_core::history::TokenLimits;
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The distance between flipped bytes, so that every page and every kind of row is hit.
const STEP: usize = 97;

#[test]
fn whatever_byte_of_the_books_is_turned_over_they_are_refused_or_good() {
    let scratch = Scratch::new();
    let opened = open(scratch.path()).unwrap();
    fill(&opened.store);
    drop(opened);
    let files: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    let books = files.iter().find(|(name, _)| name == BOOKS).unwrap().1.clone();
    let places =
        (0..books.len().min(1 << 20)).step_by(STEP).chain([16_693]).filter(|place| *place < books.len());
    let (mut refused, mut good) = (0, 0);
    for place in places {
        let copy = Scratch::new();
        for (name, bytes) in &files {
            fs::write(copy.path().join(name), bytes).unwrap();
        }
        let mut damaged = books.clone();
        damaged[place] ^= 0xff;
        fs::write(copy.path().join(BOOKS), &damaged).unwrap();
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
            Ok(Err(other)) => panic!("byte {place}: {other}"),
            Err(_) => panic!("byte {place} of {} ends in a panic", books.len()),
        }
    }
    assert!(refused > 0 && good > 0, "{refused} refused, {good} good");
}

/// A closed data directory whose journal contains a reservation, and the number of that segment.
fn reserved() -> (Scratch, u64) {
    let scratch = Scratch::new();
    let opened = EmbeddedStore::open(scratch.path(), options(), noon()).unwrap();
    let books = Books::with_book(opened.book, opened.journal);
    let ask = Ask {
        caller: 7,
        tier: Tier::Prime,
        session: None,
        limits: TokenLimits::default(),
        input: 2,
        output: 1,
        worst: Money::from_nanos(5),
        expires: Timestamp::NEVER,
    };
    let attempt = Attempt { id: CallId { request: 1, attempt: 0 }, model: "strong".into() };
    // The hold is open while the copy is made, as if the process had crashed here.
    let hold = books.reserve(&ask, attempt, noon()).unwrap();
    let segments = crate::embedded::segment::list(scratch.path()).unwrap();
    let copy = Scratch::new();
    for entry in fs::read_dir(scratch.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    drop(hold);
    (copy, *segments.last().unwrap())
}

#[test]
fn a_segment_that_was_emptied_or_deleted_is_noticed() {
    let (folder, number) = reserved();
    assert_eq!(open(folder.path()).unwrap().report.charged.len(), 1, "as it was left");
    for length in [Some(0), Some(7), None] {
        let (folder, number) = reserved();
        let path = segment_path(folder.path(), number);
        match length {
            Some(length) => fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let refusal = open(folder.path()).unwrap_err();
        let words = refusal.to_string();
        assert!(matches!(refusal, OpenError::Damaged { .. }), "{length:?}: {words}");
        assert!(words.contains("journal") && words.contains("restore the folder from a backup"), "{words}");
    }
    let _ = number;
}

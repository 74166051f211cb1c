//! Tests of blocks: calls from the journal, some hundreds per row.

use super::{event, noon, open, wait};
use crate::embedded::data_dir::FORMAT_VERSION;
use crate::embedded::rows::{Rows, TableKind};
use crate::embedded::segment::segment_path;
use crate::embedded::{EmbeddedStore, OpenedStore};
use crate::ledger::{Ledger, PostSummary};
use crate::node_ledger::{Journal, JournalRecord};
use crate::usage::UsageEvent;
use crate::{CallId, StoreError};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::time::UtcTime;
use seawall_testkit::TestDirectory;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Writes calls to the journal and reopens, so that a checkpoint applies them.
fn through_the_journal(data_dir: &Path, events: &[UsageEvent]) -> OpenedStore {
    let mut opened = open(data_dir).unwrap();
    for event in events {
        opened.journal.write(&[JournalRecord::Event(event.clone())]).unwrap();
    }
    drop(opened);
    open(data_dir).unwrap()
}

fn pages(store: &EmbeddedStore, time: std::ops::Range<UtcTime>, page_size: usize) -> Vec<UsageEvent> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = wait(Ledger::events(store, time.clone(), from, page_size)).unwrap();
        assert!(page.events.len() == page_size || page.next.is_none());
        all.extend(page.events);
        from = page.next;
        if from.is_none() {
            return all;
        }
    }
}

fn rows(store: &EmbeddedStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    store.read(|view| view.with_prefix(TableKind::Blocks, &[], usize::MAX)).unwrap()
}

fn all_time() -> std::ops::Range<UtcTime> {
    UtcTime::from_nanos(0)..UtcTime::from_nanos(u64::MAX)
}

#[test]
fn calls_of_one_second_share_rows_and_those_of_two_do_not() {
    let scratch = TestDirectory::in_memory().unwrap();
    // The events from number 0 on are a millisecond apart and start at the beginning of a second.
    let events: Vec<UsageEvent> = (0..2_000).map(event).collect();
    let opened = through_the_journal(scratch.path(), &events);
    let rows = rows(&opened.store);
    let whole: usize = rows.iter().map(|(_, row)| row.len()).sum();
    assert!(rows.len() >= 6 && rows.len() <= 10 && whole < 2_000 * 60, "{} {whole}", rows.len());
    let seconds: Vec<&[u8]> = rows.iter().map(|(key, _)| &key[..8]).collect();
    let next = (noon().utc + Duration::from_secs(1)).as_nanos().to_be_bytes();
    assert!(seconds.contains(&&next[..]), "the second begins a row");
    assert_eq!(pages(&opened.store, all_time(), 300), events);
    let middle = noon().utc + Duration::from_millis(500);
    assert_eq!(pages(&opened.store, middle..middle + Duration::from_secs(1), 7), events[500..1_500]);
}

#[test]
fn a_call_from_the_journal_that_is_also_posted_counts_once() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = through_the_journal(scratch.path(), &[event(1), event(2)]);
    assert_eq!(
        wait(opened.store.post(&[event(2), event(3)])),
        Ok(PostSummary { inserted: 1, duplicates: 1 })
    );
    let day = wait(opened.store.day(noon().utc.day())).unwrap();
    assert_eq!(day.tiers.iter().map(|tier| tier.calls).sum::<u64>(), 3);
    drop(opened);
    // A call that was posted first is recognised by its id, whatever end time the journal has.
    let late = UsageEvent { at: noon().utc + Duration::from_secs(60), ..event(3) };
    let opened = through_the_journal(scratch.path(), &[late, event(4)]);
    assert_eq!(pages(&opened.store, all_time(), 2), [1, 2, 3, 4].map(event));
}

#[test]
fn a_row_that_was_damaged_is_an_error_and_not_a_call() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = through_the_journal(scratch.path(), &[event(1), event(2)]);
    let (key, mut row) = rows(&opened.store).remove(0);
    row[20] ^= 1;
    wait(opened.store.write(move |batch, _| batch.put(TableKind::Blocks, &key, &row))).unwrap();
    let error = wait(Ledger::events(&opened.store, all_time(), None, 9)).unwrap_err();
    assert_eq!(error, StoreError::failed("embedded", "a row of table blocks has a wrong checksum"));
    assert!(wait(opened.store.post(&[event(1)])).is_err());
    assert_eq!(
        wait(opened.store.post(&[UsageEvent { at: noon().utc + Duration::from_secs(9), ..event(9) }])),
        Ok(PostSummary { inserted: 1, duplicates: 0 })
    );
}

#[test]
fn a_directory_of_the_previous_format_is_migrated() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut opened = open(scratch.path()).unwrap();
    opened.journal.write(&[JournalRecord::Event(event(1))]).unwrap();
    let header =
        |format: u32| crate::embedded::codec::RowEncoder::default().text("seawall").u32(format).row();
    let before = header(FORMAT_VERSION - 1);
    wait(opened.store.post(&[4, 6, 8].map(event))).unwrap();
    let top = wait(opened.store.top_spenders(noon().utc.day(), 2)).unwrap();
    let old = opened.store.write(move |batch, _| {
        for (key, _) in batch.with_prefix(TableKind::Ranks, &[], usize::MAX)? {
            batch.remove(TableKind::Ranks, &key)?;
        }
        for (caller, cost) in [(0_u64, 7_u64), (1, 5), (2, 9)] {
            let key = crate::embedded::codec::RowEncoder::default().u64(noon().utc.day());
            batch.put(TableKind::Spenders, &key.u64(!cost).u64(caller).key(), &[])?;
        }
        batch.put(TableKind::Header, b"format", &before)
    });
    wait(old).unwrap();
    drop(opened);
    let path = segment_path(scratch.path(), 1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[11] -= 1;
    let sum = crc32fast::hash(&bytes[..20]);
    bytes[20..24].copy_from_slice(&sum.to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let opened = open(scratch.path()).unwrap();
    assert_eq!(
        (opened.report.replayed, pages(&opened.store, all_time(), 9)),
        (1, [1, 4, 6, 8].map(event).to_vec())
    );
    assert_eq!(top.iter().map(|(caller, _)| *caller).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(wait(opened.store.top_spenders(noon().utc.day(), 2)).unwrap(), top);
    let left = opened.store.read(|view| view.with_prefix(TableKind::Spenders, &[], 9)).unwrap();
    assert!(left.is_empty());
    let found = opened.store.read(|view| view.get(TableKind::Header, b"format")).unwrap();
    assert_eq!(found, Some(header(FORMAT_VERSION)));
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 40, ..Default::default() })]

    /// Compares with a sorted list of all calls.
    #[test]
    fn pages_of_journal_and_posts_are_the_list_in_order(
        batches in vec((any::<bool>(), vec((0_u64..4, 0_u64..4, 0_u64..40), 1..30)), 1..6),
        page_size in 1_usize..12, range in (0_u64..4_500, 0_u64..4_500),
    ) {
        let scratch = TestDirectory::in_memory().unwrap();
        let mut model: BTreeMap<(UtcTime, CallId), UsageEvent> = BTreeMap::new();
        let mut opened = open(scratch.path()).unwrap();
        for (is_posted, calls) in batches {
            let call = |(second, milli, number): &(u64, u64, u64)| {
                let at = noon().utc + Duration::from_millis(second * 1_000 + milli * 333);
                // The same id always ends at the same time.
                UsageEvent { id: CallId { request: (number + 100 * second + 10_000 * milli).into(), attempt: 3 }, at, ..event(*number) }
            };
            let events: Vec<UsageEvent> = calls.iter().map(call).collect();
            let is_new = |event: &UsageEvent| !model.contains_key(&(event.at, event.id));
            if is_posted {
                wait(opened.store.post(&events)).unwrap();
            } else {
                let mut events: Vec<_> = events.iter().filter(|event| is_new(event)).cloned().collect();
                events.sort_by_key(|event| event.id);
                events.dedup_by_key(|event| event.id);
                drop(opened);
                opened = through_the_journal(scratch.path(), &events);
            }
            for event in events {
                model.entry((event.at, event.id)).or_insert(event);
            }
        }
        let all: Vec<UsageEvent> = model.values().cloned().collect();
        prop_assert_eq!(pages(&opened.store, all_time(), page_size), &all[..]);
        let time = noon().utc + Duration::from_millis(range.0)..noon().utc + Duration::from_millis(range.1);
        let expected: Vec<UsageEvent> = all.iter().filter(|event| time.contains(&event.at)).cloned().collect();
        prop_assert_eq!(pages(&opened.store, time, page_size), expected);
        let day = wait(opened.store.day(noon().utc.day())).unwrap();
        prop_assert_eq!(day.tiers.iter().map(|tier| tier.calls).sum::<u64>(), all.len() as u64);
        let cost: u64 = all.iter().map(|event| event.cost.as_nanos()).sum();
        prop_assert_eq!(day.models.iter().map(|(_, totals)| totals.cost.as_nanos()).sum::<u64>(), cost);
        prop_assert!(day.callers <= 3);
    }
}

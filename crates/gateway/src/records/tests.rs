//! The directory of records: what is found again after a kill, damage, expiry and a full disk.

use super::DecisionRecords;
use super::archive::{ArchiveLimits, RecordArchive};
use super::query::{RecordCursor, RecordFilter, list_archive};
use super::recorder::{Recorder, RecorderOptions};
use super::segment::append_frame;
use crate::log::recent_requests;
use crate::runtime::TokioRuntime;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use seawall_core::time::UtcTime;
use seawall_pipeline::{RequestOutcome, RequestRecord, Runtime as _, Tier, TierOrigin};
use seawall_testkit::TestDirectory;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LARGE: ArchiveLimits = ArchiveLimits { max_size: 1 << 30, max_age: Duration::from_secs(7 * 86_400) };

fn at(seconds: u64) -> UtcTime {
    UtcTime::from_civil(2026, 11, 16) + Duration::from_secs(seconds)
}

fn append(archive: &RecordArchive, id: u64, seconds: u64, payload: &[u8]) {
    let mut batch = Vec::new();
    assert!(append_frame(&mut batch, id, at(seconds), payload));
    archive.append(&batch, at(seconds)).unwrap();
}

fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    found
}

fn payload(id: u64, outcome: &str) -> Vec<u8> {
    let record =
        json!({ "id": id, "outcome": outcome, "caller": format!("{:016x}", id % 2), "target": "sonnet" });
    record.to_string().into_bytes()
}

#[test]
fn a_kill_at_any_byte_of_the_last_write_loses_only_the_record_that_it_cut() {
    let directory = TestDirectory::new().unwrap();
    let archive = RecordArchive::open(directory.path(), LARGE).unwrap();
    for id in 0..3 {
        append(&archive, id, id, &payload(id, "answered"));
    }
    // Nothing is closed: the process is killed.
    drop(archive);
    let segment = files(directory.path(), ".records").remove(0);
    let whole = fs::read(&segment).unwrap();
    let frame = (whole.len() - 8) / 3;
    for length in 0..=whole.len() {
        let copy = TestDirectory::new().unwrap();
        let path = copy.path().join(segment.file_name().unwrap());
        fs::write(&path, &whole[..length]).unwrap();
        let archive = RecordArchive::open(copy.path(), LARGE).unwrap();
        let complete = length.saturating_sub(8) / frame;
        for id in 0..3 {
            let expected = (id < complete as u64).then(|| payload(id, "answered"));
            assert_eq!(archive.find(id), expected, "{id} of {length} bytes");
        }
        append(&archive, 9, 9, b"later");
        assert_eq!(archive.find(9).as_deref(), Some(&b"later"[..]), "{length} bytes");
        let listed = list_archive(&archive, &RecordFilter::default(), Some(RecordCursor::Oldest), 100);
        assert_eq!(listed.records.len(), complete, "what is no JSON is not listed");
    }
}

proptest! {
    /// Compared with a map that keeps everything, across restarts and kills.
    #[test]
    fn the_index_finds_exactly_what_was_written(
        steps in prop::collection::vec((0_u64..60, 0_usize..3_000, 0_u8..20), 1..80),
    ) {
        let directory = TestDirectory::new().unwrap();
        // Segments of the smallest size, so that there are several.
        let limits = ArchiveLimits { max_size: 4 << 20, ..LARGE };
        let mut archive = RecordArchive::open(directory.path(), limits).unwrap();
        let mut expected = BTreeMap::new();
        for (step, (id, size, event)) in steps.into_iter().enumerate() {
            let content = vec![u8::try_from(step).unwrap_or_default(); size];
            append(&archive, id, step as u64, &content);
            expected.insert(id, content);
            match event {
                0 => archive = RecordArchive::open(directory.path(), limits).unwrap(),
                1 => {
                    archive.close();
                    archive = RecordArchive::open(directory.path(), limits).unwrap();
                }
                2 => files(directory.path(), ".index").iter().for_each(|path| fs::remove_file(path).unwrap()),
                _ => {}
            }
        }
        for id in 0..60 {
            prop_assert_eq!(archive.find(id), expected.get(&id).cloned());
        }
    }

    #[test]
    fn no_damaged_byte_breaks_a_search_or_invents_a_record(
        place in any::<prop::sample::Index>(),
        flipped in 1_u8..,
        in_index in any::<bool>(),
    ) {
        let directory = TestDirectory::new().unwrap();
        let archive = RecordArchive::open(directory.path(), LARGE).unwrap();
        for id in 0..8 {
            append(&archive, id, id, &payload(id, "answered"));
        }
        archive.close();
        let path = files(directory.path(), if in_index { ".index" } else { ".records" }).remove(0);
        let mut bytes = fs::read(&path).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= flipped;
        fs::write(&path, bytes).unwrap();
        for archive in [archive, RecordArchive::open(directory.path(), LARGE).unwrap()] {
            let found: Vec<_> = (0..8).map(|id| archive.find(id)).collect();
            for (id, found) in found.iter().enumerate() {
                prop_assert!(found.is_none() || *found == Some(payload(id as u64, "answered")));
            }
            let intact = found.iter().filter(|found| found.is_some()).count();
            prop_assert!(intact >= 7, "a damaged byte hides one record at most");
            list_archive(&archive, &RecordFilter::default(), None, 100);
        }
    }
}

#[test]
fn what_is_too_old_or_too_much_is_deleted_and_the_newest_stay() {
    let directory = TestDirectory::new().unwrap();
    let limits = ArchiveLimits { max_size: 1 << 20, max_age: Duration::from_secs(16_000) };
    let archive = RecordArchive::open(directory.path(), limits).unwrap();
    let stored = || -> u64 {
        let all = files(directory.path(), "").into_iter();
        all.map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    for id in 0..400 {
        append(&archive, id, id, &[7; 10_000]);
        assert!(stored() <= limits.max_size + (64 << 10) + 20_000, "{}", stored());
    }
    assert!(archive.find(399).is_some() && archive.find(310).is_some());
    assert_eq!(archive.find(0), None);
    // A segment is complete after a sixteenth of the age, and goes when its last record is too old.
    append(&archive, 1_000, 2_000, b"late");
    append(&archive, 1_001, 3_500, b"later");
    archive.maintain(at(399 + 16_001));
    assert_eq!(archive.find(399), None);
    assert!(archive.find(1_000).is_some());
    archive.maintain(at(2_000 + 16_001));
    assert_eq!((archive.find(1_000), archive.find(1_001).is_some()), (None, true));
}

#[test]
fn a_listing_is_filtered_paged_in_both_directions_and_followed() {
    let directory = TestDirectory::new().unwrap();
    let archive =
        RecordArchive::open(directory.path(), ArchiveLimits { max_size: 1 << 20, ..LARGE }).unwrap();
    let outcome = |id: u64| if id.is_multiple_of(5) { "rejected" } else { "answered" };
    let record = |id: u64| {
        let record = json!({ "id": id, "outcome": outcome(id), "caller": format!("{:016x}", id % 2), "text": "x".repeat(2_000) });
        record.to_string().into_bytes()
    };
    for id in 0..100 {
        append(&archive, id, id, &record(id));
    }
    assert!(files(directory.path(), ".records").len() > 2);
    let ids =
        |records: &[Value]| records.iter().filter_map(|record| record["id"].as_u64()).collect::<Vec<_>>();
    let collect = |filter: &RecordFilter, mut cursor: Option<RecordCursor>, limit| {
        let (mut all, mut pages) = (Vec::new(), 0);
        loop {
            let page = list_archive(&archive, filter, cursor, limit);
            assert!(page.records.len() <= limit && !page.has_gap);
            let is_empty = page.records.is_empty();
            all.extend(ids(&page.records));
            pages += 1;
            match page.next {
                Some(next) if !(is_empty && cursor == Some(next)) && pages < 100 => cursor = Some(next),
                _ => return all,
            }
        }
    };
    let everything = RecordFilter::default();
    assert_eq!(collect(&everything, None, 7), (0..100).rev().collect::<Vec<_>>());
    assert_eq!(collect(&everything, Some(RecordCursor::Oldest), 7), (0..100).collect::<Vec<_>>());
    let rejected = RecordFilter {
        outcomes: vec!["rejected".to_owned(), "degraded".to_owned()],
        caller: Some(format!("{:016x}", 1)),
        since: Some(at(10)),
        until: Some(at(80)),
        ..RecordFilter::default()
    };
    assert_eq!(collect(&rejected, None, 3), [75, 65, 55, 45, 35, 25, 15]);
    assert_eq!(collect(&rejected, Some(RecordCursor::Oldest), 3), [15, 25, 35, 45, 55, 65, 75]);
    let follow = list_archive(&archive, &everything, None, 1).follow;
    assert!(list_archive(&archive, &everything, Some(follow), 9).records.is_empty());
    append(&archive, 200, 200, &record(200));
    let page = list_archive(&archive, &everything, Some(follow), 9);
    assert_eq!((ids(&page.records), page.next == Some(page.follow)), (vec![200], true));
    let gone = RecordCursor::Newer { segment: 0, offset: 0 };
    assert!(list_archive(&archive, &everything, Some(gone), 1).has_gap);
}

fn recorder(directory: &Path, max_rate: u64) -> (Arc<crate::log::RecentRequests>, Recorder) {
    let recent = Arc::new(recent_requests(false, true));
    let recorder = Recorder::new(RecorderOptions {
        clock: TokioRuntime::new(),
        recent: Arc::clone(&recent),
        directory: directory.to_owned(),
        limits: LARGE,
        max_rate,
        pseudonym: Box::new(|caller| caller + 1),
    });
    (recent, recorder)
}

fn completed(id: u64, outcome: RequestOutcome, clock: TokioRuntime) -> RequestRecord {
    RequestRecord {
        caller: Some((6, Tier::Guest, TierOrigin::Guest)),
        outcome,
        ended: clock.now().monotonic,
        ..RequestRecord::new(id, "openai")
    }
}

#[test]
fn repeated_rejections_are_one_counted_record_and_ordinary_answers_are_sampled() {
    let directory = TestDirectory::new().unwrap();
    let (recent, recorder) = recorder(directory.path(), 0);
    let clock = TokioRuntime::new();
    for id in 0..321 {
        recent.push(completed(id, RequestOutcome::Rejected("rate_limited"), clock));
    }
    recent.push(completed(1_000, RequestOutcome::Answered, clock));
    recent.push(completed(1_001, RequestOutcome::Degraded, clock));
    recorder.drain(true);
    let archive = recorder.archive().unwrap();
    let page = list_archive(&archive, &RecordFilter::default(), None, 100);
    assert_eq!(page.records.len(), 10 + 1 + 1);
    assert_eq!(
        (&page.records[0]["repeats"], &page.records[0]["id"]),
        (&json!(311), &json!("req_0000000000000140"))
    );
    assert_eq!(
        (&page.records[1]["outcome"], &page.records[1]["caller"]),
        (&json!("degraded"), &json!("0000000000000007"))
    );
    assert!(archive.find(1_000).is_none() && archive.find(1_001).is_some());
    assert_eq!(recorder.lost(), 0);
}

#[test]
fn a_directory_that_cannot_be_written_loses_records_counts_them_and_is_used_again() {
    let parent = TestDirectory::new().unwrap();
    let path = parent.path().join("requests");
    fs::write(&path, "a file is in the way").unwrap();
    let (recent, recorder) = recorder(&path, 100);
    let clock = TokioRuntime::new();
    recent.push(completed(1, RequestOutcome::Degraded, clock));
    recorder.drain(false);
    assert_eq!((recorder.lost(), recorder.archive().is_none()), (1, true));
    fs::remove_file(&path).unwrap();
    recent.push(completed(2, RequestOutcome::Degraded, clock));
    recorder.drain(false);
    assert_eq!(recorder.lost(), 1);
    assert!(recorder.archive().unwrap().find(2).is_some());
}

#[test]
fn without_a_data_directory_the_ring_is_listed_and_followed() {
    let recent = Arc::new(recent_requests(false, false));
    let clock = TokioRuntime::new();
    let records = DecisionRecords::new(clock, Arc::clone(&recent));
    let list = |filter: RecordFilter, cursor| {
        seawall_testkit::block_on(records.list(filter, cursor, 2, |caller| caller)).unwrap()
    };
    for id in 0..3 {
        recent.push(completed(id, RequestOutcome::Answered, clock));
    }
    let page = list(RecordFilter::default(), None);
    assert_eq!((page.records.len(), &page.records[0]["id"]), (2, &json!("req_0000000000000002")));
    assert!(list(RecordFilter::default(), Some(page.follow)).records.is_empty());
    recent.push(completed(9, RequestOutcome::Degraded, clock));
    let page = list(RecordFilter::default(), Some(page.follow));
    assert_eq!((page.records.len(), &page.records[0]["id"]), (1, &json!("req_0000000000000009")));
    let other = RecordCursor::Memory { process: u64::MAX, position: 2 };
    let page = list(RecordFilter::default(), Some(other));
    assert!(page.has_gap && page.records.len() == 2, "the cursor is of another process");
    let degraded = RecordFilter { outcomes: vec!["degraded".to_owned()], ..RecordFilter::default() };
    assert_eq!(list(degraded, None).records.len(), 1);
    let found = seawall_testkit::block_on(records.find(9, |caller| caller)).unwrap();
    assert_eq!(found.unwrap()["outcome"], "degraded");
    assert_eq!(seawall_testkit::block_on(records.find(77, |caller| caller)), Ok(None));
}

/// Measures what a request pays for its record: the copy into the ring, with and without a second writer.
#[test]
#[ignore = "prints a measurement, which says nothing in a debug build"]
fn the_cost_of_a_record_for_its_request() {
    const ROUNDS: u64 = 200_000;
    let clock = TokioRuntime::new();
    let attempt = seawall_pipeline::AttemptSummary {
        target: "sonnet".into(),
        cause: seawall_pipeline::AttemptCause::First,
        outcome: seawall_pipeline::AttemptOutcomeKind::Succeeded,
        delay: Default::default(),
        start: Default::default(),
        duration: Default::default(),
        first_content: None,
        grade: seawall_core::vocabulary::Grade::Strong,
        opened_breaker: false,
        cost: seawall_core::money::Money::ZERO,
        received_bytes: 1,
        error: Default::default(),
    };
    let mut record = completed(1, RequestOutcome::Answered, clock);
    record.first_attempts.push(attempt);
    for writers in [(true, false), (true, true)] {
        let recent = recent_requests(writers.0, writers.1);
        let (mut taken, mut drained) = (Vec::new(), 0);
        let began = clock.now().monotonic;
        for _ in 0..ROUNDS {
            recent.push(record.clone());
        }
        let each = (clock.now().monotonic - began).as_nanos() / u128::from(ROUNDS);
        for writer in [crate::log::ACCESS_LOG, crate::log::DECISION_RECORDS] {
            drained += recent.take_if(writer, usize::MAX, &mut taken, |_| false);
        }
        println!(
            "writers {writers:?}: {each} ns per request, {drained} unwritten, {} bytes",
            size_of::<RequestRecord>()
        );
    }
}

//! What is opened, what is refused, and that refused files stay unmodified.

use super::{contents, fill, noon, open, options, read_all, wait};
use crate::embedded::codec::RowEncoder;
use crate::embedded::data_dir::{DATABASE_FILE, FORMAT_VERSION};
use crate::embedded::rows::{Batch, TableKind};
use crate::embedded::segment::segment_path;
use crate::embedded::writer::begin;
use crate::embedded::{EmbeddedStore, OpenError};
use crate::ledger::Ledger;
use redb::{Database, ReadableDatabase, TableDefinition};
use seawall_testkit::TestDirectory;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A closed data directory with some content.
fn filled() -> (TestDirectory, String) {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = open(scratch.path()).unwrap();
    fill(&opened.store);
    let all = read_all(&opened.store).unwrap();
    (scratch, all)
}

/// Asserts that the directory is refused, and that its files are unmodified.
fn refused(data_dir: &Path) -> OpenError {
    let before = contents(data_dir);
    let refusal = open(data_dir).unwrap_err();
    assert_eq!(contents(data_dir), before, "{refusal}");
    assert!(refusal.to_string().starts_with(&refusal.path().display().to_string()), "{refusal}");
    refusal
}

#[test]
fn a_missing_directory_is_created_and_reopened_with_its_content() {
    let scratch = TestDirectory::in_memory().unwrap();
    let data_dir = scratch.path().join("a/b/c");
    let opened = open(&data_dir).unwrap();
    assert!(opened.report.created && opened.report.truncated.is_none() && opened.report.charged.is_empty());
    fill(&opened.store);
    let all = read_all(&opened.store).unwrap();
    drop(opened);
    let again = open(&data_dir).unwrap();
    assert!(!again.report.created);
    assert_eq!(read_all(&again.store).unwrap(), all);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_private_to_their_owner_and_older_files_become_so() {
    let scratch = TestDirectory::in_memory().unwrap();
    let data_dir = scratch.path().join("a/state");
    let opened = open(&data_dir).unwrap();
    assert!(!opened.report.is_accessible_to_others);
    fill(&opened.store);
    drop(opened);
    let files: Vec<_> = fs::read_dir(&data_dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    assert_eq!([mode(&scratch.path().join("a")), mode(&data_dir)], [0o700; 2]);
    assert!(files.iter().all(|path| mode(path) == 0o600), "{files:?}");
    // The permissions that an earlier version left.
    let others = data_dir.join("notes.txt");
    fs::write(&others, "").unwrap();
    files.iter().chain([&others]).for_each(|path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    });
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).unwrap();
    let again = open(&data_dir).unwrap();
    // The directory may also be used by others, so it is only reported.
    assert!(again.report.is_accessible_to_others);
    assert_eq!((mode(&data_dir), mode(&others)), (0o755, 0o644));
    assert!(files.iter().filter(|path| path.exists()).all(|path| mode(path) == 0o600), "{files:?}");
}

#[test]
fn a_process_locks_the_directory_until_store_and_journal_are_dropped() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = open(scratch.path()).unwrap();
    let refusal = open(scratch.path()).unwrap_err();
    assert_eq!(refusal, OpenError::InUse { path: scratch.path().join("lock") });
    assert!(refusal.to_string().contains("another process has this data directory open"));
    drop(opened.store);
    assert!(matches!(open(scratch.path()), Err(OpenError::InUse { .. })));
    drop(opened.journal);
    assert!(open(scratch.path()).is_ok());
}

#[test]
fn foreign_files_are_rejected_and_left_unchanged() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02".to_vec();
    let noise: Vec<u8> =
        (0..9_000_u32).map(|position| position.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for (bytes, is_foreign) in [
        (png, true),
        (noise, true),
        (b"not a database".to_vec(), true),
        (Vec::new(), false),
        (b"re".to_vec(), false),
    ] {
        let scratch = TestDirectory::in_memory().unwrap();
        fs::write(scratch.path().join(DATABASE_FILE), &bytes).unwrap();
        match refused(scratch.path()) {
            OpenError::Foreign { .. } => assert!(is_foreign),
            OpenError::Damaged { reason, .. } => {
                assert!(!is_foreign);
                assert_eq!(
                    &*reason,
                    if bytes.is_empty() { "the file is empty" } else { "the file is truncated" }
                );
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_directory_instead_of_a_file_is_rejected() {
    let scratch = TestDirectory::in_memory().unwrap();
    fs::create_dir(scratch.path().join(DATABASE_FILE)).unwrap();
    assert!(matches!(refused(scratch.path()), OpenError::Foreign { .. }));
    let scratch = TestDirectory::in_memory().unwrap();
    fs::create_dir(scratch.path().join("lock")).unwrap();
    assert!(matches!(refused(scratch.path()), OpenError::Unusable { .. }));
    let scratch = TestDirectory::in_memory().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "x").unwrap();
    let refusal = open(&file).unwrap_err();
    assert!(matches!(&refusal, OpenError::Unusable { path, .. } if *path == file), "{refusal}");
}

#[test]
fn a_database_of_another_program_is_rejected() {
    const TABLE: TableDefinition<'_, &str, u64> = TableDefinition::new("theirs");
    let scratch = TestDirectory::in_memory().unwrap();
    let database = Database::create(scratch.path().join(DATABASE_FILE)).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TABLE).unwrap().insert("x", 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refusal = refused(scratch.path());
    assert!(matches!(&refusal, OpenError::Foreign { .. }), "{refusal}");
    assert!(refusal.to_string().contains("a database of another program"));
    let database = Database::open(scratch.path().join(DATABASE_FILE)).unwrap();
    assert_eq!(
        database.begin_read().unwrap().open_table(TABLE).unwrap().get("x").unwrap().unwrap().value(),
        1
    );
}

fn write_header(data_dir: &Path, row: &[u8]) {
    let database = Database::open(data_dir.join(DATABASE_FILE)).unwrap();
    let transaction = begin(&database).unwrap();
    Batch::new(&transaction).put(TableKind::Header, b"format", row).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_newer_format_is_rejected_with_its_version_and_another_marker_as_foreign() {
    let (scratch, _) = filled();
    write_header(
        scratch.path(),
        &RowEncoder::default().text("seawall").u32(FORMAT_VERSION + 1).text("what else").row(),
    );
    let refusal = refused(scratch.path());
    let path = scratch.path().join(DATABASE_FILE);
    assert_eq!(refusal, OpenError::Newer { path, version: FORMAT_VERSION + 1, supported: FORMAT_VERSION });
    assert!(refusal.to_string().ends_with(
        "format 4 is newer than this version of Seawall supports (up to 3); use the newer version"
    ));
    write_header(scratch.path(), &RowEncoder::default().text("seaweed").u32(FORMAT_VERSION).row());
    assert!(matches!(refused(scratch.path()), OpenError::Foreign { .. }));
    write_header(scratch.path(), b"nonsense");
    assert!(matches!(refused(scratch.path()), OpenError::Damaged { .. }));
    write_header(scratch.path(), &RowEncoder::default().text("seawall").u32(FORMAT_VERSION).row());
    assert!(open(scratch.path()).is_ok());
}

#[test]
fn a_missing_database_beside_a_journal_is_not_created_anew() {
    let (scratch, _) = filled();
    fs::remove_file(scratch.path().join(DATABASE_FILE)).unwrap();
    let refusal = refused(scratch.path());
    assert!(refusal.to_string().contains("journal segments exist, but the database is missing"), "{refusal}");
}

#[test]
fn an_unfinished_new_database_is_created_anew() {
    let scratch = TestDirectory::in_memory().unwrap();
    fs::write(scratch.path().join("state.redb.new"), b"half a fi").unwrap();
    assert!(open(scratch.path()).unwrap().report.created);
    assert!(!scratch.path().join("state.redb.new").exists());
}

#[test]
fn a_truncated_database_is_rejected_at_any_length() {
    let (scratch, _) = filled();
    let path = scratch.path().join(DATABASE_FILE);
    let whole = fs::read(&path).unwrap();
    for part in 0..60 {
        let length = (whole.len() * part / 60).max(usize::from(part > 0));
        for length in [length, length + 1, length / 4_096 * 4_096] {
            fs::write(&path, &whole[..length]).unwrap();
            let refusal = refused(scratch.path());
            assert!(matches!(refusal, OpenError::Damaged { .. }), "{length}: {refusal}");
        }
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(refused(scratch.path()), OpenError::Damaged { .. }));
    fs::write(&path, &whole).unwrap();
    assert!(open(scratch.path()).is_ok());
}

#[test]
fn a_flipped_bit_is_detected_or_changes_nothing() {
    let (scratch, all) = filled();
    let path = scratch.path().join(DATABASE_FILE);
    let (whole, before) = (fs::read(&path).unwrap(), contents(scratch.path()));
    let written: Vec<usize> = (0..whole.len()).filter(|position| whole[*position] != 0).collect();
    let (mut noticed, mut state) = (0, 1_u64);
    for round in 0..250 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = usize::try_from(state >> 33).unwrap();
        // Damage at the beginning has the most effect.
        let position = if round < 100 { random % 512 } else { written[random % written.len()] };
        let mut damaged = whole.clone();
        damaged[position] ^= 1 << (random % 8);
        fs::write(&path, &damaged).unwrap();
        match open(scratch.path()) {
            Ok(opened) => match read_all(&opened.store) {
                Ok(read) => assert_eq!(read, all, "byte {position}"),
                Err(_) => noticed += 1,
            },
            Err(_) => {
                assert_eq!(fs::read(&path).unwrap(), damaged);
                noticed += 1;
            }
        }
        for (path, bytes) in &before {
            fs::write(path, bytes).unwrap();
        }
        for path in contents(scratch.path()).keys().filter(|path| !before.contains_key(*path)) {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(noticed > 30, "{noticed}");
}

#[test]
fn a_missing_segment_is_detected() {
    let (scratch, _) = filled();
    fs::remove_file(segment_path(scratch.path(), 1)).unwrap();
    let refusal = refused(scratch.path());
    assert!(refusal.to_string().contains("the segment is missing"), "{refusal}");
}

#[test]
fn a_running_lease_gets_a_new_term_on_reopening() {
    let (scratch, _) = filled();
    // The monotonic clock of another process, which is behind.
    let mut now = noon();
    now.monotonic = seawall_core::time::Timestamp::ZERO;
    let store = EmbeddedStore::open(scratch.path(), options(), now).unwrap().store;
    let leases = |store: &EmbeddedStore| wait(store.day(now.utc.day())).unwrap().leases[0];
    assert_eq!(leases(&store).leased.as_nanos(), 500);
    let almost = now + std::time::Duration::from_millis(29_999);
    assert_eq!(wait(store.expire(almost)).unwrap(), []);
    assert_eq!(wait(store.expire(now + std::time::Duration::from_secs(30))).unwrap().len(), 1);
    assert_eq!((leases(&store).leased.as_nanos(), leases(&store).written_off.as_nanos()), (0, 500));
    drop(store);
    let store = EmbeddedStore::open(scratch.path(), options(), now).unwrap().store;
    assert_eq!(leases(&store).written_off.as_nanos(), 500);
}

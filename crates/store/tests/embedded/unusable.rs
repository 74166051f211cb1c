//! Directories that cannot be written, and disks that are full.

use crate::child::{ask, call_id, report_line};
use crate::support::{Running, command, options, time_of_round, wait};
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use seawall_store::{CredentialHash, Directory, LedgerCall, NodeLedger};
use seawall_testkit::TestDirectory;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The id of an unprivileged user.
const NOBODY: u32 = 65_534;

/// The output of an unprivileged child that opens the directory.
fn open_unprivileged(data_dir: &Path) -> String {
    let mut command = command("open", data_dir, 0);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    Running::start(command).line().expect("the child has printed nothing")
}

fn with_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory that belongs to the user that the child runs as.
fn unprivileged_directory() -> TestDirectory {
    let scratch = TestDirectory::new().unwrap();
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        chown(scratch.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    scratch
}

#[test]
fn a_directory_or_file_that_may_not_be_written_is_refused_by_name() {
    let scratch = unprivileged_directory();
    with_mode(scratch.path(), 0o500);
    let output = open_unprivileged(scratch.path());
    with_mode(scratch.path(), 0o700);
    assert!(output.starts_with("refused ") && output.contains("lock: Permission denied"), "{output}");
    assert!(output.contains("this user can read and write it"), "{output}");
    assert_eq!(open_unprivileged(scratch.path()), "opened");
    for mode in [0o000, 0o400] {
        let ledger = scratch.path().join("state.redb");
        with_mode(&ledger, mode);
        let before = fs::read(&ledger).ok();
        let output = open_unprivileged(scratch.path());
        assert!(
            output.starts_with("refused ") && output.contains("state.redb: Permission denied"),
            "{output}"
        );
        assert_eq!(fs::read(&ledger).ok(), before);
        with_mode(&ledger, 0o600);
    }
    let inside = scratch.path().join("inside");
    with_mode(scratch.path(), 0o500);
    let output = open_unprivileged(&inside);
    with_mode(scratch.path(), 0o700);
    assert!(output.contains("inside: Permission denied"), "{output}");
}

/// The child: adds callers until that fails, and reports each.
pub(crate) fn fill_the_disk(data_dir: &Path) {
    let opened = match EmbeddedStore::open(data_dir, options(), time_of_round(0)) {
        Ok(opened) => opened,
        Err(refusal) => return report_line(format_args!("refused {refusal}")),
    };
    for number in 0_u64.. {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        let record = seawall_store::CallerRecord {
            caller: number,
            name: "x".repeat(1_000).into(),
            tier: seawall_core::vocabulary::Tier::Guest,
            ceiling: None,
            created: time_of_round(0).utc,
            revoked: None,
            contract: Default::default(),
        };
        match wait(opened.store.add(&CredentialHash(hash), &record)) {
            Ok(_) => report_line(number),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                let again = wait(opened.store.add(&CredentialHash([9; 32]), &record)).unwrap_err();
                assert!(again.is_transient());
                return report_line(format_args!("failed {error}"));
            }
        }
    }
}

/// Runs the child under a limit on the size of its files, in blocks of 512 or 1,024 bytes, to simulate a full disk. The
/// signal that comes with the limit is ignored, so that writes fail as they do on a full disk.
fn with_small_files(role: &str, scratch: &TestDirectory, blocks: u32) -> Vec<String> {
    let child = command(role, scratch.path(), 0);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\"")]);
    shell.arg(child.get_program()).args(child.get_args());
    for (name, value) in child.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut running = Running::start(shell);
    std::iter::from_fn(|| running.line()).collect()
}

#[test]
fn a_full_disk_fails_cleanly_and_loses_nothing_that_was_acknowledged() {
    let scratch = TestDirectory::new().unwrap();
    let lines = with_small_files("fill the disk", &scratch, 8_000);
    let (last, acknowledged) = lines.split_last().unwrap();
    assert!(last.starts_with("failed the embedded store is unavailable: "), "{last}");
    let store = EmbeddedStore::open(scratch.path(), options(), time_of_round(0)).unwrap().store;
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    let stored = wait(store.list(None, usize::MAX)).unwrap();
    assert!(
        (acknowledged.len()..=acknowledged.len() + 1).contains(&stored.len()),
        "{} of {}",
        stored.len(),
        acknowledged.len()
    );
}

#[test]
fn a_disk_without_room_for_a_new_database_is_rejected_and_later_usable() {
    let scratch = TestDirectory::new().unwrap();
    let lines = with_small_files("fill the disk", &scratch, 1);
    assert!(matches!(&lines[..], [only] if only.starts_with("refused ")), "{lines:?}");
    assert!(EmbeddedStore::open(scratch.path(), options(), time_of_round(0)).unwrap().report.created);
}

/// The child: reserves until the journal is full, gets room, and reserves once more.
pub(crate) fn fill_the_journal(data_dir: &Path) {
    let long = EmbeddedOptions { segment_bytes: u64::MAX, ..options() };
    let opened = EmbeddedStore::open(data_dir, long, time_of_round(0)).unwrap();
    let (_store, ledger) = (opened.store, NodeLedger::with_ledger(opened.budget_ledger, opened.journal));
    let reserve = |number| {
        let attempt =
            LedgerCall { id: call_id(number), model: "m".repeat(4_000).into(), labels: Default::default() };
        ledger.reserve(&ask(number, 1), attempt, time_of_round(0))
    };
    let mut holds = Vec::new();
    let error = loop {
        match reserve(holds.len() as u64) {
            Ok(hold) => holds.push(hold),
            Err(error) => break error,
        }
    };
    assert!(reserve(1_000_000).is_err(), "it is still full");
    let pid = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap();
    assert!(raised.success());
    holds.push(reserve(1_000_001).unwrap());
    report_line(format_args!("{} {error}", holds.len()));
    // Killed, with nothing settled.
    let _ = Command::new("kill").args(["-9", &pid]).status();
}

#[test]
fn a_full_journal_is_written_again_when_there_is_room_and_has_lost_nothing() {
    let scratch = TestDirectory::new().unwrap();
    let lines = with_small_files("fill the journal", &scratch, 9_000);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let (count, error) = line.split_once(' ').unwrap();
    assert!(error.starts_with("the embedded store is unavailable: cannot write the journal: "), "{error}");
    let report = EmbeddedStore::open(scratch.path(), options(), time_of_round(0)).unwrap().report;
    assert_eq!((report.charged.len().to_string().as_str(), report.truncated), (count, None));
    assert!(report.charged.len() > 500 && report.charged.iter().any(|event| event.id == call_id(1_000_001)));
}

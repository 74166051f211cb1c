//! Source files stay small enough to be read in one go.

use crate::{expect_none, files, read};

const MAX_LINES: usize = 500;

/// A file that is longer for an accepted reason.
struct SizeException {
    path: &'static str,
    reason: &'static str,
}

const SIZE_EXCEPTIONS: &[SizeException] = &[];

/// A message for each file that is too long, and for each exception that is not needed.
fn violations(lines: &[(String, usize)], exceptions: &[SizeException]) -> Vec<String> {
    let excused = |path: &str| {
        exceptions.iter().any(|exception| exception.path == path && !exception.reason.is_empty())
    };
    let too_long = lines.iter().filter(|(path, count)| *count > MAX_LINES && !excused(path));
    let unused = exceptions
        .iter()
        .filter(|exception| !lines.iter().any(|(path, count)| path == exception.path && *count > MAX_LINES));
    let too_long = too_long.map(|(path, count)| {
        format!("{path} has {count} lines, more than {MAX_LINES}: split it, or list it with a reason")
    });
    too_long
        .chain(unused.map(|exception| format!("{} needs no exception any more", exception.path)))
        .collect()
}

/// Whether `path` is `crates/<name>/src/…/<file>.rs`.
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src") && path.ends_with(".rs")
}

#[test]
fn source_files_stay_small() -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for path in files()?.into_iter().filter(|path| is_source(path)) {
        let count = read(&path)?.lines().count();
        lines.push((path, count));
    }
    assert!(!lines.is_empty(), "no source file was found");
    expect_none(&violations(&lines, SIZE_EXCEPTIONS))
}

#[test]
fn a_long_file_needs_a_reason_and_a_reason_needs_a_long_file() {
    let lines = [("crates/a/src/x.rs".to_owned(), 501), ("crates/a/src/y.rs".to_owned(), 500)];
    let exception = |path, reason| SizeException { path, reason };
    let expected = ["crates/a/src/x.rs has 501 lines, more than 500: split it, or list it with a reason"];
    assert_eq!(violations(&lines, &[]), expected);
    assert_eq!(violations(&lines, &[exception("crates/a/src/x.rs", "")]), expected);
    assert!(violations(&lines, &[exception("crates/a/src/x.rs", "one table")]).is_empty());
    let unused = [exception("crates/a/src/x.rs", "one table"), exception("crates/a/src/y.rs", "one table")];
    assert_eq!(violations(&lines, &unused), ["crates/a/src/y.rs needs no exception any more"]);
}

#[test]
fn only_sources_of_crates_are_measured() {
    assert!(is_source("crates/core/src/lib.rs") && is_source("crates/core/src/breaker/state.rs"));
    assert!(!is_source("crates/core/tests/laws.rs") && !is_source("xtask/src/main.rs"));
    assert!(!is_source("crates/gateway/src/page.html"));
}

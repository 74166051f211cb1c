//! One file for each class of mistake, and the exact messages about it.
//!
//! `SEAWALL_BLESS=1` writes the current messages; review them before you commit. Lines of a file that begin with `#$`
//! are environment variables and those with `#!` are arguments.

use super::reading::{base_profile, today};
use seawall_config::{ProblemCode, Problems, SettingSource, SettingsInput, load};
use seawall_core::time::UtcTime;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/settings/mistakes")
}

fn assignments(text: &str, mark: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(mark)?.trim().split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// The day on which a file is read: of a line such as `#@ 2027-06-01`, or the day of all tests.
fn date_of(text: &str) -> UtcTime {
    let Some(date) = text.lines().find_map(|line| line.strip_prefix("#@ ")) else { return today() };
    let mut parts = date.split('-').map(|part| part.parse::<u32>().unwrap());
    let mut part = || parts.next().unwrap();
    UtcTime::from_civil(part().into(), part(), part())
}

fn report_of(path: &Path) -> (String, Problems) {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let input = SettingsInput {
        environment: assignments(&text, "#$"),
        arguments: base_profile(&text).into_iter().chain(assignments(&text, "#!")).collect(),
        today: date_of(&text),
        file: Some(SettingSource::file(name, text)),
        price_file: None,
    };
    let problems = match load(&input) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    (problems.render(false), problems)
}

#[test]
fn each_problem_is_reported_as_approved() {
    let bless = std::env::var_os("SEAWALL_BLESS").is_some();
    let mut differing = Vec::new();
    for path in files() {
        let (report, _) = report_of(&path);
        let approved = path.with_extension("txt");
        if bless {
            fs::write(&approved, &report).unwrap();
        } else if fs::read_to_string(&approved).unwrap_or_default() != report {
            differing.push(format!("{}:\n{report}", path.display()));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn every_file_has_a_mistake_and_every_class_of_mistake_has_a_file() {
    let mut seen = BTreeSet::new();
    let files = files();
    assert!(files.len() >= 35, "{}", files.len());
    for path in &files {
        let (_, problems) = report_of(path);
        assert!(!problems.is_empty(), "{} is fine", path.display());
        seen.extend(problems.list().iter().map(|problem| problem.code));
    }
    // These two concern whole files and are tested in the loader.
    let elsewhere = [ProblemCode::TooLarge, ProblemCode::UnreadableFile];
    let missing: Vec<ProblemCode> = ProblemCode::ALL
        .into_iter()
        .filter(|code| !seen.contains(code) && !elsewhere.contains(code))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_secret_is_ever_repeated() {
    for path in files() {
        let (report, problems) = report_of(&path);
        let text = [report, problems.render(true), problems.to_json().to_string()].concat();
        assert!(!text.contains("hunter2"), "{}:\n{text}", path.display());
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    for path in files() {
        let (plain, problems) = report_of(&path);
        let mut coloured = problems.render(true);
        assert!(coloured.contains("\u{1b}["));
        while let Some(start) = coloured.find("\u{1b}[") {
            let end = start + coloured[start..].find('m').unwrap();
            coloured.replace_range(start..=end, "");
        }
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&coloured), trimmed(&plain));
    }
}

#[test]
fn the_json_has_the_same_problems_as_the_text() {
    let (_, problems) = report_of(&directory().join("several.toml"));
    let json = problems.to_json();
    assert_eq!(json.as_array().unwrap().len(), problems.list().len());
    assert_eq!(json[0]["severity"], "error");
    assert_eq!(json[0]["code"], "unknown-key");
    assert_eq!(json[0]["locations"][0]["source"], "several.toml");
    assert_eq!(
        (&json[0]["locations"][0]["line"], &json[0]["locations"][0]["column"]),
        (&3.into(), &1.into())
    );
    assert_eq!(json[0]["help"], "did you mean \"listen\"?");
}

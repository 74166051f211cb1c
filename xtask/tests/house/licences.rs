//! Every crate that is built has a licence that `deny.toml` allows, whether or not cargo-deny is installed.

use crate::{cargo, expect_none, read};
use anyhow::{Context as _, bail, ensure};
use toml::Table;

/// A message for each crate whose licence is not on the list. `tree` has a crate per line, then a bar and its licence.
/// The crates of this workspace have a path in the place of a source, and are ours.
fn not_allowed(deny: &Table, tree: &str) -> anyhow::Result<Vec<String>> {
    let list =
        deny.get("licenses").and_then(|licences| licences.get("allow")).and_then(|list| list.as_array());
    let list = list.context("deny.toml has no list `allow` under [licenses]")?;
    let allowed: Vec<&str> = list.iter().filter_map(|licence| licence.as_str()).collect();
    ensure!(!tree.trim().is_empty(), "cargo tree lists no crates");
    let mut violations = Vec::new();
    for line in tree.lines() {
        // A repeated crate is marked.
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        let Some((name, licence)) = line.split_once('|') else { continue };
        if name.contains("(/") {
            continue;
        }
        let is_allowed = !licence.is_empty()
            && Expression { words: words(licence), at: 0, allowed: &allowed }
                .whole()
                .with_context(|| format!("{name}: {licence:?}"))?;
        if !is_allowed
            && !violations.iter().any(|violation: &String| violation.starts_with(&format!("{name}: ")))
        {
            violations.push(format!("{name}: {licence:?} is not allowed by deny.toml"));
        }
    }
    Ok(violations)
}

/// The tokens of an expression. A slash is an older notation for `OR`.
fn words(licence: &str) -> Vec<String> {
    let spaced = licence.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// An SPDX expression: `AND` binds more closely than `OR`, and `WITH` belongs to the name before it.
struct Expression<'a> {
    words: Vec<String>,
    at: usize,
    allowed: &'a [&'a str],
}

impl Expression<'_> {
    fn whole(mut self) -> anyhow::Result<bool> {
        let is_allowed = self.any()?;
        ensure!(self.at == self.words.len(), "something is left over");
        Ok(is_allowed)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|next| next == word);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> anyhow::Result<bool> {
        let mut is_allowed = self.all()?;
        while self.takes("OR") {
            is_allowed |= self.all()?;
        }
        Ok(is_allowed)
    }

    fn all(&mut self) -> anyhow::Result<bool> {
        let mut is_allowed = self.one()?;
        while self.takes("AND") {
            is_allowed &= self.one()?;
        }
        Ok(is_allowed)
    }

    fn one(&mut self) -> anyhow::Result<bool> {
        if self.takes("(") {
            let is_allowed = self.any()?;
            ensure!(self.takes(")"), "a bracket is open");
            return Ok(is_allowed);
        }
        let Some(name) = self.words.get(self.at).cloned() else { bail!("a name is missing") };
        ensure!(!["OR", "AND", "WITH", ")"].contains(&name.as_str()), "a name is missing before {name}");
        self.at += 1;
        let name = if self.takes("WITH") {
            let exception = self.words.get(self.at).context("an exception is missing")?;
            self.at += 1;
            format!("{name} WITH {exception}")
        } else {
            name
        };
        Ok(self.allowed.contains(&name.as_str()))
    }
}

#[test]
fn every_crate_has_a_licence_that_is_allowed() -> anyhow::Result<()> {
    let whole = ["--workspace", "--all-features", "--target", "all", "--edges", "normal,build,dev"];
    let shape = ["tree", "--locked", "--prefix", "none", "--format", "{p}|{l}"];
    let tree = cargo(&[&shape[..], &whole].concat())?;
    expect_none(&not_allowed(&read("deny.toml")?.parse()?, &tree)?)
}

#[test]
fn expressions_are_read_as_their_standard_says() {
    let deny: Table = "[licenses]\nallow = ['MIT', 'ISC', 'Apache-2.0 WITH LLVM-exception']".parse().unwrap();
    let violation =
        |licence: &str| not_allowed(&deny, &format!("a v1.0.0|{licence}\n")).map(|found| found.len());
    for right in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "ISC AND (MIT OR X)",
        "Apache-2.0 WITH LLVM-exception OR X",
        "MIT (*)",
    ] {
        assert_eq!(violation(right).unwrap(), 0, "{right}");
    }
    for wrong in ["", "GPL-3.0", "MIT AND GPL-3.0", "X OR MIT AND Y", "Apache-2.0", "(MIT OR X) AND Y"] {
        assert_eq!(violation(wrong).unwrap(), 1, "{wrong}");
    }
    for unreadable in ["(MIT", "MIT OR", "AND MIT", "MIT MIT", "X WITH"] {
        assert!(violation(unreadable).is_err(), "{unreadable}");
    }
    assert!(not_allowed(&"[licenses]".parse().unwrap(), "a v1|MIT").is_err());
    assert!(not_allowed(&deny, "\n").is_err());
    assert!(not_allowed(&deny, "ours v1.0.0 (/somewhere/ours)|\n").unwrap().is_empty());
}

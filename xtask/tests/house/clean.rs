//! Files contain nothing about the machine they were written on.

use crate::{expect_none, files, root};
use std::fs;

/// Beginnings of paths that exist on one machine only. They are concatenated here so that this file does not contain
/// them.
const HOMES: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Hosts of package registries. A file that names one was written by a tool, or breaks behind a mirror.
const REGISTRIES: [&str; 8] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("crates.io", "-index"),
    concat!("registry.", "npmjs.org"),
    concat!("pypi", ".org"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
    concat!("/arti", "factory/"),
];

/// Written by cargo, which puts the registry's public name into it.
const EXEMPT: [&str; 1] = ["Cargo.lock"];

fn violations(path: &str, text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let homes = HOMES.iter().filter(|home| starts_a_path(line, home));
        let registries = REGISTRIES.iter().filter(|host| line.contains(**host));
        violations.extend(homes.map(|home| format!("{path}:{number} holds a path of one machine ({home})")));
        violations.extend(registries.map(|host| format!("{path}:{number} names a registry ({host})")));
    }
    violations
}

/// Whether `line` contains a path that begins with `home`. After a name, a dot or a closing bracket the slash is inside
/// a path or a URL that begins elsewhere.
fn starts_a_path(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"._-~)}]".contains(before))
    })
}

#[test]
fn no_file_tells_where_it_was_written() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in files()?.iter().filter(|path| !EXEMPT.contains(&path.as_str())) {
        // Binary files are skipped.
        if let Ok(text) = String::from_utf8(fs::read(root().join(path))?) {
            found.extend(violations(path, &text));
        }
    }
    expect_none(&found)
}

#[test]
fn paths_and_hosts_are_found_with_their_line() {
    let [first, second, third] = HOMES;
    for text in [format!("a\n{first}x"), format!("a\nsee \"{second}.cargo\""), format!("a\nfile://{third}me")]
    {
        let found = violations("notes.md", &text);
        assert_eq!(found.len(), 1, "{text}");
        assert!(found[0].starts_with("notes.md:2 holds a path of one machine"), "{found:?}");
    }
    for host in REGISTRIES {
        assert_eq!(violations("notes.md", &format!("from https://{host}/x")).len(), 1, "{host}");
    }
}

#[test]
fn a_path_that_begins_elsewhere_is_no_violation() {
    for home in HOMES {
        for start in ["crates", "https://example.com", "~", "$HOME", "{root}", ".", "$(pwd)"] {
            let text = format!("{start}{home}x");
            assert!(violations("notes.md", &text).is_empty(), "{text}");
        }
    }
    assert!(violations("notes.md", "published on crates.io").is_empty());
}

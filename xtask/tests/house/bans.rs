//! Banned crates stay out, whether or not cargo-deny is installed.

use crate::{cargo, expect_none, read};
use anyhow::{Context as _, ensure};
use toml::Table;

/// A message for each banned crate that is built. `tree` has a crate per line, its name first.
///
/// The lock file would be too strict: it also names crates that only a feature which is never enabled could bring.
fn built_although_banned(deny: &Table, tree: &str) -> anyhow::Result<Vec<String>> {
    let bans = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(|list| list.as_array());
    ensure!(!tree.trim().is_empty(), "cargo tree lists no crates");
    let mut violations = Vec::new();
    for ban in bans.context("deny.toml has no list `deny` under [bans]")? {
        let word = |key: &str| ban.get(key).and_then(|value| value.as_str());
        let name = word("crate").context("a ban in deny.toml names no crate")?;
        let reason = word("reason").with_context(|| format!("the ban of {name} gives no reason"))?;
        if tree.lines().any(|line| line.split(' ').next() == Some(name)) {
            violations
                .push(format!("{name} is banned: {reason} (`cargo tree -i {name}` shows what brings it)"));
        }
    }
    Ok(violations)
}

#[test]
fn no_banned_crate_is_built_by_any_feature_on_any_platform() -> anyhow::Result<()> {
    let whole = ["--workspace", "--all-features", "--target", "all", "--edges", "normal,build,dev"];
    let tree = cargo(&[&["tree", "--locked", "--prefix", "none"][..], &whole].concat())?;
    expect_none(&built_although_banned(&read("deny.toml")?.parse()?, &tree)?)
}

#[test]
fn what_must_stay_out_is_banned() -> anyhow::Result<()> {
    let deny: Table = read("deny.toml")?.parse()?;
    for name in ["ring", "rsa", "openssl", "openssl-sys", "native-tls"] {
        let tree = format!("seawall-core v0.1.0\n{name} v1.0.0\n");
        assert_eq!(built_although_banned(&deny, &tree)?.len(), 1, "{name} is not banned");
    }
    Ok(())
}

#[test]
fn a_ban_is_found_by_its_whole_name_and_explained() {
    let deny = "[bans]\ndeny = [{ crate = 'ring', reason = 'one is enough' }]".parse().unwrap();
    let expected = ["ring is banned: one is enough (`cargo tree -i ring` shows what brings it)"];
    assert_eq!(built_although_banned(&deny, "string-ring v1.0.0\nring v0.17.14 (*)\n").unwrap(), expected);
    assert!(built_although_banned(&deny, "string-ring v1.0.0\n").unwrap().is_empty());
}

#[test]
fn a_list_that_cannot_be_read_bans_nothing_silently() {
    for deny in ["", "[bans]\ndeny = ['ring']", "[bans]\ndeny = [{ crate = 'ring' }]"] {
        assert!(built_although_banned(&deny.parse().unwrap(), "a v1").is_err(), "{deny}");
    }
    assert!(built_although_banned(&"[bans]\ndeny = []".parse().unwrap(), "\n").is_err());
}

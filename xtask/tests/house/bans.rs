//! Banned crates stay out, whether or not cargo-deny is installed.

use crate::{expect_none, read};
use anyhow::Context as _;
use toml::Table;

/// One sentence for each banned crate that is locked. The lock file holds what any feature on any platform
/// could bring in, so this is the strictest place to look.
fn locked_although_banned(deny: &Table, lock: &Table) -> anyhow::Result<Vec<String>> {
    let bans = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(|list| list.as_array());
    let packages =
        lock.get("package").and_then(|list| list.as_array()).context("Cargo.lock lists no packages")?;
    let mut violations = Vec::new();
    for ban in bans.context("deny.toml has no list `deny` under [bans]")? {
        let word = |key: &str| ban.get(key).and_then(|value| value.as_str());
        let name = word("crate").context("a ban in deny.toml names no crate")?;
        let reason = word("reason").with_context(|| format!("the ban of {name} gives no reason"))?;
        if packages.iter().any(|package| package.get("name").and_then(|name| name.as_str()) == Some(name)) {
            violations
                .push(format!("{name} is banned: {reason} (`cargo tree -i {name}` shows what brings it)"));
        }
    }
    Ok(violations)
}

#[test]
fn no_banned_crate_is_locked() -> anyhow::Result<()> {
    expect_none(&locked_although_banned(&read("deny.toml")?.parse()?, &read("Cargo.lock")?.parse()?)?)
}

#[test]
fn what_must_stay_out_is_banned() -> anyhow::Result<()> {
    let deny: Table = read("deny.toml")?.parse()?;
    for name in ["ring", "rsa", "openssl", "openssl-sys", "native-tls"] {
        let lock = format!("[[package]]\nname = '{name}'\nversion = '1.0.0'").parse()?;
        assert_eq!(locked_although_banned(&deny, &lock)?.len(), 1, "{name} is not banned");
    }
    Ok(())
}

#[test]
fn a_ban_is_found_by_its_whole_name_and_explained() {
    let deny = "[bans]\ndeny = [{ crate = 'ring', reason = 'one is enough' }]".parse().unwrap();
    let lock = "[[package]]\nname = 'ring'\n[[package]]\nname = 'string-ring'".parse().unwrap();
    let expected = ["ring is banned: one is enough (`cargo tree -i ring` shows what brings it)"];
    assert_eq!(locked_although_banned(&deny, &lock).unwrap(), expected);
    let lock = "[[package]]\nname = 'string-ring'".parse().unwrap();
    assert!(locked_although_banned(&deny, &lock).unwrap().is_empty());
}

#[test]
fn a_list_that_cannot_be_read_bans_nothing_silently() {
    let lock: Table = "package = []".parse().unwrap();
    for deny in ["", "[bans]\ndeny = ['ring']", "[bans]\ndeny = [{ crate = 'ring' }]"] {
        assert!(locked_although_banned(&deny.parse().unwrap(), &lock).is_err(), "{deny}");
    }
    assert!(locked_although_banned(&"[bans]\ndeny = []".parse().unwrap(), &Table::new()).is_err());
}

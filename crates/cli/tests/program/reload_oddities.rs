//! Unusual settings reloads while requests are served.

use crate::reload::{ask, reload, wait_for};
use crate::running::{KEY, Running, caller, file, seawall, settings};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::process::Command;

fn started(test: &str) -> anyhow::Result<(Running, Running, String)> {
    let model = Running::model(test, "[]")?;
    let gateway = Running::gateway(test, &model, ["instant", "instant"], "")?;
    let base = settings(&model.url, ["instant", "instant"]);
    Ok((model, gateway, base))
}

const OTHER: &str = "limits.tiers.prime.minute = \"50/min\"\n";

#[test]
fn a_reload_says_what_has_changed_and_nothing_else() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-said")?;
    let said = reload(&gateway, &base, "nothing to change\n")?;
    assert_eq!(said, "seawall: settings read again: nothing to change\n");
    let said = reload(&gateway, &(base + OTHER), "limit prime")?;
    assert_eq!(
        said,
        "seawall: settings changed: limits.tiers.prime.minute\n\
         seawall:   limit prime/minute: kept, at most 70 before and 60 now\n"
    );
    Ok(())
}

#[test]
fn a_reload_tells_its_warnings_and_what_it_does_not_follow() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-warned")?;
    let unused = "targets.third = { provider = \"anthropic\", url = \"http://127.0.0.1:9\", model = \"haiku\", \
                  grade = \"fast\", breaker = \"haiku\" }\nswitches.degradation_controller_enabled = false\n";
    let said = reload(&gateway, &(base + unused), "not followed yet")?;
    assert!(said.contains("targets.third is used by no route"), "{said}");
    let line = "seawall: not followed yet: switches.degradation_controller_enabled\n";
    assert!(said.ends_with(line), "{said}");
    let changed = said.lines().find(|line| line.contains("settings changed")).unwrap_or_default();
    assert!(!changed.contains("switches") && changed.contains("targets.third.url"), "{said}");
    Ok(())
}

#[test]
fn what_is_set_in_vain_is_told_at_the_start() -> anyhow::Result<()> {
    let model = Running::model("start-vain", "[]")?;
    let more = "framing.flush_after = \"90ms\"\nstore.session.keep_for = \"5h\"\n";
    let gateway = Running::gateway("start-vain", &model, ["instant", "instant"], more)?;
    let said = gateway.errors()?;
    assert!(
        said.contains("seawall: not followed yet: framing.flush_after, store.session.keep_for\n"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_file_that_cannot_be_followed_is_told_once_and_changes_nothing() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-gone")?;
    let path = gateway.settings_path();
    let mut before = gateway.errors()?.len();
    let mut told = |expected: &str| -> anyhow::Result<()> {
        let said = wait_for(&gateway, before, expected)?;
        assert_eq!(said.matches("settings stay as they are").count(), 1, "{said}");
        assert!(ask(&gateway, false)?.contains(" 200 "));
        before = gateway.errors()?.len();
        Ok(())
    };
    fs::remove_file(path)?;
    told("No such file")?;
    fs::write(path, b"\xff\xfe")?;
    told("is not UTF-8 text")?;
    fs::write(path, " \n")?;
    told("is empty")?;
    let so_far = gateway.errors()?.len();
    gateway.signal("-HUP")?;
    wait_for(&gateway, so_far, "settings not changed")?;
    fs::remove_file(path)?;
    fs::create_dir(path)?;
    told("is not a file")?;
    fs::remove_dir(path)?;
    // A pipe without a writer must not block the handling of signals.
    assert!(Command::new("mkfifo").arg(path).status()?.success());
    gateway.signal("-HUP")?;
    wait_for(&gateway, before, "settings not changed")?;
    fs::remove_file(path)?;
    let said = reload(&gateway, &(base + OTHER), "settings changed")?;
    assert!(said.contains("limits.tiers.prime.minute"), "{said}");
    Ok(())
}

#[test]
fn settings_that_wait_for_a_secret_are_taken_when_it_comes() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-secret")?;
    let secret = file("reload-secret-key", "")?;
    fs::remove_file(&secret)?;
    let last = base.rfind("env:PATH").unwrap_or_default();
    let mut late = base;
    late.replace_range(last..last + 8, &format!("file:{}", secret.display()));
    let late = late
        + "limits.tiers.prime = { minute = \"1/min\", burst = 0 }\nbreakers.sonnet.failure_threshold = 1\n";
    let before = gateway.errors()?.len();
    let said = reload(&gateway, &late, "there is no such file")?;
    assert!(said.contains("settings not changed: target haiku"), "{said}");
    for _ in 0..3 {
        assert!(ask(&gateway, false)?.contains(" 200 "), "nothing may have changed");
    }
    fs::write(&secret, "sk-late-0123456789\n")?;
    let said = wait_for(&gateway, before, "settings changed")?;
    assert_eq!(said.matches("not changed").count(), 1, "{said}");
    assert!(ask(&gateway, false)?.contains(" 429 "), "three were used of one");
    Ok(())
}

#[test]
fn a_file_behind_a_link_is_followed_when_the_link_is_swapped() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload 置換")?;
    let path = gateway.settings_path().to_owned();
    let folder = path.with_extension("folders");
    let _ = fs::remove_dir_all(&folder);
    for (version, text) in [("1", base.clone()), ("2", base + OTHER)] {
        fs::create_dir_all(folder.join(version))?;
        fs::write(folder.join(version).join("seawall.toml"), text)?;
    }
    symlink("1", folder.join("data"))?;
    fs::remove_file(&path)?;
    symlink(folder.join("data/seawall.toml"), &path)?;
    symlink("2", folder.join("next"))?;
    fs::rename(folder.join("next"), folder.join("data"))?;
    wait_for(&gateway, 0, "settings changed: limits.tiers.prime.minute")?;
    Ok(())
}

#[test]
fn a_stream_outlives_its_target_its_route_and_its_key() -> anyhow::Result<()> {
    let model = Running::model("reload-stream", "[]")?;
    let gateway = Running::gateway("reload-stream", &model, ["sonnet", "haiku"], "")?;
    let body =
        r#"{"model":"manga","max_tokens":120,"stream":true,"messages":[{"role":"user","content":"次は？"}]}"#;
    let mut stream = BufReader::new(gateway.post(KEY, body)?);
    let mut begun = String::new();
    while !begun.contains("content_block_delta") {
        stream.read_line(&mut begun)?;
    }
    let other_key = "sk-other-0123456789abcdef";
    let text =
        settings(&model.url, ["sonnet", "haiku"]).replace(&caller("test", KEY), &caller("other", other_key));
    let text = text.replace(
        "targets.sonnet = {",
        "targets.sonnet = \"none\"\ntargets.third = { grade = \"strong\", breaker = \"sonnet\", ",
    );
    let text =
        text + "routes.manga = \"none\"\nroutes.new = { targets = [\"third\"], faces = [\"anthropic\"] }\n";
    reload(&gateway, &text, "settings changed")?;
    assert!(ask(&gateway, false)?.contains(" 401 "), "a key that is gone is refused from now on");
    let mut answer = String::new();
    gateway.post(other_key, &body.replace("true", "false"))?.read_to_string(&mut answer)?;
    assert!(answer.contains(" 404 "), "the route has another name: {answer}");
    stream.read_to_string(&mut begun)?;
    assert!(begun.contains("message_stop"), "{begun}");
    assert_eq!(gateway.counter("seawall_budget_held_nanodollars")?, 0);
    Ok(())
}

#[test]
fn variables_that_are_no_text_are_refused() -> anyhow::Result<()> {
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let mut odd_name = std::ffi::OsString::from("SEAWALL__");
    odd_name.push(bytes);
    for (name, value) in
        [("SEAWALL__ASSISTANT__PROMPTS__JA".into(), bytes), (odd_name, std::ffi::OsStr::new("x"))]
    {
        for command in [["config", "check"], ["config", "show"]] {
            let output = seawall(&command).env(&name, value).output()?;
            assert_eq!(output.status.code(), Some(2), "{name:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("SEAWALL__") && said.contains("this is not UTF-8 text"), "{said}");
        }
    }
    assert!(seawall(&["config", "check"]).env("PATH_OF_OTHERS", bytes).output()?.status.success());
    Ok(())
}

#[test]
fn a_budget_that_is_lowered_below_what_is_spent_stops_and_a_raised_one_goes_on() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-budget")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    let spent = gateway.counter("seawall_budget_posted_nanodollars")?;
    assert!(spent > 0);
    let small = "budget.day = \"$0.00001/day\"\nbudget.caller_day = \"$0.00001/day\"\n";
    reload(&gateway, &(base.clone() + small), "budget.day")?;
    assert!(!ask(&gateway, false)?.contains(" 200 "), "more is spent than there is");
    assert_eq!(gateway.counter("seawall_budget_posted_nanodollars")?, spent, "what was spent stays spent");
    reload(&gateway, &base, "budget.day")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(gateway.counter("seawall_budget_posted_nanodollars")? > spent);
    Ok(())
}

#[test]
fn a_storm_of_signals_loses_no_request_and_leaves_nothing_behind() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-storm")?;
    let files = |gateway: &Running| -> anyhow::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", gateway.process()))?.count())
    };
    assert!(ask(&gateway, false)?.contains(" 200 "));
    let before = files(&gateway)?;
    for round in 0..40 {
        // The connector to a target is rebuilt each time.
        let places = format!("region = \"none\", concurrency = {}", 10 + round % 2);
        // An earlier signal may be handled while the file is written, so the file is replaced atomically.
        let next = file("reload-storm-next.toml", &base.replace("region = \"none\"", &places))?;
        fs::rename(next, gateway.settings_path())?;
        gateway.signal("-HUP")?;
        if round % 4 == 0 {
            assert!(ask(&gateway, round % 8 == 0)?.contains(" 200 "), "{round}");
        }
    }
    let next = file("reload-storm-next.toml", &(base + OTHER))?;
    fs::rename(next, gateway.settings_path())?;
    gateway.signal("-HUP")?;
    let said = wait_for(&gateway, 0, "limits.tiers.prime.minute")?;
    assert!(!said.contains("not changed"), "{said}");
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(files(&gateway)? < before + 20, "{before} files were open, and {} are", files(&gateway)?);
    Ok(())
}

//! Unusual settings reloads while requests are served.

use crate::reload::{ask, reload, wait_for};
use crate::running::{KEY, Running, caller, file, seawall, settings};
use seawall_testkit::Signal;
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

/// Lines without time and level.
fn texts(output: &str) -> String {
    let text = |line: &str| line.find("seawall:").map_or(line, |start| &line[start..]).to_owned() + "\n";
    output.lines().map(text).collect()
}

#[test]
fn a_reload_reports_what_has_changed_and_nothing_else() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-report")?;
    let output = reload(&gateway, &base, "read again\n")?;
    let expected = "seawall: settings reloaded: no key changed; secrets and certificates were read again\n";
    assert_eq!(texts(&output), expected);
    let output = reload(&gateway, &(base + OTHER), "limit prime")?;
    assert_eq!(
        texts(&output),
        "seawall: settings reloaded: changed limits.tiers.prime.minute\n\
         seawall:   limit prime/minute: usage kept, limit 70 -> 60\n"
    );
    Ok(())
}

#[test]
fn a_reload_reports_warnings_and_unimplemented_settings() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-warned")?;
    let unused = "targets.third = { provider = \"anthropic\", base_url = \"http://127.0.0.1:9\", model = \"haiku\", \
                  grade = \"fast\", breaker = \"haiku\" }\nswitches.degradation_controller_enabled = false\n";
    let output = reload(&gateway, &(base + unused), "not implemented, no effect")?;
    assert!(output.contains("targets.third is not used by any route"), "{output}");
    let line = "seawall: not implemented, no effect: switches.degradation_controller_enabled\n";
    assert!(output.ends_with(line), "{output}");
    let changed = output.lines().find(|line| line.contains("settings reloaded: changed")).unwrap_or_default();
    assert!(!changed.contains("switches") && changed.contains("targets.third.base_url"), "{output}");
    Ok(())
}

#[test]
fn unimplemented_settings_are_reported_at_startup() -> anyhow::Result<()> {
    let model = Running::model("start-unimplemented", "[]")?;
    let more = "framing.flush_interval = \"90ms\"\nstore.session.ttl = \"5h\"\n";
    let gateway = Running::gateway("start-unimplemented", &model, ["instant", "instant"], more)?;
    let expected = "seawall: not implemented, no effect: framing.flush_interval, store.session.ttl\n";
    wait_for(&gateway, 0, expected)?;
    Ok(())
}

#[test]
fn an_unreadable_file_is_reported_once_and_changes_nothing() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-gone")?;
    let path = gateway.settings_path();
    let mut before = gateway.errors()?.len();
    let mut expect_report = |expected: &str| -> anyhow::Result<()> {
        // The end of the line: its beginning may be there earlier.
        let output = wait_for(&gateway, before, "(checked again every second)\n")?;
        assert_eq!(output.matches("(checked again every second)").count(), 1, "{output}");
        assert!(output.contains(expected), "{output}");
        assert!(ask(&gateway, false)?.contains(" 200 "));
        before = gateway.errors()?.len();
        Ok(())
    };
    fs::remove_file(path)?;
    expect_report("No such file")?;
    fs::write(path, b"\xff\xfe")?;
    expect_report("is not valid UTF-8")?;
    fs::write(path, " \n")?;
    expect_report("is empty")?;
    let so_far = gateway.errors()?.len();
    gateway.signal(Signal::HUP)?;
    wait_for(&gateway, so_far, "the running settings stay in force\n")?;
    fs::remove_file(path)?;
    fs::create_dir(path)?;
    expect_report("is not a regular file")?;
    fs::remove_dir(path)?;
    // A pipe without a writer must not block the handling of signals.
    assert!(Command::new("mkfifo").arg(path).status()?.success());
    gateway.signal(Signal::HUP)?;
    wait_for(&gateway, before, "the running settings stay in force\n")?;
    fs::remove_file(path)?;
    let output = reload(&gateway, &(base + OTHER), "settings reloaded: changed")?;
    assert!(output.contains("limits.tiers.prime.minute"), "{output}");
    Ok(())
}

#[test]
fn settings_with_a_missing_secret_are_applied_once_it_exists() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-secret")?;
    let secret = file("reload-secret-key", "")?;
    fs::remove_file(&secret)?;
    let last = base.rfind("env:PATH").unwrap_or_default();
    let mut text = base;
    text.replace_range(last..last + 8, &format!("file:{}", secret.display()));
    let text = text
        + "limits.tiers.prime = { minute = \"1/min\", burst = 0 }\nbreakers.sonnet.failure_threshold = 1\n";
    let before = gateway.errors()?.len();
    let output = reload(&gateway, &text, "file not found")?;
    assert!(output.contains("settings rejected, nothing changed: target haiku"), "{output}");
    for _ in 0..3 {
        assert!(ask(&gateway, false)?.contains(" 200 "), "nothing may have changed");
    }
    fs::write(&secret, "sk-late-0123456789\n")?;
    let output = wait_for(&gateway, before, "settings reloaded: changed")?;
    assert_eq!(output.matches("settings rejected").count(), 1, "{output}");
    assert!(ask(&gateway, false)?.contains(" 429 "), "three were used of one");
    Ok(())
}

#[test]
fn a_swapped_symlink_triggers_a_reload() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload 置換")?;
    let path = gateway.settings_path().to_owned();
    let directory = path.with_extension("directories");
    let _ = fs::remove_dir_all(&directory);
    for (version, text) in [("1", base.clone()), ("2", base + OTHER)] {
        fs::create_dir_all(directory.join(version))?;
        fs::write(directory.join(version).join("seawall.toml"), text)?;
    }
    symlink("1", directory.join("data"))?;
    fs::remove_file(&path)?;
    symlink(directory.join("data/seawall.toml"), &path)?;
    symlink("2", directory.join("next"))?;
    fs::rename(directory.join("next"), directory.join("data"))?;
    wait_for(&gateway, 0, "settings reloaded: changed limits.tiers.prime.minute")?;
    Ok(())
}

#[test]
fn a_stream_outlives_its_target_its_route_and_its_key() -> anyhow::Result<()> {
    let model = Running::model("reload-stream", "[]")?;
    let gateway = Running::gateway("reload-stream", &model, ["sonnet", "haiku"], "")?;
    let body =
        r#"{"model":"manga","max_tokens":120,"stream":true,"messages":[{"role":"user","content":"次は？"}]}"#;
    let mut stream = BufReader::new(gateway.post(KEY, body)?);
    let mut partial = String::new();
    while !partial.contains("content_block_delta") {
        stream.read_line(&mut partial)?;
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
    reload(&gateway, &text, "settings reloaded: changed")?;
    assert!(ask(&gateway, false)?.contains(" 401 "), "a key that is gone is refused from now on");
    let mut answer = String::new();
    gateway.post(other_key, &body.replace("true", "false"))?.read_to_string(&mut answer)?;
    assert!(answer.contains(" 404 "), "the route has another name: {answer}");
    stream.read_to_string(&mut partial)?;
    assert!(partial.contains("message_stop"), "{partial}");
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn environment_variables_that_are_not_utf8_are_rejected() -> anyhow::Result<()> {
    let bytes = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let mut invalid_name = std::ffi::OsString::from("SEAWALL__");
    invalid_name.push(bytes);
    for (name, value) in
        [("SEAWALL__ASSISTANT__PROMPTS__JA".into(), bytes), (invalid_name, std::ffi::OsStr::new("x"))]
    {
        for command in [["config", "check"], ["config", "show"]] {
            let output = seawall(&command).env(&name, value).output()?;
            assert_eq!(output.status.code(), Some(2), "{name:?}");
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.contains("SEAWALL__") && output.contains("is not valid UTF-8"), "{output}");
        }
    }
    assert!(seawall(&["config", "check"]).env("PATH_OF_OTHERS", bytes).output()?.status.success());
    Ok(())
}

#[test]
fn a_budget_that_is_lowered_below_what_is_spent_stops_and_a_raised_one_goes_on() -> anyhow::Result<()> {
    let (_model, gateway, base) = started("reload-budget")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    let spent = gateway.counter("seawall_budget_posted_usd")?;
    assert!(spent > 0);
    let small = "budget.day = \"$0.00001/day\"\nbudget.caller_day = \"$0.00001/day\"\n";
    reload(&gateway, &(base.clone() + small), "budget.day")?;
    assert!(!ask(&gateway, false)?.contains(" 200 "), "more is spent than there is");
    assert_eq!(gateway.counter("seawall_budget_posted_usd")?, spent, "what was spent stays spent");
    reload(&gateway, &base, "budget.day")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(gateway.counter("seawall_budget_posted_usd")? > spent);
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
        let concurrency = format!("region = \"none\", concurrency = {}", 10 + round % 2);
        // An earlier signal may be handled while the file is written, so the file is replaced atomically.
        let next = file("reload-storm-next.toml", &base.replace("region = \"none\"", &concurrency))?;
        fs::rename(next, gateway.settings_path())?;
        gateway.signal(Signal::HUP)?;
        if round % 4 == 0 {
            assert!(ask(&gateway, round % 8 == 0)?.contains(" 200 "), "{round}");
        }
    }
    let next = file("reload-storm-next.toml", &(base + OTHER))?;
    fs::rename(next, gateway.settings_path())?;
    gateway.signal(Signal::HUP)?;
    let output = wait_for(&gateway, 0, "limits.tiers.prime.minute")?;
    assert!(!output.contains("settings rejected"), "{output}");
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(files(&gateway)? < before + 20, "{before} files were open, and {} are", files(&gateway)?);
    Ok(())
}

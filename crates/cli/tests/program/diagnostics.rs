//! The diagnostic log: one line for each change that matters to an operator, and no secret.

use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running, caller, file, scratch_dir, seawall, settings};
use anyhow::ensure;
use seawall_testkit::{Signal, exchange, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;

/// Breakers with a short open time.
const BREAKER: &str =
    "retry.max_retries = 0\nbreakers.sonnet.open_for = \"1s\"\nbreakers.haiku.open_for = \"1s\"\n";

fn admin(gateway: &Running, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
    let address = gateway.admin.trim_start_matches("http://");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    Ok(serde_json::from_slice(&exchange(address, head.as_bytes())?.body)?)
}

#[test]
fn breakers_keys_and_draining_leave_one_line_each() -> anyhow::Result<()> {
    let state = scratch_dir("diagnostics-state")?;
    let model = Running::model("diagnostics", r#"[{"fault":{"kind":"status","status":500}}]"#)?;
    // A failure that only one caller has caused is probed by that caller alone.
    let other = "sk-other-0123456789abcdef";
    let more = format!("{NO_LIMITS}{BY_DAY}{BREAKER}{}", caller("other", other));
    let gateway =
        Running::gateway_with("diagnostics", &model.url, ["instant", "instant"], &more, |settings| {
            settings.replace(
                "store.kind = \"memory\"",
                &format!("store = {{ kind = \"embedded\", data_dir = '{}' }}", state.display()),
            )
        })?;
    let count_messages =
        |words: &str| -> anyhow::Result<usize> { Ok(gateway.errors()?.matches(words).count()) };
    wait_until("the breakers open", || {
        gateway.ask(KEY, &question(5, false))?;
        gateway.ask(other, &question(5, false))?;
        Ok(count_messages("target sonnet: breaker opened: consecutive_failures\n")? == 1)
    })?;
    model.set_faults(&json!([]))?;
    wait_until("they close", || {
        gateway.ask(KEY, &question(5, false))?;
        gateway.ask(other, &question(5, false))?;
        Ok(count_messages("target sonnet: breaker closed\n")? == 1)
    })?;
    ensure!(count_messages("target sonnet: breaker half-open\n")? >= 1, "{}", gateway.errors()?);
    let created = admin(&gateway, "POST", "/admin/keys", r#"{"name":"shop","tier":"prime"}"#)?;
    let id = created["id"].as_str().unwrap_or_default();
    admin(&gateway, "DELETE", "/admin/keys/shop", "")?;
    gateway.signal(Signal::TERM)?;
    wait_until("it is drained", || Ok(count_messages("seawall: drained in ")? == 1))?;
    let log = gateway.errors()?;
    for line in [
        format!("seawall: key {id} created (tier prime)\n"),
        format!("seawall: key {id} revoked (tier prime)\n"),
        "seawall: SIGTERM received: draining requests, for at most 2m\n".to_owned(),
    ] {
        ensure!(log.matches(&line).count() == 1, "{line}: {log}");
    }
    ensure!(!log.contains(created["key"].as_str().unwrap_or("none")) && !log.contains(KEY), "{log}");
    ensure!(gateway.wait()?.success());
    Ok(())
}

#[test]
fn diagnostics_as_json_are_one_object_per_line() -> anyhow::Result<()> {
    let model = Running::model("json-diagnostics", "[]")?;
    let more = "telemetry.diagnostics = \"json\"\ntelemetry.otlp_endpoint = \"http://localhost:4317\"\n";
    let gateway = Running::gateway("json-diagnostics", &model, ["instant", "instant"], more)?;
    let events = || -> anyhow::Result<Vec<Value>> {
        Ok(gateway.errors()?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
    };
    let is_reported = |name: &str| Ok(events()?.iter().any(|event| event["event"] == name));
    gateway.write_settings("no such thing")?;
    gateway.signal(Signal::HUP)?;
    wait_until("the settings are rejected", || is_reported("settings_rejected"))?;
    gateway.signal(Signal::TERM)?;
    wait_until("it is drained", || is_reported("shutdown_completed"))?;
    let events = events()?;
    let field = |name: &str, field: &str| {
        events.iter().find(|event| event["event"] == name).map_or(Value::Null, |event| event[field].clone())
    };
    ensure!(field("settings_not_implemented", "keys") == "telemetry.otlp_endpoint", "{events:?}");
    ensure!(field("settings_not_implemented", "level") == "WARN", "{events:?}");
    ensure!(field("settings_rejected", "details").as_str().is_some_and(|text| text.contains("error[")));
    ensure!(field("shutdown_started", "signal") == "SIGTERM", "{events:?}");
    ensure!(field("shutdown_started", "drain_timeout_ms") == 120_000, "{events:?}");
    ensure!(gateway.wait()?.success());
    Ok(())
}

#[test]
fn a_standard_error_that_nobody_reads_stops_nothing() -> anyhow::Result<()> {
    let model = Running::model("unread", "[]")?;
    let text = settings(&model.url, ["instant", "instant"]) + NO_LIMITS;
    let settings = file("unread-seawall.toml", &text)?;
    let mut command = seawall(&["serve", "--json", "--config", &settings.to_string_lossy()]);
    command.stderr(Stdio::piped());
    let gateway = Running::started(command)?;
    // Many problems are a large diagnostic, and some of these fill the pipe and the queue.
    let mistakes: String = (0..200).map(|number| format!("mistake_{number} = 1\n")).collect();
    std::fs::write(&settings, mistakes)?;
    wait_until("diagnostics are dropped", || {
        gateway.signal(Signal::HUP)?;
        Ok(gateway.counter("seawall_diagnostics_dropped_total")? > 0)
    })?;
    ensure!(gateway.ask(KEY, &question(5, false))?.status == 200);
    ensure!(gateway.end_with(Signal::TERM)?.success());
    Ok(())
}

#[test]
fn background_threads_have_names_and_no_panics() -> anyhow::Result<()> {
    let model = Running::model("threads", "[]")?;
    let gateway = Running::gateway("threads", &model, ["instant", "instant"], "")?;
    // A thread names itself when it first runs.
    wait_until("all threads have their names", || {
        let mut names = BTreeSet::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", gateway.process()))? {
            names.insert(std::fs::read_to_string(thread?.path().join("comm"))?.trim().to_owned());
        }
        Ok(["core-0", "core-1", "admin", "store", "diagnostics"].iter().all(|name| names.contains(*name)))
    })?;
    ensure!(gateway.counter("seawall_background_panics_total")? == 0);
    Ok(())
}

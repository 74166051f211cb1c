//! State that survives a restart of the gateway.

use crate::running::{KEY, Running, scratch_dir, seawall};
use anyhow::Context as _;
use seawall_testkit::Signal;
use std::fs;
use std::io::Read as _;

const REQUEST: &str =
    r#"{"model":"manga","max_tokens":100,"messages":[{"role":"user","content":"次は何を読もう？"}]}"#;

fn data_dir_setting(data_dir: &std::path::Path) -> String {
    format!("store.data_dir = '{}'\n", data_dir.display())
}

fn start(test: &str, model: &Running, models: [&str; 2], more: &str) -> anyhow::Result<Running> {
    Running::gateway_with(test, &model.url, models, more, |settings| {
        // The model bills `instant` at the price of the fast model.
        let instant = "models.instant = { input = \"$0.25/M\", output = \"$1.25/M\" }";
        settings
            .replace("store.kind = \"memory\"", "store.kind = \"embedded\"")
            .replace("models.instant = { input = \"$3/M\", output = \"$15/M\" }", instant)
    })
}

fn ask(gateway: &Running) -> anyhow::Result<String> {
    let mut answer = String::new();
    gateway.post(KEY, REQUEST)?.read_to_string(&mut answer)?;
    Ok(answer)
}

fn posted(gateway: &Running) -> anyhow::Result<u64> {
    gateway.counter("seawall_budget_posted_usd")
}

#[test]
fn what_was_spent_today_is_known_after_a_restart_and_after_a_kill() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("restart-spent", "[]")?, scratch_dir("restart-spent-state")?);
    let more = data_dir_setting(&data_dir) + "budget = { day = \"$0.20/day\", caller_day = \"$0.10/day\" }\n";
    let mut spent = 0;
    for (round, signal) in [Signal::TERM, Signal::KILL, Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let gateway = start("restart-spent", &model, ["instant", "instant"], &more)?;
        assert_eq!(posted(&gateway)?, spent, "round {round}: what was there at the start");
        for _ in 0..5 {
            let answer = ask(&gateway)?;
            assert!(answer.contains(" 200 "), "{answer}");
        }
        spent = posted(&gateway)?;
        // The end of a call may reach the journal some milliseconds late; one lost by a kill is charged at its
        // maximum cost.
        pause();
        gateway.end_with(signal)?;
    }
    assert!(spent > 0);
    let billed = model.bill("instant")?["nano_dollars"].as_u64();
    assert_eq!(Some(spent), billed, "to the nano-dollar what the model has billed");
    // An exhausted budget stays exhausted.
    let tight =
        data_dir_setting(&data_dir) + "budget = { day = \"$0.004/day\", caller_day = \"$0.002/day\" }\n";
    let gateway = start("restart-spent", &model, ["instant", "instant"], &tight)?;
    let answer = ask(&gateway)?;
    assert!(answer.contains(" 429 ") && answer.contains("budget"), "{answer}");
    assert_eq!(model.bill("instant")?["nano_dollars"].as_u64(), billed, "a model was called");
    Ok(())
}

#[test]
fn a_call_interrupted_by_a_kill_is_charged_once_at_maximum_cost() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("restart-killed", "[]")?, scratch_dir("restart-killed-state")?);
    let gateway = start("restart-killed", &model, ["haiku", "haiku"], &data_dir_setting(&data_dir))?;
    let stream = REQUEST.replace("\"max_tokens\":100", "\"max_tokens\":1000,\"stream\":true");
    let mut connection = gateway.post(KEY, &stream)?;
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("content_block_delta") {
        let mut piece = [0; 4_096];
        let read = connection.read(&mut piece)?;
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
    let held = gateway.counter("seawall_budget_held_usd")?;
    assert!(held > 0 && posted(&gateway)? == 0);
    gateway.end_with(Signal::KILL)?;
    for _ in 0..2 {
        let gateway = start("restart-killed", &model, ["haiku", "haiku"], &data_dir_setting(&data_dir))?;
        assert_eq!((posted(&gateway)?, gateway.counter("seawall_budget_held_usd")?), (held, 0));
        gateway.end_with(Signal::KILL)?;
    }
    let billed = model.bill("haiku")?["nano_dollars"].as_u64().context("no bill")?;
    assert!(billed <= held, "billed {billed}, charged {held}");
    Ok(())
}

#[test]
fn a_data_directory_is_exclusive_and_foreign_files_are_not_touched() -> anyhow::Result<()> {
    let (model, data_dir) =
        (Running::model("restart-exclusive", "[]")?, scratch_dir("restart-exclusive-state")?);
    let first = start("restart-exclusive", &model, ["instant", "instant"], &data_dir_setting(&data_dir))?;
    let data = data_dir.to_string_lossy().into_owned();
    let second = seawall(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &data]).output()?;
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&data) && stderr.contains("another process"), "{stderr}");
    first.end_with(Signal::TERM)?;
    let database = data_dir.join("state.redb");
    fs::write(&database, b"\x89PNG\r\n\x1a\n")?;
    let third = seawall(&["serve", "--listen", "127.0.0.1:0", "--data-dir", &data]).output()?;
    let stderr = String::from_utf8_lossy(&third.stderr);
    assert_eq!(third.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("state.redb"), "{stderr}");
    assert_eq!(fs::read(&database)?, b"\x89PNG\r\n\x1a\n", "never overwritten");
    Ok(())
}

/// Sends a request with an idempotency key. Returns the status and the whole response.
fn ask_with_key(gateway: &Running, name: &str) -> anyhow::Result<(u16, String)> {
    let headers = format!("x-api-key: {KEY}\r\nidempotency-key: {name}\r\n");
    let answer = gateway.send("POST", "/v1/messages", &headers, REQUEST.as_bytes())?;
    Ok((answer.status, answer.head + &String::from_utf8_lossy(&answer.body)))
}

#[test]
fn a_limit_holds_however_often_the_gateway_is_killed() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("restart-limits", "[]")?, scratch_dir("restart-limits-state")?);
    let start = || {
        Running::gateway_with(
            "restart-limits",
            &model.url,
            ["instant", "instant"],
            &data_dir_setting(&data_dir),
            |text| {
                text.replace("store.kind = \"memory\"", "store.kind = \"embedded\"")
                    .replace("tier = \"prime\"", "tier = \"standard\"")
            },
        )
    };
    let began = now();
    let (mut admitted, mut refused) = (0, 0);
    for round in 0..8 {
        let gateway = start()?;
        for _ in 0..7 {
            let answer = ask(&gateway)?;
            if answer.contains(" 200 ") {
                admitted += 1;
            } else {
                assert!(answer.contains(" 429 "), "{answer}");
                refused += 1;
            }
        }
        // Usually a kill, without time to persist anything; once a graceful shutdown.
        gateway.end_with(if round == 4 { Signal::TERM } else { Signal::KILL })?;
    }
    // Thirty a minute and a burst of five: requests admitted before a kill count after it.
    let minutes = 1 + now().duration_since(began).as_secs() / 60;
    assert!(admitted <= 35 * minutes, "{admitted} in {minutes} minutes, {refused} refused");
    assert!(admitted >= 35, "requests that were not counted are not refused: {admitted}");
    Ok(())
}

#[test]
fn a_request_of_the_same_name_is_not_done_again_by_the_next_process() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("restart-names", "[]")?, scratch_dir("restart-names-state")?);
    let gateway = start("restart-names", &model, ["instant", "instant"], &data_dir_setting(&data_dir))?;
    assert_eq!(ask_with_key(&gateway, "order-1")?.0, 200);
    gateway.end_with(Signal::TERM)?;
    let billed = model.bill("instant")?["nano_dollars"].as_u64();
    for signal in [Signal::KILL, Signal::TERM, Signal::TERM] {
        let gateway = start("restart-names", &model, ["instant", "instant"], &data_dir_setting(&data_dir))?;
        let (status, answer) = ask_with_key(&gateway, "order-1")?;
        assert!(status == 409 && answer.contains("has already been answered"), "{answer}");
        gateway.end_with(signal)?;
    }
    assert_eq!(model.bill("instant")?["nano_dollars"].as_u64(), billed, "no model was asked again");
    Ok(())
}

#[test]
fn a_request_that_was_under_way_when_the_gateway_was_killed_has_an_unknown_outcome() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("restart-unknown", "[]")?, scratch_dir("restart-unknown-state")?);
    let gateway = start("restart-unknown", &model, ["haiku", "haiku"], &data_dir_setting(&data_dir))?;
    let mut connection = std::net::TcpStream::connect(gateway.url.trim_start_matches("http://"))?;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {KEY}\r\nidempotency-key: order-2\r\n\
         content-length: {}\r\n\r\n{REQUEST}",
        REQUEST.len()
    );
    std::io::Write::write_all(&mut connection, head.as_bytes())?;
    while gateway.counter("seawall_budget_held_usd")? == 0 {}
    gateway.end_with(Signal::KILL)?;
    let gateway = start("restart-unknown", &model, ["haiku", "haiku"], &data_dir_setting(&data_dir))?;
    let (status, answer) = ask_with_key(&gateway, "order-2")?;
    assert!(status == 409 && answer.contains("outcome_unknown"), "{answer}");
    assert!(answer.to_lowercase().contains("x-should-retry: false"), "{answer}");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is shown here takes real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "what is shown here takes real time")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}

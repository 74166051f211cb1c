//! A disk that becomes full while the gateway runs, and has space again.
//!
//! The state is on a file system of a few megabytes in a mount namespace of the gateway's own, which the test accesses
//! through `/proc`.

use crate::requests::question;
use crate::running::{KEY, Running, scratch_dir, settings};
use anyhow::{Context as _, ensure};
use seawall_testkit::{HttpReply, Signal, exchange, wait_until};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this machine allows unprivileged mounts in a namespace.
fn can_mount() -> bool {
    let tried = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).status();
    tried.is_ok_and(|status| status.success())
}

fn start(test: &str, model: &Running, state: &Path) -> anyhow::Result<Running> {
    fs::create_dir_all(state)?;
    // If rejections were charged to a limit, they would exhaust it.
    let more = format!(
        "store.data_dir = '{}'\nlimits.tiers.prime = {{ minute = \"80/min\", burst = 0, hour = \"80/h\", day = \"80/day\" }}\n",
        state.display()
    );
    let text = settings(&model.url, ["instant", "instant"])
        .replace("store.kind = \"memory\"", "store.kind = \"embedded\"")
        + &more;
    let script = format!("mount -t tmpfs -o size=12m none '{}' && exec \"$@\"", state.display());
    Running::gateway_by(test, &text, &[], |program| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script, "sh"]).arg(program.get_program()).args(program.get_args());
        command
    })
}

/// More than the file system of the test holds. Nothing larger is written, should the path lead to another one.
const MAX_FILLER_PAGES: usize = (64 << 20) / 4_096;

/// Takes all free space, until the file is removed.
fn fill(gateway: &Running, state: &Path) -> anyhow::Result<PathBuf> {
    let inside = PathBuf::from(format!("/proc/{}/root", gateway.process()));
    let path = inside.join(state.strip_prefix("/")?).join("filler");
    let mut filler = fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let is_full = (0..MAX_FILLER_PAGES).any(|_| filler.write_all(&[0; 4_096]).is_err());
    ensure!(is_full, "{} is not on the small file system", path.display());
    Ok(path)
}

fn make_key(gateway: &Running, name: &str) -> anyhow::Result<HttpReply> {
    let address = gateway.admin.trim_start_matches("http://");
    let body = format!("{{\"name\": \"{name}\", \"tier\": \"prime\"}}");
    let head = format!(
        "POST /admin/keys HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    exchange(address, head.as_bytes())
}

fn ready(gateway: &Running) -> anyhow::Result<(u16, String)> {
    let answer = gateway.send("GET", "/readyz", "", b"")?;
    Ok((answer.status, String::from_utf8(answer.body)?))
}

/// The messages when the condition begins, for the journal and the store, and when it is over.
const BEGINS: [&str; 2] =
    ["no model is called: cannot write the journal: ", "check the disk (retried automatically)"];
const ENDS: [&str; 2] = ["the journal is writable again", "the data directory is writable again"];

/// Waits until the log contains each line this many times.
fn expect_report(gateway: &Running, lines: &[&str], times: usize) -> anyhow::Result<()> {
    wait_until("the log contains the lines", || {
        let output = gateway.errors()?;
        let count = |text: &&str| output.lines().filter(|line| line.contains(*text)).count();
        Ok(lines.iter().all(|text| count(text) == times))
    })
}

#[test]
fn a_full_disk_rejects_requests_without_charge_until_there_is_space() -> anyhow::Result<()> {
    if !can_mount() {
        eprintln!("skipped: this machine does not allow unprivileged mounts");
        return Ok(());
    }
    let (model, state) = (Running::model("full-disk", "[]")?, scratch_dir("full-disk-state")?);
    let gateway = start("full-disk", &model, &state)?;
    for _ in 0..3 {
        ensure!(gateway.ask(KEY, &question(1, false))?.status == 200);
    }
    for round in 0..2 {
        let filler = fill(&gateway, &state)?;
        // A few more fit into the last page of the journal.
        let answered = (0..40)
            .take_while(|_| gateway.ask(KEY, &question(1, false)).is_ok_and(|answer| answer.status == 200));
        ensure!(answered.count() < 40, "the disk is not full");
        wait_until("it is not ready", || Ok(ready(&gateway)?.0 == 503))?;
        let (calls, spent) = (model.calls()?.len(), gateway.counter("seawall_budget_posted_usd")?);
        for _ in 0..100 {
            let refused = gateway.ask(KEY, &question(1, false))?;
            let output = String::from_utf8_lossy(&refused.body).into_owned();
            ensure!(
                refused.status == 529 && output.contains("\"type\":\"error\""),
                "{}: {output}",
                refused.status
            );
            ensure!(refused.header("retry-after").is_some(), "{}", refused.head);
        }
        ensure!(model.calls()?.len() == calls, "a model was called");
        ensure!(gateway.counter("seawall_budget_posted_usd")? == spent, "something was charged");
        let (status, output) = ready(&gateway)?;
        ensure!(status == 503 && output.contains("journal unavailable"), "{status}: {output}");
        ensure!(output.contains("No space left"), "{output}");
        // The database cannot be written either, and reports it.
        let refused = make_key(&gateway, &format!("refused-{round}"))?;
        ensure!(refused.status == 500, "{}: {}", refused.status, String::from_utf8_lossy(&refused.body));
        expect_report(&gateway, &BEGINS, round + 1)?;

        fs::remove_file(&filler)?;
        wait_until("it is ready again", || Ok(ready(&gateway)? == (200, "ready\n".to_owned())))?;
        ensure!(gateway.ask(KEY, &question(1, false))?.status == 200, "round {round}");
        expect_report(&gateway, &ENDS, round + 1)?;
        let response = make_key(&gateway, &format!("made-{round}"))?;
        let created: serde_json::Value = serde_json::from_slice(&response.body)?;
        let key = created["key"].as_str().with_context(|| created.to_string())?;
        ensure!(gateway.ask(key, &question(1, false))?.status == 200, "a new key is rejected");
    }
    let output = gateway.errors()?;
    let lines = |text: &str| output.lines().filter(|line| line.contains(text)).count();
    ensure!(BEGINS.iter().chain(&ENDS).all(|text| lines(text) == 2), "once each time: {output}");
    ensure!(lines("panicked") == 0, "{output}");
    ensure!(gateway.end_with(Signal::TERM)?.success());
    Ok(())
}

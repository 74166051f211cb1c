//! System calls per request: the one part of performance that can be measured without noise.

use crate::running::{KEY, Running, file, scratch_dir};
use anyhow::{Context as _, bail, ensure};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};

const CONNECTIONS: u64 = 8;
const REQUESTS: u64 = 100;

/// The threads of a gateway that serve requests. Others write the ledger and the log periodically, not per request.
fn answering_threads(process: u32) -> anyhow::Result<Vec<String>> {
    let mut threads = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        if fs::read_to_string(thread.path().join("comm"))?.starts_with("core-") {
            threads.push(thread.file_name().to_string_lossy().into_owned());
        }
    }
    ensure!(!threads.is_empty(), "no thread answers requests");
    Ok(threads)
}

/// Counts the system calls of the serving threads of a running gateway while `work` runs.
fn calls_during(process: u32, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let summary = file("calls.txt", "")?;
    let threads = answering_threads(process)?;
    let mut strace = Command::new("strace")
        .args(["-c", "-qq", "-o"])
        .arg(&summary)
        .args(threads.iter().flat_map(|thread| ["-p", thread]))
        .spawn()
        .context("cannot start strace")?;
    let done = wait_until_traced(process, &threads, &mut strace).and_then(|()| work());
    Command::new("kill").args(["-INT", &strace.id().to_string()]).status().context("cannot start kill")?;
    strace.wait()?;
    done?;
    let summary = fs::read_to_string(summary)?;
    let total = summary.lines().find(|line| line.trim_end().ends_with(" total")).context(summary.clone())?;
    total.split_whitespace().nth(3).context("no number of calls")?.parse().context(summary.clone())
}

fn wait_until_traced(process: u32, threads: &[String], strace: &mut Child) -> anyhow::Result<()> {
    loop {
        if let Some(status) = strace.try_wait()? {
            bail!("strace ended with {status}");
        }
        let mut all = true;
        for thread in threads {
            let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status"))?;
            all &= !status.lines().any(|line| line == "TracerPid:\t0");
        }
        if all {
            return Ok(());
        }
    }
}

/// Sends requests over one keep-alive connection, one after the other.
fn send(gateway: &Running, body: &str, requests: u64) -> anyhow::Result<()> {
    let mut connection = BufReader::new(TcpStream::connect(gateway.url.trim_start_matches("http://"))?);
    for _ in 0..requests {
        let head =
            format!("POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {KEY}\r\ncontent-length: ");
        // In one write: a request sent in several may be read in several.
        let request = format!("{head}{}\r\n\r\n{body}", body.len());
        connection.get_mut().write_all(request.as_bytes())?;
        let (mut length, mut line) = (None, String::new());
        loop {
            line.clear();
            connection.read_line(&mut line)?;
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = Some(value.trim().parse()?);
            }
        }
        let mut answer = vec![0; length.context("no content-length")?];
        connection.read_exact(&mut answer)?;
        ensure!(answer.starts_with(b"{\"id\""), "{}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

fn send_from_all(gateway: &Running, requests: u64) -> anyhow::Result<()> {
    let body = r#"{"model":"manga","max_tokens":20,"messages":[{"role":"user","content":"What next?"}]}"#;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CONNECTIONS).map(|_| scope.spawn(|| send(gateway, body, requests))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(sent) => sent,
            Err(_) => bail!("a sender broke"),
        })
    })
}

#[test]
fn a_plain_request_takes_at_most_seven_system_calls() -> anyhow::Result<()> {
    let model = Running::model("calls", "[]")?;
    let more = "limits.tiers.prime = { minute = \"1,000,000/min\", hour = \"1,000,000/h\", day = \"1,000,000/day\" }\n";
    let state = scratch_dir("calls-state")?;
    // With the journal on: every request includes a write before the call, and one when it is settled.
    let gateway = Running::gateway_with("calls", &model.url, ["instant", "instant"], more, |settings| {
        let store = format!("store = {{ kind = \"embedded\", data_dir = '{}' }}", state.display());
        // On one core: tracing makes journal writes so slow that two threads would contend all the time.
        settings.replace("store.kind = \"memory\"", &store).replace("server.cores = 2", "server.cores = 1")
    })?;
    // Warm up: open the connections to the model, and do what is done only once.
    send_from_all(&gateway, 10)?;
    // On a busy machine a thread is woken more often than the work needs, so the minimum of a few runs counts.
    let mut min_calls = f64::INFINITY;
    for _ in 0..3 {
        let calls = calls_during(gateway.process(), || send_from_all(&gateway, REQUESTS))?;
        let each = calls as f64 / (CONNECTIONS * REQUESTS) as f64;
        assert!(each >= 3.0, "{each:.2} system calls a request: something was not counted");
        min_calls = min_calls.min(each);
        if min_calls <= 7.0 {
            return Ok(());
        }
    }
    bail!("{min_calls:.2} system calls a request")
}

//! Memory of a burst of large requests is returned to the operating system.

use crate::running::{KEY, Running};
use anyhow::{Context as _, ensure};
use seawall_testkit::{now, pause};
use std::fs;
use std::thread::scope;
use std::time::Duration;

/// The size of each body, and the number of concurrent ones.
const BODY: usize = 8 << 20;
const AT_ONCE: usize = 16;
/// Allowed growth afterwards, in MiB.
const LEFT_OVER: u64 = 64;

#[test]
fn memory_of_large_bodies_goes_back_to_the_system() -> anyhow::Result<()> {
    let model = Running::model("memory", "[]")?;
    let gateway = Running::gateway("memory", &model, ["sonnet", "haiku"], "")?;
    let content = "a".repeat(BODY);
    let body =
        format!(r#"{{"model":"manga","max_tokens":9,"messages":[{{"role":"user","content":"{content}"}}]}}"#);
    let headers = format!("x-api-key: {KEY}\r\n");
    for _ in 0..3 {
        scope(|scope| {
            let senders: Vec<_> = (0..AT_ONCE)
                .map(|_| scope.spawn(|| gateway.send("POST", "/v1/messages", &headers, body.as_bytes())))
                .collect();
            senders.into_iter().try_for_each(|sender| sender.join().map_or(Ok(()), |sent| sent.map(drop)))
        })?;
    }
    let since = now();
    loop {
        let resident = resident(gateway.process())?;
        if resident < LEFT_OVER {
            return Ok(());
        }
        ensure!(now().duration_since(since) < Duration::from_secs(20), "{resident} MiB are still resident");
        pause(Duration::from_millis(200));
    }
}

/// Resident memory of a process in MiB.
fn resident(process: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim_end_matches("kB").trim().parse::<u64>()? / 1_024)
}

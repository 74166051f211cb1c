//! Settings reloads while requests are served.

use crate::running::{KEY, Running, settings};
use anyhow::ensure;
use seawall_testkit::Signal;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const WIDE: &str =
    "limits.tiers.prime = { minute = \"1,000,000/min\", hour = \"1,000,000/h\", day = \"1,000,000/day\" }\n";

pub(crate) fn ask(gateway: &Running, stream: bool) -> anyhow::Result<String> {
    let body = format!(
        r#"{{"model":"manga","max_tokens":20,"stream":{stream},"messages":[{{"role":"user","content":"次は？"}}]}}"#
    );
    let mut answer = String::new();
    gateway.post(KEY, &body)?.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reloads the settings and waits for the message about the result.
pub(crate) fn reload(gateway: &Running, text: &str, expected: &str) -> anyhow::Result<String> {
    let before = gateway.errors()?.len();
    gateway.write_settings(text)?;
    gateway.signal(Signal::HUP)?;
    wait_for(gateway, before, expected)
}

pub(crate) fn wait_for(gateway: &Running, before: usize, expected: &str) -> anyhow::Result<String> {
    let until = now() + Duration::from_secs(20);
    loop {
        let output = gateway.errors()?[before..].to_owned();
        if output.contains(expected) {
            return Ok(output);
        }
        ensure!(now() < until, "never printed {expected:?}, but {output:?}");
        std::thread::yield_now();
    }
}

#[test]
fn settings_change_under_load_and_no_request_is_lost() -> anyhow::Result<()> {
    let model = Running::model("reload-load", "[]")?;
    let gateway = Running::gateway("reload-load", &model, ["instant", "haiku"], WIDE)?;
    let (done, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    let wrong = std::thread::scope(|scope| -> anyhow::Result<Vec<String>> {
        let asking: Vec<_> = (0..6)
            .map(|number| {
                let (gateway, done, answered) = (&gateway, &done, &answered);
                scope.spawn(move || -> anyhow::Result<Vec<String>> {
                    let mut wrong = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let stream = number % 2 == 0;
                        let answer = ask(gateway, stream)?;
                        let whole = answer.contains(if stream { "message_stop" } else { "end_turn" })
                            || answer.contains("max_tokens");
                        if !answer.contains(" 200 ") || !whole {
                            wrong.push(answer);
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(wrong)
                })
            })
            .collect();
        let changed = (1..=12).try_for_each(|round| -> anyhow::Result<()> {
            // Every round changes limits, a target, timeouts and callers.
            let targets = if round % 2 == 0 { ["instant", "haiku"] } else { ["haiku", "instant"] };
            let more = format!(
                "limits.tiers.prime = {{ minute = \"{},000,000/min\", hour = \"1,000,000/h\", day = \"1,000,000/day\" }}\n\
                 deadlines.attempt = \"2{}s\"\nrouter.evening_peak.start = \"1{}:00\"\n{}",
                round,
                round % 5,
                round % 9,
                crate::running::caller("another", &format!("sk-another-caller-{round}")),
            );
            let concurrency = format!("region = \"none\", concurrency = {}", 100 + round);
            let text = settings(&model.url, targets).replace("region = \"none\"", &concurrency) + &more;
            reload(&gateway, &text, "settings reloaded: changed")?;
            // Some requests are served under these settings before the next change.
            let before = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) < before + 10 && asking.iter().any(|one| !one.is_finished()) {
                std::thread::yield_now();
            }
            Ok(())
        });
        // Whatever the result, the other threads must end.
        done.store(true, Ordering::Relaxed);
        changed?;
        let mut wrong = Vec::new();
        for thread in asking {
            wrong.extend(thread.join().map_err(|_| anyhow::anyhow!("a client thread panicked"))??);
        }
        Ok(wrong)
    })?;
    assert_eq!(wrong, Vec::<String>::new());
    assert!(answered.load(Ordering::Relaxed) >= 120, "{answered:?}");
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn a_limit_that_becomes_tighter_counts_what_was_used_before() -> anyhow::Result<()> {
    let model = Running::model("reload-limit", "[]")?;
    let base = settings(&model.url, ["instant", "instant"]);
    let gateway = Running::gateway("reload-limit", &model, ["instant", "instant"], "")?;
    for _ in 0..4 {
        assert!(ask(&gateway, false)?.contains(" 200 "));
    }
    let tight = "limits.tiers.prime = { minute = \"3/min\", burst = 1 }\n";
    let output = reload(&gateway, &(base.clone() + tight), "kept")?;
    assert!(output.contains("limits.tiers.prime.minute") && output.contains("kept"), "{output}");
    let refused = ask(&gateway, false)?;
    assert!(refused.contains(" 429 ") && refused.contains("minute"), "{refused}");
    // A fifth request is admitted when the limit is five.
    let wider = "limits.tiers.prime = { minute = \"4/min\", burst = 1 }\n";
    reload(&gateway, &(base + wider), "settings reloaded: changed")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(ask(&gateway, false)?.contains(" 429 "));
    Ok(())
}

#[test]
fn invalid_settings_change_nothing_and_report_their_locations() -> anyhow::Result<()> {
    let model = Running::model("reload-refused", "[]")?;
    let base = settings(&model.url, ["instant", "instant"]);
    let gateway = Running::gateway("reload-refused", &model, ["instant", "instant"], "")?;
    let two = "limits.tiers.prime.minute = 3\nroutes.manga.targets = [\"opus\"]\n";
    let output = reload(&gateway, &(base.clone() + two), "2 errors")?;
    assert!(output.contains("settings rejected, nothing changed"), "{output}");
    assert!(output.contains("did you mean \"3/min\"?") && output.contains("opus"), "{output}");
    assert!(ask(&gateway, false)?.contains(" 200 "), "the old settings hold");
    // A missing secret is noticed only when it is read, and changes nothing either.
    let secret = base.replace("env:PATH", "env:SEAWALL_TEST_NOT_SET");
    let output = reload(&gateway, &secret, "the environment variable is not set")?;
    assert!(output.contains("settings rejected, nothing changed"), "{output}");
    assert!(output.contains("env:SEAWALL_TEST_NOT_SET: the environment variable is not set"), "{output}");
    assert!(ask(&gateway, false)?.contains(" 200 "));
    // A change that needs a restart is reported.
    let restart = base.replace("server.cores = 2", "server.cores = 1");
    let output = reload(&gateway, &restart, "restart required: server.cores\n")?;
    assert!(output.contains("restart required: server.cores\n"), "{output}");
    assert!(ask(&gateway, false)?.contains(" 200 "));
    Ok(())
}

#[test]
fn a_changed_file_is_reloaded_without_a_signal() -> anyhow::Result<()> {
    let model = Running::model("reload-file", "[]")?;
    let base = settings(&model.url, ["instant", "instant"]);
    let gateway = Running::gateway("reload-file", &model, ["instant", "instant"], "")?;
    gateway.write_settings(&(base + "limits.tiers.prime = { minute = \"1/min\", burst = 0 }\n"))?;
    wait_for(&gateway, 0, "settings reloaded: changed")?;
    assert!(ask(&gateway, false)?.contains(" 200 "));
    assert!(ask(&gateway, false)?.contains(" 429 "));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is shown here takes real time")]
fn now() -> Instant {
    Instant::now()
}

//! `seawall serve`, in front of `seawall model`.

use crate::client::Client;
use crate::running::{KEY, Running, caller, file, seawall};
use seawall_testkit::Signal;
use serde_json::Value;
use std::io::Read as _;
use std::time::{Duration, Instant};

pub(crate) fn body(max_tokens: u32, stream: bool) -> String {
    format!(
        r#"{{"model":"manga","max_tokens":{max_tokens},"stream":{stream},"messages":[{{"role":"user","content":"次は何を読もう？"}}]}}"#
    )
}

#[test]
fn every_client_receives_whole_and_streamed_responses() -> anyhow::Result<()> {
    let model = Running::model("serve-answer", "[]")?;
    let gateway = Running::gateway("serve-answer", &model, ["instant", "instant"], "")?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&gateway.url, KEY, "manga", "answer", 0)?;
        assert_eq!(
            (&seen["finish"], &seen["output"]),
            (&"max_tokens".into(), &40.into()),
            "{client:?}: {seen}"
        );
        let seen = client.sees(&gateway.url, KEY, "manga", "stream", 0)?;
        assert_eq!((&seen["complete"], &seen["error"]), (&true.into(), &Value::Null), "{client:?}: {seen}");
    }
    // The ledger agrees with the model's bill.
    let bill = model.bill("instant")?;
    assert_eq!(gateway.counter("seawall_output_tokens_total")?, 40 * 6);
    assert_eq!(bill["output_tokens"], 40 * 6);
    assert_eq!(gateway.get("/livez")?, "ok\n");
    assert_eq!(gateway.get("/readyz")?, "ready\n");
    Ok(())
}

#[test]
fn a_throttled_call_is_retried_transparently() -> anyhow::Result<()> {
    let throttled = r#"[{"every":2,"fault":{"kind":"status","status":429}}]"#;
    let model = Running::model("serve-throttled", throttled)?;
    let gateway = Running::gateway("serve-throttled", &model, ["instant", "instant"], "")?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&gateway.url, KEY, "manga", "answer", 0)?;
        assert_eq!(seen["output"], 40, "{client:?}: {seen}");
    }
    assert_eq!(gateway.counter("seawall_attempts_total")?, 6);
    Ok(())
}

#[test]
fn with_the_first_target_down_the_second_answers() -> anyhow::Result<()> {
    let down = r#"[{"model":"sonnet","fault":{"kind":"status","status":503}}]"#;
    let model = Running::model("serve-down", down)?;
    let gateway = Running::gateway("serve-down", &model, ["sonnet", "instant"], "")?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&gateway.url, KEY, "manga", "stream", 0)?;
        assert_eq!((&seen["complete"], &seen["error"]), (&true.into(), &Value::Null), "{client:?}: {seen}");
    }
    assert_eq!(model.bill("instant")?["answers"], 3);
    Ok(())
}

#[test]
fn a_stream_that_breaks_off_raises_in_every_client_however_it_does() -> anyhow::Result<()> {
    for fault in ["cut", "end_early", "error"] {
        let faults = format!(r#"[{{"fault":{{"kind":"{fault}","after":4}}}}]"#);
        let model = Running::model(&format!("serve-{fault}"), &faults)?;
        // At real pace: an answer that arrives in one piece with its error is replaced before the caller sees any of
        // it.
        let gateway = Running::gateway(&format!("serve-{fault}"), &model, ["haiku", "haiku"], "")?;
        for client in Client::ANTHROPIC {
            let seen = client.sees(&gateway.url, KEY, "manga", "stream", 0)?;
            assert_ne!(seen["error"], Value::Null, "{fault}, {client:?}: {seen}");
            assert_eq!(
                (&seen["complete"], seen["text"] == ""),
                (&false.into(), false),
                "{fault}, {client:?}: {seen}"
            );
        }
        assert_eq!(gateway.counter("seawall_requests_total{outcome=\"interrupted\"}")?, 3, "{fault}");
    }
    Ok(())
}

#[test]
fn a_client_disconnect_closes_the_upstream_connection_and_is_charged() -> anyhow::Result<()> {
    let model = Running::model("serve-gone", "[]")?;
    let gateway = Running::gateway("serve-gone", &model, ["haiku", "haiku"], "")?;
    let mut connection = gateway.post(KEY, &body(4_000, true))?;
    // The caller disconnects after the first text.
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("content_block_delta") {
        let mut piece = [0; 4_096];
        let read = connection.read(&mut piece)?;
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
    drop(connection);
    let stopped_at = now();
    while gateway.counter("seawall_requests_total{outcome=\"abandoned\"}")? == 0 {
        assert!(now() - stopped_at < Duration::from_millis(500), "still held");
    }
    // Once the connection is closed the model delivers no more, though it had thousands of tokens to go.
    let delivered = |bill: &Value| bill["output_tokens"].as_u64();
    let first = model.bill("haiku")?;
    let until = now() + Duration::from_millis(300);
    while now() < until {
        std::hint::spin_loop();
    }
    assert_eq!(delivered(&first), delivered(&model.bill("haiku")?));
    assert!(gateway.counter("seawall_cost_usd_total")? >= first["nano_dollars"].as_u64().unwrap_or(u64::MAX));
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn two_hundred_callers_at_once_never_pass_a_tiny_budget() -> anyhow::Result<()> {
    let model = Running::model("serve-budget", "[]")?;
    let keys: Vec<String> = (0..4).map(|caller| format!("sk-test-caller-{caller:08}")).collect();
    let mut more: String = keys.iter().map(|key| caller(&key[8..], key)).collect();
    more += "budget = { day = \"$0.01/day\", caller_day = \"$0.01/day\" }\n";
    let gateway = Running::gateway("serve-budget", &model, ["haiku", "haiku"], &more)?;
    let statuses: Vec<String> = std::thread::scope(|scope| {
        let requests: Vec<_> = (0..200)
            .map(|caller| {
                let (gateway, key) = (&gateway, &keys[caller % keys.len()]);
                scope.spawn(move || -> anyhow::Result<String> {
                    let mut answer = String::new();
                    gateway.post(key, &body(100, caller % 2 == 0))?.read_to_string(&mut answer)?;
                    Ok(answer.lines().next().unwrap_or_default().to_owned())
                })
            })
            .collect();
        requests.into_iter().filter_map(|thread| thread.join().ok()?.ok()).collect()
    });
    assert_eq!(statuses.len(), 200);
    let count = |status: &str| statuses.iter().filter(|line| line.contains(status)).count();
    assert!(
        count(" 200 ") > 0 && count(" 429 ") > 0,
        "{} answered, {} refused",
        count(" 200 "),
        count(" 429 ")
    );
    assert_eq!(count(" 200 ") + count(" 429 "), 200);
    let billed = model.bill("haiku")?["nano_dollars"].as_u64().unwrap_or(u64::MAX);
    assert!(billed <= 10_000_000, "billed {billed}");
    // The strong target's price is posted, which is higher than what haiku bills.
    assert!(gateway.counter("seawall_budget_posted_usd")? <= 10_000_000);
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn rejections_use_the_vendors_error_format_and_cost_nothing() -> anyhow::Result<()> {
    let model = Running::model("serve-refusals", "[]")?;
    let gateway = Running::gateway("serve-refusals", &model, ["instant", "instant"], "")?;
    let ask = |key: &str, body: &str| -> anyhow::Result<String> {
        let mut answer = String::new();
        gateway.post(key, body)?.read_to_string(&mut answer)?;
        Ok(answer)
    };
    for (key, body, status, error) in [
        ("wrong-key-0123456789", body(10, false), " 401 ", "authentication_error"),
        (KEY, body(10, false).replace("manga", "novel"), " 404 ", "not_found_error"),
        (KEY, "{\"model\":\"manga\"".to_owned(), " 400 ", "invalid_request_error"),
        (KEY, body(10, false).replace("10", "-1"), " 400 ", "max_tokens"),
    ] {
        let answer = ask(key, &body)?;
        assert!(answer.contains(status) && answer.contains(error), "{answer}");
    }
    assert_eq!(model.bill("instant")?, Value::Null, "no model was asked");
    // Rejected requests are not charged: seventy more are admitted.
    let answers = (0..71).map(|_| ask(KEY, &body(1, false))).collect::<anyhow::Result<Vec<_>>>()?;
    let refused: Vec<_> = answers.iter().filter(|answer| answer.contains(" 429 ")).collect();
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0].contains("x-should-retry: false") && refused[0].contains("retry-after: "),
        "{}",
        refused[0]
    );
    Ok(())
}

#[test]
fn a_shutdown_signal_lets_a_stream_finish_and_exits_with_success() -> anyhow::Result<()> {
    let model = Running::model("serve-drain", "[]")?;
    ends_in_good_order(Running::gateway("serve-drain", &model, ["haiku", "haiku"], "")?)
}

#[test]
fn a_gateway_with_simulated_models_shuts_down_cleanly() -> anyhow::Result<()> {
    let quiet =
        "profile = \"demo\"\nserver.cores = 2\nstore.kind = \"memory\"\ntelemetry.access_log = \"none\"\n";
    let file = file("serve-alone.toml", &(quiet.to_owned() + &caller("test", KEY)))?;
    // Without a command it serves.
    let free = "127.0.0.1:0";
    let arguments = ["--json", "--listen", free, "--admin-listen", free, "--config", &file.to_string_lossy()];
    ends_in_good_order(Running::start(&arguments)?)
}

/// Shutdown in the middle of a stream.
fn ends_in_good_order(gateway: Running) -> anyhow::Result<()> {
    let mut connection = gateway.post(KEY, &body(100, true))?;
    let mut first = [0; 16];
    connection.read_exact(&mut first)?;
    let ending = std::thread::scope(|scope| {
        let reading = scope.spawn(move || -> std::io::Result<String> {
            let mut rest = String::new();
            connection.read_to_string(&mut rest)?;
            Ok(rest)
        });
        // New connections are refused at once, while the stream continues.
        let signalled = gateway.signal(Signal::TERM);
        while gateway.is_listening() {}
        assert!(!reading.is_finished(), "it took new work until the stream was over");
        // No second signal: that would not wait for the stream.
        let status = signalled.and_then(|()| gateway.wait());
        (reading.join(), status)
    });
    let (Ok(rest), status) = ending else { panic!("the reader broke") };
    assert!(rest?.contains("message_stop"));
    assert_eq!(status?.code(), Some(0));
    Ok(())
}

#[test]
fn a_second_signal_exits_immediately() -> anyhow::Result<()> {
    let model = Running::model("serve-twice", r#"[{"fault":{"kind":"hang","after":0}}]"#)?;
    let gateway = Running::gateway("serve-twice", &model, ["haiku", "haiku"], "")?;
    let _waits = gateway.post(KEY, &body(100, false))?;
    gateway.signal(Signal::TERM)?;
    while gateway.is_listening() {}
    let signalled_at = now();
    assert_eq!(gateway.end_with(Signal::TERM)?.code(), Some(1));
    assert!(now() - signalled_at < Duration::from_secs(5), "{:?}", now() - signalled_at);
    Ok(())
}

#[test]
fn invalid_options_are_refused_with_exit_code_two() -> anyhow::Result<()> {
    for (arguments, expected) in [
        (&["serve", "--set", "budget.day"][..], "must be KEY=VALUE"),
        (&["serve", "--set", "budget.day=100"], "did you mean \"$100/day\"?"),
        (&["serve", "--set", "budgt.day=$100/day"], "did you mean \"budget\""),
        (&["serve", "--profile", "production"], "production"),
        (&["serve", "--config", "no-such-file.toml"], "no-such-file.toml"),
        (
            &["serve", "--profile", "mangaassist", "--set", "targets.sonnet.role_arn=harbour"],
            "is not the ARN of a role",
        ),
        (&["serve", "--set", "targets.sonnet.base_url=http://169.254.169.254"], "metadata"),
        (
            &[
                "serve",
                "--set",
                "targets.sonnet.provider=anthropic",
                "--set",
                "targets.sonnet.api_key=env:NOT_SET",
            ],
            "env:NOT_SET: the environment variable is not set",
        ),
    ] {
        let output = seawall(arguments).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "what is shown here takes real time")]
fn now() -> Instant {
    Instant::now()
}

//! Responses of the admin API.

use crate::running::{Gateway, KEY, error, send, settings, start};
use serde_json::{Value, json};

/// The names of an object's fields.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// The caller's number as derived from its credential alone, which must not be shown.
fn number() -> String {
    let hash = seawall_gateway::identity::hash_api_key(KEY);
    hex::encode(&hash[..8])
}

/// The pseudonym of the caller in the log.
fn pseudonym(gateway: &Gateway) -> String {
    gateway.call();
    gateway.json("/admin/requests")["requests"][0]["caller"].as_str().unwrap().to_owned()
}

#[test]
fn a_pseudonym_depends_on_the_salt_and_is_never_the_hash() {
    let salted = |name: &str| pseudonym(&start(&format!("telemetry.salt = \"env:{name}\"")));
    let [one, again, other] = ["PATH", "PATH", "CARGO_MANIFEST_DIR"].map(salted);
    assert_eq!(one, again);
    let without = [pseudonym(&start("")), pseudonym(&start(""))];
    let number = number();
    let all = [&one, &other, &without[0], &without[1], &number].map(String::as_str);
    assert_eq!(std::collections::BTreeSet::from(all).len(), 5, "{all:?}");
}

#[test]
fn status_describes_the_gateway() {
    let gateway = start("telemetry.min_traces_per_second = 7");
    let status = gateway.json("/admin/status");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        status["addresses"],
        json!({ "server": gateway.data.to_string(), "admin": gateway.admin.to_string() })
    );
    assert_eq!((&status["draining"], &status["requests"]), (&false.into(), &0.into()));
    assert_eq!((&status["level"], &status["store"]), (&"normal".into(), &json!({ "kind": "memory" })));
    assert_eq!(status["unimplemented_settings"], json!(["telemetry.min_traces_per_second"]));
    gateway.call();
    let later = gateway.json("/admin/status");
    assert_eq!(later["requests"], 1);
    assert!(later["uptime_ms"].as_u64() >= status["uptime_ms"].as_u64());
    assert_eq!(later["time"].as_str().map(str::len), Some("2026-11-16T00:00:00.000Z".len()));
}

#[test]
fn a_data_directory_is_reported_with_its_recovery() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("operators-state");
    let _ = std::fs::remove_dir_all(&folder);
    let mut loaded = settings("");
    {
        let settings = &mut std::sync::Arc::make_mut(&mut loaded).settings;
        settings.store.kind = seawall_config::StoreKind::Embedded;
        settings.store.data_dir = folder.display().to_string();
    }
    for is_new in [true, false] {
        let gateway = crate::running::try_start(&loaded).unwrap();
        let store = gateway.json("/admin/status")["store"].take();
        assert_eq!((&store["kind"], &store["created"]), (&"embedded".into(), &is_new.into()));
        assert_eq!(store["data_dir"], folder.display().to_string());
        assert_eq!(
            (&store["charged_calls"], &store["charged_nanos"], &store["truncated"]),
            (&0.into(), &0.into(), &Value::Null)
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The state that reading must not change.
fn stand(gateway: &Gateway) -> Value {
    let mut targets = gateway.json("/admin/targets");
    for target in targets["targets"].as_array_mut().unwrap() {
        // This changes as time passes.
        target["breaker"]["retry_after_ms"] = Value::Null;
    }
    targets
}

#[test]
fn a_thousand_reads_of_targets_change_nothing() {
    let gateway = start("");
    let before = stand(&gateway);
    assert_eq!(before["targets"][0]["breaker"]["phase"], "closed");
    // No target is reachable, so the breakers open.
    for _ in 0..12 {
        assert!(gateway.call().status >= 500);
    }
    let open = stand(&gateway);
    let target = &open["targets"][1];
    assert_eq!((&target["name"], &target["breaker"]["phase"]), (&"sonnet".into(), &"open".into()));
    assert_eq!(target["breaker"]["reject_reason"], "consecutive_failures");
    assert_eq!((&target["in_flight"]["now"], &target["in_flight"]["peak"]), (&0.into(), &1.into()));
    let told = gateway.json("/admin/requests?limit=1000");
    for _ in 0..1_000 {
        assert_eq!(stand(&gateway), open);
    }
    // Compare ids only: ages change as time passes.
    let ids = |told: &Value| {
        told["requests"].as_array().map(|all| all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(ids(&gateway.json("/admin/requests?limit=1000")), ids(&told));
}

#[test]
fn a_target_has_every_field() {
    let gateway = start("");
    let targets = gateway.json("/admin/targets");
    let target = &targets["targets"][0];
    assert_eq!(
        fields(target),
        [
            "breaker",
            "credential",
            "grade",
            "health",
            "in_flight",
            "keys",
            "model",
            "name",
            "overruns",
            "pacing",
            "panic_calls",
            "pressure",
            "queue",
            "routes",
            "time_to_first_content"
        ]
    );
    assert_eq!(
        fields(&target["breaker"]),
        ["mode", "open_for_one_caller", "phase", "reject_reason", "retry_after_ms", "stage"]
    );
    assert_eq!(
        target["pacing"],
        json!({ "retry_after_ms": 0, "calls_per_second": null, "waiting": 0 }),
        "nobody throttles"
    );
    assert_eq!(
        fields(&target["queue"]),
        ["by_class", "capacity", "entered", "oldest_ms", "outcomes", "size"]
    );
    assert_eq!(fields(&target["queue"]["by_class"]), ["bulk", "critical", "high", "low", "normal"]);
    assert_eq!(target["time_to_first_content"], json!({ "count": 0, "p50_ms": null, "p95_ms": null }));
    assert_eq!((&target["routes"], &target["model"]), (&json!(["manga"]), &"m".into()));
}

#[test]
fn limits_and_spend_of_a_caller_are_found_by_its_pseudonym() {
    let gateway = start("");
    let caller = pseudonym(&gateway);
    let path = format!("/admin/limits?caller={caller}&tier=prime");
    let limits = |value: &Value| {
        value["limits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|limit| limit["remaining"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let before = gateway.json(&path);
    assert_eq!((&before["caller"], &before["tier"]), (&caller.as_str().into(), &"prime".into()));
    assert_eq!(limits(&before), [70, 500, 15_000]);
    assert_eq!(before["limits"][0]["capacity"], 70);
    assert_eq!(gateway.json(&path), before, "looking takes nothing");
    gateway.call();
    // The target refuses connections: a request that reached no vendor is free.
    assert_eq!(limits(&gateway.json(&path)), [70, 500, 15_000]);
    let own = gateway.json(&format!("/admin/spend?caller={caller}"));
    assert_eq!(fields(&own), ["caller", "cap_nanos", "day", "held_nanos", "posted_nanos", "remaining_nanos"]);
    let all = gateway.json("/admin/spend");
    assert_eq!(
        fields(&all),
        ["cap_nanos", "day", "held_nanos", "overrun_nanos", "posted_nanos", "remaining_nanos", "tiers"]
    );
    assert_eq!(fields(&all["tiers"]), ["guest", "prime", "standard"]);
    assert_eq!(all["cap_nanos"], 5_000_000_000_000_u64);
    assert_eq!(all["tiers"]["prime"]["cap_nanos"], 2_500_000_000_000_u64);
    let sum = |name: &str| all[name].as_u64().unwrap();
    assert_eq!(sum("remaining_nanos"), sum("cap_nanos") - sum("posted_nanos") - sum("held_nanos"));
}

#[test]
fn the_newest_requests_come_first_without_message_text() {
    let gateway = start("");
    for _ in 0..3 {
        gateway.call();
    }
    let reply = gateway.ask("/admin/requests?limit=2&pretty");
    for secret in ["秘密", KEY, "127.0.0.1"] {
        assert!(!reply.text().contains(secret), "{secret} in {}", reply.text());
    }
    let told: Value = reply.json().unwrap();
    let all = told["requests"].as_array().unwrap();
    assert_eq!(all.len(), 2);
    assert!(all[0]["time"].as_str() >= all[1]["time"].as_str());
    let one = &all[0];
    assert_eq!(
        (&one["caller"], &one["face"], &one["route"]),
        (&all[1]["caller"], &"anthropic".into(), &"manga".into())
    );
    assert_eq!(one["outcome"], "rejected");
    let told = gateway.json("/admin/requests");
    let all = told["requests"].as_array().unwrap();
    assert_eq!(all.len(), 3);
    // Nothing listens at the targets: the first request tried them, and ended in the stage that did.
    let attempts = all[2]["attempt_details"].as_array().unwrap();
    assert_eq!((&attempts[0]["cause"], &attempts[0]["outcome"]), (&"first".into(), &"unreachable".into()));
    assert_eq!(attempts.len() as u64, all[2]["attempts"].as_u64().unwrap().min(4));
    assert_eq!(fields(&all[2]["stages_us"]), ["admit", "answer", "identify", "plan", "receive"]);
}

#[test]
fn settings_have_their_origin_and_no_secret_values() {
    let gateway = start("admin.credential = \"none\"\ntelemetry.salt = \"env:PATH\"");
    let told = gateway.ask("/admin/settings");
    assert!(!told.text().contains(&std::env::var("PATH").unwrap()));
    let told: Value = told.json().unwrap();
    let key = |name: &str| {
        told["settings"].as_array().unwrap().iter().find(|key| key["key"] == name).unwrap().clone()
    };
    assert_eq!(key("store.kind")["value"], "\"memory\"");
    assert!(key("store.kind")["origin"].as_str().unwrap().starts_with("test.toml:"));
    assert_eq!(
        (&key("store.kind")["applies"], &key("budget.day")["applies"]),
        (&"restart".into(), &"live".into())
    );
    assert_eq!(
        (&key("telemetry.salt")["value"], &key("telemetry.salt")["applies"]),
        (&"\"env:PATH\"".into(), &"live".into())
    );
    assert_eq!(key("admin.listen")["applies"], "restart");
}

#[test]
fn invalid_requests_are_typed_errors() {
    let gateway = start("");
    for (path, expected) in [
        ("/admin/status?verbose", "invalid_parameter"),
        ("/admin/targets?caller=0000000000000000", "invalid_parameter"),
        ("/admin/limits", "invalid_parameter"),
        ("/admin/limits?caller=0000000000000000", "invalid_parameter"),
        ("/admin/limits?caller=xyz&tier=prime", "invalid_parameter"),
        ("/admin/spend?caller=", "invalid_parameter"),
        ("/admin/requests?limit=0", "invalid_parameter"),
        ("/admin/requests?limit=1001", "invalid_parameter"),
    ] {
        assert_eq!(error(&gateway.ask(path)), (400, expected.to_owned()), "{path}");
    }
    for path in ["/", "/admin", "/admin/", "//admin/status", "/admin/%73tatus", "/v1/messages", "/livez"] {
        assert_eq!(error(&gateway.ask(path)), (404, "not_found".to_owned()), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let request =
            format!("{method} /admin/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let reply = send(gateway.admin, &request);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET")), "{method}");
    }
}

#[test]
fn pretty_responses_are_indented_and_no_response_is_cached() {
    let gateway = start("");
    let (short, long) = (gateway.ask("/admin/spend"), gateway.ask("/admin/spend?pretty"));
    assert_eq!((short.text().lines().count(), long.text().lines().count() > 5), (1, true));
    let parsed = |body: &str| serde_json::from_str::<Value>(body).unwrap();
    assert_eq!(parsed(&short.text()), parsed(&long.text()));
    assert_eq!(
        (short.header("cache-control"), short.header("x-content-type-options")),
        (Some("no-store"), Some("nosniff"))
    );
}

#[test]
fn metrics_are_for_the_admin_listener_unless_settings_say_otherwise() {
    let gateway = start("");
    let on_data = |path: &str| {
        send(gateway.data, &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
    };
    assert_eq!((gateway.ask("/metrics").status, on_data("/metrics").status), (200, 404));
    let public = settings("telemetry.public_metrics = true");
    gateway.listening.as_ref().unwrap().apply_settings(&public.settings).unwrap();
    for reply in [gateway.ask("/metrics"), on_data("/metrics")] {
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some("text/plain; version=0.0.4; charset=utf-8"))
        );
        assert!(reply.text().contains("\nseawall_breaker_phase{target=\"sonnet\"} 0\n"), "{}", reply.text());
    }
    let off = settings("telemetry.metrics = false\ntelemetry.public_metrics = true");
    gateway.listening.as_ref().unwrap().apply_settings(&off.settings).unwrap();
    assert_eq!(error(&gateway.ask("/metrics")), (404, "not_found".to_owned()));
    assert_eq!(on_data("/metrics").status, 404);
    gateway.listening.as_ref().unwrap().apply_settings(&settings("").settings).unwrap();
    assert_eq!((gateway.ask("/metrics").status, on_data("/metrics").status), (200, 404));
}

#[test]
fn every_line_of_a_real_page_is_one_that_prometheus_reads() {
    let gateway = start("");
    for _ in 0..3 {
        gateway.call();
    }
    let page = gateway.ask("/metrics").text().into_owned();
    let (mut family, mut seen) = (String::new(), std::collections::BTreeSet::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(seen.insert(family.clone()), "{family} comes twice");
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest.split(' ').next(), Some(family.as_str()));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let of_histogram =
            ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(&family));
        assert!(name == family || of_histogram, "{line} below {family}");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
    }
    for expected in [
        "seawall_requests_total",
        "seawall_request_duration_seconds",
        "seawall_attempts_total",
        "seawall_stage_seconds",
        "seawall_breaker_transitions_total",
        "seawall_pressure_transitions_total",
        "seawall_settings_reloads_total",
        "seawall_events_dropped_total",
        "process_open_fds",
    ] {
        assert!(seen.contains(expected), "{expected} in {page}");
    }
    assert!(!page.contains(&number()) && !page.contains(KEY));
    assert!(page.contains("seawall_attempts_total{target=\"sonnet\",outcome=\"unreachable\"}"), "{page}");
    assert!(page.contains("seawall_events_dropped_total{sink=\"access_log\"} 0\n"), "{page}");
}

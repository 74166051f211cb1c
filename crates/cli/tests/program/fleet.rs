//! Two gateways with a shared store, and caller input that must not reach into it.

use crate::requests::{NO_LIMITS, at_once, question};
use crate::running::{KEY, Running, scratch_dir};
use seawall_testkit::{HttpReply, RedisServer, Signal, free_address, wait_until};

/// The lines of the reply to a command.
fn lines(store: &RedisServer, command: &str) -> Vec<String> {
    store.command(command).lines().map(str::to_owned).collect()
}

/// All keys: in the reply, each is preceded by its length.
fn keys(store: &RedisServer) -> Vec<String> {
    lines(store, "KEYS *").into_iter().skip(2).step_by(2).collect()
}

/// Starts two gateways of one fleet and waits until both use the shared store.
fn start(test: &str, store: &RedisServer, model: &Running, more: &str) -> anyhow::Result<[Running; 2]> {
    let start = |number: u32| {
        let test = format!("{test}-{number}");
        let own = scratch_dir(&format!("{test}-state"))?;
        Running::gateway_with(&test, &model.url, ["instant", "instant"], more, |settings| {
            let url = format!("redis://127.0.0.1:{}", store.port());
            // A generous timeout, so that a busy machine does not cause decisions without the store.
            let redis = format!("{{ url = \"{url}\", operation_timeout = \"2s\" }}");
            let shared =
                format!("store = {{ kind = \"redis\", data_dir = '{}', redis = {redis} }}", own.display());
            let shared = format!("budget.per_node = true\n{shared}");
            settings.replace("store.kind = \"memory\"", &shared)
        })
    };
    let gateways = [start(1)?, start(2)?];
    wait_until("both decide together", || {
        let here = gateways.iter().map(|gateway| gateway.counter("seawall_shared_store_up"));
        Ok(here.collect::<anyhow::Result<Vec<_>>>()? == [1, 1])
    })?;
    Ok(gateways)
}

/// A gateway of a fleet whose store does not run.
fn alone(
    test: &str,
    port: u16,
    state: &std::path::Path,
    model: &Running,
    more: &str,
) -> anyhow::Result<Running> {
    let limit = "limits.tiers.prime = { minute = \"50/min\", burst = 10 }\n";
    Running::gateway_with(test, &model.url, ["instant", "instant"], limit, |settings| {
        let redis = format!("{{ url = \"redis://127.0.0.1:{port}\"{more} }}");
        let store =
            format!("store = {{ kind = \"redis\", data_dir = '{}', redis = {redis} }}", state.display());
        settings.replace("store.kind = \"memory\"", &format!("budget.per_node = true\n{store}"))
    })
}

fn admitted(gateways: &[Running], requests: usize) -> anyhow::Result<usize> {
    let ask = |number: usize| Ok(gateways[number % gateways.len()].ask(KEY, &question(1, false))?.status);
    let statuses = at_once(requests, ask)?;
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    Ok(statuses.iter().filter(|status| **status == 200).count())
}

#[test]
fn nodes_that_start_without_their_store_admit_no_more_than_the_limit() -> anyhow::Result<()> {
    let model = Running::model("fleet-alone", "[]")?;
    let port = free_address()?.port();
    let start = |number: u32| {
        let test = format!("fleet-alone-{number}");
        alone(&test, port, &scratch_dir(&format!("{test}-state"))?, &model, ", fleet_size = 3")
    };
    let gateways = [start(1)?, start(2)?, start(3)?];
    // Per minute: 50 and a burst of 10, over three nodes.
    assert_eq!(admitted(&gateways, 180)?, 60);
    Ok(())
}

#[test]
fn a_node_remembers_the_fleet_size_when_it_starts_without_the_store() -> anyhow::Result<()> {
    let mut store = RedisServer::start()?;
    let port = store.port();
    let model = Running::model("fleet-remembers", "[]")?;
    let states = [scratch_dir("fleet-remembers-1-state")?, scratch_dir("fleet-remembers-2-state")?];
    let start = |more: &str| -> anyhow::Result<Vec<Running>> {
        let one = |(number, state): (usize, &std::path::PathBuf)| {
            alone(&format!("fleet-remembers-{number}"), port, state, &model, more)
        };
        states.iter().enumerate().map(one).collect()
    };
    let gateways = start(", operation_timeout = \"2s\"")?;
    wait_until("both know of each other", || {
        let sizes =
            states.iter().map(|state| std::fs::read_to_string(state.join("fleet-size")).unwrap_or_default());
        Ok(sizes.collect::<Vec<_>>() == ["2\n", "2\n"])
    })?;
    for gateway in gateways {
        gateway.end_with(Signal::TERM)?;
    }
    store.kill();
    assert_eq!(admitted(&start("")?, 120)?, 60);
    Ok(())
}

fn named(gateway: &Running, name: &str, max_tokens: u32) -> anyhow::Result<HttpReply> {
    let headers = format!("x-api-key: {KEY}\r\nidempotency-key: {name}\r\n");
    gateway.send("POST", "/v1/messages", &headers, question(max_tokens, false).to_string().as_bytes())
}

#[test]
fn an_idempotency_key_is_unique_in_the_fleet_and_cannot_inject_store_commands() -> anyhow::Result<()> {
    let store = RedisServer::start()?;
    let model = Running::model("fleet-names", "[]")?;
    let gateways = start("fleet-names", &store, &model, NO_LIMITS)?;
    assert_eq!(lines(&store, "SET bystander untouched"), ["+OK"]);
    // Characters with a meaning to a store, a shell or a path.
    let long = "n".repeat(256);
    let names =
        ["*", "{tag}", "{", "a b", "bystander", "seawall:bystander", "..", "$1", "\"", "'; FLUSHALL", &long];
    for (number, name) in names.iter().enumerate() {
        let answer = named(&gateways[number % 2], name, 5)?;
        assert_eq!(answer.status, 200, "{name}: {}", String::from_utf8_lossy(&answer.body));
        // The other node knows it, and a different request cannot reuse it.
        assert_eq!(named(&gateways[(number + 1) % 2], name, 5)?.status, 409, "{name}");
        assert_eq!(named(&gateways[(number + 1) % 2], name, 6)?.status, 409, "{name}");
    }
    assert_eq!(named(&gateways[0], &"n".repeat(257), 5)?.status, 400);
    assert_eq!(model.calls()?.len(), names.len());
    assert_eq!(lines(&store, "GET bystander")[1], "untouched");
    let keys = keys(&store);
    assert!(keys.len() > names.len(), "{keys:?}");
    for key in keys.iter().filter(|key| *key != "bystander") {
        assert!(key.starts_with("seawall:") && key.len() < 200, "{key:?}");
        assert!(!key.contains(['*', '\'', '"', ' ', '$']), "{key:?}");
    }

    let statuses = at_once(100, |number| Ok(named(&gateways[number % 2], "together", 5)?.status))?;
    let of = |expected: u16| statuses.iter().filter(|status| **status == expected).count();
    assert_eq!((of(200), of(409)), (1, 99), "{statuses:?}");
    assert_eq!(model.calls()?.len(), names.len() + 1);
    Ok(())
}

#[test]
fn nodes_share_what_each_of_them_admitted() -> anyhow::Result<()> {
    let mut store = RedisServer::start()?;
    let model = Running::model("fleet-limit", "[]")?;
    let limit = "limits.tiers.prime = { minute = \"10/min\", burst = 10 }\n";
    let gateways = start("fleet-limit", &store, &model, limit)?;
    let statuses = at_once(60, |number| Ok(gateways[number % 2].ask(KEY, &question(1, false))?.status))?;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20, "{statuses:?}");
    assert_eq!(model.bill("instant")?["requests"], 20);
    // Every key has an expiry.
    let keys = keys(&store);
    assert!(!keys.is_empty());
    for key in keys {
        let left = lines(&store, &format!("PTTL {key}"));
        assert_ne!(left, [":-1"], "{key} is kept for ever");
    }
    // The loss of the store is logged once.
    store.kill();
    wait_until("it is missed", || {
        gateways[0].ask(KEY, &question(1, false))?;
        Ok(gateways[0].errors()?.contains("): this node enforces its own share of every limit"))
    })?;
    assert_eq!(gateways[0].errors()?.matches("redis is unavailable").count(), 1);
    Ok(())
}

#[test]
fn the_chat_answers_a_caller_whose_daily_budget_is_exhausted() -> anyhow::Result<()> {
    let store = RedisServer::start()?;
    let model = Running::model("fleet-spent", "[]")?;
    let spent = "budget.caller_day = \"$0.000001/day\"\n";
    let gateways = start("fleet-spent", &store, &model, &format!("{NO_LIMITS}{spent}"))?;
    let refused = gateways[0].ask(KEY, &question(5, false))?;
    assert_ne!(refused.status, 200);
    let answer = gateways[0].chat(KEY, &serde_json::json!({ "message": "hello" }))?;
    assert_eq!((&answer["rung"], &answer["cost"]), (&"apology".into(), &"0.000000000".into()), "{answer}");
    assert!(answer["reasons"].to_string().contains("budget_exhausted"), "{answer}");
    assert_eq!(model.calls()?.len(), 0);
    Ok(())
}

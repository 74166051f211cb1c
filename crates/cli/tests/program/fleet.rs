//! Two gateways that share a store, and what callers may write without reaching into it.

use crate::asking::{NO_LIMITS, at_once, question, wait_until};
use crate::running::{Answer, KEY, Running, folder};
use anyhow::Context as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A store of its own; ended when dropped.
struct Store {
    child: Child,
    port: u16,
}

impl Store {
    fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start redis-server")?;
        let store = Self { child, port };
        wait_until("the store answers", || Ok(TcpStream::connect(("127.0.0.1", store.port)).is_ok()))?;
        Ok(store)
    }

    /// The lines of the answer to a command that has so many of them.
    fn lines(&self, command: &str, count: Option<usize>) -> anyhow::Result<Vec<String>> {
        let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", self.port))?);
        connection.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = || -> anyhow::Result<String> {
            let mut line = String::new();
            connection.read_line(&mut line)?;
            Ok(line.trim_end().to_owned())
        };
        let first = line()?;
        let count = match count {
            Some(count) => count,
            // A list: for each member its length and itself.
            None => 2 * first.trim_start_matches('*').parse::<usize>().with_context(|| first.clone())?,
        };
        let rest = (0..count).map(|_| line()).collect::<anyhow::Result<Vec<_>>>()?;
        Ok([vec![first], rest].concat())
    }

    fn keys(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.lines("KEYS *", None)?.into_iter().skip(2).step_by(2).collect())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two gateways of one fleet, once both decide by what it shares.
fn start(test: &str, store: &Store, model: &Running, more: &str) -> anyhow::Result<[Running; 2]> {
    let start = |number: u32| {
        let test = format!("{test}-{number}");
        let own = folder(&format!("{test}-state"))?;
        Running::gateway_with(&test, &model.url, ["instant", "instant"], more, |settings| {
            let url = format!("redis://127.0.0.1:{}", store.port);
            // A busy machine is no reason to decide alone.
            let redis = format!("{{ url = \"{url}\", operation_time = \"2s\" }}");
            let shared =
                format!("store = {{ kind = \"redis\", folder = '{}', redis = {redis} }}", own.display());
            settings.replace("store.kind = \"memory\"", &shared)
        })
    };
    let gateways = [start(1)?, start(2)?];
    wait_until("both decide together", || {
        let here = gateways.iter().map(|gateway| gateway.counter("seawall_shared_store_here"));
        Ok(here.collect::<anyhow::Result<Vec<_>>>()? == [1, 1])
    })?;
    Ok(gateways)
}

fn named(gateway: &Running, name: &str, max_tokens: u32) -> anyhow::Result<Answer> {
    let headers = format!("x-api-key: {KEY}\r\nidempotency-key: {name}\r\n");
    gateway.send("POST", "/v1/messages", &headers, question(max_tokens, false).to_string().as_bytes())
}

#[test]
fn a_name_is_one_request_in_the_whole_fleet_and_never_reaches_into_the_store() -> anyhow::Result<()> {
    let store = Store::start()?;
    let model = Running::model("fleet-names", "[]")?;
    let gateways = start("fleet-names", &store, &model, NO_LIMITS)?;
    store.lines("SET bystander untouched", Some(0))?;
    // What a store, a shell or a path would read as more than a name.
    let long = "n".repeat(256);
    let names =
        ["*", "{tag}", "{", "a b", "bystander", "seawall:bystander", "..", "$1", "\"", "'; FLUSHALL", &long];
    for (number, name) in names.iter().enumerate() {
        let answer = named(&gateways[number % 2], name, 5)?;
        assert_eq!(answer.status, 200, "{name}: {}", String::from_utf8_lossy(&answer.body));
        // It is known on the other side, and no other request can hide behind it.
        assert_eq!(named(&gateways[(number + 1) % 2], name, 5)?.status, 409, "{name}");
        assert_eq!(named(&gateways[(number + 1) % 2], name, 6)?.status, 409, "{name}");
    }
    assert_eq!(named(&gateways[0], &"n".repeat(257), 5)?.status, 400);
    assert_eq!(model.calls()?.len(), names.len());
    assert_eq!(store.lines("GET bystander", Some(1))?[1], "untouched");
    let keys = store.keys()?;
    assert!(keys.len() > names.len(), "{keys:?}");
    for key in keys.iter().filter(|key| *key != "bystander") {
        assert!(key.starts_with("seawall:") && key.len() < 200, "{key:?}");
        assert!(!key.contains(['*', '\'', '"', ' ', '$']), "{key:?}");
    }

    let statuses = at_once(100, |number| Ok(named(&gateways[number % 2], "together", 5)?.status))?;
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((of(200), of(409)), (1, 99), "{statuses:?}");
    assert_eq!(model.calls()?.len(), names.len() + 1);
    Ok(())
}

#[test]
fn what_one_gateway_lets_through_the_other_knows() -> anyhow::Result<()> {
    let store = Store::start()?;
    let model = Running::model("fleet-limit", "[]")?;
    let limit = "limits.tiers.prime = { minute = \"10/min\", burst = 10 }\n";
    let gateways = start("fleet-limit", &store, &model, limit)?;
    let statuses = at_once(60, |number| Ok(gateways[number % 2].ask(KEY, &question(1, false))?.status))?;
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 20, "{statuses:?}");
    assert_eq!(model.bill("instant")?["requests"], 20);
    // Nothing is kept for ever.
    let keys = store.keys()?;
    assert!(!keys.is_empty());
    for key in keys {
        let left = store.lines(&format!("PTTL {key}"), Some(0))?;
        assert_ne!(left, [":-1"], "{key} is kept for ever");
    }
    Ok(())
}

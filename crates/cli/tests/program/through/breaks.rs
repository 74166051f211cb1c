//! A stream that breaks off after its first text raises in every client, whatever its target and however it broke. No
//! client has to detect by itself that something is missing, which some cannot: the gateway sends an error in the
//! stream.

use super::{Pair, ROUTES, every_client, header, is_amazons, is_googles};
use crate::client::{Client, Session, Way};
use anyhow::bail;
use serde_json::{Value, json};

/// Pieces before the fault: the one that opens the stream, and three of four tokens each.
const PIECES: usize = 4;

/// The exception of each client for an answer that broke off in this way.
fn exception(client: Client, fault: &Value) -> &'static str {
    match (client, fault["kind"].as_str()) {
        (Client::AnthropicPythonOne | Client::AnthropicPythonTwo, _) => "APIStatusError",
        (
            Client::AnthropicNode
            | Client::OpenaiPython
            | Client::OpenaiNode
            | Client::ResponsesPython
            | Client::ResponsesNode
            | Client::LangchainResponses
            | Client::PydanticResponses
            | Client::Vercel,
            _,
        ) => "APIError",
        (Client::AwsPython(_), _) => "EventStreamError",
        (Client::GeminiPython, _) => "ServerError",
        (Client::GeminiNode, _) => "ApiError",
        // The vendor's own error, whichever vendor the target is.
        (Client::AwsNode(..), Some("error")) => "ServiceUnavailableException",
        // The other operation's stream has no such exception.
        (Client::AwsNode(Way::Invoke, _), Some("hang")) => "ModelTimeoutException",
        (Client::AwsNode(..), _) => "ModelStreamErrorException",
    }
}

/// The fault that no client detects by itself.
fn quiet() -> Value {
    json!({ "kind": "end_early", "after": PIECES })
}

fn faults() -> Vec<Value> {
    let kinds = ["cut", "end_early", "truncate", "malformed", "error", "hang"];
    let mut all: Vec<_> = kinds.iter().map(|kind| json!({ "kind": kind, "after": PIECES })).collect();
    all.push(json!({ "kind": "cut", "after": PIECES, "reset": true }));
    all
}

#[test]
fn a_stream_that_breaks_off_raises_in_every_client_from_every_target() -> anyhow::Result<()> {
    // At real pace: an answer that arrives in one piece with its error is replaced before the caller sees any of it.
    let pair = Pair::start("through-breaks", "real", "deadlines.stream_idle = \"500ms\"\n", &[])?;
    let mut sessions = Vec::new();
    for client in every_client() {
        sessions.push(client.open(&pair.gateway.url)?);
    }
    let mut others = Vec::new();
    for fault in faults() {
        pair.model.set_faults(&json!([{ "fault": fault }]))?;
        // Concurrently: all of them mostly wait.
        let sights = std::thread::scope(|scope| {
            let threads: Vec<_> =
                sessions.iter_mut().map(|session| scope.spawn(|| sights(&pair, session, &fault))).collect();
            threads
                .into_iter()
                .map(|thread| match thread.join() {
                    Ok(seen) => seen,
                    Err(_) => bail!("a client broke"),
                })
                .collect::<anyhow::Result<Vec<_>>>()
        })?;
        others.extend(sights.into_iter().flatten());
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    let put_together = every_client().filter(|client| puts_together(*client)).count();
    let broken = faults().len() * every_client().count() * ROUTES.len() + put_together;
    assert_eq!(pair.gateway.counter("seawall_requests_total{outcome=\"interrupted\"}")?, broken as u64);
    // The output of a broken call is not known to the token, but the posted amount covers the bill.
    let posted = pair.gateway.counter("seawall_budget_posted_usd")?;
    assert!(posted >= pair.bill()?.nano_dollars, "{posted}: {:?}", pair.bill()?);
    assert_eq!(pair.gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

/// Whether the library can accumulate the pieces of a stream by itself.
const fn puts_together(client: Client) -> bool {
    !is_amazons(client) && !is_googles(client)
}

/// The differences from the expected observations of this fault.
fn sights(pair: &Pair, session: &mut Session, fault: &Value) -> anyhow::Result<Vec<String>> {
    let client = session.client();
    let mut others = Vec::new();
    for route in ROUTES {
        let seen =
            pair.sees(session, &json!({ "model": route, "stream": true, "retries": 2, "raw": true }))?;
        let text = seen["text"].as_str().unwrap_or_default();
        let expected = exception(client, fault);
        let is_so = seen["error"]["kinds"][0] == expected
            && (&seen["complete"], &seen["finish"]) == (&json!(false), &Value::Null)
            && text.starts_with("This")
            && header(&seen, "x-seawall-target") == Some(route);
        if !is_so {
            others.push(format!("{client:?} {route}, {fault}: not {expected}: {seen}"));
        }
    }
    if puts_together(client) && *fault == quiet() {
        // A library that accumulates the pieces raises an exception as well, and does not return the partial answer.
        let call = json!({ "model": ROUTES[0], "stream": true, "put_together": true });
        let seen = pair.sees(session, &call)?;
        if seen["error"] == Value::Null || seen["text"] != "" {
            others.push(format!("{client:?}, put together, {fault}: {seen}"));
        }
    }
    Ok(others)
}

//! Rejections and failures of all targets raise the exception of the client library. No client retries if its library
//! can read that it must not. Those of Amazon cannot where the service has one name for throttling or an outage, whether
//! a wait helps or not.

use super::{Pair, ROUTES, header, is_amazons, sees};
use crate::client::{Client, Session};
use crate::running::KEY;
use serde_json::{Value, json};

/// The number of retries allowed to a library. All of them use it up unless a response forbids a retry.
const RETRIES: u32 = 2;

#[test]
fn a_rejection_raises_and_is_not_retried() -> anyhow::Result<()> {
    let strict =
        "limits.tiers.standard = { minute = \"1/min\", burst = 0, hour = \"1/h\", day = \"1/day\" }\n";
    let pair = Pair::start("through-refusals", "instant", strict, &Client::ALL)?;
    let mut others = Vec::new();
    for (number, client) in Client::ALL.into_iter().enumerate() {
        // One process for all calls: starting a client takes longer than anything it does.
        let mut session = client.open(&pair.gateway.url)?;
        others.extend(mistakes(client, &pair.strict[number], &mut session, &pair)?);
        others.extend(failures(client, &mut session, &pair)?);
        others.extend(names(client, &mut session, &pair)?);
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    assert_eq!(pair.gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

/// An exception in the table: its status and its class.
type Exception = (u16, &'static str);

/// Exceptions by client: Anthropic's older Python and its others, OpenAI's, Amazon's in Python and JavaScript.
type Exceptions = [Exception; 4];

const fn column(client: Client) -> usize {
    match client {
        Client::AnthropicPythonOne | Client::AnthropicPythonTwo | Client::AnthropicNode => 0,
        Client::OpenaiPython
        | Client::OpenaiNode
        | Client::ResponsesPython
        | Client::ResponsesNode
        | Client::LangchainResponses
        | Client::PydanticResponses
        | Client::Vercel => 1,
        Client::AwsPython(_) => 2,
        Client::AwsNode(..) => 3,
        Client::GeminiPython | Client::GeminiNode => unreachable!(),
    }
}

/// A message if the observation is not the expected exception.
fn other(seen: &Value, (status, class): Exception, which: &str) -> Option<String> {
    let error = (&seen["error"]["status"], &seen["error"]["kinds"][0], &seen["text"], &seen["complete"]);
    let matches = error == (&json!(status), &json!(class), &json!(""), &json!(false));
    let request = seen["request"].as_str().unwrap_or_default();
    let has_name = request.starts_with("req_") && header(seen, "x-seawall-target").is_none();
    (!matches || !has_name).then(|| format!("{which}: not {status} {class}: {seen}"))
}

/// Callers' mistakes: no target is called, and the client sends one request.
fn mistakes(
    client: Client,
    strict: &Value,
    session: &mut Session,
    pair: &Pair,
) -> anyhow::Result<Vec<String>> {
    let unknown_key: Exceptions = [
        (401, "AuthenticationError"),
        (401, "AuthenticationError"),
        // This client has no class of its own for an unknown key.
        (403, "ClientError"),
        (403, "UnrecognizedClientException"),
    ];
    let nobody = json!({ "key": "SWAKNOBODYHASTHISKEY", "secret": "any" });
    let forged = json!({ "key": strict["key"], "secret": "any" });
    let credential = if is_amazons(client) { pair.signer.clone() } else { json!({ "key": KEY }) };
    let unknown_model: Exceptions = [
        (404, "NotFoundError"),
        (404, "NotFoundError"),
        (404, "ResourceNotFoundException"),
        (404, "ResourceNotFoundException"),
    ];
    let limit: Exceptions = [
        (429, "RateLimitError"),
        (429, "RateLimitError"),
        (429, "ThrottlingException"),
        (429, "ThrottlingException"),
    ];
    let mut others = Vec::new();
    let first = sees(session, strict, &json!({ "model": ROUTES[0] }))?;
    assert_eq!(first["error"], Value::Null, "{client:?}: {first}");
    let (before, mut requests) = (pair.bill()?, pair.requests()?);
    for stream in [false, true] {
        for (what, proof, model, exceptions) in [
            ("key", &nobody, ROUTES[0], &unknown_key),
            // The response does not reveal which half of the credential was wrong.
            ("secret", &forged, ROUTES[0], &unknown_key),
            ("model", &credential, "nobody", &unknown_model),
            ("limit", strict, ROUTES[1], &limit),
        ] {
            if what == "secret" && !is_amazons(client) {
                continue;
            }
            let which = format!("{client:?}, stream: {stream}, {what}");
            let retries = if what == "limit" { retries_of(client, End::Throttled) } else { RETRIES };
            let call = json!({ "model": model, "stream": stream, "retries": retries, "raw": true });
            let seen = sees(session, proof, &call)?;
            others.extend(other(&seen, exceptions[column(client)], &which));
            requests += 1;
            if pair.requests()? != requests {
                others.push(format!("{which}: asked again: {seen}"));
                requests = pair.requests()?;
            }
            if what == "limit"
                && (header(&seen, "retry-after").is_none()
                    || header(&seen, "x-should-retry") != Some("false"))
            {
                others.push(format!("{which}: no Retry-After: {seen}"));
            }
        }
    }
    assert_eq!(pair.bill()?, before, "{client:?}");
    Ok(others)
}

/// How a request ends for its caller once all attempts of the gateway have failed.
#[derive(Clone, Copy, Debug)]
enum End {
    Overloaded,
    Internal,
    Throttled,
    Malformed,
}

/// The retries to allow to a client whose response forbids a retry: none if it cannot read that.
fn retries_of(client: Client, end: End) -> u32 {
    let reads_names_only = is_amazons(client) && matches!(end, End::Overloaded | End::Throttled);
    if reads_names_only { 0 } else { RETRIES }
}

impl End {
    /// Amazon's clients read no header that tells them not to retry. For a failing model there is an exception that
    /// they do not retry.
    const fn exceptions(self) -> Exceptions {
        let model_error = (424, "ModelErrorException");
        let unavailable = (503, "ServiceUnavailableException");
        let throttled = (429, "ThrottlingException");
        let invalid = (400, "ValidationException");
        match self {
            Self::Overloaded => {
                [(529, "OverloadedError"), (503, "InternalServerError"), unavailable, unavailable]
            }
            Self::Internal => {
                [(500, "InternalServerError"), (500, "InternalServerError"), model_error, model_error]
            }
            Self::Throttled => [(429, "RateLimitError"), (429, "RateLimitError"), throttled, throttled],
            Self::Malformed => [(400, "BadRequestError"), (400, "BadRequestError"), invalid, invalid],
        }
    }
}

/// How each target fails from its first request on, and how that ends a request for a whole answer and for a stream.
fn faults(route: &str) -> Vec<(Value, [End; 2])> {
    use End::{Internal, Malformed, Overloaded, Throttled};
    let status = |status: u16| json!({ "kind": "status", "status": status });
    let is_capacity = matches!(route, "to-invoke" | "to-converse" | "to-gemini");
    // Text is in the first chunk of one dialect, so it has to break off inside that one.
    let opened = |kind: &str| match route {
        "to-gemini" => json!({ "kind": "cut", "after_bytes": 20 }),
        _ => json!({ "kind": kind, "after": 1 }),
    };
    vec![
        // Only two vendors use it for a lack of capacity.
        (status(503), if is_capacity { [Overloaded; 2] } else { [Internal; 2] }),
        (status(500), [Internal; 2]),
        (status(429), [Throttled; 2]),
        (status(400), [Malformed; 2]),
        (json!({ "kind": "reset" }), [Overloaded; 2]),
        (opened("cut"), [Overloaded; 2]),
        (json!({ "kind": "truncate", "after": 0 }), [Internal, Overloaded]),
        (opened("end_early"), if route == "to-gemini" { [Overloaded; 2] } else { [Internal, Overloaded] }),
        (json!({ "kind": "malformed", "after": 0 }), [Internal; 2]),
        (json!({ "kind": "html" }), [Internal; 2]),
    ]
}

fn failures(client: Client, session: &mut Session, pair: &Pair) -> anyhow::Result<Vec<String>> {
    let mut others = Vec::new();
    let (mut before, mut requests) = (pair.bill()?, pair.requests()?);
    for route in ROUTES {
        for (fault, ends) in faults(route) {
            pair.model.set_faults(&json!([{ "fault": fault }]))?;
            for (stream, end) in [(false, ends[0]), (true, ends[1])] {
                let which = format!("{client:?} {route}, stream: {stream}, {fault}");
                let retries = retries_of(client, end);
                let call = json!({ "model": route, "stream": stream, "retries": retries, "raw": true });
                let seen = pair.sees(session, &call)?;
                others.extend(other(&seen, end.exceptions()[column(client)], &which));
                let (bill, after) = (pair.bill()?, pair.requests()?);
                let upstream_requests = bill.since(before).requests;
                let attempts: u64 =
                    header(&seen, "x-seawall-attempts").and_then(|value| value.parse().ok()).unwrap_or(0);
                // A reset pooled connection looks like one that was closed long ago: the request is sent again on
                // another.
                let max_requests = if fault["kind"] == "reset" { 2 * attempts } else { attempts };
                if after != requests + 1 || !(attempts.max(1)..=max_requests).contains(&upstream_requests) {
                    others.push(format!("{which}: {upstream_requests} upstream requests: {seen}"));
                }
                (before, requests) = (bill, after);
            }
        }
    }
    pair.model.set_faults(&json!([]))?;
    Ok(others)
}

/// A request with an idempotency key is done once; after a failure it may be retried with the same key.
fn names(client: Client, session: &mut Session, pair: &Pair) -> anyhow::Result<Vec<String>> {
    let exceptions: Exceptions = [
        (409, "ConflictError"),
        (409, "ConflictError"),
        (400, "ConflictException"),
        (400, "ConflictException"),
    ];
    let mut others = Vec::new();
    let call = |stream| {
        let name = format!("{client:?}-{stream}");
        json!({ "model": ROUTES[2], "stream": stream, "name": name, "retries": RETRIES, "raw": true })
    };
    for stream in [false, true] {
        let which = format!("{client:?}, stream: {stream}, name");
        pair.model.set_faults(&json!([{ "fault": { "kind": "status", "status": 503 } }]))?;
        let mut once = call(stream);
        once["retries"] = json!(retries_of(client, End::Overloaded));
        let failed = pair.sees(session, &once)?;
        assert_ne!(failed["error"], Value::Null, "{which}: {failed}");
        pair.model.set_faults(&json!([]))?;
        let before = pair.bill()?;
        let first = pair.sees(session, &call(stream))?;
        if first["complete"] != true {
            others.push(format!("{which}: not asked again after it had failed: {first}"));
        }
        let requests = pair.requests()?;
        let again = pair.sees(session, &call(stream))?;
        others.extend(other(&again, exceptions[column(client)], &which));
        if (pair.requests()?, pair.bill()?.since(before).requests) != (requests + 1, 1) {
            others.push(format!("{which}: asked again: {again}"));
        }
    }
    if is_amazons(client) {
        let seen = pair.sees(session, &json!({ "count": true, "model": ROUTES[2] }))?;
        if seen["error"] != Value::Null || seen["input"].as_u64().unwrap_or(0) == 0 {
            others.push(format!("{client:?}, count: {seen}"));
        }
    }
    Ok(others)
}

//! The vendors' own client libraries through `seawall serve`, in every dialect to every dialect.
//!
//! One simulated model is behind five targets: each of its dialects, and both of Amazon's operations. Each target has a
//! route of its own, so that a client chooses the translation by the name of the model. All of them are one model with
//! one price, so that its bill can be compared with what a client and the gateway report.

mod answers;
mod breaks;
mod gemini;
mod refusals;

use crate::client::{Client, Session};
use crate::running::{KEY, Running, scratch_dir, seawall, settings};
use anyhow::ensure;
use serde_json::{Value, json};
use std::path::Path;

/// The routes, each named after the dialect of its target.
const ROUTES: [&str; 6] =
    ["to-anthropic", "to-openai", "to-invoke", "to-converse", "to-gemini", "to-responses"];

/// The model's name on the bill.
const MODEL: &str = "haiku";

/// A model, and a gateway in front of it.
struct Pair {
    model: Running,
    gateway: Running,
    /// The signing credentials of Amazon's clients.
    signer: Value,
    /// The credentials of the strict callers.
    strict: Vec<Value>,
}

impl Pair {
    /// Starts a model at this pace, and a gateway with `more` settings. Each of these clients has a strict caller of
    /// the standard tier.
    fn start(test: &str, pace: &str, more: &str, strict: &[Client]) -> anyhow::Result<Self> {
        let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", pace])?;
        let state = scratch_dir(&format!("{test}-state"))?;
        let signer = create_key(&state, "amazon", "prime", true)?;
        let strict = strict.iter().enumerate().map(|(number, client)| {
            create_key(&state, &format!("strict {number}"), "standard", is_amazons(*client))
        });
        let strict = strict.collect::<anyhow::Result<_>>()?;
        let store = format!("store = {{ kind = \"embedded\", data_dir = '{}' }}", state.display());
        let base_settings = settings(&model.url, [MODEL, MODEL]).replace("store.kind = \"memory\"", &store);
        // Signatures are made with these; the model accepts any.
        let keys = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let gateway = Running::gateway_in(test, &(base_settings + &targets(&model.url) + more), &keys)?;
        Ok(Self { model, gateway, signer, strict })
    }

    /// The result of a call by the usual caller, with the client's kind of credential.
    fn sees(&self, session: &mut Session, call: &Value) -> anyhow::Result<Value> {
        let key = json!({ "key": KEY });
        let proof = if is_amazons(session.client()) { &self.signer } else { &key };
        sees(session, proof, call)
    }

    /// The model's bill.
    fn bill(&self) -> anyhow::Result<Bill> {
        let bill = self.model.bill(MODEL)?;
        let read = |name: &str| bill[name].as_u64().unwrap_or(0);
        Ok(Bill {
            requests: read("requests"),
            answers: read("answers"),
            input: read("input_tokens"),
            output: read("output_tokens"),
            nano_dollars: read("nano_dollars"),
        })
    }

    /// The number of completed requests at the gateway.
    fn requests(&self) -> anyhow::Result<u64> {
        self.gateway.counter("seawall_requests_total")
    }
}

/// The bill of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bill {
    requests: u64,
    answers: u64,
    input: u64,
    output: u64,
    nano_dollars: u64,
}

impl Bill {
    /// The difference from an earlier bill.
    fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            answers: self.answers - before.answers,
            input: self.input - before.input,
            output: self.output - before.output,
            nano_dollars: self.nano_dollars - before.nano_dollars,
        }
    }
}

/// The result of a call with this credential.
fn sees(session: &mut Session, proof: &Value, call: &Value) -> anyhow::Result<Value> {
    let mut whole = call.clone();
    if let (Value::Object(whole), Value::Object(proof)) = (&mut whole, proof) {
        whole.extend(proof.clone());
    }
    session.sees(&whole)
}

/// Creates a caller in the gateway's data directory and returns its credential: a signing key or an API key.
fn create_key(directory: &Path, name: &str, tier: &str, signs: bool) -> anyhow::Result<Value> {
    let directory = directory.to_string_lossy();
    let mut command = seawall(&["key", "create", name, "--tier", tier, "--json", "--data-dir", &directory]);
    let output = command.args(signs.then_some("--aws")).output()?;
    ensure!(output.status.success(), "{output:?}");
    let created: Value = serde_json::from_slice(&output.stdout)?;
    Ok(if signs {
        json!({ "key": created["aws"]["access_key_id"], "secret": created["aws"]["secret_access_key"] })
    } else {
        json!({ "key": created["key"] })
    })
}

/// A header that a user sees; names are in lower case.
fn header<'a>(seen: &'a Value, name: &str) -> Option<&'a str> {
    seen["headers"][name].as_str()
}

const fn is_amazons(client: Client) -> bool {
    matches!(client, Client::AwsPython(_) | Client::AwsNode(..))
}

const fn is_openais(client: Client) -> bool {
    matches!(
        client,
        Client::OpenaiPython | Client::OpenaiNode | Client::ResponsesPython | Client::ResponsesNode
    )
}

const fn is_googles(client: Client) -> bool {
    matches!(client, Client::GeminiPython | Client::GeminiNode)
}

/// All clients, Google's included.
fn every_client() -> impl Iterator<Item = Client> {
    Client::ALL.into_iter().chain(Client::GEMINI)
}

/// Five targets, five routes, and no protection that would interfere.
fn targets(url: &str) -> String {
    let mut text = String::new();
    let faces = r#"faces = ["anthropic", "openai", "bedrock", "gemini"]"#;
    for (route, provider, url, model) in [
        (ROUTES[0], "anthropic", url.to_owned(), "claude-3-haiku-20240307"),
        (ROUTES[1], "openai", format!("{url}/v1"), "gpt-4o-mini"),
        // Anthropic's models are called by InvokeModel there, and all others by Converse.
        (ROUTES[2], "bedrock", url.to_owned(), "anthropic.claude-3-haiku-20240307-v1:0"),
        (ROUTES[3], "bedrock", url.to_owned(), MODEL),
        (ROUTES[4], "gemini", url.to_owned(), "gemini-2.5-flash"),
        (ROUTES[5], "openai", format!("{url}/v1"), "gpt-4o-mini"),
    ] {
        let key = match route {
            _ if provider == "bedrock" => r#"region = "us-east-1""#,
            "to-responses" => r#"api_key = "env:PATH", api = "responses""#,
            _ => r#"api_key = "env:PATH""#,
        };
        if model != MODEL && route != "to-responses" {
            text += &format!("models.\"{model}\" = {{ input = \"$0.25/M\", output = \"$1.25/M\" }}\n");
        }
        text += &format!(
            "targets.{route} = {{ provider = \"{provider}\", base_url = \"{url}\", model = \"{model}\", {key}, \
             grade = \"fast\", breaker = \"haiku\" }}\n\
             routes.{route} = {{ targets = [\"{route}\"], {faces}, start_timeout = \"9s\" }}\n"
        );
    }
    text + "limits.tiers.prime = { minute = \"1,000,000/min\", hour = \"1,000,000/h\", day = \"1,000,000/day\" }\n\
            breakers.haiku.failure_threshold = 100_000\n\
            pressure.sustained_for = \"1h\"\n\
            retry.base_delay = \"1ms\"\n\
            retry.max_delay = \"5ms\"\n"
}

//! An OpenAPI 3.1 document of the endpoints for callers.
//!
//! It is generated from a table of paths and from the functions that build rejections. A status, an error name or a
//! header that changes in the code therefore changes here. It is served at `/openapi.json`, and kept as a reference
//! page.
//!
//! **What it does not do.** It does not repeat the vendors' own schemas, which they may change: it lists the fields
//! that we require and inspect, and permits everything else. The admin API is not part of it.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `paths` | the table of paths |
//! | `headers` | all response headers, and the responses they appear in |
//! | `schemas` | the required parts of bodies |

mod headers;
mod paths;
mod schemas;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use headers::Occasion;
use paths::{Body, Operation, PATHS, Refusals};
use seawall_pipeline::chat::refusal_code;
use seawall_pipeline::speech::Face;
use seawall_wire::{Dialect, Refusal, anthropic, bedrock, openai};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The document as indented JSON.
#[must_use]
pub fn openapi() -> String {
    format!("{:#}\n", document())
}

/// The document as it is served. All requests share one copy, so that clients that do not read it hold no memory.
pub(crate) fn served_openapi() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED.get_or_init(|| openapi().into()).clone()
}

fn document() -> Value {
    let mut paths = Map::new();
    for operation in PATHS {
        let entry = paths.entry(operation.path).or_insert_with(|| json!({}));
        entry[operation.method] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Seawall",
            "summary": "A resilience gateway for foundation models.",
            "description": "Callers speak the dialect of their client library; the model they name is a route of the \
                            gateway's settings. Bodies are the vendors' own: listed here is what Seawall requires and \
                            looks at, and everything else is passed on or translated.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "key": [] }, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "A caller's key." },
                "bearer": { "type": "http", "scheme": "bearer", "description": "The same key, sent the other way." },
            },
            "parameters": paths::parameters(),
            "headers": headers::components(),
            "schemas": schemas::components(),
        },
    })
}

fn described(operation: &Operation) -> Value {
    let mut value = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "responses": responses(operation),
    });
    if !operation.parameters.is_empty() {
        let parameters = operation.parameters.iter().map(|name| reference("parameters", name));
        value["parameters"] = parameters.collect();
    }
    if let Some(schema) = operation.request {
        let content = json!({ "application/json": { "schema": reference("schemas", schema) } });
        value["requestBody"] = json!({ "required": true, "content": content });
    }
    if operation.is_open {
        value["security"] = json!([]);
    }
    value
}

fn reference(section: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{section}/{name}") })
}

fn responses(operation: &Operation) -> Value {
    let mut all = Map::new();
    let mut content = Map::new();
    for Body { content_type, schema } in operation.answers {
        content.insert((*content_type).to_owned(), json!({ "schema": reference("schemas", schema) }));
    }
    let mut answered = json!({ "description": "The answer.", "content": content });
    if let Some(face) = operation.face.filter(|_| operation.refusals == Refusals::All) {
        answered["headers"] = headers::of(Occasion::Answer, face);
    }
    all.insert("200".to_owned(), answered);
    if operation.is_ready {
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        all.insert("503".to_owned(), json!({ "description": "It takes no new requests.", "content": text }));
    }
    let face = operation.face.unwrap_or(Face::OpenAiChat);
    for (status, refusals) in by_status(face, operation.refusals) {
        all.insert(status.to_string(), refused(face, &refusals));
    }
    all.into()
}

/// The rejections of a face, grouped by HTTP status.
fn by_status(face: Face, refusals: Refusals) -> BTreeMap<u16, Vec<Refusal>> {
    let mut by_status: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    for refusal in Refusal::ALL.into_iter().filter(|refusal| refusals.has(*refusal)) {
        let status = match face.vendor() {
            Some(Dialect::Anthropic) => anthropic::status_of(refusal),
            Some(Dialect::OpenAi) | None => openai::status_of(refusal),
            Some(Dialect::Bedrock) => bedrock::refusal_status(refusal),
        };
        by_status.entry(status).or_default().push(refusal);
        // Bedrock's clients are told by a different status not to retry.
        let last = bedrock::final_refusal(refusal).0;
        if face.vendor() == Some(Dialect::Bedrock) && last != status {
            by_status.entry(last).or_default().push(refusal);
        }
    }
    by_status
}

fn refused(face: Face, refusals: &[Refusal]) -> Value {
    let meanings: Vec<&str> = refusals.iter().map(|refusal| meaning(*refusal)).collect();
    let names = |name: fn(Refusal) -> &'static str| {
        let mut names: Vec<&str> = refusals.iter().map(|refusal| name(*refusal)).collect();
        names.dedup();
        names
    };
    let (schema, narrower) = match face.vendor() {
        Some(Dialect::Anthropic) => {
            let types = names(anthropic::error_type_of);
            (
                "AnthropicError",
                json!({ "properties": { "error": { "properties": { "type": { "enum": types } } } } }),
            )
        }
        Some(Dialect::OpenAi) => {
            let types = names(openai::error_type_of);
            (
                "OpenAiError",
                json!({ "properties": { "error": { "properties": { "type": { "enum": types } } } } }),
            )
        }
        Some(Dialect::Bedrock) => ("BedrockError", json!({})),
        None => {
            let codes = names(refusal_code);
            ("ChatError", json!({ "properties": { "code": { "enum": codes } } }))
        }
    };
    let mut headers = headers::of(Occasion::Refusal, face);
    if face.vendor() == Some(Dialect::Bedrock) {
        let mut types = names(bedrock::refusal_name);
        types.extend(names(|refusal| bedrock::final_refusal(refusal).1));
        types.sort_unstable();
        types.dedup();
        headers["x-amzn-errortype"] =
            json!({ "description": "The name of the error.", "schema": { "type": "string", "enum": types } });
    }
    let schema = json!({ "allOf": [reference("schemas", schema), narrower] });
    json!({
        "description": meanings.join(" Or: "),
        "headers": headers,
        "content": { "application/json": { "schema": schema } },
    })
}

/// The description of a rejection for callers.
const fn meaning(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed => "The request cannot be understood; the message says where.",
        Refusal::Unauthenticated => "The key is missing, sent in two ways, or not known.",
        Refusal::Forbidden => "The key may not use this route.",
        Refusal::NotFound => "There is no route of this name for this dialect.",
        Refusal::UnknownPath => "There is no such path.",
        Refusal::TooLarge => "The request is larger than it may be.",
        Refusal::ContextLength => "The prompt is longer than the model's window.",
        Refusal::Conflict => {
            "A request with the same idempotency-key is under way, has been answered, or was another one."
        }
        Refusal::OutcomeUnknown => {
            "A request with the same idempotency-key was under way when the gateway ended; it may have been answered."
        }
        Refusal::Throttled => "A limit is reached, ours or the vendor's. The headers say when to come back.",
        Refusal::OutOfBudget => "The day's budget is spent. Trying again before it is renewed does not help.",
        Refusal::BudgetHeld => {
            "The day's budget is held by calls under way. The headers say when to come back."
        }
        Refusal::ExceedsBudget => {
            "The day's budget has less left than the request may cost; the message says which max_tokens would fit."
        }
        Refusal::SwitchedOff => "An operator has switched models off.",
        Refusal::Overloaded => "No model can take the request now, or the gateway is being restarted.",
        Refusal::TimedOut => "No model answered in time.",
        Refusal::Internal => "Something failed that is not the caller's fault.",
    }
}

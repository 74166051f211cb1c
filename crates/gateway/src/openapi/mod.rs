//! What callers can ask, as an OpenAPI 3.1 document.
//!
//! Made from a table of paths and from the functions that refuse, so that a status, a name of an error or a header that
//! changes in the code changes here. Served to callers at `/openapi.json`, and kept as a page beside the others.
//!
//! **What it will not do.** It does not repeat the vendors' own schemas, which are theirs to change: it lists what we
//! require and what we look at, and lets everything else through. Paths of operators are not callers' business.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `paths` | the table of paths |
//! | `headers` | every header of an answer, and where it comes |
//! | `schemas` | what bodies must have |

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

/// The document.
#[must_use]
pub fn openapi() -> String {
    format!("{:#}\n", document())
}

/// The document as it is served: one text for all who ask, however many of them do not read it.
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

/// Refusals of a face by the status that they have there.
fn by_status(face: Face, refusals: Refusals) -> BTreeMap<u16, Vec<Refusal>> {
    let mut by_status: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    for refusal in Refusal::ALL.into_iter().filter(|refusal| refusals.has(*refusal)) {
        let status = match face.vendor() {
            Some(Dialect::Anthropic) => anthropic::status_of(refusal),
            Some(Dialect::OpenAi) | None => openai::status_of(refusal),
            Some(Dialect::Bedrock) => bedrock::refusal_status(refusal),
        };
        by_status.entry(status).or_default().push(refusal);
        // These clients are told by another status not to come back.
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

/// What a refusal means to a caller.
const fn meaning(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed => "The request cannot be understood; the message says where.",
        Refusal::Unauthenticated => "The key is missing, sent in two ways, or not known.",
        Refusal::Forbidden => "The key may not use this route.",
        Refusal::NotFound => "There is no such path, or no route of this name for this dialect.",
        Refusal::TooLarge => "The request is larger than it may be.",
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

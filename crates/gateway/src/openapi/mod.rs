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
use headers::ResponseKind;
use paths::{OpenApiOperation, PATHS, PossibleErrors, ResponseContent};
use seawall_pipeline::dialect::Face;
use seawall_wire::ApiErrorKind;
use seawall_wire::chat_face::error_code;
use seawall_wire::dialect::DialectId;
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
        entry[operation.method] = describe_operation(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Seawall",
            "summary": "A resilience gateway for foundation models.",
            "description": "Callers use the API of their client library; the model that they name is a route in the \
                            gateway's settings. Bodies are the vendors' own. This document lists the fields that Seawall \
                            requires and inspects; all others are passed on or translated.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "key": [] }, { "googleKey": [] }, { "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key." },
                "googleKey": { "type": "apiKey", "in": "header", "name": "x-goog-api-key", "description": "The same API key, as Gemini's clients send it." },
                "bearer": { "type": "http", "scheme": "bearer", "description": "The same API key, or a JSON Web Token." },
            },
            "parameters": paths::parameters(),
            "headers": headers::components(),
            "schemas": schemas::components(),
        },
    })
}

fn describe_operation(operation: &OpenApiOperation) -> Value {
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
    if operation.is_public {
        value["security"] = json!([]);
    }
    value
}

fn reference(section: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{section}/{name}") })
}

fn responses(operation: &OpenApiOperation) -> Value {
    let mut all = Map::new();
    let mut content = Map::new();
    for ResponseContent { content_type, schema } in operation.responses {
        content.insert((*content_type).to_owned(), json!({ "schema": reference("schemas", schema) }));
    }
    let mut answered = json!({ "description": "Success.", "content": content });
    if let Some(face) = operation.face.filter(|_| operation.errors == PossibleErrors::All) {
        answered["headers"] = headers::references(ResponseKind::Answer, face);
    }
    all.insert("200".to_owned(), answered);
    if operation.is_readiness {
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        all.insert(
            "503".to_owned(),
            json!({ "description": "Not ready: the gateway accepts no new requests.", "content": text }),
        );
    }
    let face = operation.face.unwrap_or(Face::OPENAI_CHAT);
    for (status, errors) in by_status(face, operation.errors) {
        all.insert(status.to_string(), describe_errors(face, &errors));
    }
    all.into()
}

/// The rejections of a face, grouped by HTTP status.
fn by_status(face: Face, errors: PossibleErrors) -> BTreeMap<u16, Vec<ApiErrorKind>> {
    let mut by_status: BTreeMap<u16, Vec<ApiErrorKind>> = BTreeMap::new();
    for error_kind in ApiErrorKind::ALL.into_iter().filter(|error_kind| errors.has(*error_kind)) {
        let dialect = face.dialect().unwrap_or(DialectId::OPENAI_CHAT);
        let status = dialect.error_status(error_kind);
        by_status.entry(status).or_default().push(error_kind);
        // Where no header can advise against retries, a final error has another status instead.
        let last = dialect.final_error(error_kind).0;
        if last != status {
            by_status.entry(last).or_default().push(error_kind);
        }
    }
    by_status
}

fn describe_errors(face: Face, errors: &[ApiErrorKind]) -> Value {
    let meanings: Vec<&str> = errors.iter().map(|error_kind| meaning(*error_kind)).collect();
    let names = |name: &dyn Fn(ApiErrorKind) -> &'static str| {
        let mut names: Vec<&str> = errors.iter().map(|error_kind| name(*error_kind)).collect();
        names.dedup();
        names
    };
    let mut headers = headers::references(ResponseKind::Error, face);
    let (schema, narrower) = match face {
        Face::Vendor(dialect) => match dialect.error_name_header() {
            None => {
                let types = names(&|error_kind| dialect.error_name(error_kind));
                let name = dialect.error_name_field();
                let properties = json!({ "error": { "properties": { name: { "enum": types } } } });
                (dialect.error_schema(), json!({ "properties": properties }))
            }
            Some(header) => {
                let mut types = names(&|error_kind| dialect.error_name(error_kind));
                types.extend(names(&|error_kind| dialect.final_error(error_kind).1));
                types.sort_unstable();
                types.dedup();
                headers[header] = json!({
                    "description": "The exception name.",
                    "schema": { "type": "string", "enum": types },
                });
                (dialect.error_schema(), json!({}))
            }
        },
        Face::Chat => {
            let codes = names(&error_code);
            ("ChatError", json!({ "properties": { "code": { "enum": codes } } }))
        }
    };
    let schema = json!({ "allOf": [reference("schemas", schema), narrower] });
    json!({
        "description": meanings.join(" Or: "),
        "headers": headers,
        "content": { "application/json": { "schema": schema } },
    })
}

/// The description of a rejection for callers.
const fn meaning(error_kind: ApiErrorKind) -> &'static str {
    match error_kind {
        ApiErrorKind::Malformed => "The request is malformed; the message says where.",
        ApiErrorKind::Unauthenticated => "The credential is missing, repeated or invalid.",
        ApiErrorKind::Forbidden => "The credential has no access to this route.",
        ApiErrorKind::NotFound => "No route of this name is available on this API.",
        ApiErrorKind::UnknownPath => "Unknown path.",
        ApiErrorKind::TooLarge => "The request is too large.",
        ApiErrorKind::ContextLength => "The prompt exceeds the model's context window.",
        ApiErrorKind::Conflict => {
            "A request with the same idempotency-key is in progress, has been answered, or was a different request."
        }
        ApiErrorKind::OutcomeUnknown => {
            "A request with the same idempotency-key was in progress when the gateway stopped; it may have been answered."
        }
        ApiErrorKind::Throttled => {
            "A rate limit of the gateway or of the vendor is exceeded. The headers say when to retry."
        }
        ApiErrorKind::BudgetExhausted => {
            "The daily budget is exhausted. A retry before it resets does not help."
        }
        ApiErrorKind::BudgetHeld => {
            "The rest of the daily budget is reserved by requests in progress. The headers say when to retry."
        }
        ApiErrorKind::ExceedsRemainingBudget => {
            "The request may cost more than the remaining daily budget; the message says which max_tokens would fit."
        }
        ApiErrorKind::ExceedsDailyBudget => "The request alone may cost more than the whole daily budget.",
        ApiErrorKind::SwitchedOff => "An operator has switched off models, for all callers or for this one.",
        ApiErrorKind::Overloaded => "No model is available, or the gateway is shutting down.",
        ApiErrorKind::TimedOut => "No model answered in time.",
        ApiErrorKind::Internal => "An internal error.",
    }
}

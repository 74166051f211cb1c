//! Whole answers and errors.

use super::ClientDialect;
use super::parse_event::is_canned;
use seawall_model::engine::count_tokens;
use serde_json::Value;

/// Whether these bytes are an answer that ended and contains as much text as it reports.
pub(super) fn is_complete(dialect: ClientDialect, bytes: &[u8]) -> bool {
    check(dialect, bytes) == (true, true)
}

/// Whether these bytes are an answer that ended, whatever length it reports.
pub(super) fn is_ended(dialect: ClientDialect, bytes: &[u8]) -> bool {
    check(dialect, bytes).0
}

/// Whether it ended, and whether it contains as much text as it reports.
fn check(dialect: ClientDialect, bytes: &[u8]) -> (bool, bool) {
    let Ok(answer) = serde_json::from_slice::<Value>(bytes) else { return (false, false) };
    let joined = |parts: &Value| -> String {
        parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
    };
    let (is_ended, text, tokens) = match dialect {
        ClientDialect::Messages => (
            answer["type"] == "message" && answer["stop_reason"].is_string(),
            joined(&answer["content"]),
            &answer["usage"]["output_tokens"],
        ),
        ClientDialect::Completions => (
            answer["object"] == "chat.completion" && answer["choices"][0]["finish_reason"].is_string(),
            answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
            &answer["usage"]["completion_tokens"],
        ),
        ClientDialect::Converse => (
            answer["stopReason"].is_string(),
            joined(&answer["output"]["message"]["content"]),
            &answer["usage"]["outputTokens"],
        ),
        ClientDialect::Chat => {
            let text = answer["answer"].as_str().unwrap_or_default();
            if is_canned(&answer) {
                return (answer["finish"].is_string(), !text.is_empty());
            }
            (answer["finish"].is_string(), text.to_owned(), &answer["usage"]["output"])
        }
    };
    (is_ended, tokens.as_u64() == Some(count_tokens(&text)))
}

/// Whether these bytes are an error in the format of the dialect.
pub(super) fn is_error(dialect: ClientDialect, bytes: &[u8]) -> bool {
    let Ok(error) = serde_json::from_slice::<Value>(bytes) else { return false };
    let has = |object: &Value, name: &str| object[name].is_string();
    match dialect {
        ClientDialect::Messages => {
            error["type"] == "error" && has(&error["error"], "type") && has(&error["error"], "message")
        }
        ClientDialect::Completions => has(&error["error"], "type") && has(&error["error"], "message"),
        ClientDialect::Converse => has(&error, "message"),
        ClientDialect::Chat => has(&error, "code") && has(&error, "message") && has(&error, "request_id"),
    }
}

//! Parses one event of each dialect.

use super::Dialect;
use super::heard::Heard;
use serde_json::Value;

/// Processes one event. `None` means that it is invalid.
pub(super) fn said(heard: &mut Heard, dialect: Dialect, name: &str, data: &[u8]) -> Option<()> {
    match dialect {
        Dialect::Messages => messages(heard, &serde_json::from_slice(data).ok()?),
        Dialect::Completions if data == b"[DONE]" => {
            heard.expect(heard.has_started && heard.has_reason && !heard.has_ended);
            heard.has_ended = true;
        }
        Dialect::Completions => completions(heard, &serde_json::from_slice(data).ok()?),
        Dialect::Converse => converse(heard, name, &serde_json::from_slice(data).ok()?),
        Dialect::Chat => chat(heard, name, &serde_json::from_slice(data).ok()?),
    }
    Some(())
}

fn messages(heard: &mut Heard, data: &Value) {
    let kind = data["type"].as_str().unwrap_or_default();
    heard.expect(match kind {
        "ping" | "error" => true,
        "message_start" => !heard.has_started,
        "message_stop" => heard.has_started && !heard.has_ended && heard.told_tokens.is_some(),
        _ => heard.has_started && !heard.has_ended,
    });
    match kind {
        "message_start" => heard.has_started = true,
        "message_stop" => heard.has_ended = true,
        "message_delta" if data["delta"]["stop_reason"].is_string() => {
            heard.has_reason = true;
            heard.told_tokens = data["usage"]["output_tokens"].as_u64();
        }
        "content_block_delta" => heard.text.push_str(data["delta"]["text"].as_str().unwrap_or_default()),
        "error" => heard.is_told_broken = true,
        _ => {}
    }
}

fn completions(heard: &mut Heard, data: &Value) {
    if data["error"].is_object() {
        heard.expect(data["error"]["message"].is_string());
        heard.is_told_broken = true;
        return;
    }
    heard.expect(data["object"] == "chat.completion.chunk" && !heard.has_ended);
    heard.has_started = true;
    if let Some(tokens) = data["usage"]["completion_tokens"].as_u64() {
        heard.told_tokens = Some(tokens);
    }
    let choice = &data["choices"][0];
    if let Some(text) = choice["delta"]["content"].as_str() {
        heard.expect(text.is_empty() || !heard.has_reason);
        heard.text.push_str(text);
    }
    heard.has_reason |= choice["finish_reason"].is_string();
}

fn converse(heard: &mut Heard, name: &str, data: &Value) {
    heard.expect(match name {
        "messageStart" => !heard.has_started,
        "metadata" => heard.has_reason && !heard.has_ended,
        "contentBlockStart" | "contentBlockDelta" | "contentBlockStop" | "messageStop" => {
            heard.has_started && !heard.has_reason
        }
        // Any other name is an exception.
        _ => data["message"].is_string(),
    });
    match name {
        "messageStart" => heard.has_started = true,
        "contentBlockDelta" => heard.text.push_str(data["delta"]["text"].as_str().unwrap_or_default()),
        "messageStop" => heard.has_reason = data["stopReason"].is_string(),
        "metadata" => {
            heard.told_tokens = data["usage"]["outputTokens"].as_u64();
            heard.has_ended = true;
        }
        "contentBlockStart" | "contentBlockStop" => {}
        _ => heard.is_told_broken = true,
    }
}

fn chat(heard: &mut Heard, name: &str, data: &Value) {
    heard.expect(!heard.has_ended && !heard.is_told_broken);
    heard.has_started = true;
    match name {
        "text" => heard.text.push_str(data["text"].as_str().unwrap_or_default()),
        "done" => {
            heard.has_ended = true;
            heard.has_reason = data["finish"].is_string();
            heard.is_prepared = is_prepared(data);
            heard.told_tokens = data["usage"]["output"].as_u64();
        }
        "interrupted" => {
            heard.expect(data["reason"].is_string() && data["message"].is_string());
            heard.is_told_broken = true;
        }
        _ => heard.expect(false),
    }
}

/// Whether an answer of our own face does not come from a model call just now, or not to its end.
pub(super) fn is_prepared(reply: &Value) -> bool {
    let is_of_model = matches!(reply["rung"].as_str(), Some("strong_model" | "fast_model"));
    !is_of_model || reply["finish"] == "blocked"
}

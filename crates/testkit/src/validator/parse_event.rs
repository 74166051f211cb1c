//! Parses one event of each dialect.

use super::ClientDialect;
use super::parsed_stream::ParsedStream;
use serde_json::Value;

/// Processes one event. `None` means that it is invalid.
pub(super) fn parse_event(
    stream: &mut ParsedStream,
    dialect: ClientDialect,
    name: &str,
    data: &[u8],
) -> Option<()> {
    match dialect {
        ClientDialect::Messages => messages(stream, &serde_json::from_slice(data).ok()?),
        ClientDialect::Completions if data == b"[DONE]" => {
            stream.require(stream.has_started && stream.has_stop_reason && !stream.has_ended);
            stream.has_ended = true;
        }
        ClientDialect::Completions => completions(stream, &serde_json::from_slice(data).ok()?),
        ClientDialect::Converse => converse(stream, name, &serde_json::from_slice(data).ok()?),
        ClientDialect::Chat => chat(stream, name, &serde_json::from_slice(data).ok()?),
    }
    Some(())
}

fn messages(stream: &mut ParsedStream, data: &Value) {
    let kind = data["type"].as_str().unwrap_or_default();
    stream.require(match kind {
        "ping" | "error" => true,
        "message_start" => !stream.has_started,
        "message_stop" => stream.has_started && !stream.has_ended && stream.reported_tokens.is_some(),
        _ => stream.has_started && !stream.has_ended,
    });
    match kind {
        "message_start" => stream.has_started = true,
        "message_stop" => stream.has_ended = true,
        "message_delta" if data["delta"]["stop_reason"].is_string() => {
            stream.has_stop_reason = true;
            stream.reported_tokens = data["usage"]["output_tokens"].as_u64();
        }
        "content_block_delta" => stream.text.push_str(data["delta"]["text"].as_str().unwrap_or_default()),
        "error" => stream.has_error = true,
        _ => {}
    }
}

fn completions(stream: &mut ParsedStream, data: &Value) {
    if data["error"].is_object() {
        stream.require(data["error"]["message"].is_string());
        stream.has_error = true;
        return;
    }
    stream.require(data["object"] == "chat.completion.chunk" && !stream.has_ended);
    stream.has_started = true;
    if let Some(tokens) = data["usage"]["completion_tokens"].as_u64() {
        stream.reported_tokens = Some(tokens);
    }
    let choice = &data["choices"][0];
    if let Some(text) = choice["delta"]["content"].as_str() {
        stream.require(text.is_empty() || !stream.has_stop_reason);
        stream.text.push_str(text);
    }
    stream.has_stop_reason |= choice["finish_reason"].is_string();
}

fn converse(stream: &mut ParsedStream, name: &str, data: &Value) {
    stream.require(match name {
        "messageStart" => !stream.has_started,
        "metadata" => stream.has_stop_reason && !stream.has_ended,
        "contentBlockStart" | "contentBlockDelta" | "contentBlockStop" | "messageStop" => {
            stream.has_started && !stream.has_stop_reason
        }
        // Any other name is an exception.
        _ => data["message"].is_string(),
    });
    match name {
        "messageStart" => stream.has_started = true,
        "contentBlockDelta" => stream.text.push_str(data["delta"]["text"].as_str().unwrap_or_default()),
        "messageStop" => stream.has_stop_reason = data["stopReason"].is_string(),
        "metadata" => {
            stream.reported_tokens = data["usage"]["outputTokens"].as_u64();
            stream.has_ended = true;
        }
        "contentBlockStart" | "contentBlockStop" => {}
        _ => stream.has_error = true,
    }
}

fn chat(stream: &mut ParsedStream, name: &str, data: &Value) {
    stream.require(!stream.has_ended && !stream.has_error);
    stream.has_started = true;
    match name {
        "text" => stream.text.push_str(data["text"].as_str().unwrap_or_default()),
        "done" => {
            stream.has_ended = true;
            stream.has_stop_reason = data["finish"].is_string();
            stream.is_canned = is_canned(data);
            stream.reported_tokens = data["usage"]["output"].as_u64();
        }
        "interrupted" => {
            stream.require(data["reason"].is_string() && data["message"].is_string());
            stream.has_error = true;
        }
        _ => stream.require(false),
    }
}

/// Whether an answer of our own face does not come from a model call just now, or not to its end.
pub(super) fn is_canned(reply: &Value) -> bool {
    let is_of_model = matches!(reply["rung"].as_str(), Some("strong_model" | "fast_model"));
    !is_of_model || reply["finish"] == "blocked"
}

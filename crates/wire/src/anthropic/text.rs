//! Extracts the text of a request, to answer it or to count its tokens.
//!
//! All values are built in memory; requests that only pass through do not use this.

use crate::request_error::RequestError;
use serde_json::Value;

/// The text that the model receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestText {
    /// The system prompt; empty if there is none.
    pub system: String,
    /// The conversation, oldest turn first.
    pub turns: Vec<TurnText>,
}

/// The text of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnText {
    /// Whether the user wrote the turn; otherwise the model did.
    pub is_user: bool,
    /// The text of the turn. Text blocks and tool results are joined by line feeds; images and documents have no text.
    pub text: String,
}

impl RequestText {
    /// The text of the last user turn; empty if there is none.
    #[must_use]
    pub fn last_user_text(&self) -> &str {
        self.turns.iter().rev().find(|turn| turn.is_user).map_or("", |turn| &turn.text)
    }

    /// All text that the model reads: the system prompt, then each turn.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        [self.system.as_str()].into_iter().chain(self.turns.iter().map(|turn| turn.text.as_str()))
    }
}

/// Reads the text of a request that [`read_request`](super::read_request) accepts.
pub fn read_text(body: &[u8]) -> Result<RequestText, RequestError> {
    let body: Value =
        serde_json::from_slice(body).map_err(|error| RequestError::not_json(error.to_string()))?;
    let mut request = RequestText::default();
    collect(body.get("system").unwrap_or(&Value::Null), &mut request.system);
    let turns = body.get("messages").and_then(Value::as_array);
    for turn in turns.ok_or_else(|| RequestError::missing("messages"))? {
        let mut text = String::new();
        collect(turn.get("content").unwrap_or(&Value::Null), &mut text);
        request.turns.push(TurnText { is_user: turn.get("role").is_some_and(|role| role == "user"), text });
    }
    Ok(request)
}

fn collect(content: &Value, text: &mut String) {
    match content {
        Value::String(piece) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
        }
        Value::Array(blocks) => blocks.iter().for_each(|block| collect(block, text)),
        Value::Object(block) => {
            ["text", "content"]
                .iter()
                .filter_map(|name| block.get(*name))
                .for_each(|part| collect(part, text));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

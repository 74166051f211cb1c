//! Parses a chat request.

use super::{ChatError, locale};
use crate::{JsonFields, RequestError, RequestLimits};
use seawall_core::history::Role;
use seawall_core::strategy::Language;

/// Maximum length of a message, in characters.
const MAX_MESSAGE_CHARACTERS: usize = 16_000;
/// Maximum number of turns in the history.
const MAX_TURNS: usize = 100;
/// Maximum length of a session or request ID, in characters.
const MAX_ID_CHARACTERS: usize = 128;

const FIELDS: [&str; 7] = ["message", "history", "session", "locale", "stream", "request_id", "max_tokens"];

/// A message with its conversation history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatFaceRequest {
    /// The message: 1 to 16,000 characters, not all of them whitespace.
    pub message: String,
    /// The conversation so far, oldest turn first. Empty turns are dropped.
    pub history: Vec<ChatTurn>,
    /// The caller's session ID: printable ASCII.
    pub session: Option<String>,
    /// The locale in canonical form, such as `ja-JP`; detected from the message if the caller does not set it.
    pub locale: String,
    /// Whether a streamed answer is requested.
    pub stream: bool,
    /// The caller's idempotency key: printable ASCII.
    pub request_id: Option<String>,
    /// The caller's limit of output tokens.
    pub max_output: Option<u32>,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTurn {
    /// The side that wrote it.
    pub role: Role,
    /// Its text.
    pub text: String,
}

impl ChatFaceRequest {
    /// Parses a body. `accepts_stream` is whether the headers ask for a stream; the body's own field takes precedence.
    pub fn read(body: &[u8], accepts_stream: bool, limits: &RequestLimits) -> Result<Self, ChatError> {
        let fields = JsonFields::read(body, limits)?;
        fields.reject_unknown(&FIELDS)?;
        let message = fields.need_string("message")?;
        let characters = message.chars().count();
        if characters > MAX_MESSAGE_CHARACTERS {
            return Err(ChatError::TooLong { characters, limit: MAX_MESSAGE_CHARACTERS });
        }
        if message.trim().is_empty() {
            return Err(invalid_field("message", "must not be empty").into());
        }
        let history_limits = RequestLimits { max_items: limits.max_items.min(MAX_TURNS), ..*limits };
        let mut history = fields.each("history", &history_limits, |raw| {
            let turn = JsonFields::of_value(raw, limits)?;
            turn.reject_unknown(&["role", "text"])?;
            Ok(ChatTurn { role: read_role(&turn)?, text: turn.need_string("text")? })
        })?;
        history.retain(|turn| !turn.text.trim().is_empty());
        let locale = match fields.string("locale")? {
            Some(given) => locale::canonical(&given)
                .ok_or_else(|| invalid_field("locale", "must be a language such as ja-JP or en"))?,
            None => locale::of_text(&message).to_owned(),
        };
        Ok(Self {
            message,
            history,
            session: read_id(&fields, "session")?,
            locale,
            stream: if fields.has("stream") { fields.boolean("stream")? } else { accepts_stream },
            request_id: read_id(&fields, "request_id")?,
            max_output: fields.max_output("max_tokens")?,
        })
    }

    /// The language of prepared texts for this caller.
    #[must_use]
    pub fn language(&self) -> Language {
        Language::of_locale(&self.locale)
    }
}

fn invalid_field(field: &str, problem: &'static str) -> RequestError {
    RequestError::Invalid { field: field.to_owned(), problem }
}

fn read_role(turn: &JsonFields<'_>) -> Result<Role, RequestError> {
    match turn.need_string("role")?.as_str() {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => Err(invalid_field("role", "must be user or assistant")),
    }
}

/// Restricted to printable ASCII, because a name is used as a key, in log lines and possibly in headers.
fn read_id(fields: &JsonFields<'_>, field: &str) -> Result<Option<String>, RequestError> {
    let Some(name) = fields.string(field)? else { return Ok(None) };
    let is_printable = name.bytes().all(|letter| matches!(letter, b' '..=b'~'));
    if is_printable && matches!(name.len(), 1..=MAX_ID_CHARACTERS) {
        Ok(Some(name))
    } else {
        Err(invalid_field(field, "must have 1 to 128 printable ASCII characters"))
    }
}

//! A question, as it comes in.

use super::{ChatError, locale};
use seawall_core::history::Role;
use seawall_core::strategy::Language;
use seawall_wire::{Fields, RequestError, RequestLimits};

/// The longest message, in characters.
const LONGEST_MESSAGE: usize = 16_000;
/// The most turns that may come along.
const MOST_TURNS: usize = 100;
/// The longest name of a session or a request, in characters.
const LONGEST_NAME: usize = 128;

const FIELDS: [&str; 7] = ["message", "history", "session", "locale", "stream", "request_id", "max_tokens"];

/// A question with what was said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatAsk {
    /// What is asked: from 1 to 16,000 characters, not all of them space.
    pub message: String,
    /// What was said before, the oldest turn first. Turns without words are left out.
    pub history: Vec<ChatTurn>,
    /// The caller's name for the conversation: printable ASCII.
    pub session: Option<String>,
    /// Such as `ja-JP`, in one spelling; guessed from the message where the caller does not say.
    pub locale: String,
    /// Whether the answer is wanted as a stream.
    pub stream: bool,
    /// The caller's name for the request, under which it is answered once: printable ASCII.
    pub request_id: Option<String>,
    /// The most tokens that the caller wants the answer to have.
    pub max_output: Option<u32>,
}

/// What one side said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTurn {
    /// Who.
    pub role: Role,
    /// What.
    pub text: String,
}

impl ChatAsk {
    /// Reads a body. `accepts_stream` is whether the caller's headers ask for a stream; the body's own word goes before.
    pub fn read(body: &[u8], accepts_stream: bool, limits: &RequestLimits) -> Result<Self, ChatError> {
        let fields = Fields::read(body, limits)?;
        fields.refuse_others(&FIELDS)?;
        let message = fields.need_string("message")?;
        let characters = message.chars().count();
        if characters > LONGEST_MESSAGE {
            return Err(ChatError::TooLong { characters, limit: LONGEST_MESSAGE });
        }
        if message.trim().is_empty() {
            return Err(wrong("message", "must not be empty").into());
        }
        let most = RequestLimits { members: limits.members.min(MOST_TURNS), ..*limits };
        let mut history = fields.each("history", &most, |raw| {
            let turn = Fields::of_value(raw, limits)?;
            turn.refuse_others(&["role", "text"])?;
            Ok(ChatTurn { role: read_role(&turn)?, text: turn.need_string("text")? })
        })?;
        history.retain(|turn| !turn.text.trim().is_empty());
        let locale = match fields.string("locale")? {
            Some(given) => locale::canonical(&given)
                .ok_or_else(|| wrong("locale", "must be a language such as ja-JP or en"))?,
            None => locale::of_text(&message).to_owned(),
        };
        Ok(Self {
            message,
            history,
            session: read_name(&fields, "session")?,
            locale,
            stream: if fields.has("stream") { fields.boolean("stream")? } else { accepts_stream },
            request_id: read_name(&fields, "request_id")?,
            max_output: fields.max_output("max_tokens")?,
        })
    }

    /// The language that we speak ourselves to this caller.
    #[must_use]
    pub fn language(&self) -> Language {
        Language::of_locale(&self.locale)
    }
}

fn wrong(field: &str, problem: &'static str) -> RequestError {
    RequestError::Wrong { field: field.to_owned(), problem }
}

fn read_role(turn: &Fields<'_>) -> Result<Role, RequestError> {
    match turn.need_string("role")?.as_str() {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => Err(wrong("role", "must be user or assistant")),
    }
}

/// A name becomes a key, a line of a log and perhaps a header.
fn read_name(fields: &Fields<'_>, field: &str) -> Result<Option<String>, RequestError> {
    let Some(name) = fields.string(field)? else { return Ok(None) };
    let is_printable = name.bytes().all(|letter| matches!(letter, b' '..=b'~'));
    if is_printable && matches!(name.len(), 1..=LONGEST_NAME) {
        Ok(Some(name))
    } else {
        Err(wrong(field, "must have 1 to 128 printable ASCII characters"))
    }
}

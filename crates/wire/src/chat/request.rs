//! The dialect-neutral request.

use super::{ChatSettings, JsonText};
use crate::RequestError;
pub use seawall_core::history::Role;
use std::borrow::Cow;

/// A chat request in a form that every dialect is read into and written from. A request that stays in its dialect is
/// forwarded as the original bytes, and only one that changes dialects is converted through this type. Which dialect can
/// express which part of it is in the [feature table](super::FEATURES).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// The model or route name that the caller used.
    pub model: String,
    /// The system prompt, one entry per block.
    pub system: Vec<String>,
    /// The conversation, oldest turn first.
    pub turns: Vec<Turn>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Whether the model may, must or must not call a tool.
    pub tool_choice: ToolChoice,
    /// The maximum number of output tokens.
    pub max_output: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: the probability mass from which tokens are chosen.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Whether the caller requested a streamed answer.
    pub stream: bool,
    /// Whether the caller requested usage at the end of the stream, in dialects where that is optional.
    pub stream_usage: bool,
    /// All other settings.
    pub settings: ChatSettings,
}

impl ChatRequest {
    /// The output limit for dialects that have no meaning for 0. In Anthropic's dialect, 0 only fills the vendor's
    /// prompt cache and produces no answer.
    pub(crate) fn positive_max_output(&self) -> Result<Option<u32>, RequestError> {
        match self.max_output {
            Some(0) => Err(RequestError::untranslatable(
                "max_tokens",
                "0 output tokens, which only fills Anthropic's prompt cache",
            )),
            limit => Ok(limit),
        }
    }

    /// The tools that are offered to a model whose dialect cannot restrict it to some of them.
    pub(crate) fn offered_tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let allowed = &self.settings.allowed_tools;
        self.tools.iter().filter(move |tool| allowed.is_empty() || allowed.contains(&tool.name))
    }

    /// Where content of a role that is appended next begins: the positions of its turn and of its first part.
    pub(crate) fn next_position(&self, role: Role) -> (usize, usize) {
        match self.turns.last() {
            Some(turn) if turn.role == role => (self.turns.len() - 1, turn.parts.len()),
            _ => (self.turns.len(), 0),
        }
    }

    /// Appends content of one role. It is merged into the last turn if that has the same role; an empty list of parts
    /// adds nothing.
    pub(crate) fn push_parts(&mut self, role: Role, mut parts: Vec<RequestPart>) {
        match self.turns.last_mut() {
            Some(turn) if turn.role == role => turn.parts.append(&mut parts),
            _ if parts.is_empty() => {}
            _ => self.turns.push(Turn { role, parts }),
        }
    }
}

/// Consecutive content of one role.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The role that wrote the content.
    pub role: Role,
    /// The content blocks, in order.
    pub parts: Vec<RequestPart>,
}

/// One content block of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestPart {
    /// Plain text.
    Text(String),
    /// An image.
    Image(Image),
    /// A document, such as a PDF file.
    Document(Document),
    /// A tool call that the model requested.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult {
        /// The id of the tool call that it answers.
        call: String,
        /// The content of the result.
        parts: Vec<Self>,
        /// Whether the tool reported an error.
        is_error: bool,
    },
}

/// A document, as a link or inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The title or file name.
    pub name: Option<String>,
    /// The document itself; its media type is such as `application/pdf`.
    pub content: Image,
}

/// An image or a document, as a link or inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// The URL of the image.
    Url(String),
    /// The image inline, as base64 that is not decoded here.
    Base64 {
        /// The MIME type, such as `image/png`.
        media_type: String,
        /// The base64 text.
        content: String,
    },
}

impl Image {
    /// The URL, which is a `data:` URL for inline content.
    pub(crate) fn to_url(&self) -> Cow<'_, str> {
        match self {
            Self::Url(url) => Cow::Borrowed(url),
            Self::Base64 { media_type, content } => Cow::Owned(format!("data:{media_type};base64,{content}")),
        }
    }

    /// Reads an image URL, including `data:` URLs with inline content. A `data:` URL that is not base64 is rejected,
    /// because no other dialect could carry it.
    pub(crate) fn from_url(url: String) -> Result<Self, RequestError> {
        let Some(data) = url.strip_prefix("data:") else { return Ok(Self::Url(url)) };
        match data.split_once(";base64,") {
            Some((media_type, content)) => {
                Ok(Self::Base64 { media_type: media_type.to_owned(), content: content.to_owned() })
            }
            None => Err(RequestError::untranslatable("url", "data URLs without base64")),
        }
    }
}

/// A tool call that the model requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id to which the tool result refers.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments: a JSON object.
    pub input: JsonText,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name by which the model calls it.
    pub name: String,
    /// What the tool does, as shown to the model.
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub schema: JsonText,
    /// Whether the vendor must enforce the schema.
    pub strict: bool,
}

/// Whether the model may, must or must not call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call some tool.
    Any,
    /// The model must call the tool of this name.
    Named(String),
}

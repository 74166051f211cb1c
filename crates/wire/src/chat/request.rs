//! A request as every dialect understands it.

use super::JsonText;
use crate::RequestError;
pub use seawall_core::history::Role;

/// What is asked of a model. What a dialect has beyond this is not kept: a request that stays in its dialect is passed on
/// as the bytes it came in, and only one that changes dialects goes through here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// The model, by the name the caller used.
    pub model: String,
    /// What the model is told before the conversation, block by block.
    pub system: Vec<String>,
    /// The conversation, the oldest turn first.
    pub turns: Vec<Turn>,
    /// What the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Whether it must.
    pub tool_choice: ToolChoice,
    /// The most tokens that the answer may have.
    pub max_output: Option<u32>,
    /// How free the answer is.
    pub temperature: Option<f64>,
    /// From how much of the likely the answer is chosen.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Whether the answer is wanted as a stream.
    pub stream: bool,
    /// Whether the caller wants usage at the end of a stream, where its dialect leaves that open.
    pub stream_usage: bool,
}

impl ChatRequest {
    /// Adds what one side says. It belongs to the turn before when the same side had spoken last, and it is nothing when it
    /// has no parts.
    pub(crate) fn say(&mut self, role: Role, mut parts: Vec<Part>) {
        match self.turns.last_mut() {
            Some(turn) if turn.role == role => turn.parts.append(&mut parts),
            _ if parts.is_empty() => {}
            _ => self.turns.push(Turn { role, parts }),
        }
    }
}

/// What one side said before the other did.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who.
    pub role: Role,
    /// What.
    pub parts: Vec<Part>,
}

/// One piece of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A picture.
    Image(Image),
    /// The model wants a tool to be called.
    ToolCall(ToolCall),
    /// What a tool gave back.
    ToolResult {
        /// Which call it answers.
        call: String,
        /// The result.
        parts: Vec<Self>,
        /// Whether the tool failed.
        is_error: bool,
    },
}

/// A picture, by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Where it is.
    Url(String),
    /// It is here, in base64, which nobody decodes.
    Base64 {
        /// What it is, such as `image/png`.
        media_type: String,
        /// The picture.
        content: String,
    },
}

impl Image {
    /// The picture at this address, which may be the picture itself. Refused where that is not in base64: no other dialect
    /// could carry it.
    pub(crate) fn at(url: String) -> Result<Self, RequestError> {
        let Some(data) = url.strip_prefix("data:") else { return Ok(Self::Url(url)) };
        match data.split_once(";base64,") {
            Some((media_type, content)) => {
                Ok(Self::Base64 { media_type: media_type.to_owned(), content: content.to_owned() })
            }
            None => Err(RequestError::untranslatable("url", "is a picture that is here and not in base64")),
        }
    }
}

/// A call that the model wants made.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its name for the result to refer to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What the tool is given: an object.
    pub input: JsonText,
}

/// A tool that the model may have called.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub schema: JsonText,
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call one.
    Any,
    /// It must call this one.
    Named(String),
}

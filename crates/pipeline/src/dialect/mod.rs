//! Translation between any face and any target.
//!
//! A caller speaks one of the [dialects](seawall_wire::dialect) to a [`Face`]; a target answers in one of the dialects.
//! This module is between them: a [`DialectRequest`] is parsed once and written for each target that is tried, and an
//! [`UnstreamedAnswer`] or a [`DialectStream`] reads the answer. Answers are [events](seawall_wire::reply), which the face
//! writes with the stream's encoder. There is no I/O and no clock.
//!
//! If both sides speak the same dialect, nothing is rewritten, and a target that accepts several dialects is called in
//! the caller's: the request is the caller's bytes with the target's model name inserted, and chunks of the answer are
//! forwarded as opaque events and only watched for usage, end and failure. Anthropic's dialect and Bedrock's InvokeModel
//! differ only in their framing. All other pairs are translated through [`chat`](seawall_wire::chat), and a request
//! that it cannot express is rejected before any target is called.
//!
//! A request may also have no dialect ([`DialectRequest::neutral`]): an assistant asks it on behalf of a caller, and reads
//! the typed events itself.
//!
//! Opaque bytes always end between two events, so [`DialectStream::interrupt`] can end a stream at any time. This module
//! makes no decisions: retries and charges belong to the pipeline.

mod converter;
mod error_response;
mod partial_event;
mod request;
mod stream;
mod stream_parser;
mod unstreamed;

#[cfg(test)]
mod tests;

pub use error_response::{content_type, render_error, request_id_header, stream_headers};
pub use request::{DialectHeaders, DialectRequest};
pub use seawall_wire::dialect::{AnswerDefaults, DialectId, ErrorResponse};
pub use stream::{DialectStream, DialectStreamEnd};
pub use unstreamed::UnstreamedAnswer;

use seawall_wire::reply::ReplyIdentity;

/// The protocols that callers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// A vendor's dialect.
    Vendor(DialectId),
    /// The gateway's chat protocol, see [`chat_face`](seawall_wire::chat_face).
    Chat,
}

impl Face {
    /// Anthropic Messages.
    pub const ANTHROPIC_MESSAGES: Self = Self::Vendor(DialectId::ANTHROPIC_MESSAGES);
    /// OpenAI chat completions.
    pub const OPENAI_CHAT: Self = Self::Vendor(DialectId::OPENAI_CHAT);
    /// OpenAI Responses.
    pub const RESPONSES: Self = Self::Vendor(DialectId::RESPONSES);
    /// Amazon Bedrock's InvokeModel.
    pub const BEDROCK_INVOKE: Self = Self::Vendor(DialectId::BEDROCK_INVOKE);
    /// Amazon Bedrock's Converse.
    pub const BEDROCK_CONVERSE: Self = Self::Vendor(DialectId::BEDROCK_CONVERSE);
    /// The Gemini API.
    pub const GEMINI: Self = Self::Vendor(DialectId::GEMINI);

    /// The faces with a vendor's dialect, in a fixed order.
    pub const VENDORS: [Self; DialectId::ALL.len()] = {
        let mut faces = [Self::Chat; DialectId::ALL.len()];
        let mut at = 0;
        while at < faces.len() {
            faces[at] = Self::Vendor(DialectId::ALL[at]);
            at += 1;
        }
        faces
    };
    /// All faces, in the same order.
    pub const ALL: [Self; DialectId::ALL.len() + 1] = {
        let mut faces = [Self::Chat; DialectId::ALL.len() + 1];
        let mut at = 0;
        while at < Self::VENDORS.len() {
            faces[at] = Self::VENDORS[at];
            at += 1;
        }
        faces
    };

    /// The position among all faces.
    pub(crate) fn index(self) -> usize {
        Self::ALL.into_iter().position(|face| face == self).unwrap_or_default()
    }

    /// The dialect; `None` for the chat face.
    #[must_use]
    pub const fn dialect(self) -> Option<DialectId> {
        match self {
            Self::Vendor(dialect) => Some(dialect),
            Self::Chat => None,
        }
    }

    /// The label in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vendor(dialect) => dialect.name(),
            Self::Chat => "chat",
        }
    }
}

/// The identity of an answer that is parsed.
fn identity(model: &str, defaults: &AnswerDefaults<'_>) -> ReplyIdentity {
    let AnswerDefaults { id, created, elapsed } = *defaults;
    ReplyIdentity { id: id.to_owned(), model: model.to_owned(), created, elapsed }
}

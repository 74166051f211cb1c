//! The protocol of the chat face.
//!
//! The other faces speak their vendors' dialects and forward a model's answer. The chat face has a protocol of its own: a
//! [`ChatFaceRequest`] is a message with its history, and a [`ChatReply`] reports how it was answered and with what
//! confidence, as one JSON object or as server-sent events ([`ChatReplyEvent`]). A [`ChatErrorResponse`] is for errors that
//! the caller has to fix.
//!
//! **What it does not do.** No field of a chat request can select a model, a tier, a price or an address; unknown
//! fields are rejected by name. Nothing here decides how a message is answered.

mod error;
mod error_response;
mod event;
mod json;
pub mod locale;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use error::ChatError;
pub use error_response::{ChatErrorResponse, REQUEST_ID_HEADER, error_code};
pub use event::{ChatInterruption, ChatReplyEvent, InterruptReason};
pub use reply::{ChatFinish, ChatReply, confidence};
pub use request::{ChatFaceRequest, ChatTurn};

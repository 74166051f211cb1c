//! The protocol of the chat face.
//!
//! The four other faces speak their vendors' dialects and forward a model's answer. The chat face has a protocol of its
//! own: a [`ChatFaceRequest`] is a message with its history, a [`ChatPrompt`] turns it into a model request, and a
//! [`ChatReply`] reports how it was answered and with what confidence. A [`ChatErrorResponse`] is for errors that the caller
//! has to fix. [`ChatText`] and [`apology`] are prepared texts, in Japanese and English.
//!
//! **When it acts.** Once per request on the way in, and once on the way out. In between
//! [`DialectRequest::of_chat`](crate::dialect::DialectRequest::of_chat) translates the message for any target.
//!
//! **What it does not do.** No field of a chat request can select a model, a tier, a price or an address; unknown
//! fields are rejected by name. Nothing here decides which target answers. No text promises that the caller will be
//! contacted later.

mod error;
mod error_response;
mod event;
mod json;
mod locale;
mod prompt;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod texts;

pub use error::ChatError;
pub(crate) use error_response::REQUEST_ID_HEADER;
pub use error_response::{ChatErrorResponse, error_code};
pub use event::{InterruptReason, interrupted_event, text_event};
pub use prompt::{ChatPrompt, ChatPromptOptions, PreparedChat, PromptModel};
pub use reply::{ChatFinish, ChatReply, confidence};
pub use request::{ChatFaceRequest, ChatTurn};
pub use texts::{ChatText, apology};

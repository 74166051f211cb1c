//! The protocol of the chat face.
//!
//! The four other faces speak their vendors' dialects and forward a model's answer. The chat face has a protocol of its
//! own: a [`ChatAsk`] is a message with its history, a [`ChatPrompt`] turns it into a model request, and a
//! [`ChatReply`] reports how it was answered and with what confidence. A [`ChatRefusal`] is for errors that the caller
//! has to fix. [`ChatText`] and [`apology`] are prepared texts, in Japanese and English.
//!
//! **When it acts.** Once per request on the way in, and once on the way out. In between
//! [`SpokenRequest::of_chat`](crate::speech::SpokenRequest::of_chat) translates the message for any target.
//!
//! **What it does not do.** No field of a chat request can select a model, a tier, a price or an address; unknown
//! fields are rejected by name. Nothing here decides which target answers. No text promises that the caller will be
//! contacted later.

mod ask;
mod error;
mod event;
mod json;
mod locale;
mod prompt;
mod refusal;
mod reply;
#[cfg(test)]
mod tests;
mod texts;

pub use ask::{ChatAsk, ChatTurn};
pub use error::ChatError;
pub use event::{InterruptReason, interrupted_event, text_event};
pub use prompt::{ChatPrompt, ChatPromptOptions, PreparedChat, PromptOccasion};
pub(crate) use refusal::REQUEST_ID_HEADER;
pub use refusal::{ChatRefusal, refusal_code};
pub use reply::{ChatFinish, ChatReply, confidence};
pub use texts::{ChatText, apology};

//! The words of our own face.
//!
//! The four other faces speak as their vendors do, and hand on what a model says. This one has a voice of its own: a
//! [`ChatAsk`] is a question with what was said before, a [`ChatPrompt`] makes a model's request of it, a [`ChatReply`] says
//! how it was answered, and how sure that is. A [`ChatRefusal`] is for what is the caller's to mend. [`ChatText`] and
//! [`apology`] are what we say ourselves, in Japanese and English.
//!
//! **When it acts.** Once per request on the way in, and once on the way out. In between
//! [`SpokenRequest::of_chat`](crate::speech::SpokenRequest::of_chat) takes the question to any target.
//!
//! **What it will not do.** No field of a question can name a model, a tier, a price or an address; a field that is not known
//! is refused by its name. Nothing here decides who answers. No text promises that anybody will come back to the caller.

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

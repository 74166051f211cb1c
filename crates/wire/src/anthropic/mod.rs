//! Anthropic Messages.
//!
//! A request is read only as far as decisions need it ([`read_request`]) and passed on as the bytes that came;
//! another model is spliced in ([`with_model`]). Answers, streams and errors are read for their usage, their end
//! and their failure. What Seawall says itself in this dialect, and what a simulated model says, is written
//! here too.
//!
//! It does not check what the vendor checks (blocks, tools, roles in turn), so that it need not follow each new
//! field. Clients drop stream events without a name and pass unknown names on to their users, so every event
//! written here has one of the vendor's names.

mod answer;
mod depth;
mod error;
mod refusal;
mod request;
mod request_error;
mod stream;
mod text;
mod turns;
mod write;

#[cfg(test)]
mod tests;

pub use answer::{AnswerError, read_answer};
pub use error::read_error;
pub use refusal::{ErrorReply, Refusal};
pub use request::{RequestHead, RequestLimits, read_request, with_model};
pub use request_error::RequestError;
pub use stream::{AnthropicStream, StreamError};
pub use text::{RequestText, TurnText, read_text};
pub use write::{
    Answer, AnswerStart, write_answer, write_block_start, write_block_stop, write_error, write_error_event,
    write_message_delta, write_message_start, write_message_stop, write_ping, write_text_delta,
};

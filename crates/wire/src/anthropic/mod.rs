//! The Anthropic Messages dialect.
//!
//! A request is parsed only as far as decisions need it ([`read_request`]) and forwarded as the original bytes; a
//! different model name is spliced in ([`with_model`]). Answers, streams and errors are read for usage, finish reason
//! and failure. The writers for the gateway's own responses and for the simulated models are here too.
//!
//! If the model speaks another dialect, requests and answers are parsed completely into [`chat`](crate::chat)
//! ([`read_chat_request`], [`read_chat_answer`], [`AnthropicChatReader`]) and written from it ([`write_chat_request`],
//! [`write_chat_answer`], [`AnthropicChatWriter`]). Each documents what is lost in the conversion.
//!
//! It does not validate what the vendor validates (blocks, tools, alternating roles), so that it need not track each
//! new field. Clients drop stream events without a name and pass unknown names on to their users, so every event
//! written here has one of the vendor's names.

mod answer;
mod chat_answer;
mod chat_reader;
mod chat_request;
mod chat_request_out;
mod chat_writer;
mod dialect;
mod error;
mod error_response;
mod field_rules;
mod model_traits;
mod models;
mod request;
mod settings;
mod stream;
mod text;
mod turns;
mod usage;
mod write;

#[cfg(test)]
mod tests;

pub use answer::read_answer;
pub use chat_answer::read_chat_answer;
pub use chat_reader::AnthropicChatReader;
pub use chat_request::read_chat_request;
pub use chat_request_out::{DEFAULT_MAX_OUTPUT, write_chat_request, write_chat_request_for};
pub use chat_writer::AnthropicChatWriter;
pub use dialect::MessagesDialect;
pub use error::{read_error, read_error_message};
pub use error_response::{AnthropicErrorBody, error_code_of, error_type_of, status_of};
pub(crate) use field_rules::REQUEST as REQUEST_FIELDS;
pub(crate) use model_traits::ModelTraits;
pub use models::{
    AnthropicModelEntry, CountHead, read_count_request, write_count_answer, write_model, write_models,
};
pub use request::{MessagesHead, read_request, with_model};
pub(crate) use settings::{ReasoningFields, read_reasoning};
pub use stream::AnthropicStream;
pub(crate) use stream::AnthropicStreamState;
pub use text::{RequestText, TurnText, read_text};
pub use write::{
    AnswerStart, TextAnswer, write_answer, write_block_start, write_block_stop, write_chat_answer,
    write_error, write_error_event, write_message_delta, write_message_start, write_message_stop, write_ping,
    write_text_delta,
};

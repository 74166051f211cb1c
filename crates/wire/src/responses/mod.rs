//! The OpenAI Responses dialect (`POST /v1/responses`).
//!
//! If caller and model both speak it, a request is parsed only as far as decisions need it ([`read_request`]) and
//! forwarded as the original bytes, with a different model name and an output limit spliced in
//! ([`for_upstream_with_limit`]): reasoning items, `encrypted_content` and `include` are not touched. Answers and
//! streams are read for usage, finish reason and failure. The vendor always reports the usage of a stream.
//!
//! If the model speaks another dialect, requests and answers are parsed completely into [`chat`](crate::chat)
//! ([`read_chat_request`], [`read_chat_answer`], [`ResponsesChatReader`]) and written from it ([`write_chat_request`],
//! [`write_chat_answer`], [`ResponsesChatWriter`]). Each documents what is lost in the conversion. Content that is stored
//! at the vendor cannot be translated: such requests are rejected.
//!
//! Errors have the same body as in chat completions; only the event that ends a failed stream differs
//! ([`write_error_event`]).
//!
//! It does not validate what the vendor validates. Retrieval, deletion, compaction and the WebSocket form of the API are
//! not here.

mod answer;
mod chat_answer;
mod chat_reader;
mod chat_request;
mod chat_request_out;
mod chat_writer;
mod compaction;
mod dialect;
mod error_event;
mod events;
mod field_rules;
mod incoming;
mod items;
mod namespace;
mod output;
mod output_read;
mod request;
mod settings;
mod so_far;
mod stream;
mod usage;

#[cfg(test)]
mod tests;

pub use crate::openai::{
    OpenAiErrorBody, error_code_of, error_type_of, read_error, read_error_message, status_of, write_error,
};
pub use answer::read_answer;
pub use chat_answer::{read_chat_answer, write_chat_answer};
pub use chat_reader::ResponsesChatReader;
pub use chat_request::read_chat_request;
pub use chat_request_out::{write_chat_request, write_chat_request_for};
pub use chat_writer::ResponsesChatWriter;
pub use dialect::ResponsesDialect;
pub use error_event::write_error_event;
pub use request::{ResponsesHead, for_upstream_with_limit, read_request, with_model};
pub use stream::ResponsesStream;

//! The OpenAI chat completions dialect.
//!
//! If caller and model both speak it, a request is parsed only as far as decisions need it ([`read_request`]) and
//! forwarded as the original bytes, with a different model name and the request for usage spliced in
//! ([`for_upstream`]): the vendor is always asked to report the usage of a stream, and a caller that did not request it
//! receives the stream through a [`UsageFilter`]. Exactly one output limit is sent upstream ([`for_upstream_with_limit`]).
//! Answers, streams and errors are read for usage, finish reason and failure.
//!
//! If the model speaks another dialect, requests and answers are parsed completely into [`chat`](crate::chat)
//! ([`read_chat_request`], [`read_chat_answer`], [`OpenAiChatReader`]) and written from it ([`write_chat_request`],
//! [`write_chat_answer`], [`OpenAiChatWriter`]). Each documents what is lost in the conversion.
//!
//! It does not validate what the vendor validates. Legacy function calling (`functions`, `function_call`) passes
//! through but is not translated.

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
mod filter;
mod messages;
mod models;
mod request;
mod settings;
mod stream;
mod template;

#[cfg(test)]
mod tests;

pub use answer::read_answer;
pub use chat_answer::{read_chat_answer, write_chat_answer};
pub use chat_reader::OpenAiChatReader;
pub use chat_request::read_chat_request;
pub(crate) use chat_request::read_custom_tool;
pub(crate) use chat_request_out::{DEFAULT_FILE_NAME, SchemaFields};
pub use chat_request_out::{write_chat_request, write_chat_request_for};
pub use chat_writer::OpenAiChatWriter;
pub use dialect::ChatCompletionsDialect;
pub use error::{read_error, read_error_message};
pub use error_response::{
    OpenAiErrorBody, error_code_of, error_type_of, status_of, write_done, write_error, write_error_event,
};
pub use filter::UsageFilter;
pub(crate) use messages::read_file;
pub use models::{OpenAiModelEntry, write_model, write_models};
pub use request::{ChatCompletionHead, for_upstream, for_upstream_with_limit, read_request, with_model};
pub(crate) use settings::{read_effort, read_schema, read_tool_choice, read_verbosity};
pub use stream::{ChunkIdentity, OpenAiStream};

//! The Gemini API dialect: `generateContent` and `streamGenerateContent?alt=sse`.
//!
//! The path of a call names the model and whether the answer is streamed ([`read_path`], [`path_for`]). If caller and
//! model both speak the dialect, a request is parsed only as far as decisions need it ([`read_request`]) and forwarded
//! as the original bytes, with an output limit spliced in where it has none ([`with_limit`]). Answers, streams and
//! errors are read for usage, finish reason and failure ([`read_answer`], [`GeminiStream`], [`read_error`]).
//!
//! If the model speaks another dialect, requests and answers are parsed completely into [`chat`](crate::chat)
//! ([`read_chat_request`], [`read_chat_answer`], [`GeminiChatReader`]) and written from it ([`write_chat_request`],
//! [`write_chat_answer`], [`GeminiChatWriter`]). Each documents what is lost in the conversion.
//!
//! A stream has no end marker: it is complete if a finish reason has arrived when its connection ends. Nothing but
//! `data:` lines may be inserted into a stream, not even comments: the vendor's client libraries take any other line
//! for an error.
//!
//! `countTokens` is answered with an estimate ([`read_count_path`], [`read_count_input`], [`write_count`]).
//!
//! It does not validate what the vendor validates. It supports neither tuned models nor streams without `alt=sse`, which
//! are one long JSON array. Paths of Vertex AI are written, for targets ([`path_for`]), but not read.

mod answer;
mod chat_reader;
mod chat_request;
mod chat_request_out;
mod chat_writer;
mod contents;
mod count;
mod dialect;
mod error;
mod error_response;
mod field_rules;
mod names;
mod path;
mod request;
mod schema;
mod settings;
mod shapes;
mod stream;
mod usage;

#[cfg(test)]
mod tests;

pub use answer::{read_answer, read_chat_answer, write_chat_answer};
pub use chat_reader::GeminiChatReader;
pub use chat_request::read_chat_request;
pub use chat_request_out::{write_chat_request, write_chat_request_for};
pub use chat_writer::GeminiChatWriter;
pub use count::{read_count_input, write_count};
pub use dialect::GeminiDialect;
pub use error::{read_error, read_error_message};
pub use error_response::{status_name_of, status_of, write_error, write_error_event, write_error_with_retry};
use path::url_path;
pub use path::{
    DEFAULT_VERSION, GeminiCall, is_vendor_path, path_for, read_count_path, read_path, requests_sse,
};
pub use request::{GeminiHead, read_request, with_limit};
pub use stream::GeminiStream;

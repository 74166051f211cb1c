//! Converts vendor wire formats to dialect-neutral chat types and back.
//!
//! Every function depends only on the bytes it receives: there are no sockets, tasks or clocks. Streams are parsed
//! incrementally, whatever the chunk boundaries. A body that passes through in the same dialect is never re-encoded;
//! fields that must change are spliced in place.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`chat`] | requests, answers and events that every dialect is read into and written from |
//! | [`sse`] | server-sent events at byte level, read and written |
//! | [`anthropic`] | Anthropic Messages: requests, answers, streams, errors |
//! | [`openai`] | OpenAI chat completions: the same |
//! | [`bedrock`] | Amazon Bedrock runtime: paths, event-stream frames, InvokeModel and Converse, errors |
//!
//! Besides these: [`Refusal`] enumerates the requests that Seawall itself refuses, [`RetryAdvice`] is the retry advice
//! for a caller's client library, [`Fields`] reads the objects of a request, [`estimate_input`] estimates its input
//! tokens, and [`RequestError`], [`AnswerError`] and [`StreamError`] are the errors of the readers.

mod answer_error;
pub mod anthropic;
pub mod bedrock;
pub mod chat;
mod content;
mod counted;
mod depth;
mod features;
mod fields;
mod headers;
mod json_out;
pub mod openai;
mod refusal;
mod reported;
mod request;
mod request_error;
pub mod sse;
mod stream;
mod surrogate;
mod thinking;

pub use answer_error::{AnswerError, StreamError};
pub use content::most_tokens;
pub use counted::estimate_input;
pub use features::{RequestFeatures, may_have_features, read_features};
pub use fields::Fields;
pub use headers::{Dialect, RetryAdvice, retry_hint};
pub use refusal::{Refusal, client_message};
pub use request::RequestLimits;
pub use request_error::RequestError;

//! Converts vendor wire formats to dialect-neutral chat types and back.
//!
//! Every function depends only on the bytes it receives: there are no sockets, tasks or clocks. Streams are parsed
//! incrementally, whatever the chunk boundaries. A body that passes through in the same dialect is never re-encoded;
//! fields that must change are spliced in place.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`dialect`] | what every dialect provides, and the registry of dialects |
//! | [`chat`] | requests, answers and events that every dialect is read into and written from |
//! | [`chat_face`] | the protocol of the gateway's own chat |
//! | [`reply`] | the events of a reply, and their encoder |
//! | [`sse`] | server-sent events at byte level, read and written |
//! | [`anthropic`] | Anthropic Messages: requests, answers, streams, errors |
//! | [`openai`] | OpenAI chat completions: the same |
//! | [`responses`] | OpenAI Responses: the same |
//! | [`embeddings`] | embeddings of OpenAI's API and of Bedrock's models: requests and answers |
//! | [`bedrock`] | Amazon Bedrock runtime: paths, event-stream frames, InvokeModel and Converse, errors |
//! | [`gemini`] | Gemini API: paths, requests, answers, streams, errors |
//!
//! Besides these: [`ApiErrorKind`] enumerates the requests that Seawall itself rejects, [`RetryAdvice`] is the retry advice
//! for a caller's client library, [`JsonFields`] reads the objects of a request, [`estimate_input`] estimates its input
//! tokens, and [`RequestError`], [`AnswerError`] and [`StreamError`] are the errors of the readers.

mod answer_error;
pub mod anthropic;
mod api_error_kind;
pub mod bedrock;
pub mod chat;
pub mod chat_face;
mod content;
mod depth;
pub mod dialect;
pub mod embeddings;
mod features;
mod fields;
pub mod gemini;
mod headers;
mod input_estimate;
mod json_out;
mod lenient;
pub mod openai;
mod prompt_prefix;
pub mod reply;
mod request;
mod request_error;
pub mod responses;
pub mod sse;
mod stream;
mod surrogate;
mod thinking;

pub use answer_error::{AnswerError, StreamError};
pub use api_error_kind::ApiErrorKind;
pub use content::output_token_bound;
pub use features::{RequestFeatures, may_have_features, read_features};
pub use fields::JsonFields;
pub use headers::{RetryAdvice, read_retry_after};
pub use input_estimate::estimate_input;
pub use prompt_prefix::{prompt_hash, prompt_prefix_hash};
pub use request::RequestLimits;
pub use request_error::RequestError;

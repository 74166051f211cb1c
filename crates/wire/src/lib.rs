//! One vendor's bytes to neutral chat types, and back.
//!
//! Everything here is a function of the bytes it is given: there is no socket, no task and no clock, and a
//! stream is read piece by piece as it arrives, however it was split on the way. A body that passes through in
//! the same dialect is never encoded anew; what must change in it is spliced.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`chat`] | requests, answers and events that every dialect is read into and written from |
//! | [`sse`] | server-sent events at byte level, read and written |
//! | [`anthropic`] | Anthropic Messages: requests, answers, streams, errors |
//! | [`openai`] | OpenAI chat completions: the same |
//! | [`bedrock`] | Amazon Bedrock runtime: paths, event-stream frames, InvokeModel and Converse, errors |
//!
//! Beside them: [`Refusal`] is what Seawall refuses itself, [`RetryAdvice`] what a caller's client library is told about
//! coming back, [`Fields`] reads the objects of a request, and [`RequestError`], [`AnswerError`] and [`StreamError`] are what every reader may complain about.

mod answer_error;
pub mod anthropic;
pub mod bedrock;
pub mod chat;
mod content;
mod depth;
mod features;
mod fields;
mod headers;
mod json_out;
pub mod openai;
mod refusal;
mod request;
mod request_error;
pub mod sse;
mod stream;

pub use answer_error::{AnswerError, StreamError};
pub use content::most_tokens;
pub use features::{RequestFeatures, may_have_features, read_features};
pub use fields::Fields;
pub use headers::{Dialect, RetryAdvice, retry_hint};
pub use refusal::Refusal;
pub use request::RequestLimits;
pub use request_error::RequestError;

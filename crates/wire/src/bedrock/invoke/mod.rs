//! InvokeModel and InvokeModelWithResponseStream with Anthropic's models.
//!
//! The bodies are those of Anthropic Messages, with the model in the path, the stream in the operation and the
//! version in the body; the events of a stream are those of Anthropic, each wrapped into a frame. So everything here
//! moves between the two without looking into what is said.

mod headers;
mod request;
mod stream;
mod transcode;

pub use headers::{INVOKE_CONTENT_TYPE, STREAM_CONTENT_TYPE, read_usage_headers, usage_headers};
pub use request::{InvokeHead, invoke_to_messages, messages_to_invoke, read_invoke_request};
pub use stream::{InvocationMetrics, InvokeStream};
pub use transcode::{InvokeEvent, InvokeReader, InvokeToSse, SseToInvoke, write_chunk};

//! InvokeModel and InvokeModelWithResponseStream: for Anthropic's models, and for any other model, whose bodies pass
//! through unparsed.
//!
//! Bodies for Anthropic's models are those of Anthropic Messages, with the model in the path, the stream flag in the
//! operation and the version in the body; the events of a stream are Anthropic's, each wrapped in a frame. The
//! conversion between the two therefore does not parse the content.

mod dialect;
mod headers;
mod opaque;
mod request;
mod stream;
mod transcode;

pub use dialect::InvokeDialect;
pub(crate) use dialect::frame_messages;
pub(crate) use headers::read_forwarded_headers;
pub use headers::{
    FORWARDED_RESPONSE_HEADERS, HEADER_PREFIX, INVOKE_CONTENT_TYPE, InvokeHeader, STREAM_CONTENT_TYPE,
    read_service_headers, read_usage_headers, usage_headers,
};
pub use opaque::{OpaqueHead, OpaqueStream, read_opaque_usage};
pub use request::{
    InvokeBody, InvokeHead, invoke_to_messages, messages_to_invoke, opaque_unsupported, read_invoke_body,
    read_invoke_request,
};
pub use stream::{InvocationMetrics, InvokeStream};
pub use transcode::{InvokeEvent, InvokeReader, InvokeToSse, SseToInvoke, write_chunk};

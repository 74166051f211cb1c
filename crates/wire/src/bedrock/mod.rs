//! Amazon Bedrock runtime.
//!
//! A call says in its path what it wants of which model ([`read_path`]). InvokeModel takes a model's own dialect, and
//! only Anthropic's is known here: its bodies are passed on as they came or moved to and from Anthropic Messages by
//! exchanging fields at their top ([`invoke_to_messages`], [`messages_to_invoke`]). Converse is a dialect of its own: where
//! it passes through, only its head is read ([`read_converse_request`]), and otherwise all of it, into
//! [`chat`](crate::chat).
//!
//! Both stream in binary frames ([`FrameReader`]). One of the vendor's clients takes a stream that stops inside a frame
//! for one that is complete, so whoever passes a stream on must say itself that it was cut ([`write_failure_frame`]).
//!
//! It does not sign requests, does not read other models' dialects and does not check what the vendor checks.

mod body;
mod converse;
mod count;
mod error;
mod frame;
mod invoke;
mod path;
mod refusal;
mod stream;

#[cfg(test)]
mod tests;

pub use converse::{
    ChatReader, ChatWriter, ConverseHead, ConverseStream, converse_within, read_chat_answer,
    read_chat_request, read_converse_request, read_converse_usage, write_chat_answer, write_chat_request,
};
pub use count::{CountRequest, read_count_request, write_count};
pub use error::{read_error, read_error_message};
pub use frame::{
    Frame, FrameEnding, FrameError, FrameKind, FrameLimits, FrameReader, write_event_frame,
    write_exception_frame,
};
pub use invoke::{
    INVOKE_CONTENT_TYPE, InvocationMetrics, InvokeEvent, InvokeHead, InvokeReader, InvokeStream, InvokeToSse,
    STREAM_CONTENT_TYPE, SseToInvoke, invoke_to_messages, messages_to_invoke, read_invoke_request,
    read_usage_headers, usage_headers, write_chunk,
};
pub use path::{BedrockCall, BedrockOperation, PathError, decode as decode_path, read_path, write_path};
pub use refusal::{
    StreamKind, final_refusal, refusal_headers, refusal_name, refusal_status, write_error,
    write_failure_frame,
};
pub use stream::{BedrockStreamError, StreamEnding};

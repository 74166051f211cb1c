//! The Amazon Bedrock runtime dialect.
//!
//! The path of a call names the operation and the model ([`read_path`]). InvokeModel takes a model's own dialect, and
//! only Anthropic's is supported here: its bodies are forwarded as received, or converted to and from Anthropic
//! Messages by exchanging top-level fields ([`invoke_to_messages`], [`messages_to_invoke`]). Bodies for other vendors'
//! models are forwarded unparsed ([`OpaqueStream`]). Converse is a dialect of its own: if it passes through, only its
//! head is read ([`read_converse_request`]); otherwise it is parsed completely into [`chat`](crate::chat).
//!
//! Both stream in binary frames ([`FrameReader`]). One of the vendor's clients takes a stream that stops inside a frame
//! for a complete one, so code that forwards a truncated stream must write the failure itself
//! ([`write_failure_frame`]).
//!
//! It does not sign requests, does not parse other models' dialects and does not validate what the vendor validates.

mod body;
mod converse;
mod count;
mod error;
mod error_response;
mod frame;
mod invoke;
mod path;
mod stream;

#[cfg(test)]
mod tests;

pub use converse::{
    ConverseChatReader, ConverseChatWriter, ConverseDialect, ConverseHead, ConverseStream,
    converse_with_limit, read_chat_answer, read_chat_request, read_converse_request, read_converse_usage,
    write_chat_answer, write_chat_request,
};
pub use count::{CountInput, CountRequest, read_count_input, read_count_request, write_count};
pub use error::{read_error, read_error_message};
pub use error_response::{
    NOT_READY, StreamKind, error_headers, error_name, error_status, final_error, write_error,
    write_failure_frame,
};
pub(crate) use error_response::{REQUEST_ID_HEADER, RETRY_AFTER_HEADER, client_message};
pub use frame::{
    Frame, FrameEnding, FrameError, FrameKind, FrameLimits, FrameReader, write_event_frame,
    write_exception_frame,
};
pub(crate) use invoke::frame_messages;
pub use invoke::{
    FORWARDED_RESPONSE_HEADERS, HEADER_PREFIX, INVOKE_CONTENT_TYPE, InvocationMetrics, InvokeBody,
    InvokeDialect, InvokeEvent, InvokeHead, InvokeHeader, InvokeReader, InvokeStream, InvokeToSse,
    OpaqueHead, OpaqueStream, STREAM_CONTENT_TYPE, SseToInvoke, invoke_to_messages, messages_to_invoke,
    opaque_unsupported, read_invoke_body, read_invoke_request, read_opaque_usage, read_service_headers,
    read_usage_headers, usage_headers, write_chunk,
};
pub(crate) use path::route_call;
pub use path::{
    BedrockCall, BedrockOperation, PathError, RESERVED, RESERVED_IN_PATH, decode as decode_path, read_path,
    write_path,
};
pub use stream::{BedrockStreamError, StreamEnding};

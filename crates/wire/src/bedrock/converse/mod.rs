//! Converse and ConverseStream: the service's model-independent dialect.
//!
//! What does not translate, because [`chat`](crate::chat) cannot express it:
//!
//! | in a request | handling |
//! | --- | --- |
//! | video, audio, content in S3, search results, tools that the service runs | rejected: the model would receive another request |
//! | `guardrailConfig`, `promptVariables` | rejected: they guarantee properties of the answer |
//! | `reasoningContent`, annotations of `guardContent` and citations | dropped; the text is kept |
//! | `cachePoint` | kept; written only for models that are known to cache prompts |
//! | `additionalModelRequestFields` | thinking, effort and `top_k` of Anthropic's models are read; a translation refuses others |
//! | a JSON tool result | converted to text |
//! | an image by URL (writing) | rejected: the service does not fetch URLs |
//! | tool choice "none" (writing) | the tools are dropped; rejected if the conversation has tool calls, which need them |
//! | tool calls in a conversation without tools (writing) | kept; the service will reject them |
//! | consecutive turns of one role (writing) | merged |
//! | a temperature above 1 (writing) | rejected: the service's maximum is 1 |
//!
//! Of answers, text and tool calls are read; reasoning, images and citations are dropped.
//!
//! `inputTokens` excludes cache reads and cache writes, as AWS documents for prompt caching: the three together are the
//! input. Usage is kept in the same way here, so nothing is subtracted. Users have reported models of other families
//! whose `inputTokens` includes them; for those the sum is too high, never too low. `totalTokens` is written as the sum
//! of all four. When it is read, any excess over its parts counts as output.

mod answer;
mod dialect;
mod field_rules;
mod head;
mod request_read;
mod request_write;
mod shapes;
mod stream_observe;
mod stream_read;
mod stream_write;
mod usage;

pub use answer::{read_chat_answer, read_converse_usage, write_chat_answer};
pub use dialect::ConverseDialect;
pub use head::{ConverseHead, converse_with_limit, read_converse_request};
pub use request_read::read_chat_request;
pub use request_write::write_chat_request;
use request_write::write_chat_request_for;
pub use stream_observe::ConverseStream;
pub use stream_read::ConverseChatReader;
pub use stream_write::ConverseChatWriter;

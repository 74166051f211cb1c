//! Converse and ConverseStream: the dialect that all models of the service have in common.
//!
//! What does not translate, because [`chat`](crate::chat) has no word for it:
//!
//! | in a request | what becomes of it |
//! | --- | --- |
//! | documents, video, audio, images in S3, search results, tools that the service runs | refused: the model would be asked something else |
//! | `guardrailConfig`, `outputConfig`, `promptVariables` | refused: they are promises about the answer |
//! | `cachePoint`, `reasoningContent`, marks of `guardContent` and of citations | left out; the words stay |
//! | `additionalModelRequestFields`, metadata, service tier, latency, `strict` | left out |
//! | JSON as the result of a tool | becomes text |
//! | an image by address (writing) | refused: the service fetches nothing |
//! | "must not call a tool" (writing) | the tools are left out; where the conversation has calls already, which need them, they stay |
//! | calls in a conversation without tools (writing) | stay; the service will refuse them |
//! | several turns of one side in a row (writing) | become one |
//! | a temperature above 1 (writing) | becomes 1, the most that is taken |
//!
//! Of answers, words and calls are read; reasoning, images and citations are left out.
//!
//! `inputTokens` does not count what was read from the cache or written to it, as AWS documents for prompt caching:
//! the three together are the input. That is how usage is kept here too, so nothing is subtracted. Users have
//! reported models of other families whose `inputTokens` does include them; there the sum is too high, never too
//! low. `totalTokens` is written as the sum of all four and not read.

mod answer;
mod head;
mod request_read;
mod request_write;
mod shapes;
mod stream_read;
mod stream_write;
mod watch;

pub use answer::{read_chat_answer, read_converse_usage, write_chat_answer};
pub use head::{ConverseHead, converse_within, read_converse_request};
pub use request_read::read_chat_request;
pub use request_write::write_chat_request;
pub use stream_read::ChatReader;
pub use stream_write::ChatWriter;
pub use watch::ConverseStream;

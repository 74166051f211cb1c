//! One vendor's bytes to neutral chat types, and back.
//!
//! Everything here is a function of the bytes it is given: there is no socket, no task and no clock, and a
//! stream is read piece by piece as it arrives, however it was split on the way. A body that passes through in
//! the same dialect is never encoded anew; what must change in it is spliced.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`chat`] | usage, finish reasons and stream events that every dialect is read into |
//! | [`sse`] | server-sent events at byte level, read and written |
//! | [`anthropic`] | Anthropic Messages: requests, answers, streams, errors |
//! | [`bedrock`] | Amazon Bedrock runtime: paths, event-stream frames, InvokeModel and Converse, errors |

pub mod anthropic;
pub mod bedrock;
pub mod chat;
pub mod sse;

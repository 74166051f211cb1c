//! Faults: what can go wrong with an answer, and how.

mod apply;
mod figures;
mod rule;

pub(super) use apply::without_fault;
pub use rule::{FaultRule, Frequency, read_faults};

use super::duration_text;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// One kind of fault.
///
/// `after` counts the chunks of a stream: the first one opens it and each further one holds a few tokens; with 0
/// nothing is sent, not even a head. An answer that is not streamed has two chunks, its halves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An immediate HTTP error: 429, 529, 500, 503, 408 and so on.
    Status {
        /// The HTTP status.
        status: u16,
        /// The `retry-after` delay, if the response has one.
        #[serde(default, deserialize_with = "duration_text::optional")]
        retry_after: Option<Duration>,
        /// The error name, if it is not the one that the vendor usually sends with this status.
        #[serde(default)]
        error: Option<String>,
    },
    /// Everything is delayed by a fixed time.
    Slow {
        /// The delay.
        #[serde(deserialize_with = "duration_text::required")]
        by: Duration,
    },
    /// Everything is delayed by a random time per request, from a distribution with this median and 99th percentile.
    Latency {
        /// The median delay.
        #[serde(deserialize_with = "duration_text::required")]
        median: Duration,
        /// The 99th percentile of the delay.
        #[serde(deserialize_with = "duration_text::required")]
        p99: Duration,
    },
    /// The model thinks before it answers. In a stream the thinking is shown in chunks at an interval; it is billed.
    Thinking {
        /// The time spent thinking.
        #[serde(deserialize_with = "duration_text::required")]
        takes: Duration,
        /// The interval between thinking chunks; without it, no thinking text is shown.
        #[serde(default, deserialize_with = "duration_text::optional")]
        every: Option<Duration>,
    },
    /// Chunks arrive at this interval, regardless of the model's speed.
    Drip {
        /// The interval.
        #[serde(deserialize_with = "duration_text::required")]
        every: Duration,
    },
    /// The connection is closed in the middle of the answer.
    Cut {
        /// The number of chunks sent before.
        #[serde(default)]
        after: Option<usize>,
        /// The number of body bytes sent before.
        #[serde(default)]
        after_bytes: Option<usize>,
        /// The minimum number of tokens sent before.
        #[serde(default)]
        after_tokens: Option<u64>,
        /// Whether the connection is reset instead of closed.
        #[serde(default)]
        reset: bool,
    },
    /// The body ends cleanly in the middle of the answer, as if it were complete.
    EndEarly {
        /// The number of chunks sent before.
        after: usize,
    },
    /// The body ends cleanly in the middle of a chunk.
    Truncate {
        /// The number of complete chunks sent before.
        after: usize,
    },
    /// One chunk is corrupt: invalid JSON, or bytes that do not match their checksum. The rest is unchanged.
    Malformed {
        /// The number of chunks sent before.
        after: usize,
    },
    /// The answer stalls, and the connection stays open.
    Hang {
        /// The number of chunks sent before.
        #[serde(default)]
        after: usize,
    },
    /// The stream reports an error and ends. If it has not started, the error is an HTTP error.
    Error {
        /// The number of chunks sent before.
        after: usize,
    },
    /// The connection is reset before anything is sent.
    Reset,
    /// An HTML page with status 200, as an intermediate proxy might send.
    Html,
    /// A stream that never ends: its last chunk is repeated, beyond the output limit.
    Endless {
        /// The interval between repetitions.
        #[serde(deserialize_with = "duration_text::required")]
        every: Duration,
    },
    /// The answer reports a wrong number of tokens.
    Usage {
        /// The reported usage in percent of the true one. With 0 the usage is omitted, or reported as zero in Bedrock
        /// frames.
        percent: u32,
    },
    /// An answer with this many tokens, regardless of the request's output limit. The reported usage is true.
    Overlong {
        /// The number of tokens.
        tokens: u32,
        /// Whether all of it is one event; otherwise each token is one event.
        #[serde(default)]
        at_once: bool,
    },
    /// The answer reports this usage, whatever the true one is.
    Claim {
        /// The reported input tokens; the true number if not set.
        #[serde(default)]
        input: Option<u64>,
        /// The reported output tokens; the true number if not set.
        #[serde(default)]
        output: Option<u64>,
    },
    /// The answer reports its input tokens and omits its output tokens. In Bedrock frames the output tokens are
    /// reported as zero.
    PartialUsage,
    /// Every usage figure is replaced by another JSON value. The bill stays correct.
    GarbledUsage {
        /// The replacement, as JSON: a negative or fractional number, a string, an object, null.
        figure: String,
    },
    /// A guardrail of the vendor stops the answer, which ends cleanly with the corresponding finish reason. The
    /// reported usage is true.
    Declined {
        /// The number of chunks sent before the end.
        after: usize,
    },
    /// Not a fault: the answer is a call of this tool. Applies to requests that offer the tool and have no tool result yet.
    ToolCall {
        /// The name of the tool.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        input: Map<String, Value>,
    },
    /// Not a fault: the answer is this text.
    Text {
        /// The text.
        text: String,
    },
    /// Requests above a concurrency limit are throttled.
    Capacity {
        /// The concurrency limit.
        in_flight: u64,
        /// The `retry-after` delay, if the response has one.
        #[serde(default, deserialize_with = "duration_text::optional")]
        retry_after: Option<Duration>,
    },
    /// Requests above a limit per minute are throttled until the minute is over.
    Quota {
        /// The limit per minute.
        per_minute: u64,
    },
}

impl Fault {
    /// An error with this status, its usual name and no `retry-after`.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None, error: None }
    }

    /// Closes the connection after this many chunks.
    #[must_use]
    pub const fn cut(after: usize) -> Self {
        Self::Cut { after: Some(after), after_bytes: None, after_tokens: None, reset: false }
    }

    /// The name of the fault kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Slow { .. } => "slow",
            Self::Latency { .. } => "latency",
            Self::Thinking { .. } => "thinking",
            Self::Drip { .. } => "drip",
            Self::Cut { .. } => "cut",
            Self::EndEarly { .. } => "end_early",
            Self::Truncate { .. } => "truncate",
            Self::Malformed { .. } => "malformed",
            Self::Hang { .. } => "hang",
            Self::Error { .. } => "error",
            Self::Reset => "reset",
            Self::Html => "html",
            Self::Endless { .. } => "endless",
            Self::Usage { .. } => "usage",
            Self::Overlong { .. } => "overlong",
            Self::Claim { .. } => "claim",
            Self::PartialUsage => "partial_usage",
            Self::GarbledUsage { .. } => "garbled_usage",
            Self::Declined { .. } => "declined",
            Self::ToolCall { .. } => "tool_call",
            Self::Text { .. } => "text",
            Self::Capacity { .. } => "capacity",
            Self::Quota { .. } => "quota",
        }
    }
}

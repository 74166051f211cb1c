//! What can go wrong, and what it does to an answer.

mod rule;
mod spoil;

pub use rule::{FaultRule, Frequency, read_faults};
pub(super) use spoil::played;

use super::period;
use serde::Deserialize;
use std::time::Duration;

/// One way to fail.
///
/// `after` counts the pieces of a stream, the first being the one that opens it and each further one a few tokens; with 0
/// nothing is sent, not even a head. An answer that is no stream has two pieces, its halves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An HTTP error at once: 429, 529, 500, 503, 408 and so on.
    Status {
        /// The status.
        status: u16,
        /// When to try again, if it says so.
        #[serde(default, deserialize_with = "period::optional")]
        retry_after: Option<Duration>,
        /// The error's name, where it is not the one that the vendor usually gives this status.
        #[serde(default)]
        error: Option<String>,
    },
    /// Everything comes later.
    Slow {
        /// By how much.
        #[serde(deserialize_with = "period::required")]
        by: Duration,
    },
    /// Everything comes later, by a time that is drawn anew for each request: half of them wait longer than the median,
    /// one in a hundred longer than the 99th percentile.
    Latency {
        /// What half of the requests wait.
        #[serde(deserialize_with = "period::required")]
        median: Duration,
        /// What all but one in a hundred wait.
        #[serde(deserialize_with = "period::required")]
        p99: Duration,
    },
    /// Pieces come this long apart, however fast the model is.
    Drip {
        /// How long.
        #[serde(deserialize_with = "period::required")]
        every: Duration,
    },
    /// The connection is closed in the middle.
    Cut {
        /// How many pieces come before.
        #[serde(default)]
        after: Option<usize>,
        /// How many bytes of the body come before.
        #[serde(default)]
        after_bytes: Option<usize>,
        /// How many tokens come before, at least.
        #[serde(default)]
        after_tokens: Option<u64>,
        /// Whether it is reset instead.
        #[serde(default)]
        reset: bool,
    },
    /// The body ends in good order in the middle of the answer, as if it were complete.
    EndEarly {
        /// How many pieces come before.
        after: usize,
    },
    /// The body ends in good order in the middle of a piece.
    Truncate {
        /// How many whole pieces come before.
        after: usize,
    },
    /// One piece is not what it should be: no JSON, or bytes that do not match their checksum. The rest is as usual.
    Malformed {
        /// How many pieces come before.
        after: usize,
    },
    /// Nothing more comes, and the connection stays open.
    Hang {
        /// How many pieces come before.
        #[serde(default)]
        after: usize,
    },
    /// The stream reports an error and ends. What has not begun gets it as an HTTP error.
    Error {
        /// How many pieces come before.
        after: usize,
    },
    /// The connection is reset before anything is sent.
    Reset,
    /// A page of HTML with status 200, as a proxy in between would send.
    Html,
    /// A stream that never ends: its last words again and again. The output limit is not kept.
    Endless {
        /// How long apart.
        #[serde(deserialize_with = "period::required")]
        every: Duration,
    },
    /// The answer says that it used another number of tokens than it did.
    Usage {
        /// How many percent of the truth. With 0 it says nothing about it at all, or, in frames of Bedrock's, none.
        percent: u32,
    },
    /// An answer of so many tokens, whatever the request allows: the output limit is not kept. What it says it used is true.
    Overlong {
        /// How many.
        tokens: u32,
        /// Whether all of it is one event; otherwise each token is one.
        #[serde(default)]
        at_once: bool,
    },
    /// The answer claims to have used this, whatever it did.
    Claim {
        /// Tokens of input; the truth where nothing is said.
        #[serde(default)]
        input: Option<u64>,
        /// Tokens of output; the truth where nothing is said.
        #[serde(default)]
        output: Option<u64>,
    },
    /// The answer tells its input and leaves its output out. In frames of Bedrock's it tells no output.
    PartialUsage,
    /// More than so many requests at once are throttled.
    Capacity {
        /// How many are served.
        in_flight: u64,
        /// When to try again, if it says so.
        #[serde(default, deserialize_with = "period::optional")]
        retry_after: Option<Duration>,
    },
    /// More than so many requests a minute are throttled until the minute is over.
    Quota {
        /// How many are served.
        per_minute: u64,
    },
}

impl Fault {
    /// This status, by its usual name and without a word on when to try again.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None, error: None }
    }

    /// The connection is closed after so many pieces.
    #[must_use]
    pub const fn cut(after: usize) -> Self {
        Self::Cut { after: Some(after), after_bytes: None, after_tokens: None, reset: false }
    }

    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Slow { .. } => "slow",
            Self::Latency { .. } => "latency",
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
            Self::Capacity { .. } => "capacity",
            Self::Quota { .. } => "quota",
        }
    }
}

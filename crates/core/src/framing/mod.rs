//! Framing: batches a model's deltas into the frames that a chat client receives.
//!
//! A model sends text a character or two at a time, and may stop, stall or fail in the middle. A client needs few
//! frames, each small enough for its transport, none lost or repeated, and one clear end. A [`Framer`] sits between
//! the two, for WebSocket and server-sent events alike. It does no I/O: a driver pushes deltas in, takes frames out
//! one at a time, and reports the result of each send.
//!
//! **When it acts.** The first text is sent at once. After that a frame is ready 100 ms after its oldest byte arrived,
//! or as soon as 4,096 bytes wait; while a send is in progress, new text goes into the next frame. After 5 s without a
//! frame a heartbeat is sent. A failed send is retried after 0.5 s, with the same index and the same text; the
//! eleventh consecutive failure cancels the stream. Backpressure: with more than 32 KiB unsent the driver must stop
//! reading upstream, and resumes at 16 KiB. The framer ends the stream itself after 120 s (*timeout*), at 1,024 tokens
//! (*budget*), and when a model that has begun is silent for 10 s (interrupted). Time in which we did not read does
//! not count towards that idle timeout, and a heartbeat that is due at the same moment is sent before the
//! interruption. Everything that is due by time happens in the next call, whichever it is, and
//! [`Framer::next_deadline`] returns when that call must come.
//!
//! **Guarantees.** The concatenated text of the frames equals the text of the deltas, byte for byte. Indexes count
//! from 0 without a gap. A frame, encoded as JSON, is never longer than 32,768 bytes, and no character is ever split.
//! There is exactly one ending, after all text, and nothing after it. A stream never holds more than 256 KiB. Invalid
//! UTF-8 becomes what [`String::from_utf8_lossy`] makes of it, however the bytes were split.
//!
//! **Before and after the first text.** Until [`Framer::has_begun`] nothing has been sent, and [`Framer::restart`]
//! allows failover to another model. After that a stream can only finish, or end with an interruption that is marked
//! as partial.
//!
//! **Resuming.** Frames are kept, up to 128 KiB, until 120 s after the end. A client that lost its connection sends
//! the last index it received, and [`Framer::resume`] replays everything after it, then continues. The driver must
//! check that it is the same caller *before* it calls.
//!
//! **What it does not do.** It does not write the envelope, so that the maximum size of the envelope is a setting. It
//! does not time out a send that neither succeeds nor fails: the driver must. It closes nothing; the driver checks
//! [`Framer::upstream`] after each call. A delta larger than the remaining room is accepted in part: the driver keeps
//! the rest until the framer accepts input again. A timestamp from the past counts as the latest one seen.
//!
//! ```
//! use seawall_core::framing::{FrameContent, FramingEnding, FramingFinishReason, Framer, FramingSettings};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut framer = Framer::new(FramingSettings::default(), start);
//! framer.push("He", start);
//! let frame = framer.next_frame(start).unwrap();
//! assert_eq!(frame.content, FrameContent::Text { index: 0, text: "He" });
//! let send_id = frame.send_id;
//! framer.report_sent(send_id, start);
//!
//! framer.push("ll", start);
//! framer.push("o", start);
//! assert_eq!(framer.next_frame(start), None);
//! let later = framer.next_deadline().unwrap();
//! assert_eq!(later, start + Duration::from_millis(100));
//! let frame = framer.next_frame(later).unwrap();
//! assert_eq!(frame.content, FrameContent::Text { index: 1, text: "llo" });
//! let send_id = frame.send_id;
//! framer.report_sent(send_id, later);
//!
//! framer.finish(FramingFinishReason::Stop, later);
//! let frame = framer.next_frame(later).unwrap();
//! let ending = FramingEnding::Finished(FramingFinishReason::Stop);
//! assert_eq!(frame.content, FrameContent::Ending { ending, last_index: Some(1) });
//! ```

mod delivery;
mod ending;
mod escape;
mod intake;
mod replay_buffer;
mod settings;
mod stats;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod utf8;

pub use ending::{FramingEnding, FramingFinishReason, Interruption, InterruptionCode};
pub use escape::escaped_len;
pub use settings::{FramingOptions, FramingSettings};
pub use stats::FramingStats;

use crate::time::Timestamp;
use replay_buffer::ReplayBuffer;
use utf8::Utf8Decoder;

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamState {
    /// No text yet.
    Initializing,
    /// Text is flowing.
    Streaming,
    /// Backpressure: the client is behind, and nothing is read from the model.
    Paused,
    /// Ended; buffered text and the ending are still to be delivered.
    Completing,
    /// The ending was delivered.
    Completed,
    /// The client disconnected or cancelled.
    Cancelled,
    /// The interruption was delivered.
    Error,
}

impl StreamState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Initializing,
        Self::Streaming,
        Self::Paused,
        Self::Completing,
        Self::Completed,
        Self::Cancelled,
        Self::Error,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Streaming => "streaming",
            Self::Paused => "paused",
            Self::Completing => "completing",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// How much of a delta was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushDecision {
    /// All of it.
    Accepted,
    /// There was no room for all of it. Push the rest once more input is wanted.
    PartiallyAccepted {
        /// How many of its bytes were accepted.
        bytes: usize,
    },
    /// None: the stream has ended, perhaps just now by its own limits.
    Ended,
}

/// What to do with the upstream connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamDecision {
    /// Read on.
    Read,
    /// Stop reading for now (backpressure).
    Pause,
    /// Close it; further input will not be used.
    Close,
}

/// What the driver has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramerPollDecision {
    /// A frame is ready; take it with [`Framer::next_frame`].
    Send,
    /// Nothing to do before `until`, unless there is input; without `until`, nothing at all.
    Wait {
        /// When to poll again.
        until: Option<Timestamp>,
    },
    /// Everything was delivered, or no client is attached. A client may resume before `replay_until`.
    Finished {
        /// When the kept frames are dropped.
        replay_until: Timestamp,
    },
    /// The stream is over and its frames are dropped; drop the framer.
    Expired,
}

/// Result of reporting a failed send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailureDecision {
    /// The frame is kept and will be retried.
    Retry {
        /// When to retry.
        at: Timestamp,
    },
    /// Too many consecutive failures: the client is given up. Close the upstream connection.
    Cancelled,
    /// The send id is not that of the send in progress.
    Ignored,
}

/// Result of an attempt to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeDecision {
    /// The frames after the last one received are replayed, then the stream continues.
    Resumed {
        /// Number of frames that are replayed or were waiting, not counting unframed text.
        frames: u64,
    },
    /// The missing frames are no longer kept.
    Gone {
        /// Index of the oldest kept frame; `None` after the resume window has closed.
        first_kept: Option<u64>,
    },
    /// The client claims an index that has not been sent.
    NotSentYet {
        /// Index of the next frame.
        next_index: u64,
    },
}

/// Identifies one send of a frame, so that a late report about another send is not mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendId(u64);

/// Something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "report it with `report_sent` or `report_send_failure`; nothing else is handed out before"]
pub struct ClientFrame<'a> {
    /// Passed back with the result of the send.
    pub send_id: SendId,
    /// What to send.
    pub content: FrameContent<'a>,
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameContent<'a> {
    /// A piece of the answer.
    Text {
        /// Its index: 0, 1, 2 and so on.
        index: u64,
        /// The text, never empty.
        text: &'a str,
    },
    /// Keep-alive. It has no index and is never replayed.
    Heartbeat,
    /// The end of the answer.
    Ending {
        /// How the stream ended.
        ending: FramingEnding,
        /// Index of the last text frame; `None` without text.
        last_index: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentKind {
    Text,
    Heartbeat,
    Ending,
}

#[derive(Clone, Copy, Debug)]
struct EndState {
    ending: FramingEnding,
    at: Timestamp,
    /// The ending was delivered to at least one client.
    delivered: bool,
}

/// One stream. See the [module](self) for its guarantees.
#[derive(Debug)]
pub struct Framer {
    settings: FramingSettings,
    started: Timestamp,
    /// The latest timestamp seen.
    as_of: Timestamp,

    decoder: Utf8Decoder,
    buffer: ReplayBuffer,
    /// When the oldest unframed byte arrived; meaningless without unframed text.
    oldest: Timestamp,
    /// When the model's idle timeout expires; never before it has begun or while we do not read.
    idle_deadline: Timestamp,
    /// A heartbeat was due when the idle timeout expired, and is sent before the ending.
    final_heartbeat: bool,
    paused_since: Option<Timestamp>,
    ended: Option<EndState>,
    expired: bool,

    /// A client is connected.
    attached: bool,
    /// Index of the next frame to send; during a replay an old one.
    cursor: u64,
    /// Number of frames delivered at least once. At most one more has been cut.
    delivered: u64,
    /// Bytes of that one.
    undelivered_bytes: usize,
    /// The connected client has received the ending.
    ending_sent: bool,
    in_flight: Option<(SendId, SentKind)>,
    next_send_id: u64,
    failures: u32,
    /// Nothing is sent before this (retry backoff).
    retry_at: Timestamp,
    /// When something was last delivered to the client.
    last_sent: Timestamp,

    /// Counters. Durations that are still running are added when the statistics are read.
    stats: FramingStats,
}

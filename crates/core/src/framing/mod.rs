//! Framing: from a model's deltas to the frames a chat client gets.
//!
//! A model sends text a character or two at a time, and may stop, stall or fail in the middle. A client wants
//! few frames, each small enough for its transport, none lost or repeated, and one clear ending. A [`Framer`] stands
//! between the two, for WebSocket and server-sent events alike. It does no I/O: a driver pushes deltas in, takes
//! frames out one at a time, and says what became of each.
//!
//! **When it acts.** The first text goes out at once. After that a frame is ready 100 ms after its oldest byte came,
//! or as soon as 4,096 bytes wait; while a frame is in the air, what comes goes into the next one. After 5 s without
//! a frame there is a heartbeat. A send that fails is offered again, the same index with the same text, after 0.5 s;
//! the eleventh failure in a row cancels. With more than 32 KiB unsent it asks the driver to stop reading upstream,
//! and to go on at 16 KiB. It ends the stream itself after 120 s (*timeout*), at 1,024 tokens (*budget*), and when a
//! model that has begun says nothing for 10 s (interrupted); time in which we did not read is not the model's
//! silence, and the heartbeat that is due at the same moment goes out before the interruption. All that needs time happens in whichever call comes next, and [`Framer::next_deadline`] says when the
//! next one must come.
//!
//! **What it promises.** The frames' texts, put together, are the deltas' text, byte for byte. Indexes count from 0
//! without a gap. A frame, encoded as JSON, is never longer than 32,768 bytes, and no character is ever split.
//! There is exactly one ending, after all text, and nothing after it. A stream never holds more than 256 KiB.
//! Bytes that are not UTF-8 become what [`String::from_utf8_lossy`] makes of them, however they were split.
//!
//! **Before and after the first text.** Until [`Framer::has_begun`] nothing has left, and another model's answer may
//! take this one's place with [`Framer::start_over`]. After it there is only finishing, or an interruption that is
//! marked as partial.
//!
//! **Coming back.** Frames are kept, up to 128 KiB, until 120 s after the end. A client that lost its connection says
//! which index it saw last, and [`Framer::resume`] offers everything after it once more, then goes on. Whether it is
//! the same caller is for the driver to check *before* it calls.
//!
//! **What it will not do.** It does not write the envelope, so it must be told how long that can be. It does not
//! give up on a send that is neither done nor failed: the driver limits that. It does not close anything; the driver
//! asks [`Framer::upstream`] after each call. A delta larger than the room that is left is taken in part: the driver
//! keeps the rest until the framer wants input again. A moment from the past counts as the latest that was seen.
//!
//! ```
//! use seawall_core::framing::{Content, Ending, FinishReason, Framer, FramingSettings};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut framer = Framer::new(FramingSettings::default(), start);
//! framer.push("He", start);
//! let frame = framer.next_frame(start).unwrap();
//! assert_eq!(frame.content, Content::Text { index: 0, text: "He" });
//! let receipt = frame.receipt;
//! framer.sent(receipt, start);
//!
//! framer.push("ll", start);
//! framer.push("o", start);
//! assert_eq!(framer.next_frame(start), None);
//! let later = framer.next_deadline().unwrap();
//! assert_eq!(later, start + Duration::from_millis(100));
//! let frame = framer.next_frame(later).unwrap();
//! assert_eq!(frame.content, Content::Text { index: 1, text: "llo" });
//! let receipt = frame.receipt;
//! framer.sent(receipt, later);
//!
//! framer.finish(FinishReason::Stop, later);
//! let frame = framer.next_frame(later).unwrap();
//! let ending = Ending::Finished(FinishReason::Stop);
//! assert_eq!(frame.content, Content::Ending { ending, last_index: Some(1) });
//! ```

mod delivery;
mod ending;
mod escape;
mod intake;
mod lossy;
mod settings;
mod stats;
mod tape;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use ending::{Ending, FinishReason, Interruption, InterruptionCode};
pub use escape::escaped_len;
pub use settings::{FramingOptions, FramingSettings};
pub use stats::FramingStats;

use crate::time::Timestamp;
use lossy::Decoder;
use tape::Tape;

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamState {
    /// No text yet.
    Initializing,
    /// Text comes and goes.
    Streaming,
    /// The client is behind, and nothing is read from the model.
    Paused,
    /// It has ended; buffered text and the ending are on their way.
    Completing,
    /// The client has the ending.
    Completed,
    /// The client went away, or asked to stop.
    Cancelled,
    /// The client has been told that the answer was broken off.
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

/// What became of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushDecision {
    /// All of it was taken.
    Taken,
    /// There was no room for more than this many bytes of it. Push the rest once more input is wanted.
    TakenInPart {
        /// How many of its bytes were taken.
        bytes: usize,
    },
    /// The stream has ended, perhaps just now by its own limits. Nothing was taken.
    Ended,
}

/// What to do with the way to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamDecision {
    /// Read on.
    Read,
    /// Leave what comes where it is.
    Hold,
    /// Close it; nothing that comes will be used.
    Close,
}

/// What a framer has for its driver now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollDecision {
    /// A frame is ready; take it with [`Framer::next_frame`].
    Send,
    /// Nothing before `until`, unless something happens; nothing at all without it.
    Wait {
        /// When to poll again.
        until: Option<Timestamp>,
    },
    /// Everything was delivered, or nobody is there to get it. A client may come back before `kept_until`.
    Finished {
        /// When the frames will be forgotten.
        kept_until: Timestamp,
    },
    /// The stream is over and forgotten; drop the framer.
    Expired,
}

/// What became of a report that a send failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailureDecision {
    /// The frame is kept and offered again then.
    Again {
        /// When.
        at: Timestamp,
    },
    /// Too many in a row: the client is given up. Close the way to the model.
    Cancelled,
    /// The receipt is not that of the frame in the air.
    Ignored,
}

/// The answer to a client that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeDecision {
    /// The frames after the one it saw last are offered next, then the stream goes on.
    Resumed {
        /// How many frames are offered again or were waiting, not counting text that is in no frame yet.
        frames: u64,
    },
    /// What it is missing is no longer there.
    Gone {
        /// The oldest frame that is; none once the time for coming back is over.
        first_kept: Option<u64>,
    },
    /// It says that it saw a frame which there has not been.
    TooFar {
        /// The index that the next frame will have.
        next_index: u64,
    },
}

/// Names one handing-out of a frame, so that a late report about another is not taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt(u64);

/// Something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "report it with `sent` or `send_failed`; nothing else is handed out before"]
pub struct Frame<'a> {
    /// To say with what became of it.
    pub receipt: Receipt,
    /// What to send.
    pub content: Content<'a>,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A piece of the answer.
    Text {
        /// Its place: 0, 1, 2 and so on.
        index: u64,
        /// The piece, never empty.
        text: &'a str,
    },
    /// The stream is alive. It has no index and is never offered again.
    Heartbeat,
    /// The answer is over.
    Ending {
        /// How.
        ending: Ending,
        /// The last piece of it; none if there was no text.
        last_index: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Heartbeat,
    Ending,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    ending: Ending,
    at: Timestamp,
    /// Some client has been told.
    told: bool,
}

/// One stream. See the [module](self) for what it promises.
#[derive(Debug)]
pub struct Framer {
    settings: FramingSettings,
    started: Timestamp,
    /// The latest moment it has seen.
    as_of: Timestamp,

    decoder: Decoder,
    tape: Tape,
    /// When the oldest byte came that is in no frame; means nothing without such a byte.
    oldest: Timestamp,
    /// When the model will have been silent for too long; never while it has not begun or we do not read.
    silent_at: Timestamp,
    /// A heartbeat was due when the model had been silent for too long, and goes out before the client is told.
    parting_heartbeat: bool,
    paused_since: Option<Timestamp>,
    ended: Option<Ended>,
    expired: bool,

    /// Somebody is there to send to.
    attached: bool,
    /// The index of the frame to hand out next; on a replay an old one.
    cursor: u64,
    /// How many frames have been delivered at least once. At most one more has been cut.
    delivered: u64,
    /// The bytes of that one.
    undelivered_bytes: usize,
    /// The client that is there has the ending.
    ending_sent: bool,
    in_air: Option<(Receipt, Kind)>,
    receipts: u64,
    failures: u32,
    /// Nothing is sent before this.
    hold_until: Timestamp,
    /// When the client last got something.
    last_sent: Timestamp,

    /// What has been counted. Durations that still run are added when somebody asks.
    counted: FramingStats,
}

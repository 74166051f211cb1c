//! What a stream looked like, for logs and metrics.

use std::time::Duration;

/// The figures of one stream, so far or as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FramingStats {
    /// From the start until the first text was delivered.
    pub time_to_first_text: Option<Duration>,
    /// From the start to the ending, or until now.
    pub total: Duration,
    /// The tokens that were counted.
    pub tokens: u64,
    /// Deltas that the model sent. The rest of one that was taken in part counts as another.
    pub deltas_in: u64,
    /// Frames with text that were delivered, each counted once.
    pub frames_out: u64,
    /// The bytes of text in them.
    pub bytes_out: u64,
    /// Frames with text that were delivered again after a reconnection.
    pub frames_replayed: u64,
    /// Heartbeats that were delivered.
    pub heartbeats: u64,
    /// Sends that failed.
    pub failed_sends: u64,
    /// How often reading from the model paused.
    pub pauses: u64,
    /// For how long in all.
    pub pause_time: Duration,
    /// How often a client came back.
    pub reconnections: u64,
}

impl FramingStats {
    /// Tokens a second between the first text and the ending; nothing where there was no time between them.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        let Some(first) = self.time_to_first_text else { return 0.0 };
        ratio(self.tokens as f64, self.total.saturating_sub(first).as_secs_f64())
    }

    /// How many deltas went into a frame, on average; nothing where there was no frame.
    #[must_use]
    pub fn aggregation(&self) -> f64 {
        ratio(self.deltas_in as f64, self.frames_out as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

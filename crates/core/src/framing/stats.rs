//! Statistics of a stream, for logs and metrics.

use std::time::Duration;

/// Statistics of one stream, so far or in total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FramingStats {
    /// Time from the start until the first text was delivered.
    pub time_to_first_text: Option<Duration>,
    /// Time from the start to the end of the stream, or until now.
    pub total: Duration,
    /// Output tokens counted.
    pub tokens: u64,
    /// Deltas received from the model. The rest of a partially accepted delta counts as another.
    pub deltas_in: u64,
    /// Text frames delivered, each counted once.
    pub frames_out: u64,
    /// Bytes of text in them.
    pub bytes_out: u64,
    /// Text frames delivered again after a reconnect.
    pub frames_replayed: u64,
    /// Heartbeats delivered.
    pub heartbeats: u64,
    /// Failed sends.
    pub failed_sends: u64,
    /// How often reading from the model paused (backpressure).
    pub pauses: u64,
    /// Total time of these pauses.
    pub pause_time: Duration,
    /// Number of client reconnects.
    pub reconnections: u64,
}

impl FramingStats {
    /// Tokens per second between the first text and the end; 0 if no time passed.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        let Some(first) = self.time_to_first_text else { return 0.0 };
        ratio(self.tokens as f64, self.total.saturating_sub(first).as_secs_f64())
    }

    /// Average number of deltas per frame; 0 without frames.
    #[must_use]
    pub fn aggregation(&self) -> f64 {
        ratio(self.deltas_in as f64, self.frames_out as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

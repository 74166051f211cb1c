//! The upstream side of the framer: deltas, tokens, limits and endings.

use super::replay_buffer::ReplayBuffer;
use super::utf8::Utf8Decoder;
use super::{
    EndState, Framer, FramingEnding, FramingFinishReason, FramingSettings, FramingStats, Interruption,
    InterruptionCode, PushDecision, StreamState, UpstreamDecision,
};
use crate::failure::{Failure, Retryability};
use crate::time::Timestamp;

impl Framer {
    /// A stream that starts now, with a client attached. It allocates nothing until there is text.
    #[must_use]
    pub fn new(settings: FramingSettings, now: Timestamp) -> Self {
        Self {
            buffer: ReplayBuffer::new(settings.max_text()),
            settings,
            started: now,
            as_of: now,
            decoder: Utf8Decoder::default(),
            oldest: now,
            idle_deadline: Timestamp::NEVER,
            final_heartbeat: false,
            paused_since: None,
            ended: None,
            expired: false,
            attached: true,
            cursor: 0,
            delivered: 0,
            undelivered_bytes: 0,
            ending_sent: false,
            in_flight: None,
            next_send_id: 0,
            failures: 0,
            retry_at: Timestamp::ZERO,
            last_sent: now,
            stats: FramingStats::default(),
        }
    }

    /// Accepts a delta. An empty one only counts as a sign of life. If bytes of an incomplete character are held, text
    /// cannot complete it, and it becomes a replacement character.
    pub fn push(&mut self, delta: &str, now: Timestamp) -> PushDecision {
        if !self.record_input(now) {
            return PushDecision::Ended;
        }
        if !delta.is_empty() {
            self.flush_incomplete_character();
        }
        let fits = delta.get(..delta.floor_char_boundary(self.room())).unwrap_or_default();
        self.append(fits);
        self.restart_idle_timeout();
        self.pause_if_full();
        decision(fits.len(), delta.len())
    }

    /// Accepts a delta of bytes, which may end inside a character: the beginning is held until the rest arrives.
    pub fn push_bytes(&mut self, delta: &[u8], now: Timestamp) -> PushDecision {
        if !self.record_input(now) {
            return PushDecision::Ended;
        }
        let (room, mut decoder) = (self.room(), self.decoder);
        let used = decoder.decode(delta, room, |text| self.append(text));
        self.decoder = decoder;
        self.restart_idle_timeout();
        self.pause_if_full();
        decision(used, delta.len())
    }

    /// Counts output tokens, estimated or reported. Reaching the limit ends the stream after the text pushed before.
    pub fn count_tokens(&mut self, tokens: u64, now: Timestamp) {
        self.advance(now);
        if self.ended.is_some() {
            return;
        }
        self.stats.tokens = self.stats.tokens.saturating_add(tokens);
        if self.stats.tokens >= self.settings.options().max_output_tokens {
            self.end(FramingEnding::Finished(FramingFinishReason::Budget));
        }
    }

    /// Ends the stream after the buffered text, and returns whether it did: only the first ending counts.
    ///
    /// A model stream that closes without its stop event is [`FramingFinishReason::UpstreamEnded`], never a stop.
    pub fn finish(&mut self, reason: FramingFinishReason, now: Timestamp) -> bool {
        self.advance(now);
        self.end(FramingEnding::Finished(reason))
    }

    /// Interrupts the stream after the buffered text, and returns whether it did. While [`has_begun`](Self::has_begun)
    /// is false, prefer failover to another model.
    pub fn interrupt(&mut self, failure: &Failure, now: Timestamp) -> bool {
        self.advance(now);
        let retryable = failure.retryability != Retryability::Never;
        self.interrupt_with(InterruptionCode::UpstreamFailed(failure.kind), retryable)
    }

    /// Discards text that has not been sent, so that another model can answer (failover), and returns whether that was
    /// possible: not after the first frame, and not after the end.
    pub fn restart(&mut self, now: Timestamp) -> bool {
        self.advance(now);
        if self.has_begun() || self.ended.is_some() {
            return false;
        }
        self.decoder.discard();
        self.buffer.drop_unframed();
        self.stats.tokens = 0;
        self.resume_reading();
        self.idle_deadline = Timestamp::NEVER;
        true
    }

    /// Whether text has been handed out, so that failover to another model is no longer possible.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.buffer.next_index() > 0
    }

    /// Whether more should be read from the model.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.upstream() == UpstreamDecision::Read
    }

    /// What to do with the upstream connection.
    #[must_use]
    pub const fn upstream(&self) -> UpstreamDecision {
        match (self.ended, self.paused_since) {
            (Some(_), _) => UpstreamDecision::Close,
            (None, Some(_)) => UpstreamDecision::Pause,
            (None, None) => UpstreamDecision::Read,
        }
    }

    /// How the stream ended, if it has.
    #[must_use]
    pub fn ending(&self) -> Option<FramingEnding> {
        self.ended.map(|ended| ended.ending)
    }

    /// The state of the stream.
    #[must_use]
    pub fn state(&self) -> StreamState {
        match self.ended {
            None if self.paused_since.is_some() => StreamState::Paused,
            None if !self.has_text() => StreamState::Initializing,
            None => StreamState::Streaming,
            Some(ended) if ended.ending.is_cancelled() => StreamState::Cancelled,
            Some(EndState { delivered: true, ending: FramingEnding::Interrupted(_), .. }) => {
                StreamState::Error
            }
            Some(EndState { delivered: true, .. }) => StreamState::Completed,
            Some(_) if self.attached => StreamState::Completing,
            Some(_) => StreamState::Cancelled,
        }
    }

    /// Bytes of text that have not been delivered.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.unframed_len() + self.undelivered_bytes
    }

    /// Bytes allocated for text and frames.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.buffer.memory()
    }

    /// The settings of this framer.
    #[must_use]
    pub const fn settings(&self) -> &FramingSettings {
        &self.settings
    }

    /// Statistics up to the latest timestamp seen.
    #[must_use]
    pub fn stats(&self) -> FramingStats {
        let until = self.ended.map_or(self.as_of, |ended| ended.at);
        let paused = self.paused_since.map_or(std::time::Duration::ZERO, |since| self.as_of - since);
        FramingStats {
            total: until - self.started,
            pause_time: self.stats.pause_time.saturating_add(paused),
            ..self.stats
        }
    }

    /// When the stream's own limits will end it, if it has not ended.
    pub(super) fn limit_at(&self) -> Timestamp {
        self.total_at().min(self.idle_deadline)
    }

    fn total_at(&self) -> Timestamp {
        self.started + self.settings.options().max_duration
    }

    /// Applies everything that is due by time alone up to `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.as_of = self.as_of.max(now);
        if self.ended.is_none() && self.as_of >= self.limit_at() {
            // The earlier of the two limits applies, however late this runs.
            if self.total_at() <= self.idle_deadline {
                self.end(FramingEnding::Finished(FramingFinishReason::Timeout));
            } else {
                self.final_heartbeat = self.is_heartbeat_due_by(self.idle_deadline);
                self.interrupt_with(InterruptionCode::UpstreamSilent, true);
            }
        }
        self.expire_if_due();
    }

    /// Records activity of the model, and returns whether the stream still accepts input.
    fn record_input(&mut self, now: Timestamp) -> bool {
        self.advance(now);
        if self.ended.is_some() {
            return false;
        }
        self.stats.deltas_in += 1;
        true
    }

    /// Restarts the idle timeout, if the model has begun: with text, or with bytes of a character. A sign of life
    /// before that does not start it, because a model may think for as long as the stream may last.
    fn restart_idle_timeout(&mut self) {
        let has_begun = self.has_text() || self.decoder.is_holding();
        if has_begun && self.paused_since.is_none() {
            self.idle_deadline = self.as_of + self.settings.options().idle_timeout;
        }
    }

    /// Room for text, not counting the reserve for a held character.
    fn room(&self) -> usize {
        let max = self.settings.options().max_pending_bytes - Utf8Decoder::MAX_HELD;
        max.saturating_sub(self.pending_bytes())
    }

    fn append(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.buffer.unframed_len() == 0 {
            self.oldest = self.as_of;
        }
        self.buffer.push(text);
    }

    fn flush_incomplete_character(&mut self) {
        if self.decoder.discard() {
            self.append(Utf8Decoder::REPLACEMENT);
        }
    }

    fn has_text(&self) -> bool {
        self.has_begun() || self.buffer.unframed_len() > 0
    }

    fn pause_if_full(&mut self) {
        if self.paused_since.is_none() && self.pending_bytes() > self.settings.options().high_watermark {
            self.paused_since = Some(self.as_of);
            self.stats.pauses += 1;
            self.idle_deadline = Timestamp::NEVER;
        }
    }

    /// Ends a pause and restarts the model's idle timeout.
    pub(super) fn resume_reading(&mut self) {
        if let Some(since) = self.paused_since.take() {
            self.stats.pause_time = self.stats.pause_time.saturating_add(self.as_of - since);
            self.idle_deadline = self.as_of + self.settings.options().idle_timeout;
        }
    }

    fn interrupt_with(&mut self, code: InterruptionCode, retryable: bool) -> bool {
        let partial = self.has_text() || self.decoder.is_holding();
        self.end(FramingEnding::Interrupted(Interruption { code, retryable, partial }))
    }

    pub(super) fn end(&mut self, ending: FramingEnding) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.flush_incomplete_character();
        self.resume_reading();
        self.ended = Some(EndState { ending, at: self.as_of, delivered: false });
        true
    }
}

fn decision(used: usize, length: usize) -> PushDecision {
    if used == length { PushDecision::Accepted } else { PushDecision::PartiallyAccepted { bytes: used } }
}

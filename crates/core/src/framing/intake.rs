//! The upstream side of the framer: deltas, tokens, limits and endings.

use super::lossy::Decoder;
use super::tape::Tape;
use super::{
    Ended, Ending, FinishReason, Framer, FramingSettings, FramingStats, Interruption, InterruptionCode,
    PushDecision, StreamState, UpstreamDecision,
};
use crate::failure::{Failure, Retryability};
use crate::time::Timestamp;

impl Framer {
    /// A stream that starts now, with a client attached. It allocates nothing until there is text.
    #[must_use]
    pub fn new(settings: FramingSettings, now: Timestamp) -> Self {
        Self {
            tape: Tape::new(settings.most_text()),
            settings,
            started: now,
            as_of: now,
            decoder: Decoder::default(),
            oldest: now,
            silent_at: Timestamp::NEVER,
            parting_heartbeat: false,
            paused_since: None,
            ended: None,
            expired: false,
            attached: true,
            cursor: 0,
            delivered: 0,
            undelivered_bytes: 0,
            ending_sent: false,
            in_air: None,
            receipts: 0,
            failures: 0,
            hold_until: Timestamp::ZERO,
            last_sent: now,
            counted: FramingStats::default(),
        }
    }

    /// Accepts a delta. An empty one only counts as a sign of life. If bytes of an incomplete character are held, text
    /// cannot complete it, and it becomes a replacement character.
    pub fn push(&mut self, delta: &str, now: Timestamp) -> PushDecision {
        if !self.hear(now) {
            return PushDecision::Ended;
        }
        if !delta.is_empty() {
            self.replace_what_is_held();
        }
        let fits = delta.get(..delta.floor_char_boundary(self.room())).unwrap_or_default();
        self.take(fits);
        self.expect_more();
        self.pause_if_full();
        decision(fits.len(), delta.len())
    }

    /// Accepts a delta of bytes, which may end inside a character: the beginning is held until the rest arrives.
    pub fn push_bytes(&mut self, delta: &[u8], now: Timestamp) -> PushDecision {
        if !self.hear(now) {
            return PushDecision::Ended;
        }
        let (room, mut decoder) = (self.room(), self.decoder);
        let used = decoder.decode(delta, room, |text| self.take(text));
        self.decoder = decoder;
        self.expect_more();
        self.pause_if_full();
        decision(used, delta.len())
    }

    /// Counts output tokens, estimated or reported. Reaching the limit ends the stream after the text pushed before.
    pub fn count_tokens(&mut self, tokens: u64, now: Timestamp) {
        self.settle(now);
        if self.ended.is_some() {
            return;
        }
        self.counted.tokens = self.counted.tokens.saturating_add(tokens);
        if self.counted.tokens >= self.settings.options().output_tokens {
            self.end(Ending::Finished(FinishReason::Budget));
        }
    }

    /// Ends the stream after the buffered text, and returns whether it did: only the first ending counts.
    ///
    /// A model stream that closes without its stop event is [`FinishReason::UpstreamEnded`], never a stop.
    pub fn finish(&mut self, reason: FinishReason, now: Timestamp) -> bool {
        self.settle(now);
        self.end(Ending::Finished(reason))
    }

    /// Interrupts the stream after the buffered text, and returns whether it did. While [`has_begun`](Self::has_begun)
    /// is false, prefer failover to another model.
    pub fn interrupt(&mut self, failure: &Failure, now: Timestamp) -> bool {
        self.settle(now);
        let retryable = failure.retryability != Retryability::Nowhere;
        self.break_off(InterruptionCode::UpstreamFailed(failure.kind), retryable)
    }

    /// Discards text that has not been sent, so that another model can answer (failover), and returns whether that was
    /// possible: not after the first frame, and not after the end.
    pub fn start_over(&mut self, now: Timestamp) -> bool {
        self.settle(now);
        if self.has_begun() || self.ended.is_some() {
            return false;
        }
        self.decoder.give_up();
        self.tape.drop_uncut();
        self.counted.tokens = 0;
        self.read_on();
        self.silent_at = Timestamp::NEVER;
        true
    }

    /// Whether text has been handed out, so that failover to another model is no longer possible.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.tape.next_index() > 0
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
            (None, Some(_)) => UpstreamDecision::Hold,
            (None, None) => UpstreamDecision::Read,
        }
    }

    /// How the stream ended, if it has.
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
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
            Some(Ended { told: true, ending: Ending::Interrupted(_), .. }) => StreamState::Error,
            Some(Ended { told: true, .. }) => StreamState::Completed,
            Some(_) if self.attached => StreamState::Completing,
            Some(_) => StreamState::Cancelled,
        }
    }

    /// Bytes of text that have not been delivered.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.tape.uncut_len() + self.undelivered_bytes
    }

    /// Bytes allocated for text and frames.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.tape.memory()
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
            pause_time: self.counted.pause_time.saturating_add(paused),
            ..self.counted
        }
    }

    /// When the stream's own limits will end it, if it has not ended.
    pub(super) fn limit_at(&self) -> Timestamp {
        self.total_at().min(self.silent_at)
    }

    fn total_at(&self) -> Timestamp {
        self.started + self.settings.options().total
    }

    /// Applies everything that is due by time alone up to `now`.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.as_of = self.as_of.max(now);
        if self.ended.is_none() && self.as_of >= self.limit_at() {
            // The earlier of the two limits applies, however late this runs.
            if self.total_at() <= self.silent_at {
                self.end(Ending::Finished(FinishReason::Timeout));
            } else {
                self.parting_heartbeat = self.owes_heartbeat_at(self.silent_at);
                self.break_off(InterruptionCode::UpstreamSilent, true);
            }
        }
        self.forget_if_due();
    }

    /// Records activity of the model, and returns whether the stream still accepts input.
    fn hear(&mut self, now: Timestamp) -> bool {
        self.settle(now);
        if self.ended.is_some() {
            return false;
        }
        self.counted.deltas_in += 1;
        true
    }

    /// Restarts the idle timeout, if the model has begun: with text, or with bytes of a character. A sign of life
    /// before that does not start it, because a model may think for as long as the stream may last.
    fn expect_more(&mut self) {
        let has_begun = self.has_text() || self.decoder.is_holding();
        if has_begun && self.paused_since.is_none() {
            self.silent_at = self.as_of + self.settings.options().upstream_gap;
        }
    }

    /// Room for text, not counting the reserve for a held character.
    fn room(&self) -> usize {
        let most = self.settings.options().pending_bytes - Decoder::MOST_HELD;
        most.saturating_sub(self.pending_bytes())
    }

    fn take(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.tape.uncut_len() == 0 {
            self.oldest = self.as_of;
        }
        self.tape.push(text);
    }

    fn replace_what_is_held(&mut self) {
        if self.decoder.give_up() {
            self.take(Decoder::REPLACEMENT);
        }
    }

    fn has_text(&self) -> bool {
        self.has_begun() || self.tape.uncut_len() > 0
    }

    fn pause_if_full(&mut self) {
        if self.paused_since.is_none() && self.pending_bytes() > self.settings.options().pause_above {
            self.paused_since = Some(self.as_of);
            self.counted.pauses += 1;
            self.silent_at = Timestamp::NEVER;
        }
    }

    /// Ends a pause and restarts the model's idle timeout.
    pub(super) fn read_on(&mut self) {
        if let Some(since) = self.paused_since.take() {
            self.counted.pause_time = self.counted.pause_time.saturating_add(self.as_of - since);
            self.silent_at = self.as_of + self.settings.options().upstream_gap;
        }
    }

    fn break_off(&mut self, code: InterruptionCode, retryable: bool) -> bool {
        let partial = self.has_text() || self.decoder.is_holding();
        self.end(Ending::Interrupted(Interruption { code, retryable, partial }))
    }

    pub(super) fn end(&mut self, ending: Ending) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.replace_what_is_held();
        self.read_on();
        self.ended = Some(Ended { ending, at: self.as_of, told: false });
        true
    }
}

fn decision(used: usize, length: usize) -> PushDecision {
    if used == length { PushDecision::Taken } else { PushDecision::TakenInPart { bytes: used } }
}

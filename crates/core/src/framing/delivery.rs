//! The client side of the framer: frames, results of sends, and resuming.

use super::escape::fitting_len;
use super::{
    ClientFrame, EndState, FrameContent, Framer, FramerPollDecision, FramingEnding, FramingFinishReason,
    ResumeDecision, SendFailureDecision, SendId, SentKind,
};
use crate::time::Timestamp;

impl Framer {
    /// Brings the stream up to `now` and returns what to do.
    pub fn poll(&mut self, now: Timestamp) -> FramerPollDecision {
        self.advance(now);
        if self.expired {
            return FramerPollDecision::Expired;
        }
        match (self.send_at(), self.ended) {
            (Some(at), _) if at <= self.as_of => FramerPollDecision::Send,
            (None, Some(ended)) if !self.is_delivering() => {
                FramerPollDecision::Finished { replay_until: self.replay_until(ended) }
            }
            _ => FramerPollDecision::Wait { until: self.next_deadline() },
        }
    }

    /// When to poll next if nothing else happens. It does not cover a frame that is already ready: take that one
    /// first.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let limit = match self.ended {
            None => Some(self.limit_at()),
            Some(_) if self.expired => None,
            Some(ended) => Some(self.replay_until(ended)),
        };
        [self.send_at(), limit].into_iter().flatten().filter(|at| *at > self.as_of).min()
    }

    /// The next frame, if one is due and no send is in progress.
    pub fn next_frame(&mut self, now: Timestamp) -> Option<ClientFrame<'_>> {
        self.advance(now);
        if self.send_at().is_none_or(|at| at > self.as_of) {
            return None;
        }
        if self.cursor == self.buffer.next_index() && self.buffer.unframed_len() > 0 {
            self.undelivered_bytes = fitting_len(self.buffer.unframed(), self.settings.text_room());
            self.buffer.frame_next(self.undelivered_bytes);
        }
        let (kind, content) = match (self.buffer.frame(self.cursor), self.ended) {
            (Some(text), _) => (SentKind::Text, FrameContent::Text { index: self.cursor, text }),
            (None, None) => (SentKind::Heartbeat, FrameContent::Heartbeat),
            (None, Some(_)) if std::mem::take(&mut self.final_heartbeat) => {
                (SentKind::Heartbeat, FrameContent::Heartbeat)
            }
            (None, Some(EndState { ending, .. })) => {
                let last_index = self.buffer.next_index().checked_sub(1);
                (SentKind::Ending, FrameContent::Ending { ending, last_index })
            }
        };
        let send_id = SendId(self.next_send_id);
        self.next_send_id += 1;
        self.in_flight = Some((send_id, kind));
        Some(ClientFrame { send_id, content })
    }

    /// Reports that the frame was delivered. Returns whether the send id matches the send in progress; a late report
    /// about another send changes nothing.
    pub fn report_sent(&mut self, send_id: SendId, now: Timestamp) -> bool {
        self.advance(now);
        let Some(kind) = self.complete_send(send_id) else {
            return false;
        };
        self.failures = 0;
        self.retry_at = Timestamp::ZERO;
        self.last_sent = self.as_of;
        match kind {
            SentKind::Text if self.cursor < self.delivered => {
                self.stats.frames_replayed += 1;
                self.cursor += 1;
            }
            SentKind::Text => {
                self.cursor += 1;
                self.record_delivery();
            }
            SentKind::Heartbeat => self.stats.heartbeats += 1,
            SentKind::Ending => {
                self.ending_sent = true;
                if let Some(ended) = &mut self.ended {
                    ended.delivered = true;
                }
                self.expire_if_due();
            }
        }
        true
    }

    /// Reports that the send failed. The frame is kept and retried with the same index; a heartbeat is replaced by
    /// text if there is any.
    pub fn report_send_failure(&mut self, send_id: SendId, now: Timestamp) -> SendFailureDecision {
        self.advance(now);
        if self.complete_send(send_id).is_none() {
            return SendFailureDecision::Ignored;
        }
        self.stats.failed_sends += 1;
        self.failures += 1;
        if self.failures > self.settings.options().max_send_failures {
            self.cancel_client();
            return SendFailureDecision::Cancelled;
        }
        self.retry_at = self.as_of + self.settings.options().send_retry_delay;
        SendFailureDecision::Retry { at: self.retry_at }
    }

    /// The client is gone for good: ends the stream as cancelled, unless it has ended otherwise, and sends no more. It
    /// may still resume what is kept.
    pub fn cancel(&mut self, now: Timestamp) {
        self.advance(now);
        self.cancel_client();
    }

    /// The connection is lost, but the client may resume soon: nothing is sent, and deltas are accepted while there is
    /// room.
    pub fn detach(&mut self, now: Timestamp) {
        self.advance(now);
        self.detach_client();
        self.expire_if_due();
    }

    /// A client reconnects and has received everything up to `last_index`; `None` means nothing. Later frames are
    /// replayed in order, then the stream continues. Reports about sends on the old connection are ignored from now
    /// on. A refusal changes nothing.
    ///
    /// The driver must make sure that the client is the caller whose stream this is.
    pub fn resume(&mut self, last_index: Option<u64>, now: Timestamp) -> ResumeDecision {
        self.advance(now);
        if self.ended.is_some_and(|ended| self.as_of >= self.replay_until(ended)) {
            return ResumeDecision::Gone { first_kept: None };
        }
        let (from, next_index) =
            (last_index.map_or(0, |last| last.saturating_add(1)), self.buffer.next_index());
        if from > next_index {
            return ResumeDecision::NotSentYet { next_index };
        }
        if from < self.buffer.first_index() {
            return ResumeDecision::Gone { first_kept: Some(self.buffer.first_index()) };
        }
        self.detach_client();
        self.attached = true;
        self.ending_sent = false;
        self.last_sent = self.as_of;
        self.stats.reconnections += 1;
        self.cursor = from;
        if from > self.delivered {
            // The frame was delivered after all; only the report was lost.
            self.record_delivery();
        }
        ResumeDecision::Resumed { frames: next_index - from }
    }

    /// When the next frame may be sent: `None` while a send is in progress, no client is attached, or everything was
    /// delivered.
    fn send_at(&self) -> Option<Timestamp> {
        if !self.attached || self.in_flight.is_some() || self.expired {
            return None;
        }
        let options = self.settings.options();
        let unframed = self.buffer.unframed_len();
        let due = if self.cursor < self.buffer.next_index() {
            Timestamp::ZERO
        } else if unframed > 0 {
            let at_once = !self.has_begun() || unframed >= options.flush_bytes || self.ended.is_some();
            if at_once { Timestamp::ZERO } else { self.oldest + options.flush_interval }
        } else if self.ended.is_some() {
            if self.ending_sent {
                return None;
            }
            Timestamp::ZERO
        } else {
            self.last_sent + options.heartbeat_interval
        };
        Some(due.max(self.retry_at))
    }

    /// Whether a heartbeat is due by then and nothing else is to be sent. One that is due up to `flush_interval` later
    /// counts, too: the last frame was sent slightly after the model's last delta, and the client expects a heartbeat
    /// then.
    pub(super) fn is_heartbeat_due_by(&self, moment: Timestamp) -> bool {
        let is_idle = self.cursor == self.buffer.next_index() && self.pending_bytes() == 0;
        let by = moment + self.settings.options().flush_interval;
        is_idle && !self.decoder.is_holding() && self.send_at().is_some_and(|at| at <= by)
    }

    fn replay_until(&self, ended: EndState) -> Timestamp {
        ended.at + self.settings.options().replay_for
    }

    /// Whether a client is attached that has not received the ending yet.
    fn is_delivering(&self) -> bool {
        self.attached && !self.ending_sent
    }

    /// Ends the send in progress, if it has this send id.
    fn complete_send(&mut self, send_id: SendId) -> Option<SentKind> {
        self.in_flight.take_if(|(in_flight, _)| *in_flight == send_id).map(|(_, kind)| kind)
    }

    /// Records the first delivery of the newest frame.
    fn record_delivery(&mut self) {
        self.delivered = self.buffer.next_index();
        self.stats.frames_out += 1;
        self.stats.bytes_out += self.undelivered_bytes as u64;
        self.undelivered_bytes = 0;
        let first = self.as_of - self.started;
        self.stats.time_to_first_text.get_or_insert(first);
        self.buffer.trim_to(self.settings.options().replay_bytes);
        if self.pending_bytes() <= self.settings.options().low_watermark {
            self.resume_reading();
        }
    }

    fn cancel_client(&mut self) {
        self.end(FramingEnding::Finished(FramingFinishReason::Cancelled));
        self.detach_client();
        self.expire_if_due();
    }

    fn detach_client(&mut self) {
        self.attached = false;
        self.final_heartbeat = false;
        self.in_flight = None;
        self.failures = 0;
        self.retry_at = Timestamp::ZERO;
    }

    /// Drops the kept frames when their time is over, unless a client is still being served.
    pub(super) fn expire_if_due(&mut self) {
        let due = self.ended.is_some_and(|ended| self.as_of >= self.replay_until(ended));
        if due && !self.expired && !self.is_delivering() {
            self.buffer.clear();
            self.undelivered_bytes = 0;
            self.expired = true;
        }
    }
}

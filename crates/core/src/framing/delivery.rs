//! The client side of the framer: frames, results of sends, and resuming.

use super::escape::fitting;
use super::{
    Content, Ended, Ending, FinishReason, Frame, Framer, Kind, PollDecision, Receipt, ResumeDecision,
    SendFailureDecision,
};
use crate::time::Timestamp;

impl Framer {
    /// Brings the stream up to `now` and returns what to do.
    pub fn poll(&mut self, now: Timestamp) -> PollDecision {
        self.settle(now);
        if self.expired {
            return PollDecision::Expired;
        }
        match (self.send_at(), self.ended) {
            (Some(at), _) if at <= self.as_of => PollDecision::Send,
            (None, Some(ended)) if !self.is_delivering() => {
                PollDecision::Finished { kept_until: self.kept_until(ended) }
            }
            _ => PollDecision::Wait { until: self.next_deadline() },
        }
    }

    /// When to poll next if nothing else happens. It does not cover a frame that is already ready: take that one
    /// first.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let limit = match self.ended {
            None => Some(self.limit_at()),
            Some(_) if self.expired => None,
            Some(ended) => Some(self.kept_until(ended)),
        };
        [self.send_at(), limit].into_iter().flatten().filter(|at| *at > self.as_of).min()
    }

    /// The next frame, if one is due and no send is in progress.
    pub fn next_frame(&mut self, now: Timestamp) -> Option<Frame<'_>> {
        self.settle(now);
        if self.send_at().is_none_or(|at| at > self.as_of) {
            return None;
        }
        if self.cursor == self.tape.next_index() && self.tape.uncut_len() > 0 {
            self.undelivered_bytes = fitting(self.tape.uncut(), self.settings.text_room());
            self.tape.cut(self.undelivered_bytes);
        }
        let (kind, content) = match (self.tape.frame(self.cursor), self.ended) {
            (Some(text), _) => (Kind::Text, Content::Text { index: self.cursor, text }),
            (None, None) => (Kind::Heartbeat, Content::Heartbeat),
            (None, Some(_)) if std::mem::take(&mut self.parting_heartbeat) => {
                (Kind::Heartbeat, Content::Heartbeat)
            }
            (None, Some(Ended { ending, .. })) => {
                let last_index = self.tape.next_index().checked_sub(1);
                (Kind::Ending, Content::Ending { ending, last_index })
            }
        };
        let receipt = Receipt(self.receipts);
        self.receipts += 1;
        self.in_air = Some((receipt, kind));
        Some(Frame { receipt, content })
    }

    /// Reports that the frame was delivered. Returns whether the receipt matches the send in progress; a late report
    /// about another send changes nothing.
    pub fn sent(&mut self, receipt: Receipt, now: Timestamp) -> bool {
        self.settle(now);
        let Some(kind) = self.land(receipt) else {
            return false;
        };
        self.failures = 0;
        self.hold_until = Timestamp::ZERO;
        self.last_sent = self.as_of;
        match kind {
            Kind::Text if self.cursor < self.delivered => {
                self.counted.frames_replayed += 1;
                self.cursor += 1;
            }
            Kind::Text => {
                self.cursor += 1;
                self.note_delivery();
            }
            Kind::Heartbeat => self.counted.heartbeats += 1,
            Kind::Ending => {
                self.ending_sent = true;
                if let Some(ended) = &mut self.ended {
                    ended.told = true;
                }
                self.forget_if_due();
            }
        }
        true
    }

    /// Reports that the send failed. The frame is kept and retried with the same index; a heartbeat is replaced by
    /// text if there is any.
    pub fn send_failed(&mut self, receipt: Receipt, now: Timestamp) -> SendFailureDecision {
        self.settle(now);
        if self.land(receipt).is_none() {
            return SendFailureDecision::Ignored;
        }
        self.counted.failed_sends += 1;
        self.failures += 1;
        if self.failures > self.settings.options().send_failures {
            self.give_up();
            return SendFailureDecision::Cancelled;
        }
        self.hold_until = self.as_of + self.settings.options().send_again_after;
        SendFailureDecision::Again { at: self.hold_until }
    }

    /// The client is gone for good: ends the stream as cancelled, unless it has ended otherwise, and sends no more. It
    /// may still resume what is kept.
    pub fn cancel(&mut self, now: Timestamp) {
        self.settle(now);
        self.give_up();
    }

    /// The connection is lost, but the client may resume soon: nothing is sent, and deltas are accepted while there is
    /// room.
    pub fn detach(&mut self, now: Timestamp) {
        self.settle(now);
        self.leave();
        self.forget_if_due();
    }

    /// A client reconnects and has received everything up to `last_index`; `None` means nothing. Later frames are
    /// replayed in order, then the stream continues. Reports about sends on the old connection are ignored from now
    /// on. A refusal changes nothing.
    ///
    /// The driver must make sure that the client is the caller whose stream this is.
    pub fn resume(&mut self, last_index: Option<u64>, now: Timestamp) -> ResumeDecision {
        self.settle(now);
        if self.ended.is_some_and(|ended| self.as_of >= self.kept_until(ended)) {
            return ResumeDecision::Gone { first_kept: None };
        }
        let (from, next_index) =
            (last_index.map_or(0, |last| last.saturating_add(1)), self.tape.next_index());
        if from > next_index {
            return ResumeDecision::TooFar { next_index };
        }
        if from < self.tape.first_index() {
            return ResumeDecision::Gone { first_kept: Some(self.tape.first_index()) };
        }
        self.leave();
        self.attached = true;
        self.ending_sent = false;
        self.last_sent = self.as_of;
        self.counted.reconnections += 1;
        self.cursor = from;
        if from > self.delivered {
            // The frame was delivered after all; only the report was lost.
            self.note_delivery();
        }
        ResumeDecision::Resumed { frames: next_index - from }
    }

    /// When the next frame may be sent: `None` while a send is in progress, no client is attached, or everything was
    /// delivered.
    fn send_at(&self) -> Option<Timestamp> {
        if !self.attached || self.in_air.is_some() || self.expired {
            return None;
        }
        let options = self.settings.options();
        let uncut = self.tape.uncut_len();
        let due = if self.cursor < self.tape.next_index() {
            Timestamp::ZERO
        } else if uncut > 0 {
            let at_once = !self.has_begun() || uncut >= options.flush_bytes || self.ended.is_some();
            if at_once { Timestamp::ZERO } else { self.oldest + options.flush_after }
        } else if self.ended.is_some() {
            if self.ending_sent {
                return None;
            }
            Timestamp::ZERO
        } else {
            self.last_sent + options.heartbeat_every
        };
        Some(due.max(self.hold_until))
    }

    /// Whether a heartbeat is due by then and nothing else is to be sent. One that is due up to `flush_after` later
    /// counts, too: the last frame was sent slightly after the model's last delta, and the client expects a heartbeat
    /// then.
    pub(super) fn owes_heartbeat_at(&self, moment: Timestamp) -> bool {
        let is_idle = self.cursor == self.tape.next_index() && self.pending_bytes() == 0;
        let by = moment + self.settings.options().flush_after;
        is_idle && !self.decoder.is_holding() && self.send_at().is_some_and(|at| at <= by)
    }

    fn kept_until(&self, ended: Ended) -> Timestamp {
        ended.at + self.settings.options().keep_for
    }

    /// Whether a client is attached that has not received the ending yet.
    fn is_delivering(&self) -> bool {
        self.attached && !self.ending_sent
    }

    /// Ends the send in progress, if it has this receipt.
    fn land(&mut self, receipt: Receipt) -> Option<Kind> {
        self.in_air.take_if(|(in_air, _)| *in_air == receipt).map(|(_, kind)| kind)
    }

    /// Records the first delivery of the newest frame.
    fn note_delivery(&mut self) {
        self.delivered = self.tape.next_index();
        self.counted.frames_out += 1;
        self.counted.bytes_out += self.undelivered_bytes as u64;
        self.undelivered_bytes = 0;
        let first = self.as_of - self.started;
        self.counted.time_to_first_text.get_or_insert(first);
        self.tape.keep(self.settings.options().keep_bytes);
        if self.pending_bytes() <= self.settings.options().resume_at {
            self.read_on();
        }
    }

    fn give_up(&mut self) {
        self.end(Ending::Finished(FinishReason::Cancelled));
        self.leave();
        self.forget_if_due();
    }

    fn leave(&mut self) {
        self.attached = false;
        self.parting_heartbeat = false;
        self.in_air = None;
        self.failures = 0;
        self.hold_until = Timestamp::ZERO;
    }

    /// Drops the kept frames when their time is over, unless a client is still being served.
    pub(super) fn forget_if_due(&mut self) {
        let due = self.ended.is_some_and(|ended| self.as_of >= self.kept_until(ended));
        if due && !self.expired && !self.is_delivering() {
            self.tape.clear();
            self.undelivered_bytes = 0;
            self.expired = true;
        }
    }
}

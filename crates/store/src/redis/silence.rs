//! Decides when a connection counts as lost.
//!
//! **What it does.** It tracks since when operations have been sent without any response. A connection that died
//! without a reset (a firewall that dropped its state, a peer that lost power) reports no error: the only sign is the
//! missing response.
//!
//! **When it acts.** After every operation. In a cluster, each 64th of the slots is tracked on its own, because one
//! server may be silent while the others respond.
//!
//! **What it does not do.** An idle connection does not count as lost, and neither does one on which only some
//! operations are slow: any response ends the silence.

use seawall_core::time::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of parts of a cluster's slots that are tracked separately.
const PARTS: usize = 64;
const SLOTS: usize = 16_384;

/// Since when there has been no response.
#[derive(Debug)]
pub(super) struct SilenceDetector {
    /// Per part: when the first unanswered operation was sent, as nanoseconds plus one. 0 if all were answered.
    since: Box<[AtomicU64]>,
    lost_after: Duration,
}

impl SilenceDetector {
    /// `lost_after` is how long operations must have gone unanswered.
    pub(super) fn new(is_cluster: bool, lost_after: Duration) -> Self {
        let parts = if is_cluster { PARTS } else { 1 };
        Self { since: (0..parts).map(|_| AtomicU64::new(0)).collect(), lost_after }
    }

    /// The part that a key belongs to.
    pub(super) fn part_of(&self, key: &str) -> usize {
        if self.since.len() == 1 { 0 } else { usize::from(slot(key.as_bytes())) * self.since.len() / SLOTS }
    }

    pub(super) fn record_response(&self, part: usize) {
        if let Some(since) = self.since.get(part) {
            // Most responses follow a response. Writing only on a change avoids contention between cores for the cache
            // line.
            if since.load(Ordering::Relaxed) != 0 {
                since.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Records an operation, sent at `sent`, that got no response. Returns whether the connection counts as lost.
    pub(super) fn record_timeout(&self, part: usize, sent: Timestamp, now: Timestamp) -> bool {
        let Some(since) = self.since.get(part) else { return false };
        let sent = sent.as_nanos().saturating_add(1);
        let first = since
            .compare_exchange(0, sent, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_else(|first| first);
        let first = if first == 0 { sent } else { first };
        u128::from(now.as_nanos().saturating_sub(first.saturating_sub(1))) >= self.lost_after.as_nanos()
    }

    /// Starts over with a new connection.
    pub(super) fn reset(&self) {
        self.since.iter().for_each(|since| since.store(0, Ordering::Relaxed));
    }
}

/// The cluster slot of a key: CRC-16/XMODEM of its hash tag.
fn slot(key: &[u8]) -> u16 {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key.get(open..)?.iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        key.get(open..open + length)
    };
    let crc = tag().unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::{SilenceDetector, slot};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_connection_is_lost_after_silence_and_never_after_idleness() {
        let detector = SilenceDetector::new(false, Duration::from_millis(200));
        assert!(!detector.record_timeout(0, at(600_000), at(600_025)));
        assert!(!detector.record_timeout(0, at(600_100), at(600_125)));
        assert!(detector.record_timeout(0, at(600_180), at(600_205)));
        detector.record_response(0);
        assert!(!detector.record_timeout(0, at(700_000), at(700_025)));
        detector.reset();
        assert!(!detector.record_timeout(0, at(700_190), at(700_215)));
        // The first operation of a connection may be sent at time zero.
        detector.reset();
        assert!(!detector.record_timeout(0, at(0), at(25)));
        assert!(detector.record_timeout(0, at(180), at(205)));
    }

    #[test]
    fn one_silent_server_of_a_cluster_is_noticed_while_the_others_answer() {
        let detector = SilenceDetector::new(true, Duration::from_millis(200));
        let (silent, lively) = (detector.part_of("sw1:q:{1}"), detector.part_of("sw1:q:{2}"));
        assert_ne!(silent, lively);
        assert_eq!(silent, detector.part_of("prefix:sw1:c:{1}:name"));
        assert!(!detector.record_timeout(silent, at(0), at(25)));
        detector.record_response(lively);
        assert!(detector.record_timeout(silent, at(180), at(205)));
        assert!(!detector.record_timeout(lively, at(180), at(205)));
    }

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        // The output of `CLUSTER KEYSLOT`.
        assert_eq!([slot(b"foo"), slot(b"123456789"), slot(b"")], [12_182, 12_739, 0]);
        assert_eq!((slot(b"a{foo}b"), slot(b"{}foo")), (12_182, slot(b"{}foo")));
        assert_ne!(slot(b"{}foo"), 12_182);
    }
}

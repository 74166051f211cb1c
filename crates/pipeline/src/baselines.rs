//! Baselines of a target's response times, from which timeouts and slow answers are derived.

use crate::target::GuardedTarget;
use seawall_core::baseline::Baseline;
use seawall_core::time::Timestamp;
use std::time::Duration;

/// An unstreamed answer counts as slow if it takes this many times the p50 of its length, once this many are known.
const SLOW_FACTOR: u32 = 3;
const MIN_ANSWERS: u64 = 50;

/// If another target is available, the wait for the first byte is limited to this floor or, if greater, to this
/// multiple of the p99.
const FIRST_BYTE_FLOOR: Duration = Duration::from_secs(5);
const FIRST_BYTE_FACTOR: u32 = 3;

/// A target that is silent for this many times its p50 has failed, even if no other target is available. The p50 and not
/// the p99: waits in vain are part of the baseline, and each of them would raise the next limit.
const SILENCE_FACTOR: u32 = 20;

/// From this many answers on, the baseline is used at all; from this many on, it is considered reliable.
const MIN_STARTS: u64 = 5;
const RELIABLE_STARTS: u64 = 20;

/// Hardly any model writes slower than this, in tokens per second.
const MIN_TOKENS_PER_SECOND: u64 = 20;

/// Timeout for an unstreamed answer of a target without a baseline: the time to start, plus the time to write all
/// tokens at the slowest rate.
pub(crate) fn unstreamed_timeout(start_limit: Duration, tokens: u64) -> Duration {
    start_limit.saturating_add(Duration::from_secs(tokens / MIN_TOKENS_PER_SECOND))
}

/// Measurements of the last hour. Streamed and unstreamed answers are separate, because the first byte of an
/// unstreamed answer arrives only when all of it is generated.
#[derive(Default)]
pub(crate) struct Baselines {
    stream_starts: Baseline,
    unstreamed_times: Baseline,
    unstreamed_times_per_token: Baseline,
}

impl Baselines {
    /// Records the time to the start of an answer, or the time waited in vain.
    pub(crate) fn record_start(&mut self, is_unstreamed: bool, after: Duration, now: Timestamp) {
        if is_unstreamed { &mut self.unstreamed_times } else { &mut self.stream_starts }.record(after, now);
    }

    /// The threshold above which an unstreamed answer of this length is slow, if known; then records this one.
    pub(crate) fn record_unstreamed(
        &mut self,
        duration: Duration,
        tokens: u64,
        now: Timestamp,
    ) -> Option<Duration> {
        let tokens = u32::try_from(tokens.max(1)).unwrap_or(u32::MAX);
        let per_token = self.unstreamed_times_per_token.p50(MIN_ANSWERS);
        self.unstreamed_times_per_token.record(duration / tokens, now);
        per_token.map(|typical| typical.saturating_mul(tokens).saturating_mul(SLOW_FACTOR))
    }
}

/// How long to wait for the first byte if another target is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstByteTimeout {
    pub(crate) timeout: Duration,
    /// Whether the baseline is reliable enough that exceeding the limit indicates a problem of the target.
    pub(crate) is_reliable: bool,
}

impl GuardedTarget {
    /// How long to wait for an unstreamed answer if no other target is available. `generation_time` is the time a model may
    /// need to write it. A target with a reliable baseline that is silent for many times its p50 has failed. Without this
    /// limit a hung target would hold every concurrency slot for as long as callers wait, and its breaker would not open.
    pub(crate) fn silence_timeout(&self, generation_time: Duration, remaining: Duration) -> Duration {
        let p50 = self.measurements().baselines.unstreamed_times.p50(RELIABLE_STARTS);
        p50.map_or(remaining, |p50| generation_time.max(p50.saturating_mul(SILENCE_FACTOR)).min(remaining))
    }

    /// `remaining` is the time an attempt may take to start if there is no other target. `generation_time` is the time for an
    /// unstreamed answer without a baseline; `None` for streams.
    pub(crate) fn first_byte_timeout(
        &self,
        generation_time: Option<Duration>,
        remaining: Duration,
    ) -> FirstByteTimeout {
        let is_unstreamed = generation_time.is_some();
        let measurements = self.measurements();
        let starts = if is_unstreamed {
            &measurements.baselines.unstreamed_times
        } else {
            &measurements.baselines.stream_starts
        };
        // An unstreamed answer's time to first byte depends on its length, so only many answers form a baseline. A
        // limit that is too short would cut a long answer at every target.
        let timeout = match starts.p99(if is_unstreamed { RELIABLE_STARTS } else { MIN_STARTS }) {
            Some(p99) => FIRST_BYTE_FLOOR.max(p99.saturating_mul(FIRST_BYTE_FACTOR)),
            // Half of the time is left for the other targets.
            None => {
                generation_time.map_or(FIRST_BYTE_FLOOR, |generation_time| generation_time.min(remaining / 2))
            }
        };
        FirstByteTimeout {
            timeout: timeout.min(remaining),
            is_reliable: starts.p99(RELIABLE_STARTS).is_some(),
        }
    }
}

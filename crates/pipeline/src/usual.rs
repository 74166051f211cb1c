//! What is usual for a target, and so how long to wait for it and what of its answers is slow.

use crate::target::GuardedTarget;
use seawall_core::baseline::Baseline;
use seawall_core::time::Timestamp;
use std::time::Duration;

/// A whole answer is slow when it takes so many times as long as half of those of its length, once so many are known.
const SLOW_FACTOR: u32 = 3;
const ENOUGH_ANSWERS: u64 = 50;

/// Where another target could be asked, nobody waits longer for a first byte than this or, if that is more, than so many
/// times what 99 in 100 answers took.
const FIRST_BYTE_FLOOR: Duration = Duration::from_secs(5);
const FIRST_BYTE_FACTOR: u32 = 3;

/// From so many answers on a target's usual start is known at all, and from so many on it is known well.
const SOME_STARTS: u64 = 5;
const MANY_STARTS: u64 = 20;

/// What was measured of one target in the last hour. Streams and whole answers are apart: nothing is seen of a whole answer
/// before all of it was written.
#[derive(Default)]
pub(crate) struct Usual {
    stream_starts: Baseline,
    whole_times: Baseline,
    whole_paces: Baseline,
}

impl Usual {
    /// An answer began after this time, or was waited for so long in vain.
    pub(crate) fn note_start(&mut self, comes_whole: bool, after: Duration, now: Timestamp) {
        if comes_whole { &mut self.whole_times } else { &mut self.stream_starts }.record(after, now);
    }

    /// How long a whole answer of so many tokens may usually take, where that is known; then takes this one in.
    pub(crate) fn judge_whole(&mut self, took: Duration, tokens: u64, now: Timestamp) -> Option<Duration> {
        let tokens = u32::try_from(tokens.max(1)).unwrap_or(u32::MAX);
        let per_token = self.whole_paces.p50(ENOUGH_ANSWERS);
        self.whole_paces.record(took / tokens, now);
        per_token.map(|usual| usual.saturating_mul(tokens).saturating_mul(SLOW_FACTOR))
    }
}

/// How long to wait for the first byte where another target could be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstByteLimit {
    pub(crate) limit: Duration,
    /// Whether so much is known of the target that a longer wait means that something is wrong with it.
    pub(crate) is_well_known: bool,
}

impl GuardedTarget {
    /// `all` is how long an attempt may take to begin without another target.
    pub(crate) fn first_byte_limit(&self, comes_whole: bool, all: Duration) -> FirstByteLimit {
        let gauges = self.gauges();
        let starts = if comes_whole { &gauges.usual.whole_times } else { &gauges.usual.stream_starts };
        // Nothing is seen of a whole answer before its end, and its length decides how long that takes: only many of them say
        // what is usual. Cut too early, a long one would be cut everywhere.
        let limit = match starts.p99(if comes_whole { MANY_STARTS } else { SOME_STARTS }) {
            Some(p99) => FIRST_BYTE_FLOOR.max(p99.saturating_mul(FIRST_BYTE_FACTOR)),
            None if comes_whole => all,
            None => FIRST_BYTE_FLOOR,
        };
        FirstByteLimit { limit: limit.min(all), is_well_known: starts.p99(MANY_STARTS).is_some() }
    }
}

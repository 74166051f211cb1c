//! Output statistics of a target: its token rate, whether it hides output, and how often a call cost more than was
//! reserved.

use seawall_core::histogram::Histogram;
use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tokens per second assumed for a target without statistics.
const DEFAULT_TOKENS_PER_SECOND: u64 = 200;
/// Upper bound of the measured rate; short answers can suggest more than any model delivers.
const MAX_TOKENS_PER_SECOND: u64 = 5_000;
/// Number of streams to observe before their rate is used.
const MIN_STREAMS: u64 = 20;
/// Shorter answers are too short to measure the rate.
const MIN_OUTPUT: u64 = 32;
/// An answer that arrives faster was generated before it was sent.
const MIN_DURATION: Duration = Duration::from_millis(50);

/// This many calls that cost more than was reserved, within this window, suspend a target.
const MAX_OVERRUNS: usize = 3;
const OVERRUN_WINDOW: Duration = Duration::from_secs(600);
/// Minimum duration of a suspension.
const MIN_EJECTION: Duration = Duration::from_secs(60);

/// See the module documentation. Shared by all versions of a target across configuration reloads.
#[derive(Debug, Default)]
pub(crate) struct OutputHistory {
    /// Time per token.
    pace: Histogram,
    hides_output: AtomicBool,
    overruns: AtomicU64,
    /// The latest overruns, oldest first, and when the suspension of the target ends.
    recent: Mutex<(VecDeque<Timestamp>, Timestamp)>,
    /// Whether the target was ever suspended; until then, reads skip the lock.
    was_suspended: AtomicBool,
}

impl OutputHistory {
    /// Starts the statistics of the model with this name. Reasoning models known to hide their thinking are marked from
    /// the start; others are detected by comparing billed with visible tokens.
    pub(crate) fn of_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let enables_thinking =
            ["gpt-5", "deepseek-r", "reasoner", "qwq", "magistral"].iter().any(|word| name.contains(word))
                || ["o1", "o3", "o4"].iter().any(|word| name.starts_with(word));
        Self { hides_output: AtomicBool::new(enables_thinking), ..Self::default() }
    }

    /// Whether the target bills output that it does not send.
    pub(crate) fn hides_output(&self) -> bool {
        self.hides_output.load(Ordering::Relaxed)
    }

    /// Records a complete answer: the vendor counted `output` tokens, sent at most `visible` of them, and took this long.
    pub(crate) fn record_answer(&self, output: u64, visible: Option<u64>, duration: Duration) {
        if visible.is_some_and(|visible| output > visible.saturating_add(MIN_OUTPUT)) {
            self.hides_output.store(true, Ordering::Relaxed);
        }
        if output >= MIN_OUTPUT && duration >= MIN_DURATION {
            let tokens = u32::try_from(output).unwrap_or(u32::MAX);
            self.pace.record(duration / tokens);
        }
    }

    /// The p99 of the observed output rate, in tokens per second.
    pub(crate) fn tokens_per_second(&self) -> u64 {
        if self.pace.count() < MIN_STREAMS {
            return DEFAULT_TOKENS_PER_SECOND;
        }
        let fastest = self.pace.quantile(0.01).unwrap_or(Duration::ZERO).max(Duration::from_nanos(1));
        let speed = Duration::from_secs(1).as_nanos().div_ceil(fastest.as_nanos());
        u64::try_from(speed).unwrap_or(u64::MAX).min(MAX_TOKENS_PER_SECOND)
    }

    /// Records a call that cost more than was reserved. Three within ten minutes suspend the target until
    /// the first of them is ten minutes old.
    pub(crate) fn record_overrun(&self, now: Timestamp) {
        self.overruns.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, until) = &mut *recent;
        times.push_back(now);
        while times.front().is_some_and(|first| *first + OVERRUN_WINDOW <= now) || times.len() > MAX_OVERRUNS
        {
            times.pop_front();
        }
        if let Some(first) = times.front().filter(|_| times.len() >= MAX_OVERRUNS) {
            *until = (*first + OVERRUN_WINDOW).max(now + MIN_EJECTION);
            self.was_suspended.store(true, Ordering::Relaxed);
        }
    }

    /// How long the target stays suspended, if it is.
    pub(crate) fn suspended_for(&self, now: Timestamp) -> Option<Duration> {
        if !self.was_suspended.load(Ordering::Relaxed) {
            return None;
        }
        let until = self.recent.lock().unwrap_or_else(PoisonError::into_inner).1;
        (until > now).then(|| until - now)
    }

    /// The number of calls that cost more than was reserved.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_TOKENS_PER_SECOND, MIN_STREAMS, OVERRUN_WINDOW, OutputHistory};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn three_overruns_in_ten_minutes_suspend_a_target_until_the_first_is_old() {
        let history = OutputHistory::default();
        for (second, aside) in [(0, None), (300, None), (700, None), (800, Some(100))] {
            history.record_overrun(at(second));
            assert_eq!(history.suspended_for(at(second)), aside.map(Duration::from_secs), "{second}");
        }
        assert_eq!(
            (history.suspended_for(at(899)), history.suspended_for(at(900))),
            (Some(Duration::from_secs(1)), None)
        );
        assert_eq!(history.overruns(), 4);
        // A third overrun within ten minutes of the two before.
        history.record_overrun(at(901));
        assert_eq!(history.suspended_for(at(901)), Some(OVERRUN_WINDOW - Duration::from_secs(201)));
    }

    #[test]
    fn a_target_is_as_fast_as_its_fastest_streams_once_enough_were_seen() {
        let history = OutputHistory::default();
        for stream in 0..MIN_STREAMS {
            assert_eq!(history.tokens_per_second(), DEFAULT_TOKENS_PER_SECOND, "{stream}");
            history.record_answer(1_000, None, Duration::from_secs(20));
        }
        assert!((45..60).contains(&history.tokens_per_second()), "{}", history.tokens_per_second());
        // An answer that arrives all at once was not generated that fast.
        history.record_answer(1_000, None, Duration::from_micros(1));
        history.record_answer(3, None, Duration::from_millis(60));
        assert!((45..60).contains(&history.tokens_per_second()), "{}", history.tokens_per_second());
    }

    #[test]
    fn a_target_that_bills_more_than_it_shows_is_remembered() {
        let history = OutputHistory::default();
        history.record_answer(30, Some(120), Duration::ZERO);
        assert!(!history.hides_output());
        history.record_answer(500, Some(120), Duration::ZERO);
        assert!(history.hides_output());
        for (model, hides_output) in
            [("openai/o3-mini", true), ("gpt-5.1", true), ("gpt-4o", false), ("claude-sonnet", false)]
        {
            assert_eq!(OutputHistory::of_model(model).hides_output(), hides_output, "{model}");
        }
    }
}

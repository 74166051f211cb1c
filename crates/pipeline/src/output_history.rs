//! What was learned of a target's output: how fast it comes, whether some of it is hidden, and how often it was more than
//! was reserved.

use seawall_core::histogram::Histogram;
use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tokens a second of a target of which nothing is known.
const USUAL_SPEED: u64 = 200;
/// No model is faster, whatever a short answer seems to say.
const MOST_SPEED: u64 = 5_000;
/// So many streams must have been seen before their speed counts.
const ENOUGH_STREAMS: u64 = 20;
/// A shorter answer says nothing about speed.
const LEAST_OUTPUT: u64 = 32;
/// A quicker one was generated before it was sent.
const LEAST_TIME: Duration = Duration::from_millis(50);

/// So many calls that cost more than was reserved for them, within so long, set a target aside.
const MOST_OVERRUNS: usize = 3;
const OVERRUN_WINDOW: Duration = Duration::from_secs(600);
/// For at least so long.
const LEAST_ASIDE: Duration = Duration::from_secs(60);

/// See the module. Shared by all versions of a target.
#[derive(Debug, Default)]
pub(crate) struct OutputHistory {
    /// The time that one token takes.
    pace: Histogram,
    hides: AtomicBool,
    overruns: AtomicU64,
    /// The latest overruns, the oldest first, and until when the target is set aside.
    recent: Mutex<(VecDeque<Timestamp>, Timestamp)>,
    /// Whether it has ever been set aside: nobody takes the lock before.
    was_set_aside: AtomicBool,
}

impl OutputHistory {
    /// Of a model with this name. Those that are known to think without showing it hide output from the first answer on;
    /// others are found out by their bills.
    pub(crate) fn of_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let thinks =
            ["gpt-5", "deepseek-r", "reasoner", "qwq", "magistral"].iter().any(|word| name.contains(word))
                || ["o1", "o3", "o4"].iter().any(|word| name.starts_with(word));
        Self { hides: AtomicBool::new(thinks), ..Self::default() }
    }

    /// Whether it bills output that it does not show.
    pub(crate) fn hides(&self) -> bool {
        self.hides.load(Ordering::Relaxed)
    }

    /// An answer ended well: the vendor counted `output` tokens, at most `shown` of which were shown, in this time.
    pub(crate) fn note_answer(&self, output: u64, shown: Option<u64>, took: Duration) {
        if shown.is_some_and(|shown| output > shown.saturating_add(LEAST_OUTPUT)) {
            self.hides.store(true, Ordering::Relaxed);
        }
        if output >= LEAST_OUTPUT && took >= LEAST_TIME {
            let tokens = u32::try_from(output).unwrap_or(u32::MAX);
            self.pace.record(took / tokens);
        }
    }

    /// Tokens in a second, of which 99 in 100 streams have fewer.
    pub(crate) fn per_second(&self) -> u64 {
        if self.pace.count() < ENOUGH_STREAMS {
            return USUAL_SPEED;
        }
        let fastest = self.pace.quantile(0.01).unwrap_or(Duration::ZERO).max(Duration::from_nanos(1));
        let speed = Duration::from_secs(1).as_nanos().div_ceil(fastest.as_nanos());
        u64::try_from(speed).unwrap_or(u64::MAX).min(MOST_SPEED)
    }

    /// A call has cost more than was reserved for it. Three in ten minutes set the target aside until the first of them is
    /// ten minutes old.
    pub(crate) fn note_overrun(&self, now: Timestamp) {
        self.overruns.fetch_add(1, Ordering::Relaxed);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, until) = &mut *recent;
        times.push_back(now);
        while times.front().is_some_and(|first| *first + OVERRUN_WINDOW <= now) || times.len() > MOST_OVERRUNS
        {
            times.pop_front();
        }
        if let Some(first) = times.front().filter(|_| times.len() >= MOST_OVERRUNS) {
            *until = (*first + OVERRUN_WINDOW).max(now + LEAST_ASIDE);
            self.was_set_aside.store(true, Ordering::Relaxed);
        }
    }

    /// How long the target is still set aside.
    pub(crate) fn set_aside(&self, now: Timestamp) -> Option<Duration> {
        if !self.was_set_aside.load(Ordering::Relaxed) {
            return None;
        }
        let until = self.recent.lock().unwrap_or_else(PoisonError::into_inner).1;
        (until > now).then(|| until - now)
    }

    /// How many calls have cost more than was reserved for them.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENOUGH_STREAMS, OVERRUN_WINDOW, OutputHistory, USUAL_SPEED};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn three_overruns_in_ten_minutes_set_a_target_aside_until_the_first_is_old() {
        let history = OutputHistory::default();
        for (second, aside) in [(0, None), (300, None), (700, None), (800, Some(100))] {
            history.note_overrun(at(second));
            assert_eq!(history.set_aside(at(second)), aside.map(Duration::from_secs), "{second}");
        }
        assert_eq!(
            (history.set_aside(at(899)), history.set_aside(at(900))),
            (Some(Duration::from_secs(1)), None)
        );
        assert_eq!(history.overruns(), 4);
        // The next within ten minutes of the two before.
        history.note_overrun(at(901));
        assert_eq!(history.set_aside(at(901)), Some(OVERRUN_WINDOW - Duration::from_secs(201)));
    }

    #[test]
    fn a_target_is_as_fast_as_its_fastest_streams_once_enough_were_seen() {
        let history = OutputHistory::default();
        for stream in 0..ENOUGH_STREAMS {
            assert_eq!(history.per_second(), USUAL_SPEED, "{stream}");
            history.note_answer(1_000, None, Duration::from_secs(20));
        }
        assert!((45..60).contains(&history.per_second()), "{}", history.per_second());
        // What came at once was not generated at once.
        history.note_answer(1_000, None, Duration::from_micros(1));
        history.note_answer(3, None, Duration::from_millis(60));
        assert!((45..60).contains(&history.per_second()), "{}", history.per_second());
    }

    #[test]
    fn a_target_that_bills_more_than_it_shows_is_remembered() {
        let history = OutputHistory::default();
        history.note_answer(30, Some(120), Duration::ZERO);
        assert!(!history.hides());
        history.note_answer(500, Some(120), Duration::ZERO);
        assert!(history.hides());
        for (model, hides) in
            [("openai/o3-mini", true), ("gpt-5.1", true), ("gpt-4o", false), ("claude-sonnet", false)]
        {
            assert_eq!(OutputHistory::of_model(model).hides(), hides, "{model}");
        }
    }
}

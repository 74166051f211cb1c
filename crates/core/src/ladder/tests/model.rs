//! Model test of the ladder against a log of all evaluations that is recomputed each time.

use super::{at, ladder};
use crate::invariant::level_falls_by_one_step;
use crate::ladder::{Ladder, LadderDecision, LadderSignal};
use crate::vocabulary::Level;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

/// Values on both sides of every threshold.
const EDGES: [&[f64]; 4] = [
    &[500.0, 1_599.0, 1_600.0, 2_000.0, 2_001.0, 2_399.0, 3_000.0, 3_001.0, 3_999.0, 5_000.0, 5_001.0],
    &[0.0, 7.9, 8.0, 10.0, 10.1, 50.0],
    &[0.0, 15.9, 16.0, 20.0, 20.1, 50.0],
    &[10.0, 43.9, 44.0, 55.0, 55.1, 55.9, 70.0, 70.1, 67.9, 85.0, 85.1],
];

#[derive(Clone, Debug)]
enum Step {
    /// Time passes, some signals are read, and the ladder is evaluated.
    Look { pause: u64, readings: Vec<(usize, usize)> },
    /// Only healthy readings, for this many evaluations.
    Quiet(u64),
    /// The same two signals are high, for this many evaluations.
    Loud(u64, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![8 => select(vec![5_000_u64, 5_100, 4_900]), 2 => select(vec![0, 1, 2_499, 2_500, 20_000, 30_000, 30_001, 90_000])];
    prop_oneof![
        4 => (pause, vec((0_usize..4, any::<usize>()), 0..5)).prop_map(|(pause, readings)| Step::Look { pause, readings }),
        2 => (1_u64..16).prop_map(Step::Quiet),
        2 => (1_u64..4, any::<usize>(), any::<usize>()).prop_map(|(looks, first, second)| Step::Loud(looks, first, second)),
    ]
}

/// One effective evaluation: its time, the live signals, and the level after it.
struct Entry {
    when: u64,
    live: Vec<(usize, f64)>,
    level: usize,
}

#[derive(Default)]
struct LadderLog {
    readings: Vec<(u64, usize, f64)>,
    looks: Vec<Entry>,
}

fn vote(signal: usize, value: f64) -> usize {
    match signal {
        0 if value > 5_000.0 => 3,
        0 if value > 3_000.0 => 2,
        0 if value > 2_000.0 => 1,
        1 if value > 10.0 => 4,
        2 if value > 20.0 => 4,
        3 if value > 85.0 => 3,
        3 if value > 70.0 => 2,
        3 if value > 55.0 => 1,
        _ => 0,
    }
}

fn is_recovered(signal: usize, value: f64, level: usize) -> bool {
    let edge = match (signal, level) {
        (0, 1) => 1_600.0,
        (0, 2) => 2_400.0,
        (0, 3) => 4_000.0,
        (1, _) => 8.0,
        (2, _) => 16.0,
        (3, 1) => 44.0,
        (3, 2) => 56.0,
        (3, 3) => 68.0,
        _ => f64::INFINITY,
    };
    value < edge
}

fn voted(live: &[(usize, f64)]) -> Option<usize> {
    let mut votes: Vec<usize> = live.iter().map(|(signal, value)| vote(*signal, *value)).collect();
    votes.sort_unstable();
    votes.iter().rev().nth(1).copied()
}

impl LadderLog {
    fn level(&self) -> usize {
        self.looks.last().map_or(0, |look| look.level)
    }

    fn evaluate(&mut self, now: u64) -> usize {
        let level = self.level();
        if self.looks.last().is_some_and(|last| now - last.when < 2_500) {
            return level;
        }
        let newest = |signal: usize| self.readings.iter().rev().find(|reading| reading.1 == signal);
        let live: Vec<(usize, f64)> = (0..4)
            .filter_map(newest)
            .filter(|reading| now - reading.0 <= 30_000)
            .map(|reading| (reading.1, reading.2))
            .collect();
        let asks = voted(&live);
        self.looks.push(Entry { when: now, live, level });
        let after = match asks {
            None => level,
            Some(asks) if asks > level => self.before(now).map_or(level, |before| asks.min(before)),
            Some(_) if self.recovery_for(level) >= 60_000 && level > 0 => level - 1,
            Some(_) => level,
        };
        self.looks.last_mut().unwrap().level = after;
        after
    }

    /// The vote of the previous evaluation, if it was recent and above the present level.
    fn before(&self, now: u64) -> Option<usize> {
        let before = &self.looks[..self.looks.len() - 1];
        let last = before.last().filter(|last| now - last.when <= 30_000)?;
        voted(&last.live).filter(|asks| *asks > last.level)
    }

    /// How long every evaluation has been calm for this level, back to the last change.
    fn recovery_for(&self, level: usize) -> u64 {
        let newest = self.looks.last().unwrap().when;
        let mut since = None;
        for look in self.looks.iter().rev() {
            let calm = look.live.len() > 1
                && look.live.iter().all(|(signal, value)| is_recovered(*signal, *value, level));
            let gap = since.map_or(0, |since: u64| since - look.when);
            if !calm || gap > 30_000 || look.level != level {
                break;
            }
            since = Some(look.when);
        }
        since.map_or(0, |since| newest - since)
    }

    /// Records, evaluates both, and compares.
    fn look(&mut self, ladder: &mut Ladder, readings: &[(usize, f64)], now: u64) {
        for (signal, value) in readings {
            ladder.record(LadderSignal::ALL[*signal], *value, at(now)).unwrap();
            self.readings.push((now, *signal, *value));
        }
        let before = ladder.level();
        let report = ladder.evaluate(at(now));
        assert_eq!(report.level.index(), self.evaluate(now), "at {now}");
        level_falls_by_one_step(before, report.level).unwrap();
        let moved = !matches!(report.decision, LadderDecision::Held(_));
        assert_eq!(moved, before != report.level);
    }
}

proptest! {
    #[test]
    fn the_ladder_matches_the_reference_model(steps in vec(step(), 1..60)) {
        let (mut ladder, mut log, mut now) = (ladder(), LadderLog::default(), 0);
        for step in steps {
            match step {
                Step::Look { pause, readings } => {
                    now += pause;
                    let value = |(signal, choice): &(usize, usize)| (*signal, EDGES[*signal][choice % EDGES[*signal].len()]);
                    let readings: Vec<_> = readings.iter().map(value).collect();
                    log.look(&mut ladder, &readings, now);
                }
                Step::Quiet(looks) => for _ in 0..looks {
                    now += 5_000;
                    log.look(&mut ladder, &[(0, 500.0), (1, 0.0), (2, 0.0), (3, 10.0)], now);
                },
                Step::Loud(looks, first, second) => for _ in 0..looks {
                    now += 5_000;
                    let loud = [5_001.0, 10.1, 20.1, 70.1];
                    let (first, second) = (first % 4, second % 4);
                    log.look(&mut ladder, &[(first, loud[first]), (second, loud[second])], now);
                },
            }
        }
    }

    /// Whatever one signal reads, and whether the others are healthy or missing, the level stays.
    #[test]
    fn one_signal_alone_never_moves_the_ladder_up(
        signal in 0_usize..4,
        values in vec((0_u64..40_000, 0.0_f64..100.0, any::<bool>()), 1..100),
    ) {
        let (mut ladder, mut now) = (ladder(), 0);
        for (pause, share, others_speak) in values {
            now += pause;
            let max = if signal == 0 { 6_000.0 } else { 1.0 };
            ladder.record(LadderSignal::ALL[signal], share * max, at(now)).unwrap();
            for other in (0..4).filter(|other| *other != signal && others_speak) {
                ladder.record(LadderSignal::ALL[other], EDGES[other][0], at(now)).unwrap();
            }
            prop_assert_eq!(ladder.evaluate(at(now)).level, Level::Normal);
        }
    }

    /// At any level, one signal alone does not lower it.
    #[test]
    fn one_live_signal_holds_every_level(signal in 0_usize..4, looks in 1_u64..60) {
        for level in [Level::Elevated, Level::HighLoad, Level::Overload, Level::Emergency] {
            let mut ladder = super::raised_to(level);
            for look in 0..looks {
                let now = 40_000 + look * 5_000;
                ladder.record(LadderSignal::ALL[signal], 0.0, at(now)).unwrap();
                let report = ladder.evaluate(at(now));
                prop_assert_eq!(report.level, level);
                prop_assert!(report.alarms.too_few_signals);
            }
        }
    }
}

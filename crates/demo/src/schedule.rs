//! The schedule of outages.
//!
//! Five outages, one after another, with calm in between, as shares of the whole time: a longer demonstration has
//! longer outages, not more of them. The faults of models are a schedule that both sides' models play alike.

use seawall_model::engine::{Fault, FaultRule, Frequency};
use serde::Serialize;
use std::ops::Range;
use std::time::Duration;

/// The concurrency that a model can serve at any time; more requests are throttled. Every vendor has such a number.
const CAPACITY: u64 = 60;

/// One kind of outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outage {
    /// The strong model answers most requests with 429.
    ThrottlingWave,
    /// The strong model is down: errors, resets and silence.
    StrongModelDown,
    /// Answers of the strong model break off in the middle.
    StreamsCut,
    /// Both fronts are restarted.
    Restart,
    /// One caller sends hundreds of requests a second.
    Flood,
}

impl Outage {
    /// Every outage, in order of occurrence.
    pub const ALL: [Self; 5] =
        [Self::ThrottlingWave, Self::StrongModelDown, Self::StreamsCut, Self::Restart, Self::Flood];

    /// The title for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ThrottlingWave => "throttling wave",
            Self::StrongModelDown => "strong model down",
            Self::StreamsCut => "streams cut",
            Self::Restart => "restart without Redis",
            Self::Flood => "request flood",
        }
    }

    /// Beginning and end, in thousandths of the whole time.
    const fn thousandths(self) -> Range<u32> {
        match self {
            Self::ThrottlingWave => 80..220,
            Self::StrongModelDown => 280..420,
            Self::StreamsCut => 480..620,
            Self::Restart => 680..760,
            Self::Flood => 800..940,
        }
    }
}

/// The whole time and its outages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutageSchedule {
    pub(crate) duration: Duration,
}

impl OutageSchedule {
    pub(crate) fn period_of(self, outage: Outage) -> Range<Duration> {
        let share = outage.thousandths();
        let at = |thousandths: u32| self.duration.saturating_mul(thousandths) / 1_000;
        at(share.start)..at(share.end)
    }

    /// The outage at this time.
    pub(crate) fn outage_at(self, at: Duration) -> Option<Outage> {
        Outage::ALL.into_iter().find(|outage| self.period_of(*outage).contains(&at))
    }

    /// The faults of models, timed from their start.
    pub(crate) fn faults(self) -> Vec<FaultRule> {
        let strong = |outage: Outage, percent: f64, fault: Fault| {
            let Range { start, end } = self.period_of(outage);
            FaultRule {
                name: Some(outage.title().to_owned()),
                model: Some("sonnet".to_owned()),
                from: start,
                to: end,
                frequency: Frequency::Percent(percent),
                ..FaultRule::always(fault)
            }
        };
        let soon = Some(Duration::from_secs(1));
        let throttled = Fault::Status { status: 429, retry_after: soon, error: None };
        vec![
            strong(Outage::ThrottlingWave, 90.0, throttled),
            strong(Outage::StrongModelDown, 25.0, Fault::Hang { after: 0 }),
            strong(Outage::StrongModelDown, 50.0, Fault::Reset),
            strong(Outage::StrongModelDown, 100.0, Fault::status(503)),
            strong(Outage::StreamsCut, 40.0, Fault::cut(6)),
            strong(Outage::StreamsCut, 60.0, Fault::Truncate { after: 4 }),
            FaultRule::always(Fault::Capacity { in_flight: CAPACITY, retry_after: soon }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Outage, OutageSchedule};
    use seawall_model::engine::{Engine, ModelOptions, Pace};
    use std::time::Duration;

    #[test]
    fn outages_follow_one_another_with_calm_before_between_and_after() {
        let schedule = OutageSchedule { duration: Duration::from_secs(60) };
        let mut calm_from = Duration::ZERO;
        for outage in Outage::ALL {
            let period = schedule.period_of(outage);
            assert!(calm_from < period.start && period.start < period.end, "{outage:?}");
            assert_eq!(schedule.outage_at(period.start), Some(outage));
            assert_eq!(schedule.outage_at(period.end), None, "the end is calm");
            assert_eq!(schedule.outage_at(calm_from), None);
            calm_from = period.end;
        }
        assert!(calm_from < schedule.duration);
    }

    #[test]
    fn outages_grow_with_the_whole_time() {
        let of = |seconds| OutageSchedule { duration: Duration::from_secs(seconds) }.period_of(Outage::Flood);
        assert_eq!(of(10), Duration::from_millis(8_000)..Duration::from_millis(9_400));
        assert_eq!(of(100), Duration::from_secs(80)..Duration::from_secs(94));
    }

    #[test]
    fn a_model_takes_the_schedule() {
        let faults = OutageSchedule { duration: Duration::from_secs(10) }.faults();
        assert!(Engine::new(ModelOptions { seed: 1, faults, pace: Pace::Real }).is_ok());
    }
}

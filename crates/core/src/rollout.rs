//! Gradual rollout of protections: ramps and experiments.
//!
//! A [`Ramp`] interpolates a factor linearly over time: limits that begin at twice their value, a budget that begins
//! at one and a half times. An [`Experiment`] assigns a stable share of callers to a treatment: membership is a hash
//! of the experiment's name and the caller, so that no list is kept, a restart changes nothing, and a larger share
//! only adds callers.
//!
//! **What it does not do.** It does not evaluate the result of an experiment, and it uses no randomness.
//!
//! ```
//! use seawall_core::rollout::{Experiment, RampOptions};
//! use seawall_core::time::UtcTime;
//! use std::time::Duration;
//!
//! let week = Duration::from_secs(7 * 86_400);
//! let start_date = UtcTime::from_civil(2026, 11, 1);
//! let limits = RampOptions { from: 2.0, to: 1.0, start_date, duration: week * 4 }.check().unwrap();
//! assert_eq!(limits.at(start_date + week * 2).to_string(), "1.5");
//!
//! let guests = Experiment::new("guest_lite", 10.0).unwrap();
//! assert_eq!(guests.includes(7), guests.includes(7));
//! ```

use crate::random::SeededRandom;
use crate::setting::{Factor, Ratio, SettingError, positive};
use crate::time::UtcTime;
use std::time::Duration;

/// Ramp settings before validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RampOptions {
    /// The initial factor.
    pub from: f64,
    /// The final factor.
    pub to: f64,
    /// When the ramp starts.
    pub start_date: UtcTime,
    /// How long the ramp takes.
    pub duration: Duration,
}

/// A factor that changes linearly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    from: Factor,
    to: Factor,
    start_date: UtcTime,
    duration: Duration,
}

impl RampOptions {
    /// Fails on factors out of range and on a duration of zero.
    pub fn check(&self) -> Result<Ramp, SettingError> {
        Ok(Ramp {
            from: Factor::new("from", self.from)?,
            to: Factor::new("to", self.to)?,
            start_date: self.start_date,
            duration: positive("duration", self.duration)?,
        })
    }
}

impl Ramp {
    /// The factor at this time.
    #[must_use]
    pub fn at(&self, now: UtcTime) -> Factor {
        let (length, elapsed) = (self.duration.as_nanos(), now.since(self.start_date).as_nanos());
        let elapsed = elapsed.min(length);
        let (from, to) = (u128::from(self.from.thousandths()), u128::from(self.to.thousandths()));
        // Both products fit: a thousandth is at most 20 bits, a duration 94.
        let sum = from * (length - elapsed) + to * elapsed;
        // Rounded to the nearest, so that both ends are exact and the interpolation is unbiased.
        let thousandths = (sum + length / 2) / length;
        Factor::of_thousandths(u32::try_from(thousandths).unwrap_or(u32::MAX))
    }
}

/// A treatment for a share of the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    salt: u64,
    share: Ratio,
}

impl Experiment {
    /// A share of callers, in percent. The name determines which ones.
    pub fn new(name: &str, percent: f64) -> Result<Self, SettingError> {
        Ok(Self { salt: hash(name.as_bytes()), share: Ratio::percent("share", percent)? })
    }

    /// Whether this caller is included.
    #[must_use]
    pub fn includes(&self, caller: u64) -> bool {
        // The first draw decorrelates neighbouring callers, the second one experiments.
        let spread = SeededRandom::new(caller).draw().bits();
        let bucket = SeededRandom::new(spread ^ self.salt).draw().below(1_000_000);
        bucket < u64::from(self.share.millionths())
    }
}

/// FNV-1a: short, and stable across machines and versions.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::{Experiment, RampOptions, UtcTime};
    use crate::money::Money;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(86_400);

    fn ramp() -> RampOptions {
        RampOptions { from: 1.5, to: 1.0, start_date: UtcTime::from_civil(2026, 11, 1), duration: DAY * 28 }
    }

    #[test]
    fn a_factor_stays_before_and_after_and_moves_evenly_between() {
        let (options, ramp) = (ramp(), ramp().check().unwrap());
        let after = |time: Duration| ramp.at(options.start_date + time).to_string();
        assert_eq!(ramp.at(UtcTime::default()).to_string(), "1.5");
        assert_eq!(after(Duration::ZERO), "1.5");
        assert_eq!(after(DAY * 7), "1.375");
        assert_eq!(after(DAY * 14), "1.25");
        assert_eq!(after(DAY * 28), "1");
        assert_eq!(after(DAY * 2_800), "1");
        assert_eq!(
            ramp.at(options.start_date + DAY * 14).of(Money::from_dollars(5_000)),
            Money::from_dollars(6_250)
        );
        let up = RampOptions { from: 1.0, to: 2.0, ..options }.check().unwrap();
        assert_eq!(up.at(options.start_date + DAY * 7).to_string(), "1.25");
        // Rounded to the nearest thousandth, not down.
        assert_eq!(up.at(options.start_date + DAY).to_string(), "1.036");
    }

    #[test]
    fn invalid_ramps_are_rejected() {
        let problem = |options: RampOptions| options.check().unwrap_err().to_string();
        assert_eq!(problem(RampOptions { from: 0.0, ..ramp() }), "from: 0 is not between 0.001 and 1000");
        assert_eq!(problem(RampOptions { to: f64::NAN, ..ramp() }), "to: NaN is not between 0.001 and 1000");
        assert_eq!(
            problem(RampOptions { duration: Duration::ZERO, ..ramp() }),
            "duration: must be longer than 0s"
        );
        assert!(Experiment::new("x", 0.0).is_err() && Experiment::new("x", f64::NAN).is_err());
    }

    #[test]
    fn an_experiment_has_its_share_and_keeps_its_callers_when_it_grows() {
        let part = |percent| Experiment::new("guest_lite", percent).unwrap();
        let count = |percent| (0..100_000).filter(|caller| part(percent).includes(*caller)).count();
        for (percent, expected) in [(1.0, 1_000_usize), (10.0, 10_000), (50.0, 50_000)] {
            let found = count(percent);
            assert!(found.abs_diff(expected) * 20 < expected, "{found} instead of {expected}");
        }
        assert_eq!(count(100.0), 100_000);
        assert!((0..100_000).all(|caller| !part(10.0).includes(caller) || part(11.0).includes(caller)));
    }

    #[test]
    fn experiments_choose_independently_of_one_another() {
        let [first, second] = ["first", "second"].map(|name| Experiment::new(name, 10.0).unwrap());
        let both = (0..100_000).filter(|caller| first.includes(*caller) && second.includes(*caller)).count();
        assert!((850..1_150).contains(&both), "{both}");
    }

    #[test]
    fn membership_is_stable_across_versions() {
        let guests = Experiment::new("guest_lite", 10.0).unwrap();
        let first: Vec<u64> = (0..60).filter(|caller| guests.includes(*caller)).collect();
        assert_eq!(first, [4, 34, 48]);
    }
}

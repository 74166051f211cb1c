//! Time reserved for the lower rungs of the fallback cascade.

use super::Deadline;
use crate::setting::{SettingError, positive};
use std::time::Duration;

/// The time that a rung must still have when it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungReserve {
    /// The rung that the time is reserved for.
    pub rung: &'static str,
    /// The reserved time.
    pub time: Duration,
}

impl RungReserve {
    /// Reserves `time` for `rung`.
    #[must_use]
    pub const fn new(rung: &'static str, time: Duration) -> Self {
        Self { rung, time }
    }
}

/// Reserves of the rungs of a cascade, in the order they are tried.
///
/// The first rung gets the total time minus all reserves, the second the total time minus those after it, and so on.
/// With the chat defaults the strong model must begin by 1.9 s of the 3 s, the fast one by 2.9 s.
///
/// ```
/// use seawall_core::deadline::{Deadline, RungReserves};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let reserves = RungReserves::chat();
/// let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(3));
/// assert_eq!(reserves.first(deadline).remaining(Timestamp::ZERO), Duration::from_millis(1_900));
/// assert_eq!(reserves.at(0, deadline).remaining(Timestamp::ZERO), Duration::from_millis(2_900));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RungReserves {
    total: Duration,
    reserves: Vec<RungReserve>,
}

impl RungReserves {
    /// The reserves of the rungs after the first, in order. Their sum must leave the first rung part of `total`.
    pub fn new(total: Duration, reserves: Vec<RungReserve>) -> Result<Self, SettingError> {
        positive("total", total)?;
        for reserve in &reserves {
            positive(reserve.rung, reserve.time)?;
        }
        let reserved: Duration =
            reserves.iter().fold(Duration::ZERO, |sum, reserve| sum.saturating_add(reserve.time));
        if reserved >= total {
            let problem =
                format!("{reserved:?} reserved for later rungs leaves nothing of {total:?} for the first");
            return Err(SettingError::new("reserves", problem));
        }
        Ok(Self { total, reserves })
    }

    /// The chat defaults: useful text within 3 s, with reserves of 1 s for the fast model, then for the cache, then
    /// for the FAQ and the apology, and of 30 ms for delivery to the caller.
    #[must_use]
    pub fn chat() -> Self {
        Self {
            total: Duration::from_secs(3),
            reserves: vec![
                RungReserve::new("fast model", Duration::from_secs(1)),
                RungReserve::new("cache", Duration::from_millis(50)),
                RungReserve::new("faq and apology", Duration::from_millis(20)),
                RungReserve::new("relay", Duration::from_millis(30)),
            ],
        }
    }

    /// The time for the whole cascade.
    #[must_use]
    pub const fn total(&self) -> Duration {
        self.total
    }

    /// The deadline of the first rung.
    #[must_use]
    pub fn first(&self, whole: Deadline) -> Deadline {
        whole.reserving(self.reserved_after(0))
    }

    /// The deadline of the rung that holds the reserve at `index`; past the last one, the whole deadline.
    #[must_use]
    pub fn at(&self, index: usize, whole: Deadline) -> Deadline {
        whole.reserving(self.reserved_after(index.saturating_add(1)))
    }

    fn reserved_after(&self, from: usize) -> Duration {
        self.reserves.iter().skip(from).fold(Duration::ZERO, |sum, reserve| sum.saturating_add(reserve.time))
    }
}

#[cfg(test)]
mod tests {
    use super::{RungReserve, RungReserves};
    use crate::deadline::Deadline;
    use crate::time::Timestamp;
    use std::time::Duration;

    #[test]
    fn each_rung_leaves_what_those_below_it_need() {
        let reserves = RungReserves::chat();
        let whole = Deadline::after(Timestamp::ZERO, reserves.total());
        let by = |deadline: Deadline| deadline.remaining(Timestamp::ZERO).as_millis();
        assert_eq!(by(reserves.first(whole)), 1_900);
        assert_eq!(
            [0, 1, 2, 3, 4, usize::MAX].map(|rung| by(reserves.at(rung, whole))),
            [2_900, 2_950, 2_970, 3_000, 3_000, 3_000]
        );
        assert_eq!(RungReserves::new(reserves.total, reserves.reserves.clone()), Ok(reserves));
    }

    #[test]
    fn reserves_that_leave_nothing_cannot_be_built() {
        let second = Duration::from_secs(1);
        let error = RungReserves::new(second, vec![RungReserve::new("fast model", second)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "reserves: 1s reserved for later rungs leaves nothing of 1s for the first"
        );
        let error = RungReserves::new(Duration::ZERO, Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "total: must be longer than 0s");
        let error = RungReserves::new(second, vec![RungReserve::new("cache", Duration::ZERO)]).unwrap_err();
        assert_eq!(error.to_string(), "cache: must be longer than 0s");
        assert!(RungReserves::new(second, Vec::new()).is_ok());
    }
}

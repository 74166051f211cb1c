//! Chance, as a value.
//!
//! A machine that needs a random number takes a [`Draw`]: 64 uniformly random bits that someone else drew.
//! With the same draws the same decisions follow, which is what makes a simulated day repeatable.

use crate::time::nanos;
use std::time::Duration;

/// One uniformly random 64-bit number.
///
/// ```
/// use seawall_core::chance::Draw;
/// use std::time::Duration;
///
/// let (low, high) = (Duration::from_millis(100), Duration::from_millis(300));
/// assert_eq!(Draw::LOWEST.between(low, high), low);
/// assert_eq!(Draw::MIDDLE.between(low, high), Duration::from_millis(200));
/// assert!(Draw::HIGHEST.between(low, high) <= high);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw(u64);

impl Draw {
    /// The lowest number that can be drawn.
    pub const LOWEST: Self = Self(0);
    /// The number in the middle.
    pub const MIDDLE: Self = Self(1 << 63);
    /// The highest number that can be drawn.
    pub const HIGHEST: Self = Self(u64::MAX);

    /// Wraps 64 random bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A duration spread evenly over `low..=high`. Where `high` is below `low`, `low`.
    #[must_use]
    pub fn between(self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (nanos(low), nanos(high));
        Duration::from_nanos(low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1))))
    }

    /// A whole number spread evenly over `0..bound`; zero when `bound` is zero.
    #[must_use]
    pub fn below(self, bound: u64) -> u64 {
        // The high half of a 128-bit product: no division, and no bias worth measuring at these bounds.
        u64::try_from((u128::from(self.0) * u128::from(bound)) >> 64).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Draw;
    use proptest::prelude::{prop_assert, proptest};
    use std::time::Duration;

    #[test]
    fn the_ends_can_be_drawn_and_nothing_beyond() {
        let (low, high) = (Duration::from_nanos(3), Duration::from_nanos(5));
        assert_eq!(Draw::LOWEST.between(low, high), low);
        assert_eq!(Draw::HIGHEST.between(low, high), high);
        assert_eq!(Draw::HIGHEST.between(high, low), high);
        assert_eq!(Draw::HIGHEST.below(0), 0);
        assert_eq!(Draw::HIGHEST.below(7), 6);
        assert_eq!(Draw::HIGHEST.between(Duration::ZERO, Duration::MAX), Duration::from_nanos(u64::MAX - 1));
    }

    proptest! {
        #[test]
        fn a_drawn_duration_lies_between_its_bounds(bits: u64, low in 0_u64..1 << 62, span in 0_u64..1 << 62) {
            let (low, high) = (Duration::from_nanos(low), Duration::from_nanos(low + span));
            let drawn = Draw::from_bits(bits).between(low, high);
            prop_assert!(low <= drawn && drawn <= high);
        }
    }
}

//! Randomness as a value.
//!
//! A machine that needs a random number takes a [`Draw`]: 64 uniformly random bits that its caller drew. The same draws
//! lead to the same decisions, which makes a simulated day reproducible.

use crate::time::nanos;
use std::time::Duration;

/// One uniformly random 64-bit number.
///
/// ```
/// use seawall_core::random::Draw;
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
    /// The lowest possible draw.
    pub const LOWEST: Self = Self(0);
    /// The middle of the range.
    pub const MIDDLE: Self = Self(1 << 63);
    /// The highest possible draw.
    pub const HIGHEST: Self = Self(u64::MAX);

    /// Wraps 64 random bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The 64 bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A duration uniformly distributed over `low..=high`; `low` if `high` is below it.
    #[must_use]
    pub fn between(self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (nanos(low), nanos(high));
        Duration::from_nanos(low.saturating_add(self.below(high.saturating_sub(low).saturating_add(1))))
    }

    /// An integer uniformly distributed over `0..bound`; zero if `bound` is zero.
    #[must_use]
    pub fn below(self, bound: u64) -> u64 {
        // The high half of a 128-bit product: no division, and no bias worth measuring at these bounds.
        u64::try_from((u128::from(self.0) * u128::from(bound)) >> 64).unwrap_or(u64::MAX)
    }
}

/// A deterministic stream of draws from a seed. The generator is splitmix64: small, fast, and good enough that a draw
/// does not reveal the next one without knowledge of the seed.
///
/// ```
/// use seawall_core::random::SeededRandom;
///
/// assert_eq!(SeededRandom::new(7).draw(), SeededRandom::new(7).draw());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates the stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next draw.
    pub const fn draw(&mut self) -> Draw {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Draw(mixed ^ (mixed >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::{Draw, SeededRandom};
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

    #[test]
    fn the_stream_is_the_published_one() {
        let mut chance = SeededRandom::new(1_234_567);
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0; 3].map(|_| chance.draw()), published.map(Draw::from_bits));
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

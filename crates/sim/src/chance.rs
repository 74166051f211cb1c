//! Chance that repeats.

use seawall_core::chance::Draw;

/// A stream of draws that a seed decides. The generator is splitmix64: small, fast, and good enough that no draw
/// tells the next.
#[derive(Clone, Debug)]
pub struct SeededChance(u64);

impl SeededChance {
    /// The stream of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next draw.
    pub fn draw(&mut self) -> Draw {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Draw::from_bits(mixed ^ (mixed >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::SeededChance;
    use seawall_core::chance::Draw;

    #[test]
    fn the_stream_is_the_published_one() {
        let mut chance = SeededChance::new(1_234_567);
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([0; 3].map(|_| chance.draw()), published.map(Draw::from_bits));
    }
}

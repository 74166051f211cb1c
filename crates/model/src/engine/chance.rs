//! Deterministic pseudo-random numbers.

use seawall_core::random::{Draw, SeededRandom};

/// A pseudo-random generator; the same seed and the same mixed-in values give the same draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Mixes in a number.
    pub(super) const fn with_number(self, number: u64) -> Self {
        Self(mix(self.0 ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
    }

    /// Mixes in bytes.
    pub(super) fn with_bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let dice = words.iter().fold(self, |dice, word| dice.with_number(u64::from_le_bytes(*word)));
        dice.with_number(u64::from_le_bytes(last)).with_number(bytes.len() as u64)
    }

    /// Mixes in a text.
    pub(super) fn with_text(self, text: &str) -> Self {
        self.with_bytes(text.as_bytes())
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// The next draw.
    pub(super) const fn roll(&mut self) -> Draw {
        self.0 = mix(self.0.wrapping_add(1));
        Draw::from_bits(self.0)
    }
}

/// One step of the generator from this state.
const fn mix(state: u64) -> u64 {
    SeededRandom::new(state).draw().bits()
}

//! Fits weights to counts: non-negative least squares of relative errors, regularised towards a guess.
//!
//! Where the corpus says little about a unit, its weight stays near the guess.

use seawall_core::tokens::{Ascii, ClassCounts, Unit};

/// The strength of the regularisation, relative to one text.
const HOLD: f64 = 0.02;
const PASSES: u32 = 4_000;

/// A text and a tokenizer's count for it.
pub(super) struct Observation {
    counts: ClassCounts,
    tokens: f64,
}

impl Observation {
    pub(super) fn new(text: &str, tokens: u64) -> Self {
        Self { counts: ClassCounts::of(text), tokens: tokens as f64 }
    }
}

/// Units that share a weight, because the corpus is too small to separate them. Marks are separated: in JSON they stand
/// in groups.
fn shared(unit: Unit) -> Unit {
    match unit {
        Unit::Word(_) => Unit::Word(Ascii::Prose),
        Unit::LongWord(_) => Unit::LongWord(Ascii::Prose),
        Unit::Digits(_) => Unit::Digits(Ascii::Prose),
        Unit::Marks(Ascii::Url) => Unit::Marks(Ascii::Prose),
        Unit::MoreMarks(_) => Unit::MoreMarks(Ascii::Prose),
        Unit::Gap(_) => Unit::Gap(Ascii::Prose),
        unit => unit,
    }
}

/// The guess, in tokens.
fn guess(unit: Unit) -> f64 {
    match unit {
        Unit::Kanji | Unit::JapaneseMark | Unit::Word(_) | Unit::Digits(_) | Unit::Marks(_) => 1.0,
        Unit::Hiragana | Unit::LongHiragana | Unit::Katakana => 0.71,
        Unit::HalfKatakana | Unit::Hangul | Unit::Accented | Unit::LongScript | Unit::Sign => 1.0,
        Unit::Cyrillic | Unit::ShortScript => 0.5,
        Unit::Emoji | Unit::SmallEmoji => 3.0,
        Unit::EmojiJoiner => 1.0,
        Unit::LongWord(_) | Unit::MoreMarks(_) => 0.25,
        Unit::Gap(_) => 0.5,
    }
}

/// The weight of every unit, in thousandths of a token.
pub(super) fn weights(observed: &[Observation]) -> Vec<u32> {
    let units: Vec<Unit> = Unit::all().collect();
    let columns: Vec<Unit> = units.iter().copied().filter(|unit| shared(*unit) == *unit).collect();
    // The share of a text's tokens that each column contributes with a weight of one.
    let share = |observation: &Observation, column: Unit| {
        let members = units.iter().filter(|unit| shared(**unit) == column);
        members.map(|unit| observation.counts.units(*unit)).sum::<u64>() as f64 / observation.tokens
    };
    let shares: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| observed.iter().map(|observation| share(observation, *column)).collect())
        .collect();
    let mut fitted: Vec<f64> = columns.iter().map(|column| guess(*column)).collect();
    let mut missing: Vec<f64> = (0..observed.len())
        .map(|text| 1.0 - shares.iter().zip(&fitted).map(|(share, weight)| share[text] * weight).sum::<f64>())
        .collect();
    // Coordinate descent: each weight in turn is set to its least-squares optimum; the error never increases.
    for _ in 0..PASSES {
        for ((share, weight), column) in shares.iter().zip(&mut fitted).zip(&columns) {
            let pull: f64 = share.iter().zip(&missing).map(|(share, missing)| share * missing).sum();
            let curve: f64 = share.iter().map(|share| share * share).sum();
            let step = (pull + HOLD * (guess(*column) - *weight)) / (curve + HOLD);
            let moved = (*weight + step).max(0.0);
            for (missing, share) in missing.iter_mut().zip(share) {
                *missing -= share * (moved - *weight);
            }
            *weight = moved;
        }
    }
    let weight_of = |unit: &Unit| columns.iter().zip(&fitted).find(|(column, _)| **column == shared(*unit));
    units.iter().map(|unit| weight_of(unit).map_or(0, |(_, weight)| thousandths(*weight))).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never below zero, and a few tokens at most"
)]
fn thousandths(weight: f64) -> u32 {
    (weight * 1_000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::{Observation, weights};
    use seawall_core::tokens::Unit;

    #[test]
    fn weights_that_made_the_counts_are_found_again() {
        // Two tokens a kanji, one for two hiragana.
        let observed: Vec<_> = (1..60_usize)
            .map(|kanji| {
                let text = format!("{}{}", "漢".repeat(kanji), "あい".repeat(1 + kanji % 3));
                Observation::new(&text, (2 * kanji + 1 + kanji % 3) as u64)
            })
            .collect();
        let found = weights(&observed);
        let near = |unit: Unit, wanted: u32| assert!(found[unit.index()].abs_diff(wanted) <= 20, "{found:?}");
        near(Unit::Kanji, 2_000);
        near(Unit::Hiragana, 500);
        // No sample contains it.
        assert_eq!(found[Unit::Hangul.index()], 1_000);
    }
}

//! Fits weights to counts: non-negative least squares of relative errors, regularised towards a guess.
//!
//! Where the corpus has little data on a unit, its weight stays near the guess.

use seawall_core::tokens::{AsciiContext, TextCounts, TextUnit};

/// The strength of the regularisation, relative to one text.
const HOLD: f64 = 0.02;
const PASSES: u32 = 4_000;

/// A text and a tokenizer's count for it.
pub(super) struct Observation {
    counts: TextCounts,
    tokens: f64,
}

impl Observation {
    pub(super) fn new(text: &str, tokens: u64) -> Self {
        Self { counts: TextCounts::of(text), tokens: tokens as f64 }
    }
}

/// Units that share a weight, because the corpus is too small to separate them. Marks are separated: in JSON they stand
/// in groups.
fn shared(unit: TextUnit) -> TextUnit {
    match unit {
        TextUnit::Word(_) => TextUnit::Word(AsciiContext::Prose),
        TextUnit::LongWord(_) => TextUnit::LongWord(AsciiContext::Prose),
        TextUnit::Digits(_) => TextUnit::Digits(AsciiContext::Prose),
        TextUnit::Marks(AsciiContext::Url) => TextUnit::Marks(AsciiContext::Prose),
        TextUnit::MoreMarks(_) => TextUnit::MoreMarks(AsciiContext::Prose),
        TextUnit::Gap(_) => TextUnit::Gap(AsciiContext::Prose),
        unit => unit,
    }
}

/// The guess, in tokens.
fn guess(unit: TextUnit) -> f64 {
    match unit {
        TextUnit::Kanji
        | TextUnit::JapaneseMark
        | TextUnit::Word(_)
        | TextUnit::Digits(_)
        | TextUnit::Marks(_) => 1.0,
        TextUnit::Hiragana | TextUnit::LongHiragana | TextUnit::Katakana => 0.71,
        TextUnit::HalfKatakana
        | TextUnit::Hangul
        | TextUnit::Accented
        | TextUnit::LongScript
        | TextUnit::Sign => 1.0,
        TextUnit::Cyrillic | TextUnit::ShortScript => 0.5,
        TextUnit::Emoji | TextUnit::SmallEmoji => 3.0,
        TextUnit::EmojiJoiner => 1.0,
        TextUnit::LongWord(_) | TextUnit::MoreMarks(_) => 0.25,
        TextUnit::Gap(_) => 0.5,
    }
}

/// The weight of every unit, in thousandths of a token.
pub(super) fn weights(observed: &[Observation]) -> Vec<u32> {
    let units: Vec<TextUnit> = TextUnit::all().collect();
    let columns: Vec<TextUnit> = units.iter().copied().filter(|unit| shared(*unit) == *unit).collect();
    // The share of a text's tokens that each column contributes with a weight of one.
    let share = |observation: &Observation, column: TextUnit| {
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
    let weight_of =
        |unit: &TextUnit| columns.iter().zip(&fitted).find(|(column, _)| **column == shared(*unit));
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
    use seawall_core::tokens::TextUnit;

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
        let near = |unit: TextUnit, expected: u32| {
            assert!(found[unit.index()].abs_diff(expected) <= 20, "{found:?}");
        };
        near(TextUnit::Kanji, 2_000);
        near(TextUnit::Hiragana, 500);
        // No sample contains it.
        assert_eq!(found[TextUnit::Hangul.index()], 1_000);
    }
}

//! The cost of estimating a text's tokens, compared with counting its characters.

use super::{PolicyCases, median_of};
use crate::measure::{Case, Measurement};
use crate::report::BenchGate;
use seawall_core::tokens::{TextCounts, TokenizerFamily};
use std::hint::black_box;

const ESTIMATE: &str = "tokens, estimate, 1,000 bytes of Japanese";
/// Goal: 100 MB per second, expressed as nanoseconds per thousand bytes.
const MAX_COST: f64 = 10_000.0;
/// A typical text of a shop's chat.
const CHAT: &str = include_str!("../../../crates/core/tests/tokens/corpus/mixed.txt");
const BYTES: usize = 100_000;

pub(crate) fn cases<'a>() -> PolicyCases<'a> {
    let mut text = CHAT.repeat(BYTES.div_ceil(CHAT.len()));
    text.truncate(text.floor_char_boundary(BYTES));
    PolicyCases {
        cases: vec![
            case(ESTIMATE, 20_000, text.clone(), |text| {
                TokenizerFamily::Claude.tokens(&TextCounts::of(text))
            }),
            case("tokens, std counts its characters", 20_000, text, |text| text.chars().count() as u64),
        ],
        gates: vec![|measured: &[Measurement]| BenchGate {
            name: "estimate, ns for 1,000 bytes of Japanese",
            figure: median_of(measured, ESTIMATE),
            bound: MAX_COST,
        }],
    }
}

/// A case in which one decision processes a thousand bytes.
fn case<'a>(name: &'static str, decisions: u32, text: String, count: fn(&str) -> u64) -> Case<'a> {
    let run = move |decisions: u32| {
        let passes = decisions as usize * 1_000 / BYTES;
        (0..passes).fold(0, |sum: u64, _| sum.wrapping_add(count(black_box(&text))))
    };
    Case { name, decisions, run: Box::new(run) }
}

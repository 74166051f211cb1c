//! Token estimation without a tokenizer.
//!
//! One pass over a text counts the units that tokenizers split at: kanji, kana, words, numbers, punctuation, emoji.
//! Each unit has a weight in thousandths of a token, fitted to real tokenizers per model family. Billed usage then
//! calibrates the estimate per model and language.
//!
//! **When it acts.** Before a request is admitted: trimming, refusals and reservations use the estimate. Counts are
//! additive: a history is counted once, as it grows, and never again.
//!
//! **What it does not do.** It stores no text. It is not exact: `best` is for planning, `upper` is the bound for
//! reservations. With the feature `exact-tokens`, OpenAI's models are counted exactly.
//!
//! ```
//! use seawall_core::tokens::{Calibration, TextLanguage, OverheadOptions, RequestCounts, estimate};
//!
//! let request = RequestCounts::of_message("推理ものの漫画を探しています。");
//! let estimate = estimate("claude-sonnet", &request, OverheadOptions::default(), &Calibration::default());
//! assert_eq!(estimate.language, TextLanguage::Japanese);
//! assert!((15..30).contains(&estimate.best));
//! assert_eq!(estimate.upper, 45 + 4 + 300);
//! ```

mod calibration;
mod counts;
mod estimate;
mod exact;
mod family;
mod growth;
mod output;
mod scan;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
mod weights;

pub use calibration::{Accuracy, Calibration, CalibrationFactors, SampleDecision};
pub use counts::{AsciiContext, CharacterClass, TextCounts, TextLanguage, TextUnit};
pub use estimate::{OverheadOptions, PARTS, RequestCounts, TokenEstimate, estimate};
pub use exact::exact_tokens;
pub use family::TokenizerFamily;
pub use output::{OutputLimit, OutputMeter};

//! Tokens: how many a text has, before anybody has counted them.
//!
//! One pass over a text counts what tokenizers cut it at: kanji, kana, words, numbers, marks, pictures. Each of these
//! weighs a number of thousandths that was fitted to real tokenizers, per family of models. Bills then teach what a
//! model spends beyond that, per language.
//!
//! **When it acts.** Before a request is admitted, so that it is trimmed, refused and reserved by numbers. Counts add up:
//! a history is counted once, as it grows, and never again.
//!
//! **What it will not do.** It keeps no text. It is not exact: `best` is a number to plan with, `upper` is a number to
//! promise money with. With the feature `exact-tokens`, models of OpenAI's are counted exactly.
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

pub use calibration::{Accuracy, Calibration, Factors, SampleDecision};
pub use counts::{Ascii, Class, ClassCounts, TextLanguage, Unit};
pub use estimate::{Estimate, OverheadOptions, PARTS, RequestCounts, estimate};
pub use exact::exact_tokens;
pub use family::Family;
pub use output::{OutputLimit, OutputMeter};

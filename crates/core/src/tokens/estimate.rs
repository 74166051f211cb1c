//! From counts to an estimate.

use super::calibration::Calibration;
use super::counts::{Class, ClassCounts, TextLanguage};
use super::family::Family;

/// What is spent on top of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverheadOptions {
    /// Tokens of a request before its first message, in the best estimate.
    pub request: u64,
    /// Tokens around each message: its role and its end.
    pub message: u64,
    /// Tokens kept free in the upper bound for what a vendor adds to a request.
    pub reserve: u64,
}

impl Default for OverheadOptions {
    fn default() -> Self {
        Self { request: 3, message: 4, reserve: 300 }
    }
}

/// A request, counted part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// The instructions.
    pub system: ClassCounts,
    /// The turns before this one.
    pub history: ClassCounts,
    /// What was looked up for it.
    pub retrieval: ClassCounts,
    /// The current message.
    pub message: ClassCounts,
    /// How many messages there are, with the current one and the instructions.
    pub messages: u64,
}

impl RequestCounts {
    /// A request of one message.
    #[must_use]
    pub fn of_message(text: &str) -> Self {
        Self { message: ClassCounts::of(text), messages: 1, ..Self::default() }
    }

    /// Everything together.
    #[must_use]
    pub fn total(&self) -> ClassCounts {
        self.system + self.history + self.retrieval + self.message
    }
}

/// How many tokens a request has, as far as anybody can tell before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The most likely number.
    pub best: u64,
    /// A number that is enough for 95 of 100 requests.
    pub careful: u64,
    /// A number that is always enough, whatever the text: what a reservation is made with.
    pub upper: u64,
    /// Tokens of the text alone, before calibration. This is what a bill is compared with.
    pub uncalibrated: u64,
    /// What is spent on top of the text; part of `best` and `careful`.
    pub overhead: u64,
    /// What the text is written in.
    pub language: TextLanguage,
    /// How far to trust `best`, in percent.
    pub confidence: u32,
    /// Tokens by part, before calibration: system, history, retrieval, message.
    pub parts: [u64; 4],
    /// Tokens by class, before calibration, in the order of [`Class::ALL`].
    pub classes: [u64; Class::COUNT],
}

/// Names of [`Estimate::parts`].
pub const PARTS: [&str; 4] = ["system", "history", "retrieval", "message"];

/// What a text of this language can be trusted with before anything was learned, in percent.
const CONFIDENCE: [(TextLanguage, u32); 3] =
    [(TextLanguage::Japanese, 75), (TextLanguage::English, 85), (TextLanguage::Mixed, 75)];

/// Estimates a request to `model`.
///
/// The upper bound holds for every tokenizer that works on bytes: a token is at least one byte long. What a vendor adds
/// itself must fit the reserve. The confidence is 85 % for English and 75 % otherwise; once this model's bills have
/// shown the mean error to be below 20 %, it is what they leave of 100 %, where that is more.
#[must_use]
pub fn estimate(
    model: &str,
    request: &RequestCounts,
    overhead: OverheadOptions,
    calibration: &Calibration,
) -> Estimate {
    let family = Family::of_model(model);
    let total = request.total();
    let language = total.language();
    let uncalibrated = family.tokens(&total);
    let factors = calibration.factors(model, language);
    let around_messages = overhead.message.saturating_mul(request.messages);
    let spent = overhead.request.saturating_add(around_messages);
    let upper = total
        .most_bytes()
        .saturating_add(around_messages)
        .saturating_add(overhead.reserve.max(overhead.request));
    let base = CONFIDENCE.iter().find(|(known, _)| *known == language).map_or(0, |(_, percent)| *percent);
    let shown = calibration.accuracy(model, language).filter(|accuracy| accuracy.is_calibrated);
    Estimate {
        // Never above the bound, whatever was learned.
        best: factors.best(uncalibrated).saturating_add(spent).min(upper),
        careful: factors.careful(uncalibrated).saturating_add(spent).min(upper),
        upper,
        uncalibrated,
        overhead: spent,
        language,
        confidence: shown.map_or(base, |accuracy| base.max(accuracy.trust())),
        parts: [&request.system, &request.history, &request.retrieval, &request.message]
            .map(|part| family.tokens(part)),
        classes: family.thousandths(&total).map(|weight| weight.div_ceil(1_000)),
    }
}

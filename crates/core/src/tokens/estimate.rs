//! Estimates the tokens of a request from its counts.

use super::calibration::Calibration;
use super::counts::{CharacterClass, TextCounts, TextLanguage};
use super::family::TokenizerFamily;

/// Tokens on top of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverheadOptions {
    /// Tokens of a request before its first message, in the best estimate.
    pub request: u64,
    /// Tokens around each message: its role and its end.
    pub message: u64,
    /// Tokens added to the upper bound for what a vendor adds to a request.
    pub reserve: u64,
}

impl Default for OverheadOptions {
    fn default() -> Self {
        Self { request: 3, message: 4, reserve: 300 }
    }
}

/// The counts of a request, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// The system prompt.
    pub system: TextCounts,
    /// The earlier turns.
    pub history: TextCounts,
    /// The retrieved chunks.
    pub retrieval: TextCounts,
    /// The current message.
    pub message: TextCounts,
    /// Number of messages, including the current one and the system prompt.
    pub messages: u64,
}

impl RequestCounts {
    /// A request of one message.
    #[must_use]
    pub fn of_message(text: &str) -> Self {
        Self { message: TextCounts::of(text), messages: 1, ..Self::default() }
    }

    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> TextCounts {
        self.system + self.history + self.retrieval + self.message
    }
}

/// Estimated tokens of a request before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenEstimate {
    /// The most likely number.
    pub best: u64,
    /// The p95: sufficient for 95 of 100 requests.
    pub p95: u64,
    /// A strict upper bound for any text, used for reservations.
    pub upper: u64,
    /// Tokens of the text alone, before calibration. Billed usage is compared with this.
    pub uncalibrated: u64,
    /// Tokens on top of the text; included in `best` and `p95`.
    pub overhead: u64,
    /// The language of the text.
    pub language: TextLanguage,
    /// Confidence in `best`, in percent.
    pub confidence: u32,
    /// Tokens per part, before calibration: system, history, retrieval, message.
    pub parts: [u64; 4],
    /// Tokens per class, before calibration, in the order of [`CharacterClass::ALL`].
    pub classes: [u64; CharacterClass::COUNT],
}

/// Names of [`TokenEstimate::parts`].
pub const PARTS: [&str; 4] = ["system", "history", "retrieval", "message"];

/// Confidence per language before calibration, in percent.
const CONFIDENCE: [(TextLanguage, u32); 3] =
    [(TextLanguage::Japanese, 75), (TextLanguage::English, 85), (TextLanguage::Mixed, 75)];

/// Estimates a request to `model`.
///
/// The upper bound holds for every byte-level tokenizer: a token is at least one byte long. What a vendor adds itself
/// must fit the reserve. The confidence is 85 % for English and 75 % otherwise; once the billed usage of this model
/// has shown a mean absolute error below 20 %, it is 100 % minus that error, if that is higher.
#[must_use]
pub fn estimate(
    model: &str,
    request: &RequestCounts,
    overhead: OverheadOptions,
    calibration: &Calibration,
) -> TokenEstimate {
    let family = TokenizerFamily::of_model(model);
    let total = request.total();
    let language = total.language();
    let uncalibrated = family.tokens(&total);
    let factors = calibration.factors(model, language);
    let around_messages = overhead.message.saturating_mul(request.messages);
    let spent = overhead.request.saturating_add(around_messages);
    let upper = total
        .max_bytes()
        .saturating_add(around_messages)
        .saturating_add(overhead.reserve.max(overhead.request));
    let base = CONFIDENCE.iter().find(|(known, _)| *known == language).map_or(0, |(_, percent)| *percent);
    let shown = calibration.accuracy(model, language).filter(|accuracy| accuracy.is_calibrated);
    TokenEstimate {
        // Never above the bound, whatever was learned.
        best: factors.best(uncalibrated).saturating_add(spent).min(upper),
        p95: factors.p95(uncalibrated).saturating_add(spent).min(upper),
        upper,
        uncalibrated,
        overhead: spent,
        language,
        confidence: shown.map_or(base, |accuracy| base.max(accuracy.confidence())),
        parts: [&request.system, &request.history, &request.retrieval, &request.message]
            .map(|part| family.tokens(part)),
        classes: family.thousandths(&total).map(|weight| weight.div_ceil(1_000)),
    }
}

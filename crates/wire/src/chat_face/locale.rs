//! Locale parsing and detection.

use seawall_core::tokens::{TextCounts, TextLanguage};

/// Maximum length of a locale: language, script, region and a variant.
const MAX_LOCALE_LENGTH: usize = 35;

/// The canonical form of a locale such as `ja-JP`, `en` or `zh-Hant-TW`; `None` if it is not valid.
#[must_use]
pub fn canonical(locale: &str) -> Option<String> {
    if locale.len() > MAX_LOCALE_LENGTH {
        return None;
    }
    let mut parts = locale.split(['-', '_']);
    let language = parts.next().filter(|part| matches!(part.len(), 2..=3))?;
    if !language.bytes().all(|letter| letter.is_ascii_alphabetic()) {
        return None;
    }
    let mut canonical = language.to_ascii_lowercase();
    for part in parts {
        if !matches!(part.len(), 1..=8) || !part.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
            return None;
        }
        canonical.push('-');
        let lower = part.to_ascii_lowercase();
        match part.len() {
            2 => canonical.push_str(&lower.to_ascii_uppercase()),
            4 => {
                canonical.push_str(&lower[..1].to_ascii_uppercase());
                canonical.push_str(&lower[1..]);
            }
            _ => canonical.push_str(&lower),
        }
    }
    Some(canonical)
}

/// The language of a canonical locale.
#[must_use]
pub fn language(locale: &str) -> &str {
    locale.split('-').next().unwrap_or_default()
}

/// Detects the language of a text. A title in Latin letters does not make a Japanese question English.
#[must_use]
pub fn of_text(text: &str) -> &'static str {
    match TextCounts::of(text).language() {
        TextLanguage::Japanese | TextLanguage::Mixed => "ja",
        TextLanguage::English => "en",
    }
}

//! The tokenizer of the simulated models.
//!
//! A token is one non-ASCII character, or up to four consecutive ASCII characters. This is simple enough to count by
//! hand, close to what vendors count for English, and, as with vendors, Japanese costs more per character. No vendor
//! counts in exactly this way.

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = if first.is_ascii() {
            rest.bytes().take(4).take_while(u8::is_ascii).count()
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        Some(token)
    })
}

/// The number of tokens of a text.
///
/// ```
/// use seawall_model::engine::count_tokens;
///
/// assert_eq!(count_tokens("hello"), 2);
/// assert_eq!(count_tokens("漫画"), 2);
/// assert_eq!(count_tokens("a漫b画c"), 5);
/// ```
#[must_use]
pub fn count_tokens(text: &str) -> u64 {
    tokens(text).count() as u64
}

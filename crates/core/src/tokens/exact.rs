//! Exact token counts for public tokenizers.

use super::family::Family;

/// Exact tokens of a text for one of OpenAI's models. `None` for others, whose tokenizers are not public, and in
/// builds without the feature `exact-tokens`: its tables are larger than the rest of the program.
///
/// The first call unpacks the tables, which takes a moment: make one at startup.
#[must_use]
pub fn exact_tokens(family: Family, text: &str) -> Option<u64> {
    #[cfg(feature = "exact-tokens")]
    {
        let tokenizer = match family {
            Family::OpenAi => bpe_openai::o200k_base(),
            Family::OlderOpenAi => bpe_openai::cl100k_base(),
            Family::Claude | Family::Generic => return None,
        };
        Some(tokenizer.count(text) as u64)
    }
    #[cfg(not(feature = "exact-tokens"))]
    {
        let _ = (family, text);
        None
    }
}

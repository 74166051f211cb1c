//! Exact counts, where a tokenizer is public.

use super::family::Family;

/// Tokens of a text for a model of OpenAI's; nothing for others, whose tokenizers nobody has, and nothing at all in a
/// build without the feature `exact-tokens`: its tables are larger than the rest of the program.
///
/// The tables are unpacked on the first call, which takes a moment: make one at start.
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

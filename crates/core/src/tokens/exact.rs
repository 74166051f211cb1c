//! Exact token counts for public tokenizers.

use super::family::TokenizerFamily;

/// Exact tokens of a text for one of OpenAI's models. `None` for others, whose tokenizers are not public, and in
/// builds without the feature `exact-tokens`: its tables are larger than the rest of the program.
///
/// The first call unpacks the tables, which takes a moment: make one at startup.
#[must_use]
pub fn exact_tokens(family: TokenizerFamily, text: &str) -> Option<u64> {
    #[cfg(feature = "exact-tokens")]
    {
        let tokenizer = match family {
            TokenizerFamily::OpenAi => bpe_openai::o200k_base(),
            TokenizerFamily::OlderOpenAi => bpe_openai::cl100k_base(),
            TokenizerFamily::Claude | TokenizerFamily::Generic => return None,
        };
        Some(tokenizer.count(text) as u64)
    }
    #[cfg(not(feature = "exact-tokens"))]
    {
        let _ = (family, text);
        None
    }
}

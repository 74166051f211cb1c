//! Counts the tokens of texts as OpenAI's models do: a JSON list of texts in, a list of pairs (o200k_base, cl100k_base)
//! out. `cargo xtask tokens` runs it; it is apart because the tables of the tokenizers take a minute to build.

use seawall_core::tokens::{TokenizerFamily, exact_tokens};
use std::io;

fn main() -> Result<(), serde_json::Error> {
    let texts: Vec<String> = serde_json::from_reader(io::stdin().lock())?;
    let pair = |text: &String| {
        [TokenizerFamily::OpenAi, TokenizerFamily::OlderOpenAi].map(|family| exact_tokens(family, text))
    };
    let counts: Vec<_> = texts.iter().map(pair).collect();
    serde_json::to_writer(io::stdout().lock(), &counts)
}

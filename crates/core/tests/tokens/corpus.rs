//! The texts that estimates are fitted to and judged by, and what real tokenizers make of them.
//!
//! Every text was written for this. A file holds one kind; a line that begins with `%%` names the text below it. Texts at
//! even places of their file are for fitting, the others for judging.

use std::fs;
use std::path::Path;

/// Kinds of text, each a file.
pub(crate) const KINDS: [&str; 10] =
    ["kana", "kanji", "mixed", "emoji", "json", "url", "english", "code", "history", "other"];

/// One text.
pub(crate) struct Sample {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) text: String,
    /// Whether weights may be fitted to it.
    pub(crate) is_for_fitting: bool,
}

/// What real tokenizers make of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrueCounts {
    /// Anthropic's published tokenizer.
    pub(crate) claude: u64,
    /// `o200k_base`.
    pub(crate) openai: u64,
    /// `cl100k_base`.
    pub(crate) older_openai: u64,
}

/// Every text, kind by kind. `directory` is the one of this file.
pub(crate) fn texts(directory: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    for kind in KINDS {
        let path = directory.join(format!("corpus/{kind}.txt"));
        let file = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = file.strip_prefix("%% ").unwrap_or_else(|| panic!("{kind} begins with no name"));
        for (place, sample) in file.split("\n%% ").enumerate() {
            let (name, text) = sample.split_once('\n').unwrap_or_else(|| panic!("{sample} has no text"));
            samples.push(Sample {
                kind,
                name: name.to_owned(),
                text: text.trim_end_matches('\n').to_owned(),
                is_for_fitting: place.is_multiple_of(2),
            });
        }
    }
    samples
}

/// The stored counts, in the order of the texts.
pub(crate) fn stored_counts(directory: &Path, samples: &[Sample]) -> Vec<TrueCounts> {
    let path = directory.join("counts.tsv");
    let file = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Vec<&str>> =
        file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), samples.len(), "counts and texts differ in number; run `cargo xtask tokens`");
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text} is not a number"));
    let read = |(row, sample): (&Vec<&str>, &Sample)| match row[..] {
        [kind, name, claude, openai, older_openai] if (kind, name) == (sample.kind, sample.name.as_str()) => {
            TrueCounts { claude: number(claude), openai: number(openai), older_openai: number(older_openai) }
        }
        _ => panic!("{row:?} is not about {} {}; run `cargo xtask tokens`", sample.kind, sample.name),
    };
    rows.iter().zip(samples).map(read).collect()
}

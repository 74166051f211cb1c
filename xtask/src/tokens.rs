//! `cargo xtask tokens`: counts the corpus with real tokenizers, and fits the weights to the counts.
//!
//! Writes two files, which are committed: the true counts beside the texts, and core's weights. Tests read the counts,
//! so that they need no tokenizer; one of them fits the weights again and fails when they differ from the committed
//! ones.

#[path = "../../crates/core/tests/tokens/corpus.rs"]
#[expect(clippy::panic, reason = "the corpus is ours; a broken one stops the command with what is wrong")]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests read back what was stored"))]
mod corpus;
mod fit;

use crate::client;
use crate::workspace::{cargo, root};
use anyhow::{Context as _, ensure};
use corpus::{Sample, TrueCounts};
use seawall_core::tokens::TextUnit;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WEIGHTS: &str = "crates/core/src/tokens/weights.rs";

fn corpus_dir() -> PathBuf {
    root().join("crates/core/tests/tokens")
}

/// Counts, fits and writes.
pub(crate) fn run() -> anyhow::Result<()> {
    client::install_missing()?;
    let directory = corpus_dir();
    let samples = corpus::texts(&directory);
    let counts = true_counts(&directory, &samples)?;
    fs::write(directory.join("counts.tsv"), table(&samples, &counts)).context("cannot write the counts")?;
    fs::write(root().join(WEIGHTS), weights_source(&samples, &counts)).context("cannot write the weights")?;
    println!("counted {} texts and wrote {WEIGHTS}", samples.len());
    Ok(())
}

fn true_counts(directory: &Path, samples: &[Sample]) -> anyhow::Result<Vec<TrueCounts>> {
    let claude: Vec<u64> = counted(&mut claude_tokens(directory), samples)?;
    ensure!(claude.len() == samples.len(), "the tokenizer counted {} texts", claude.len());
    let openai: Vec<[u64; 2]> = counted(&mut openai_tokens(), samples)?;
    ensure!(openai.len() == samples.len(), "OpenAI's tokenizers counted {} texts", openai.len());
    let both = claude.into_iter().zip(openai);
    Ok(both.map(|(claude, [openai, older_openai])| TrueCounts { claude, openai, older_openai }).collect())
}

fn claude_tokens(directory: &Path) -> Command {
    let mut node = Command::new("node");
    node.arg(directory.join("count.cjs")).arg(client::client_dir("anthropic-tokenizer"));
    node
}

fn openai_tokens() -> Command {
    cargo([
        "run",
        "--quiet",
        "-p",
        "seawall-core",
        "--features",
        "exact-tokens",
        "--example",
        "openai_tokens",
    ])
}

/// The counts of a program for the texts: a JSON list of texts in, a list of counts out.
fn counted<T: DeserializeOwned>(program: &mut Command, samples: &[Sample]) -> anyhow::Result<Vec<T>> {
    let texts: Vec<_> = samples.iter().map(|sample| sample.text.as_str()).collect();
    let mut running =
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a tokenizer")?;
    // Dropped at the end of the statement, which closes the program's standard input.
    running
        .stdin
        .take()
        .context("no standard input")?
        .write_all(serde_json::to_string(&texts)?.as_bytes())?;
    let output = running.wait_with_output()?;
    ensure!(output.status.success(), "a tokenizer failed with {}", output.status);
    serde_json::from_slice(&output.stdout).context("a tokenizer wrote no numbers")
}

fn table(samples: &[Sample], counts: &[TrueCounts]) -> String {
    let mut table = String::from(
        "# Written by `cargo xtask tokens`; do not edit.\n# kind, name, claude (npm @anthropic-ai/tokenizer), o200k_base, cl100k_base (bpe-openai)\n",
    );
    for (Sample { kind, name, .. }, counts) in samples.iter().zip(counts) {
        let TrueCounts { claude, openai, older_openai } = counts;
        let _ = writeln!(table, "{kind}\t{name}\t{claude}\t{openai}\t{older_openai}");
    }
    table
}

/// One tokenizer's count.
type CountOf = fn(&TrueCounts) -> u64;

fn weights_source(samples: &[Sample], counts: &[TrueCounts]) -> String {
    let mut source = String::from(
        "//! What each unit weighs, in thousandths of a token.\n//!\n//! Written by `cargo xtask tokens` from the corpus texts at \
         even positions; do not edit.\n\nuse super::counts::TextUnit;\n",
    );
    let families: [(&str, &str, CountOf); 3] = [
        ("CLAUDE", "Anthropic's published tokenizer.", |counts| counts.claude),
        ("OPENAI", "`o200k_base`.", |counts| counts.openai),
        ("OLDER_OPENAI", "`cl100k_base`.", |counts| counts.older_openai),
    ];
    for (name, about, count) in families {
        let fitting = samples.iter().zip(counts).filter(|(sample, _)| sample.is_for_fitting);
        let observed: Vec<_> =
            fitting.map(|(sample, counts)| fit::Observation::new(&sample.text, count(counts))).collect();
        let _ = writeln!(
            source,
            "\n/// {about}\n#[rustfmt::skip]\npub(super) const {name}: [u32; TextUnit::COUNT] = ["
        );
        for (unit, weight) in TextUnit::all().zip(fit::weights(&observed)) {
            let _ = writeln!(source, "    {weight}, // {unit:?}");
        }
        source.push_str("];\n");
    }
    source
}

#[cfg(test)]
mod tests {
    use super::{WEIGHTS, corpus, corpus_dir, weights_source};
    use crate::workspace::root;
    use std::fs;

    #[test]
    fn the_weights_are_what_the_stored_counts_give() {
        let samples = corpus::texts(&corpus_dir());
        let counts = corpus::stored_counts(&corpus_dir(), &samples);
        let committed = fs::read_to_string(root().join(WEIGHTS)).unwrap();
        assert!(
            committed == weights_source(&samples, &counts),
            "run `cargo xtask tokens` and commit the result"
        );
    }
}

//! `seawall tokens`.

use crate::client::installed;
use crate::running::{file, seawall};
use anyhow::Context as _;
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const JAPANESE: &str = "推理ものの漫画を探しています。おすすめはありますか？";
const ENGLISH: &str = "Where is my parcel? It was sent on Monday.";

/// The output of the program for a text on standard input.
fn run_tokens(text: &[u8], arguments: &[&str]) -> anyhow::Result<Output> {
    let mut child = seawall(&[&["tokens"], arguments, &["-"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no way in")?.write_all(text)?;
    Ok(child.wait_with_output()?)
}

fn counts_as_json(text: &str, model: &str) -> anyhow::Result<Value> {
    let output = run_tokens(text.as_bytes(), &["--json", "--model", model])?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
fn a_japanese_text_is_estimated_by_the_tokenizer_of_its_model() -> anyhow::Result<()> {
    let openai = counts_as_json(JAPANESE, "gpt-4o")?;
    assert_eq!((&openai["tokenizer"], &openai["language"]), (&"openai".into(), &"ja".into()));
    // The accuracy of estimates is judged over a corpus; a single short sentence may be off by half.
    let exact = if cfg!(feature = "exact-tokens") { Value::from(14) } else { Value::Null };
    assert_eq!(openai["exact"], exact);
    assert!(openai["best"].as_u64().is_some_and(|best| (14..=21).contains(&best)), "{openai}");
    assert_eq!(openai["upper"], JAPANESE.len());
    let claude = counts_as_json(JAPANESE, "claude-sonnet")?;
    assert_eq!((&claude["exact"], &claude["confidence"]), (&Value::Null, &0.75.into()));
    assert_eq!(claude["classes"]["kanji"]["characters"], 5);
    assert_eq!(claude["classes"]["prose"], Value::Null);
    Ok(())
}

#[test]
fn an_english_file_is_reported_as_a_plain_table() -> anyhow::Result<()> {
    let path = file("tokens-english.txt", ENGLISH)?;
    let output = seawall(&["tokens", &path.to_string_lossy()]).output()?;
    let table = String::from_utf8(output.stdout)?;
    assert!(output.status.success() && !table.contains('\u{1b}'), "{table}");
    let value = |name: &str| -> Vec<String> {
        let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(value("upper bound"), ["42", "tokens"]);
    assert_eq!(
        (value("language"), value("confidence")),
        (vec!["en".to_owned()], vec!["85".to_owned(), "%".to_owned()])
    );
    assert_eq!(value("tokenizer"), ["generic"]);
    assert_eq!(value("prose").first().map(String::as_str), Some("42"));
    assert!(value("exact").is_empty() && value("kana").is_empty());
    Ok(())
}

#[test]
fn nothing_has_no_tokens() -> anyhow::Result<()> {
    let nothing = counts_as_json("", "gpt-4")?;
    assert_eq!((&nothing["best"], &nothing["upper"]), (&0.into(), &0.into()));
    Ok(())
}

#[test]
fn input_that_is_not_utf8_is_refused_with_exit_code_two() -> anyhow::Result<()> {
    let output = run_tokens(b"ab\xff", &[])?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        (output.status.code(), stderr.as_str()),
        (Some(2), "seawall: standard input is not valid UTF-8: invalid byte at offset 2\n")
    );
    let output = seawall(&["tokens", "no-such-file"]).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.starts_with("seawall: cannot read no-such-file"), "{stderr}");
    Ok(())
}

/// Runs a script of the corpus with this standard input.
fn node(script: &Path, more: &[&Path], input: &str) -> anyhow::Result<Value> {
    let mut child =
        Command::new("node").arg(script).args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("no way in")?.write_all(input.as_bytes())?;
    Ok(serde_json::from_slice(&child.wait_with_output()?.stdout)?)
}

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/tokens")
}

#[test]
fn the_stored_counts_are_those_of_the_vendor_s_published_tokenizer() -> anyhow::Result<()> {
    let (mut names, mut texts) = (Vec::new(), Vec::new());
    for kind in ["mixed", "json", "emoji"] {
        let file = fs::read_to_string(corpus().join(format!("corpus/{kind}.txt")))?;
        for sample in file.split("%% ").skip(1) {
            let (name, text) = sample.split_once('\n').context("a name and a text")?;
            names.push(format!("{kind}\t{name}\t"));
            texts.push(text.trim_end_matches('\n').to_owned());
        }
    }
    let library = installed("anthropic-tokenizer")?;
    let counted = node(&corpus().join("count.cjs"), &[&library], &serde_json::to_string(&texts)?)?;
    let stored = fs::read_to_string(corpus().join("counts.tsv"))?;
    for (place, name) in names.iter().enumerate() {
        let row = stored.lines().find_map(|line| line.strip_prefix(name.as_str())).context(name.clone())?;
        let claude: u64 = row.split('\t').next().unwrap_or_default().parse()?;
        assert_eq!(counted[place], claude, "{name}");
    }
    Ok(())
}

/// The count of this tokenizer for characters that expand under its normalisation.
#[test]
fn the_upper_bound_holds_for_characters_that_become_many() -> anyhow::Result<()> {
    let texts: Vec<String> = ["㌖", "ﷺ", "㍿", "½", "⑽", "㈱", "＠", "ﾊﾟ", "é\u{323}", "𝅘𝅥𝅲"]
        .iter()
        .map(|text| text.repeat(200))
        .collect();
    let library = installed("anthropic-tokenizer")?;
    let counted = node(&corpus().join("count.cjs"), &[&library], &serde_json::to_string(&texts)?)?;
    for (place, text) in texts.iter().enumerate() {
        let upper = counts_as_json(text, "claude-sonnet")?["upper"].as_u64().unwrap_or_default();
        let count = counted[place].as_u64().context("no count")?;
        assert!(upper >= count, "{text:.12}: {upper} is below {count}");
        assert!(upper >= text.len() as u64);
    }
    Ok(())
}

/// Every character, and letters with several marks, in the normal form that some tokenizers apply first (NFKC).
#[test]
fn no_text_grows_beyond_the_upper_bound_when_it_is_brought_into_its_compatibility_form() -> anyhow::Result<()>
{
    let grown = node(&corpus().join("growth.cjs"), &[], "")?;
    let grown = grown.as_array().context("no list")?;
    assert!(grown.len() > 900, "{}", grown.len());
    for entry in grown {
        let (text, bytes) = (entry[0].as_str().context("no text")?, entry[1].as_u64().context("no length")?);
        let max_bytes = seawall_core::tokens::TextCounts::of(text).max_bytes();
        assert!(max_bytes >= bytes, "{text:?}: {max_bytes} is below {bytes}");
    }
    Ok(())
}

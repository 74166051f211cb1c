//! No answer that stops exactly at its limit is stopped before, however it arrives.

use crate::corpus::{stored_counts, texts};
use seawall_core::tokens::{OutputLimit, OutputMeter, TokenizerFamily};
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokens")
}

/// Text as it stands inside a JSON string, as a vendor writes it: plain, or with everything escaped that can be.
fn escaped(text: &str, is_ascii: bool) -> String {
    let mut json = serde_json::to_string(text).unwrap();
    if is_ascii {
        let escape = |unit: u16| match u8::try_from(unit) {
            Ok(byte) if byte < 0x80 => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        };
        json = json.encode_utf16().map(escape).collect();
    }
    json[1..json.len() - 1].to_owned()
}

/// Sends a text in pieces, and says after how many it was stopped.
fn stopped_after(pieces: &[&str], limit: u64, family: TokenizerFamily, is_ascii: bool) -> Option<usize> {
    let (limit, mut meter) = (OutputLimit::new(limit), OutputMeter::default());
    pieces.iter().position(|piece| {
        meter.record_event();
        meter.add_json(escaped(piece, is_ascii).as_bytes());
        limit.is_exceeded(&mut meter, family)
    })
}

/// A text in this many pieces, at most one for each character.
fn cut(text: &str, pieces: usize) -> Vec<&str> {
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let pieces = pieces.clamp(1, borders.len());
    let border = |piece: usize| borders.get(piece * borders.len() / pieces).copied().unwrap_or(text.len());
    (0..pieces).map(|piece| &text[border(piece)..border(piece + 1)]).collect()
}

fn judge(text: &str, tokens: u64, family: TokenizerFamily, what: &str) {
    for limit in [tokens, tokens + 1, tokens * 2] {
        // In one event, in a few, in one for each token, and in one for each character.
        for pieces in [1, 3, usize::try_from(tokens).unwrap(), usize::MAX] {
            for is_ascii in [false, true] {
                let stopped = stopped_after(&cut(text, pieces), limit, family, is_ascii);
                assert_eq!(
                    stopped, None,
                    "{what}: {pieces} pieces of {tokens} tokens, limit {limit}, {family:?}"
                );
            }
        }
    }
}

#[test]
fn an_answer_that_stops_at_its_limit_is_never_stopped() {
    let samples = texts(&directory());
    let counts = stored_counts(&directory(), &samples);
    for (sample, counts) in samples.iter().zip(&counts) {
        for (family, tokens) in [
            (TokenizerFamily::Claude, counts.claude),
            (TokenizerFamily::OpenAi, counts.openai),
            (TokenizerFamily::OlderOpenAi, counts.older_openai),
        ] {
            judge(&sample.text, tokens, family, &format!("{} {}", sample.kind, sample.name));
        }
    }
}

#[test]
fn an_answer_that_goes_on_is_stopped() {
    let samples = texts(&directory());
    let counts = stored_counts(&directory(), &samples);
    for (sample, counts) in samples.iter().zip(&counts) {
        for (family, tokens) in
            [(TokenizerFamily::Claude, counts.claude), (TokenizerFamily::OpenAi, counts.openai)]
        {
            // Four times what is allowed, in one event or token by token.
            let limit = tokens / 4;
            let whole = usize::try_from(tokens).unwrap();
            let what = format!("{} {}: {tokens} tokens", sample.kind, sample.name);
            if tokens > 400 {
                assert!(stopped_after(&[&sample.text], limit, family, false).is_some(), "{what} at once");
            }
            if tokens > 40 {
                let stopped = stopped_after(&cut(&sample.text, whole), limit, family, true);
                assert!(stopped.is_some(), "{what} in a row");
            }
        }
    }
}

#[cfg(feature = "exact-tokens")]
mod exact {
    use super::judge;
    use seawall_core::tokens::{TokenizerFamily, exact_tokens};

    fn table(rows: usize) -> String {
        let mut text =
            "| name | volumes | first published | price |\n|:-----|--------:|:---------------:|------|\n"
                .to_owned();
        for row in 0..rows {
            text +=
                &format!("| Book {row} | {} | 20{:02}-04-01 | ${}.99 |\n", row * 7 % 40, row % 30, row % 9);
        }
        text
    }

    #[test]
    fn tables_json_and_rules_that_stop_at_their_limit_are_never_stopped() {
        let json = |rows: usize| {
            let row =
                |row: usize| serde_json::json!({ "id": row, "name": "本", "tags": ["a", "b"], "price": 1.5 });
            serde_json::to_string_pretty(&(0..rows).map(row).collect::<Vec<_>>()).unwrap()
        };
        let mut texts = vec![
            "-".repeat(20_000),
            " ".repeat(20_000),
            "=".repeat(79).repeat(1) + "\n",
            "a".repeat(5_000),
            "0".repeat(5_000),
            "ー".repeat(3_000),
            "\n".repeat(4_000),
            ("-".repeat(64) + "\n").repeat(200),
            ("|".to_owned() + &"-".repeat(40)).repeat(100),
            " word".repeat(3_000),
            "吾輩は猫である。名前はまだ無い。".repeat(100),
            "The quick brown fox jumps over the lazy dog. ".repeat(200),
        ];
        texts.extend([1, 5, 30, 200].map(table));
        texts.extend([1, 5, 30, 200].map(json));
        for text in &texts {
            for family in [TokenizerFamily::OpenAi, TokenizerFamily::OlderOpenAi] {
                let tokens = exact_tokens(family, text).unwrap();
                let beginning: String = text.chars().take(30).collect();
                judge(text, tokens, family, &beginning);
            }
        }
    }
}

//! Redaction: hides places where a secret may have been written, and texts that look like secrets.
//!
//! People paste secrets into the wrong places. A value is redacted where a secret was expected, under an unknown key,
//! and behind a word such as `password` in a line that is not TOML. Texts with the prefix of a vendor's secrets are
//! removed from all messages. **What it does not do.** It cannot recognise a password that stands where plain text
//! belongs.

use crate::problem::Problems;
use crate::source::{SettingOrigin, floor};
use crate::tree::{TomlNode, TomlValue};
use std::ops::Range;

/// Replaces redacted text.
pub(crate) const REDACTED: &str = "\u{2026}";

/// Prefixes of the secrets of well-known vendors.
const SECRET_PREFIXES: [&str; 13] = [
    "sk-",
    "sk_",
    "eyJ",
    "AKIA",
    "ASIA",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "AIza",
    "hf_",
];

/// A shorter text is an ordinary word that happens to have such a prefix.
const MIN_SECRET_BYTES: usize = 16;

/// Maximum length of a message.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// Parts of key names that suggest a secret.
const SECRET_KEY_PARTS: [&str; 11] =
    ["key", "secret", "token", "passw", "pwd", "credential", "auth", "bearer", "salt", "cookie", "private"];

/// Whether the value under a key of this name may be a secret.
pub(crate) fn suggests_secret(key: &str) -> bool {
    // `max_tokens` and the like are very common in these settings and no secrets.
    let key = key.to_ascii_lowercase().replace("tokens", "");
    SECRET_KEY_PARTS.iter().any(|name| key.contains(name))
}

/// Whether a word on its own suggests that a secret follows.
fn precedes_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["key", "secret", "token", "password", "passwd", "pwd", "credential", "bearer", "salt"]
        .iter()
        .any(|end| word.ends_with(end))
}

/// Redacts every value in a node. The keys of a table stay visible.
pub(crate) fn redact_values(node: &TomlNode, problems: &mut Problems) {
    match &node.value {
        TomlValue::Table(table) => table.values().for_each(|entry| redact_values(&entry.node, problems)),
        TomlValue::List(items) => items.iter().for_each(|item| redact_values(item, problems)),
        _ => problems.redact(node.origin),
    }
}

/// Redacts the rest of an unparsable line after a word that suggests a secret.
pub(crate) fn redact_line(text: &str, place: SettingOrigin, problems: &mut Problems) {
    let start =
        text.get(..floor(text, place.start)).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(start..).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    let mut from = 0;
    while let Some(begin) = line.get(from..).and_then(|rest| rest.find(is_part)).map(|at| from + at) {
        let rest = line.get(begin..).unwrap_or_default();
        let end = begin + rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let key = line.get(begin..end).unwrap_or_default();
        let after = line.get(end..).unwrap_or_default().trim_start_matches([' ', '\t', '"', '\'']);
        let value = after.trim_start_matches([' ', '\t', '"', '\'', '=', ':']);
        let is_assigned = after.starts_with(['=', ':']);
        let last = key.rsplit('.').next().unwrap_or_default();
        let is_secret = (is_assigned && suggests_secret(last)) || key.split('.').any(precedes_secret);
        if is_secret && !value.is_empty() && !value.starts_with("env:") && !value.starts_with("file:") {
            let hidden = start + line.len() - value.len();
            problems.redact(SettingOrigin { source: place.source, start: hidden, end: start + line.len() });
            return;
        }
        from = end;
    }
}

/// The ranges of a text that have the prefix of a vendor's secret.
pub(crate) fn find_secrets(text: &str) -> Vec<Range<usize>> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_-.+".contains(character);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(begin) = text.get(from..).and_then(|rest| rest.find(is_part)).map(|at| from + at) {
        let rest = text.get(begin..).unwrap_or_default();
        let length = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        // The steps of a dotted key are separate words.
        let mark = word.split('.').scan(0, |at, step| {
            let position = *at;
            *at += step.len() + 1;
            Some((position, step))
        });
        let is_marked = |step: &str| SECRET_PREFIXES.iter().any(|mark| step.starts_with(mark));
        let first = mark.into_iter().find(|(_, step)| is_marked(step)).map(|(at, _)| at);
        if let Some(at) = first.filter(|at| length - at >= MIN_SECRET_BYTES) {
            found.push(begin + at..begin + length);
        }
        from = begin + length;
    }
    found
}

/// A message without secrets, truncated to the maximum length.
pub(crate) fn sanitized(text: String) -> String {
    let mut out = text;
    for range in find_secrets(&out).into_iter().rev() {
        out.replace_range(range, REDACTED);
    }
    if out.len() > MAX_MESSAGE_BYTES {
        out.truncate(floor(&out, MAX_MESSAGE_BYTES));
        out.push_str(REDACTED);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{find_secrets, sanitized, suggests_secret};

    #[test]
    fn key_names_that_suggest_a_secret_are_recognised() {
        let secret =
            ["key", "api_key", "apiKey", "PASSWORD", "salt", "keys", "Authorization", "aws_access_key_id"];
        assert!(secret.into_iter().all(suggests_secret));
        assert!(!["model", "hash", "tokens", "request_tokens", "url"].into_iter().any(suggests_secret));
    }

    #[test]
    fn a_secret_is_recognised_by_its_prefix_and_length() {
        let found = |text: &str| -> Vec<(usize, usize)> {
            find_secrets(text).into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(found("x sk-345678901234 y"), []);
        assert_eq!(found("x sk-3456789012345 y"), [(2, 18)]);
        assert_eq!(found("keys.sk-3456789012345"), [(5, 21)]);
        assert_eq!(found("task-force-alpha-sierra"), []);
        assert_eq!(found("漫sk-3456789012345画AKIA567890123456"), [(3, 19), (22, 38)]);
    }

    #[test]
    fn a_message_is_truncated_at_a_character_boundary() {
        assert_eq!(sanitized("a sk-3456789012345.".to_owned()), "a \u{2026}");
        assert_eq!(sanitized("x".repeat(1_000)).len(), 1_000);
        assert_eq!(sanitized("漫".repeat(400)), "漫".repeat(333) + "\u{2026}");
    }
}

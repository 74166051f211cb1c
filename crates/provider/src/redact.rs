//! Redacts credentials in vendors' messages.
//!
//! A vendor's error message may quote the key of the call, or name the account behind it. Callers of the gateway must
//! see neither. Whatever looks like a credential is replaced as a whole, because a part of it can be enough to find the
//! rest:
//!
//! - keys by their prefix (`sk-`, `sk-ant-`, `gsk_`, `AIza`, …), complete or masked with asterisks;
//! - AWS access key IDs (`AKIA…`, `ASIA…`), and ARNs, which contain account IDs;
//! - JSON Web Tokens, and whatever follows `Bearer`;
//! - values of parameters such as `api_key=`.
//!
//! The target's own key is redacted whatever it looks like: [`redact_secrets`].

/// The replacement for a credential.
const REDACTED: &str = "[redacted]";

/// Prefixes of keys, with the minimum length of a key.
const PREFIXES: [(&str, usize); 14] = [
    ("sk-", 10),
    ("sk_", 10),
    ("pk-", 16),
    ("rk_", 10),
    ("gsk_", 10),
    ("xai-", 10),
    ("hf_", 10),
    ("sw_", 10),
    ("sess-", 10),
    ("AIza", 20),
    ("ghp_", 10),
    ("ABSK", 20),
    ("bedrock-api-key-", 17),
    ("eyJ", 30),
];

/// Prefixes of AWS access key IDs: of users, of sessions, and of bearer tokens.
const ACCESS_KEYS: [&str; 3] = ["AKIA", "ASIA", "ABIA"];
const ACCESS_KEY_LENGTH: usize = 16;

/// Parameter names whose values are credentials, in lower case.
const PARAMETER_NAMES: [&str; 9] = [
    "api_key=",
    "api-key=",
    "apikey=",
    "x-api-key:",
    "x-goog-api-key:",
    "access_token=",
    "?key=",
    "&key=",
    "credential=",
];

/// A shorter secret could be an ordinary word of any text.
const MIN_SECRET_LENGTH: usize = 6;

/// Redacts whatever looks like a credential; `None` if there is nothing to redact.
#[must_use]
pub fn redact(text: &str) -> Option<String> {
    let mut out = String::new();
    // The text before this offset has been copied.
    let mut copied = 0;
    let mut is_after_bearer = false;
    for (start, word) in words(text) {
        let is_credential = (is_after_bearer && word.len() >= MIN_SECRET_LENGTH)
            || is_key(word)
            || follows_parameter_name(text, start);
        is_after_bearer = word.eq_ignore_ascii_case("bearer");
        if is_credential && start >= copied {
            // A colon or a slash ends neither an ARN nor the scope after an access key.
            let end = start + credential_length(text.get(start..).unwrap_or_default());
            out.push_str(text.get(copied..start).unwrap_or_default());
            out.push_str(REDACTED);
            copied = end;
        }
    }
    if out.is_empty() {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// Redacts these secrets.
#[cfg(feature = "client")]
pub(crate) fn redact_secrets<'a>(text: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    let mut text = text.to_owned();
    for secret in secrets.filter(|secret| secret.len() >= MIN_SECRET_LENGTH) {
        if text.contains(secret) {
            text = text.replace(secret, REDACTED);
        }
    }
    text
}

/// Runs of characters that credentials consist of, with their positions.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_.*".contains(character);
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + text.get(rest..)?.find(is_part)?;
        let word = text.get(start..)?;
        let word = word.get(..word.find(|character| !is_part(character)).unwrap_or(word.len()))?;
        rest = start + word.len();
        Some((start, word))
    })
}

fn is_key(word: &str) -> bool {
    let begins = |(prefix, shortest): &(&str, usize)| word.len() >= *shortest && word.starts_with(prefix);
    let is_access_key = ACCESS_KEYS.iter().any(|prefix| word.starts_with(prefix))
        && word.len() >= ACCESS_KEY_LENGTH
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'*');
    PREFIXES.iter().any(begins) || is_access_key || word == "arn"
}

fn follows_parameter_name(text: &str, start: usize) -> bool {
    let before = text.get(..start).unwrap_or_default().trim_end_matches(' ').as_bytes();
    let ends = |name: &&str| {
        before
            .len()
            .checked_sub(name.len())
            .and_then(|from| before.get(from..))
            .is_some_and(|end| end.eq_ignore_ascii_case(name.as_bytes()))
    };
    PARAMETER_NAMES.iter().any(ends)
}

/// The length of a credential: up to the next blank, quote, bracket or comma, without the full stop of its sentence.
fn credential_length(text: &str) -> usize {
    let ends = |character: char| character.is_whitespace() || "\"'`,;()[]{}<>&".contains(character);
    let word = text.get(..text.find(ends).unwrap_or(text.len())).unwrap_or_default();
    word.trim_end_matches(['.', ':', '?', '!']).len()
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn what_looks_like_a_credential_is_taken_out() {
        for (text, expected) in [
            ("Incorrect API key provided: sk-proj-abc123DEF456.", "Incorrect API key provided: [redacted]."),
            ("key sk-ant-api03-AAAA_bbbb-cccc is over", "key [redacted] is over"),
            ("sk-ab******************yz?", "[redacted]?"),
            (
                "header 'Authorization: Bearer abc.def' is wrong",
                "header 'Authorization: Bearer [redacted]' is wrong",
            ),
            ("bearer  hush-hush", "bearer  [redacted]"),
            ("The key AKIAIOSFODNN7EXAMPLE and ASIAIOSFODNN7EXAMPLE,", "The key [redacted] and [redacted],"),
            (
                "User: arn:aws:iam::123456789012:user/me is not allowed on arn:aws-cn:bedrock:eu:123456789012:x/y-1.",
                "User: [redacted] is not allowed on [redacted].",
            ),
            ("Credential=AKIAIOSFODNN7EXAMPLE/20260101/us/bedrock", "Credential=[redacted]"),
            ("https://host/v1?key=AIzaSyA&alt=1", "https://host/v1?key=[redacted]&alt=1"),
            ("x-api-key: plain-word", "x-api-key: [redacted]"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2ln", "[redacted]"),
            ("漫画 sk-0123456789 漫画", "漫画 [redacted] 漫画"),
        ] {
            assert_eq!(redact(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_stays() {
        for text in [
            "",
            "max_tokens: 100000 > 8192, which is the maximum",
            "messages.0.content: sk- is no key, nor is task-based work or a desk-",
            "the bearer of this message",
            "unlearned AKIA; arnold",
            "key=value 漫画を読む",
        ] {
            assert_eq!(redact(text), None, "{text}");
        }
    }
}

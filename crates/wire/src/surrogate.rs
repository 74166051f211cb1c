//! Replaces lone surrogates in JSON that a vendor sends.
//!
//! JSON can encode half of a surrogate pair (`"\ud83d"`), and some servers do so when a stream splits a character. No
//! Rust string can hold it. Code that only forwards bytes is not affected; code that needs the text reads U+FFFD
//! instead, as UTF-8 decoders do, because an answer with one broken character is better than no answer.

/// The escape that replaces a lone surrogate.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Returns the JSON with U+FFFD in place of each lone surrogate; `None` if there is none.
pub(crate) fn replace_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        let Some(unit) = unit_at(json, at) else {
            // Another escape, or the end of the input.
            at += 2;
            continue;
        };
        let is_pair = (0xD800..0xDC00).contains(&unit)
            && unit_at(json, at + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if is_pair {
            at += 12;
            continue;
        }
        if (0xD800..0xE000).contains(&unit) {
            out.extend_from_slice(json.get(copied..at)?);
            out.extend_from_slice(REPLACEMENT);
            copied = at + 6;
        }
        at += 6;
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(json.get(copied..)?);
    Some(out)
}

/// The code unit of an escape such as `\ud83d` at this offset.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |number: u16, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::replace_lone_surrogates;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    fn replaced(json: &str) -> Option<String> {
        replace_lone_surrogates(json.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn halves_are_replaced_and_pairs_stay() {
        for (json, expected) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""\ude00\ud83d\ude00\uD83D x""#, Some(r#""\ufffd\ud83d\ude00\ufffd x""#)),
            (r#""\ud83d\n\ud83d\u0041""#, Some(r#""\ufffd\n\ufffd\u0041""#)),
            (r#""\ud83d\ude00 \u0041 \\ud83d""#, None),
            (r#""\\\ud83d""#, Some(r#""\\\ufffd""#)),
            ("", None),
            (r"\", None),
            (r"\u12", None),
        ] {
            assert_eq!(replaced(json).as_deref(), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn the_result_is_valid_text(units in prop::collection::vec(any::<u16>(), 0..20)) {
            let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("\"{json}\"");
            let lossy = String::from_utf16_lossy(&units);
            let replaced = replace_lone_surrogates(json.as_bytes());
            prop_assert_eq!(replaced.is_some(), String::from_utf16(&units).is_err());
            let text: String = serde_json::from_slice(&replaced.unwrap_or(json.into_bytes())).unwrap();
            prop_assert_eq!(text, lossy);
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(replace_lone_surrogates(&bytes).is_none_or(|replaced| replaced.len() == bytes.len()));
        }
    }
}

//! How deep brackets nest.
//!
//! Asked before anything is parsed, so that no reader behind it meets a body that is built to exhaust its
//! stack.

/// Whether brackets outside of strings nest deeper than `limit`. Of bytes that are not JSON it may say either.
pub(crate) fn nests_deeper_than(limit: usize, json: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(json, at),
            _ => {}
        }
    }
    false
}

/// The place behind the quote that ends the string whose content begins at `at`.
fn string_end(json: &[u8], mut at: usize) -> usize {
    loop {
        let rest = json.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            None => return json.len(),
            Some(found) if rest[found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nests_deeper_than;

    #[test]
    fn only_brackets_outside_of_strings_count() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":[]}],"c":[]}"#, 4),
            (r#"["[[[[", "\"[[[[", "\\", [1]]"#, 2),
            ("[[[", 3),
            ("]]]][", 1),
            (r#"[""#, 1),
            (r#"["\"#, 1),
        ] {
            assert!(!nests_deeper_than(depth, json.as_bytes()), "{json}");
            assert!(depth == 0 || nests_deeper_than(depth - 1, json.as_bytes()), "{json}");
        }
    }
}

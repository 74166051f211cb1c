//! Limits nesting depth and list length of a JSON body before it is parsed.
//!
//! The check runs first, so that no parser receives a body that is built to exhaust its stack or memory, and so that a
//! body that only passes through is held to the same limits as one that is parsed. One pass over the bytes checks both
//! limits.
//!
//! **What it does not do.** It does not validate JSON: for other bytes the result is arbitrary. It does not count lists
//! deep inside the body, such as those in a tool's input; the depth and body size limits bound those.

/// Lists are counted in this many outer levels: turns are at level 2, parts of a turn at level 4, parts of a tool
/// result at level 6. Tool inputs begin below.
const COUNTED_LEVELS: usize = 6;
/// Field names in error messages are truncated to this length.
const MAX_NAME_LENGTH: usize = 64;

/// Result of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BracketDecision {
    /// The body is within both limits.
    Fits,
    /// The nesting depth exceeds the limit.
    TooDeep,
    /// A list in the outer levels has too many items. Carries the offset of the comma before the first excess item.
    TooMany(usize),
}

/// Whether brackets outside of strings nest deeper than `limit`. For bytes that are not JSON the result is arbitrary.
pub(crate) fn nests_deeper_than(limit: usize, json: &[u8]) -> bool {
    check_brackets(json, limit, usize::MAX) == BracketDecision::TooDeep
}

/// Checks that brackets outside of strings nest at most `limit` deep, and that no list in the outer levels has more
/// than `max_items` items.
pub(crate) fn check_brackets(json: &[u8], limit: usize, max_items: usize) -> BracketDecision {
    // Remaining commas per outer level. Objects and the outermost bracket are not limited.
    let mut left = [usize::MAX; COUNTED_LEVELS + 1];
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return BracketDecision::TooDeep;
                }
                if let Some(left) = left.get_mut(depth) {
                    let is_counted = *byte == b'[' && depth > 1;
                    *left = if is_counted { max_items.saturating_sub(1) } else { usize::MAX };
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => {
                if let Some(left) = left.get_mut(depth) {
                    let Some(fewer) = left.checked_sub(1) else { return BracketDecision::TooMany(at - 1) };
                    *left = fewer;
                }
            }
            b'"' => at = string_end(json, at),
            _ => {}
        }
    }
    BracketDecision::Fits
}

/// One open bracket on the path to an offset.
#[derive(Default)]
struct PathStep<'a> {
    is_list: bool,
    /// Number of items of the list before the one on the path.
    before: usize,
    /// The field of the object on the path.
    name: &'a [u8],
}

/// The path of the innermost bracket around an offset, as shown to callers: `messages.3.content`. It scans the body a
/// second time up to that offset, so it is only used to build an error message.
pub(crate) fn path_at(json: &[u8], offset: usize) -> String {
    let mut steps: Vec<PathStep<'_>> = Vec::new();
    let mut text: &[u8] = &[];
    let mut at = 0;
    while let (true, Some(byte)) = (at < offset, json.get(at)) {
        at += 1;
        match byte {
            b'{' | b'[' => steps.push(PathStep { is_list: *byte == b'[', ..PathStep::default() }),
            b'}' | b']' => drop(steps.pop()),
            b',' => steps.iter_mut().next_back().into_iter().for_each(|step| step.before += 1),
            b':' => steps.iter_mut().next_back().into_iter().for_each(|step| step.name = text),
            b'"' => {
                let end = string_end(json, at);
                text = json.get(at..end.saturating_sub(1)).unwrap_or_default();
                at = end;
            }
            _ => {}
        }
    }
    steps.pop();
    let segments =
        steps.iter().map(|step| if step.is_list { step.before.to_string() } else { printable(step.name) });
    segments.collect::<Vec<_>>().join(".")
}

fn printable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name.get(..MAX_NAME_LENGTH).unwrap_or(name)).into_owned();
    text.chars().filter(|character| !character.is_control()).collect()
}

/// The offset after the closing quote of the string whose content begins at `at`.
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
    use super::{BracketDecision, MAX_NAME_LENGTH, check_brackets, nests_deeper_than, path_at};

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

    #[test]
    fn lists_near_the_top_are_counted_and_nothing_else_is() {
        for (json, path) in [
            (r#"{"a":[1,2],"b":[1,2],"c":3,"d":4,"e":5}"#, None),
            (r#"{"a":["1,,,2","\",,"]}"#, None),
            (r#"{"a":[[1,2],[3,4]],"b":[{"c":1,"d":2,"e":3}]}"#, None),
            // A list as the body is reported as another error, not by this check.
            ("[1,2,3]", None),
            (r#"{"a":[1,2,3]}"#, Some("a")),
            (r#"{"b":"x:y","a":[1,2,3]}"#, Some("a")),
            (r#"{"messages":[{},{"role":"user","content":[1,{"x":[1,2]},3]}]}"#, Some("messages.1.content")),
            (r#"{"a":[{"b":[{"c":[1,2,3]}]}]}"#, Some("a.0.b.0.c")),
            (r#"{"a":[{"b":[{"c":{"d":[1,2,3]}}]}]}"#, None),
            ("{\"a\u{1}b\":[1,2,3]}", Some("ab")),
        ] {
            let found = match check_brackets(json.as_bytes(), 64, 2) {
                BracketDecision::TooMany(at) => Some(path_at(json.as_bytes(), at)),
                other => {
                    assert_eq!(other, BracketDecision::Fits, "{json}");
                    None
                }
            };
            assert_eq!(found.as_deref(), path, "{json}");
        }
        let long = format!(r#"{{"{}":[1,2,3]}}"#, "n".repeat(1_000));
        let BracketDecision::TooMany(at) = check_brackets(long.as_bytes(), 64, 2) else { panic!() };
        assert_eq!(path_at(long.as_bytes(), at).len(), MAX_NAME_LENGTH);
    }
}

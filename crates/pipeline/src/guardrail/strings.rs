//! Scans the strings of a JSON text.
//!
//! It accepts everything that a JSON parser accepts, and continues where a parser would stop: invalid JSON is scanned
//! as far as possible, so that malformed input cannot hide a string.

/// The next token of a JSON text, as far as strings and nesting are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Start of an object or a list.
    Open,
    /// End of an object or a list.
    Close,
    /// A field name.
    Name,
    /// A string value.
    Text,
}

/// Iterates over the strings of a JSON text.
pub(super) struct Strings<'a> {
    rest: &'a [u8],
    /// The last string, unescaped.
    pub(super) text: String,
}

impl<'a> Strings<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { rest: body, text: String::new() }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Token> {
        let start = self.rest.iter().position(|byte| b"\"{}[]".contains(byte))?;
        let found = *self.rest.get(start)?;
        self.rest = self.rest.get(start + 1..)?;
        match found {
            b'"' => self.string(),
            b'{' | b'[' => Some(Token::Open),
            _ => Some(Token::Close),
        }
    }

    fn string(&mut self) -> Option<Token> {
        self.text.clear();
        loop {
            let end = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            self.text.push_str(&String::from_utf8_lossy(self.rest.get(..end)?));
            let is_end = self.rest.get(end) == Some(&b'"');
            self.rest = self.rest.get(end + 1..)?;
            if is_end {
                break;
            }
            self.escape()?;
        }
        let behind = self.rest.iter().find(|byte| !byte.is_ascii_whitespace());
        Some(if behind == Some(&b':') { Token::Name } else { Token::Text })
    }

    /// Decodes what follows a backslash.
    fn escape(&mut self) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.text.push(match first {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'u' => {
                let high = self.unit()?;
                let low = if matches!(high, 0xD800..=0xDBFF) && self.rest.starts_with(b"\\u") {
                    self.rest = self.rest.get(2..)?;
                    Some(self.unit()?)
                } else {
                    None
                };
                let units = [high, low.unwrap_or_default()];
                let units = if low.is_some() { &units[..] } else { &units[..1] };
                self.text.push_str(&String::from_utf16_lossy(units));
                return Some(());
            }
            other => char::from(*other),
        });
        Some(())
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = str::from_utf8(self.rest.get(..4)?).ok()?;
        self.rest = self.rest.get(4..)?;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Strings, Token};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::json;

    #[test]
    fn nesting_is_reported_and_brackets_inside_of_strings_are_text() {
        let body = json!({ "a}": ["[{", { "b": 1 }] }).to_string();
        let mut strings = Strings::new(body.as_bytes());
        let tokens: Vec<_> = std::iter::from_fn(|| strings.next()).collect();
        let (open, close) = (Token::Open, Token::Close);
        assert_eq!(tokens, [open, Token::Name, open, Token::Text, open, Token::Name, close, close, close]);
    }

    proptest! {
        #[test]
        fn a_string_is_read_as_any_json_reader_reads_it(text in any::<String>(), name in "[a-z]{1,8}") {
            // Escapes make no difference.
            let plain = json!({ &name: [1, { "x": &text }] }).to_string();
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            for body in [plain, format!("{{\"x\" : \"{escaped}\"}}")] {
                let mut strings = Strings::new(body.as_bytes());
                let mut last = None;
                while let Some(token) = strings.next() {
                    if token == Token::Text {
                        last = Some(strings.text.clone());
                    }
                }
                prop_assert_eq!(last.as_deref(), Some(text.as_str()));
            }
        }
    }
}

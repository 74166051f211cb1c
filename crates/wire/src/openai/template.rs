//! Recognises the chunks of a stream that differ from an earlier one in their text alone.
//!
//! All chunks of an answer repeat its id, its model and a dozen fields around a few characters of text. Parsing them all
//! is most of the cost of observing a stream. After one chunk was parsed, the bytes around its text are kept: a chunk
//! with the same bytes around another plain text has the same meaning. Anything else is parsed.

use std::ops::Range;

/// The bytes around the text of a chunk.
#[derive(Debug)]
pub(super) struct ChunkTemplate {
    /// Up to the text, with its opening quote.
    before: Box<[u8]>,
    /// From the closing quote of the text to the end, or to the padding.
    after: Box<[u8]>,
    /// From the closing quote of the padding to the end, if the chunk has padding.
    after_padding: Option<Box<[u8]>>,
}

/// The field with which OpenAI hides the lengths of tokens: a text of random length.
const PADDING: &[u8] = b"\"obfuscation\":\"";

impl ChunkTemplate {
    /// The template of a chunk whose text, without its quotes, has this range.
    pub(super) fn new(chunk: &[u8], text: Range<usize>) -> Option<Self> {
        let (before, after) = (chunk.get(..text.start)?, chunk.get(text.end..)?);
        let (after, after_padding) = match memchr::memmem::find(after, PADDING) {
            None => (after, None),
            Some(at) => {
                let (after, padded) = after.split_at(at + PADDING.len());
                (after, Some(padded.get(plain_length(padded)?..)?.into()))
            }
        };
        Some(Self { before: before.into(), after: after.into(), after_padding })
    }

    /// The text of a chunk with this template, without its quotes; `None` if the chunk has another shape, or a text that
    /// is empty or not plain.
    pub(super) fn text_of<'a>(&self, chunk: &'a [u8]) -> Option<&'a [u8]> {
        let rest = chunk.strip_prefix(&*self.before)?;
        let length = plain_length(rest)?;
        let (text, rest) = rest.split_at(length);
        let rest = rest.strip_prefix(&*self.after)?;
        let is_whole = match &self.after_padding {
            None => rest.is_empty(),
            Some(last) => rest.get(plain_length(rest)?..)? == &**last,
        };
        (is_whole && !text.is_empty()).then_some(text)
    }
}

/// The length of the JSON string that starts here, up to its closing quote, if it has no escapes.
fn plain_length(bytes: &[u8]) -> Option<usize> {
    let length = memchr::memchr2(b'"', b'\\', bytes)?;
    let text = &bytes[..length];
    let is_plain =
        bytes[length] == b'"' && text.iter().all(|byte| *byte >= b' ') && str::from_utf8(text).is_ok();
    is_plain.then_some(length)
}

#[cfg(test)]
mod tests {
    use super::ChunkTemplate;

    fn template(chunk: &str, text: &str) -> Option<ChunkTemplate> {
        let start = chunk.find(text).unwrap();
        ChunkTemplate::new(chunk.as_bytes(), start..start + text.len())
    }

    #[test]
    fn only_another_plain_text_matches() {
        let chunk = |text: &str| {
            format!(r#"{{"id":"a","choices":[{{"delta":{{"content":"{text}"}}}}],"usage":null}}"#)
        };
        let known = template(&chunk("first"), "first").unwrap();
        for text in ["x", "漫画 🚂", "a, b: [c] {d}"] {
            assert_eq!(known.text_of(chunk(text).as_bytes()), Some(text.as_bytes()), "{text}");
        }
        for text in ["", "\\n", "\\\"", "a\tb", "\",\"refusal\":\"no"] {
            assert_eq!(known.text_of(chunk(text).as_bytes()), None, "{text}");
        }
        for other in [
            chunk("x").replace("null", "{}"),
            chunk("x").replace("\"a\"", "\"b\""),
            chunk("x").replace('}', " }"),
            chunk("x") + " ",
            String::new(),
        ] {
            assert_eq!(known.text_of(other.as_bytes()), None, "{other}");
        }
        assert_eq!(known.text_of(&[chunk("x").as_bytes(), b"\xff"].concat()), None);
        let broken = chunk("x").into_bytes().into_iter().map(|byte| if byte == b'x' { 0xff } else { byte });
        assert_eq!(known.text_of(&broken.collect::<Vec<_>>()), None);
    }

    #[test]
    fn padding_may_have_any_length() {
        let chunk =
            |text: &str, padding: &str| format!(r#"{{"content":"{text}","obfuscation":"{padding}"}}"#);
        let known = template(&chunk("first", "abc"), "first").unwrap();
        for padding in ["", "a", "abcdefgh"] {
            assert_eq!(known.text_of(chunk("x", padding).as_bytes()), Some(&b"x"[..]), "{padding}");
        }
        assert_eq!(known.text_of(chunk("x", "\\n").as_bytes()), None);
        assert_eq!(known.text_of(br#"{"content":"x"}"#), None);
    }
}

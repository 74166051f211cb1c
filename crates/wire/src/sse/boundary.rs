//! Finds event boundaries in a chunk without parsing it.

/// The number of bytes of a chunk up to the end of the last event that it completes. `before` holds the bytes since the
/// previous event boundary. Only after that many bytes may another event be inserted into the stream.
///
/// A line feed at the start of a chunk, after a chunk that ended with a carriage return, looks like an empty line. It
/// is counted as a boundary, which is harmless: forwarding it alone has no meaning to a reader.
///
/// ```
/// use seawall_wire::sse::whole_length;
///
/// assert_eq!(whole_length(b"", b"data: a\n\ndata: b"), 9);
/// assert_eq!(whole_length(b"data: b", b"c\n"), 0);
/// assert_eq!(whole_length(b"data: bc\n", b"\ndata"), 1);
/// ```
#[must_use]
pub fn whole_length(before: &[u8], piece: &[u8]) -> usize {
    let is_line_end = |byte: u8| matches!(byte, b'\n' | b'\r');
    // Search backwards: most chunks end at an event boundary.
    for (at, byte) in piece.iter().copied().enumerate().rev().filter(|(_, byte)| is_line_end(*byte)) {
        let previous = match at.checked_sub(1) {
            Some(at) => piece.get(at).copied(),
            None => before.last().copied(),
        };
        // At the start of the stream, or after a boundary, every line ending is an empty line.
        let is_empty_line = match previous {
            None => true,
            Some(b'\r') if byte == b'\n' => {
                // CR LF is one line ending; the byte before it decides.
                let length = before.len().saturating_add(at);
                let earlier = length.checked_sub(2).and_then(|index| match index.checked_sub(before.len()) {
                    Some(index) => piece.get(index),
                    None => before.get(index),
                });
                earlier.copied().is_none_or(is_line_end)
            }
            Some(previous) => is_line_end(previous),
        };
        if is_empty_line {
            return at.saturating_add(1);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::whole_length;
    use crate::sse::{SseEnding, SseLimits, SseReader};
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn every_kind_of_empty_line_ends_an_event() {
        for (before, piece, whole) in [
            ("", "", 0),
            ("", "\n", 1),
            ("", "\r\n", 2),
            ("", "a", 0),
            ("", "a\n", 0),
            ("", "a\r", 0),
            ("", "a\r\n", 0),
            ("", "a\n\n", 3),
            ("", "a\r\r", 3),
            ("", "a\n\r", 3),
            ("", "a\r\n\n", 4),
            ("", "a\r\n\r", 4),
            ("", "a\r\n\r\n", 5),
            ("", "a\n\nb\n\nc\nd", 6),
            ("a\n", "\n", 1),
            ("a\n", "b\n", 0),
            ("a\r", "\n", 0),
            ("a\r\n", "\r\n", 2),
            ("a\r", "\nb", 0),
            ("a\r", "\r\nb", 2),
        ] {
            assert_eq!(whole_length(before.as_bytes(), piece.as_bytes()), whole, "{before:?} {piece:?}");
        }
    }

    proptest! {
        #[test]
        fn a_reader_that_gets_no_more_is_between_two_events(text in "(data:|event:|:|x|\n|\r\n|\n\n){0,12}", at: usize) {
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(at % (bytes.len() + 1));
            let whole = whole_length(b"", first);
            let held = &first[whole..];
            let more = whole_length(held, second);
            let end = if more > 0 { first.len() + more } else { whole };
            let mut reader = SseReader::new(SseLimits::default());
            reader.feed(&bytes[..end], |_| ()).unwrap();
            prop_assert_eq!(reader.finish(), SseEnding::Clean);
            let mut rest = 0;
            let mut counter = SseReader::new(SseLimits::default());
            counter.feed(&bytes[end..], |_| rest += 1).unwrap();
            prop_assert_eq!(rest, 0, "an event ended in what was held back");
        }
    }
}

//! Where events end in a piece, without reading them.

/// How many bytes of a piece belong to events that end in it. `before` is what came since the last end. Only behind so
/// many bytes can something else be written.
///
/// A line feed at the start of a piece whose carriage return ended the piece before looks like an empty line. It is
/// counted, and means nothing where it goes.
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
    // From the back: most pieces end where an event does.
    for (at, byte) in piece.iter().copied().enumerate().rev().filter(|(_, byte)| is_line_end(*byte)) {
        let previous = match at.checked_sub(1) {
            Some(at) => piece.get(at).copied(),
            None => before.last().copied(),
        };
        // At the start of a stream, or behind an end, every line end is an empty line.
        let is_empty_line = match previous {
            None => true,
            Some(b'\r') if byte == b'\n' => {
                // The two are one line end; what is before them decides.
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

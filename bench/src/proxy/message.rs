//! Just enough HTTP/1.1 to find where a message ends. Only for the benchmark's own traffic on loopback.

/// The end of the head in `bytes`, after its empty line.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

/// How the end of a body is determined.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MessageFraming {
    Length(usize),
    Chunked,
}

pub(crate) fn framing(head: &[u8]) -> Option<MessageFraming> {
    let text = std::str::from_utf8(head).ok()?;
    text.split("\r\n").skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") {
            return value.trim().parse().ok().map(MessageFraming::Length);
        }
        name.eq_ignore_ascii_case("transfer-encoding").then_some(MessageFraming::Chunked)
    })
}

/// The state of a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChunkedBody {
    /// Not all of it has arrived.
    Incomplete,
    /// It is complete, ends here, and does or does not match what was expected.
    Whole { end: usize, matches: bool },
}

/// Reads a chunked body from its beginning and compares it with what is expected.
pub(crate) fn read_chunks(bytes: &[u8], mut expected: &[u8]) -> Option<ChunkedBody> {
    let (mut at, mut matches) = (0, true);
    loop {
        let Some(line) = find(&bytes[at..], b"\r\n") else { return Some(ChunkedBody::Incomplete) };
        let size = std::str::from_utf8(&bytes[at..at + line]).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let start = at + line + 2;
        let end = start + size + 2;
        let Some(chunk) = bytes.get(start..end) else { return Some(ChunkedBody::Incomplete) };
        let chunk = &chunk[..size];
        if size == 0 {
            return Some(ChunkedBody::Whole { end, matches: matches && expected.is_empty() });
        }
        match expected.strip_prefix(chunk) {
            Some(rest) => expected = rest,
            None => matches = false,
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkedBody, MessageFraming, framing, head_end, read_chunks};

    #[test]
    fn a_head_tells_where_its_body_ends() {
        let head = b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 12\r\n\r\nrest";
        assert_eq!(head_end(head), Some(head.len() - 4));
        assert_eq!(framing(head), Some(MessageFraming::Length(12)));
        assert_eq!(
            framing(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
            Some(MessageFraming::Chunked)
        );
        assert_eq!(framing(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }

    #[test]
    fn chunks_are_compared_however_they_are_cut() {
        let whole = b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
        let end = whole.len();
        assert_eq!(read_chunks(whole, b"abcde"), Some(ChunkedBody::Whole { end, matches: true }));
        for wrong in [&b"abcd"[..], b"abcdef", b"abXde"] {
            assert_eq!(read_chunks(whole, wrong), Some(ChunkedBody::Whole { end, matches: false }));
        }
        for cut in 0..end {
            assert_eq!(read_chunks(&whole[..cut], b"abcde"), Some(ChunkedBody::Incomplete), "{cut}");
        }
        assert_eq!(read_chunks(b"zz\r\n", b""), None);
    }
}

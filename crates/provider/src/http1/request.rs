//! Requests.

use super::endpoint::Endpoint;
use super::failure::SendFailure;
use bytes::Bytes;
use std::io::Write as _;

/// One request. The client adds `host` and `content-length`; every other header comes from the caller.
#[derive(Clone, Debug)]
pub struct HttpRequest<'a, Text = &'a str> {
    /// `GET`, `POST` and so on.
    pub method: &'static str,
    /// Path and query, beginning with a slash.
    pub path: &'a str,
    /// Names and values, in the order in which they are sent.
    pub headers: &'a [(Text, Text)],
    /// The complete body. Empty with `GET` means none.
    pub body: Bytes,
    /// Whether to send once more if a pooled connection turns out to have been closed; see [`send()`](super::send()).
    pub resend_on_stale: bool,
}

/// Written by the client itself; a caller's value could contradict what is sent.
const RESERVED_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

impl<Text: AsRef<str>> HttpRequest<'_, Text> {
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Rejects header injection: a line break in a value would start another header.
    pub(crate) fn check(&self) -> Result<(), SendFailure> {
        let refuse = |problem| Err(SendFailure::InvalidRequest(problem));
        if self.method.is_empty() || !self.method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return refuse("the method must consist of uppercase letters");
        }
        if !self.path.starts_with('/') || !self.path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("the path must begin with a slash and contain only visible ASCII characters");
        }
        for (name, value) in self.headers() {
            if name.is_empty() || !name.bytes().all(is_token_byte) {
                return refuse("a header name contains an invalid character");
            }
            // Without an early exit, so that the loop is vectorized.
            let is_control = |byte: u8| byte.is_ascii_control() & (byte != b'\t');
            if value.bytes().fold(false, |found, byte| found | is_control(byte)) {
                return refuse("the header value contains a control character");
            }
            if RESERVED_HEADERS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
                return refuse("the header is set by the HTTP client itself");
            }
        }
        Ok(())
    }

    /// Writes the request head into the buffer, replacing its content.
    pub(super) fn write_head(&self, endpoint: &Endpoint, head: &mut Vec<u8>) {
        head.clear();
        let mut append =
            |parts: &[&str]| parts.iter().for_each(|part| head.extend_from_slice(part.as_bytes()));
        append(&[self.method, " ", self.path, " HTTP/1.1\r\nhost: ", endpoint.authority(), "\r\n"]);
        for (name, value) in self.headers() {
            append(&[name, ": ", value, "\r\n"]);
        }
        // Without `content-length: 0`, some servers wait for the body of a POST.
        if !self.body.is_empty() || matches!(self.method, "POST" | "PUT" | "PATCH") {
            // Writing to memory cannot fail.
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        head.extend_from_slice(b"\r\n");
    }
}

/// Whether a byte is valid in a header name and other HTTP tokens.
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::HttpRequest;
    use crate::http1::{Endpoint, Scheme, SendFailure};
    use bytes::Bytes;

    fn request<'a>(path: &'a str, headers: &'a [(&'a str, &'a str)]) -> HttpRequest<'a> {
        HttpRequest { method: "POST", path, headers, body: Bytes::from_static(b"{}"), resend_on_stale: true }
    }

    #[test]
    fn the_head_is_written_as_http() {
        let endpoint = Endpoint::new(Scheme::Http, "api.example.com", 80).unwrap();
        let mut head = b"what was there".to_vec();
        let headers = [("x-api-key", "secret"), ("accept", "text/event-stream")];
        request("/v1/messages?beta=true", &headers).write_head(&endpoint, &mut head);
        let expected = "POST /v1/messages?beta=true HTTP/1.1\r\nhost: api.example.com\r\nx-api-key: secret\r\n\
                        accept: text/event-stream\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
    }

    #[test]
    fn only_a_request_that_can_have_a_body_has_a_content_length() {
        let endpoint = Endpoint::new(Scheme::Http, "localhost", 80).unwrap();
        let mut head = Vec::new();
        HttpRequest { body: Bytes::new(), ..request("/", &[]) }.write_head(&endpoint, &mut head);
        assert!(head.ends_with(b"content-length: 0\r\n\r\n"));
        HttpRequest { method: "GET", body: Bytes::new(), ..request("/", &[]) }
            .write_head(&endpoint, &mut head);
        assert_eq!(head, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }

    #[test]
    fn what_would_be_read_as_something_else_is_refused() {
        for (path, headers) in [
            ("", ("a", "b")),
            ("v1", ("a", "b")),
            ("/v1 HTTP/1.1\r\nx: y", ("a", "b")),
            ("/é", ("a", "b")),
            ("/", ("", "b")),
            ("/", ("a b", "b")),
            ("/", ("a:", "b")),
            ("/", ("a", "b\r\nc: d")),
            ("/", ("a", "b\0")),
            ("/", ("Host", "elsewhere")),
            ("/", ("content-Length", "7")),
            ("/", ("transfer-encoding", "chunked")),
            ("/", ("connection", "close")),
        ] {
            let refusal = request(path, &[headers]).check();
            assert!(matches!(refusal, Err(SendFailure::InvalidRequest(_))), "{path} {headers:?}");
        }
        assert!(HttpRequest { method: "get", ..request("/", &[]) }.check().is_err());
        assert!(request("/v1", &[("x-title", "Hafen\tLübeck")]).check().is_ok());
    }
}

//! Maximum size of a request head (request line and headers).
//!
//! A head takes memory before the caller is known, and it must be read completely before any of it can be checked. Its
//! size is therefore bounded on every listener, for HTTP/1.1 and HTTP/2. A larger head is answered with 431 and not
//! read further.
//!
//! The server's read buffer bounds a head that never ends. The buffer may have grown past the bound by the time the end
//! arrives, so a complete head is measured once more.

use hyper::Request;

/// Maximum bytes of a request line and its headers together.
pub(crate) const MAX_HEAD: usize = 64 << 10;

/// Bytes per header beside its name and value: a colon, a space and the line end.
const PER_HEADER: usize = 4;

/// Whether the head of a request exceeds [`MAX_HEAD`].
pub(crate) fn is_too_large<B>(request: &Request<B>) -> bool {
    let uri = request.uri();
    let target = uri.path_and_query().map_or(0, |target| target.as_str().len());
    let headers =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + PER_HEADER);
    target + headers.sum::<usize>() > MAX_HEAD
}

#[cfg(test)]
mod tests {
    use super::{MAX_HEAD, is_too_large};
    use hyper::Request;

    #[test]
    fn every_part_of_a_head_counts() {
        let request = |path: usize, header: usize| {
            let uri = format!("/{}", "p".repeat(path));
            Request::post(uri).header("x-long", "v".repeat(header)).body(()).unwrap()
        };
        // A slash, plus the name and the line end of the header.
        let rest = 1 + 6 + 4;
        for (path, header, is_large) in
            [(0, 10, false), (0, MAX_HEAD - rest, false), (1, MAX_HEAD - rest, true), (40_000, 30_000, true)]
        {
            assert_eq!(is_too_large(&request(path, header)), is_large, "{path} {header}");
        }
    }
}

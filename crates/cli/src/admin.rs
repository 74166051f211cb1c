//! A client of a running gateway's admin API.
//!
//! It sends one HTTP/1.1 request over one connection and reads the whole response, for commands that need the state of
//! a running gateway. It does not retry, does not follow redirects, and connects only to the address in the settings.

use anyhow::{Context as _, anyhow, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_config::Settings;
use seawall_gateway::fetch_secret;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// A response of the admin API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AdminClientResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request. `Err` means that there was no response.
pub(crate) fn send_request(
    settings: &Settings,
    method: &str,
    path: &str,
    body: &[u8],
) -> anyhow::Result<AdminClientResponse> {
    let address = connect_address(settings.admin.listen);
    if address.port() == 0 {
        bail!("admin.listen has port 0, so the port of the running gateway is unknown");
    }
    let credential = settings.admin.credential.as_ref().map(fetch_secret).transpose();
    let credential = credential.context("admin.credential")?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("cannot reach the admin listener at {address}"))?;
    let limits =
        stream.set_read_timeout(Some(TIMEOUT)).and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
    limits.context("cannot set a socket timeout")?;
    let authorization =
        credential.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\n{authorization}content-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut answer = Vec::new();
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let whole = sent.and_then(|()| stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer));
    whole.with_context(|| format!("the connection to the admin listener at {address} failed"))?;
    parse_response(&answer).ok_or_else(|| {
        anyhow!("the server at {address} did not return a valid response; is it an admin listener?")
    })
}

/// The address to connect to for a listener that may be bound to all interfaces.
fn connect_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn parse_response(answer: &[u8]) -> Option<AdminClientResponse> {
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let (mut length, mut is_chunked) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().ok()?);
        }
        is_chunked |= name.eq_ignore_ascii_case("transfer-encoding");
    }
    let body =
        if is_chunked { decode_chunked(body)? } else { body.get(..length.unwrap_or(body.len()))?.to_vec() };
    Some(AdminClientResponse { status, body })
}

/// Decodes a chunked body, if it is complete.
fn decode_chunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|end| end == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let piece = rest.get(end + 2..)?;
        whole.extend_from_slice(piece.get(..size)?);
        rest = piece.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Percent-encodes a path segment.
pub(crate) fn encode_segment(text: &str) -> String {
    // A dot is encoded too: a segment `..` would name another path.
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::{AdminClientResponse, connect_address, encode_segment, parse_response};

    #[test]
    fn a_response_is_parsed_into_status_and_body() {
        let answer =
            |status, body: &str| Some(AdminClientResponse { status, body: body.as_bytes().to_vec() });
        assert_eq!(parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay"), answer(200, "ok"));
        assert_eq!(parse_response(b"HTTP/1.1 404 No\r\n\r\nall of it"), answer(404, "all of it"));
        let chunked = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(parse_response(chunked), answer(201, "abc0123456789"));
        for wrong in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.1 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabc\r\n0\r\n\r\n",
        ] {
            assert_eq!(parse_response(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn an_unspecified_listen_address_is_reached_on_loopback() {
        for (listen, address) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:1", "192.0.2.1:1"),
            ("127.0.0.1:2", "127.0.0.1:2"),
        ] {
            assert_eq!(connect_address(listen.parse().unwrap()).to_string(), address);
        }
    }

    #[test]
    fn a_name_is_encoded_as_one_path_segment() {
        assert_eq!(encode_segment("a-b_c~9"), "a-b_c~9");
        assert_eq!(encode_segment("../x y?#%é"), "%2E%2E%2Fx%20y%3F%23%25%C3%A9");
    }
}

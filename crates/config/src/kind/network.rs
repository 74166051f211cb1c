//! Listen addresses and URLs.

use super::{ValueError, ValueFormat, ValueKind, expect_text, quoted, text_error};
use crate::problem::ProblemCode;
use crate::tree::TomlValue;
use std::net::{IpAddr, SocketAddr};

/// An address and a port to listen on, such as `127.0.0.1:7700`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenAddressKind;

impl ValueKind for ListenAddressKind {
    type Value = SocketAddr;

    fn format() -> ValueFormat {
        ValueFormat::text("a socket address", &["127.0.0.1:7700", "0.0.0.0:443", "[::1]:7700"])
            .pattern("^([0-9.]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$")
    }

    fn parse(value: &TomlValue) -> Result<SocketAddr, ValueError> {
        let format = Self::format();
        if let TomlValue::Integer(port @ 0..=65_535) = value {
            let message = format!("{port} is a port without an address");
            let help =
                format!("write \"127.0.0.1:{port}\", or \"0.0.0.0:{port}\" to listen on all interfaces");
            return Err(ValueError::new(ProblemCode::WrongType, message, help));
        }
        let text = expect_text(value, Self::format)?;
        if let Some(port) = text.strip_prefix("localhost:") {
            let message = format!("{} is a host name, not an IP address", quoted(text));
            return Err(ValueError::new(
                ProblemCode::ParseError,
                message,
                format!("write \"127.0.0.1:{port}\""),
            ));
        }
        text.parse().map_err(|_| text_error(text, &format))
    }

    fn to_toml(value: &SocketAddr) -> String {
        quoted(&value.to_string())
    }
}

/// The URL of another server, such as `https://api.anthropic.com`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UrlKind;

impl ValueKind for UrlKind {
    type Value = String;

    fn format() -> ValueFormat {
        ValueFormat::text(
            "a URL",
            &["https://example.com/v1", "http://127.0.0.1:7710", "redis://127.0.0.1:6379"],
        )
        .pattern("^[a-z][a-z0-9+.-]*://[^\\s@?#/]+(/[^\\s?#]*)?$")
    }

    fn parse(value: &TomlValue) -> Result<String, ValueError> {
        let text = expect_text(value, Self::format)?;
        let refuse = |code, problem: &str, help: &str| {
            // The invalid part may be a password, so only the problem is named.
            Err(ValueError::new(code, format!("the URL {problem}"), help))
        };
        let Some(parts) = UrlParts::of(text) else {
            return Err(ValueError::new(ProblemCode::ParseError, "invalid URL", Self::format().advice()));
        };
        if parts.has_user {
            return refuse(
                ProblemCode::CredentialInUrl,
                "contains a user name or a password",
                "remove it and set the secret under its own key, as env:NAME or file:PATH",
            );
        }
        if parts.has_query {
            return refuse(
                ProblemCode::CredentialInUrl,
                "contains a query or a fragment",
                "remove the part from ? or #",
            );
        }
        if is_metadata_host(parts.host) {
            return refuse(
                ProblemCode::MetadataAddress,
                "points to a cloud metadata service, which hands out the credentials of this machine",
                "write the address of the service itself",
            );
        }
        Ok(text.to_owned())
    }

    fn to_toml(value: &String) -> String {
        quoted(value)
    }

    fn is_redacted(value: &TomlValue) -> bool {
        // There may be a password before the @ and a key after the question mark.
        !matches!(value, TomlValue::Text(text) if !text.contains(['@', '?', '#']))
    }
}

/// The source of public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// A URL.
    Url(String),
    /// A file.
    File(String),
}

/// The source of public keys: a URL, or `file:` and a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JwksKind;

impl ValueKind for JwksKind {
    type Value = JwksSource;

    fn format() -> ValueFormat {
        ValueFormat::text("a URL or file:PATH", &["https://example.com/jwks.json", "file:keys/jwks.json"])
            .pattern("^(file:.+|https?://[^\\s@?#/]+(/[^\\s?#]*)?)$")
    }

    fn parse(value: &TomlValue) -> Result<JwksSource, ValueError> {
        let text = expect_text(value, Self::format)?;
        match text.strip_prefix("file:") {
            Some(path) if !path.is_empty() && !path.contains('\0') => Ok(JwksSource::File(path.to_owned())),
            Some(_) => Err(ValueError::new(
                ProblemCode::ParseError,
                "file: must be followed by a path",
                Self::format().advice(),
            )),
            None => UrlKind::parse(value).map(JwksSource::Url),
        }
    }

    fn to_toml(value: &JwksSource) -> String {
        match value {
            JwksSource::Url(url) => quoted(url),
            JwksSource::File(path) => quoted(&format!("file:{path}")),
        }
    }

    fn is_redacted(value: &TomlValue) -> bool {
        UrlKind::is_redacted(value)
    }
}

struct UrlParts<'a> {
    host: &'a str,
    has_user: bool,
    has_query: bool,
}

impl<'a> UrlParts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
        if !scheme.starts_with(|first: char| first.is_ascii_lowercase()) || !scheme.chars().all(is_scheme) {
            return None;
        }
        if rest.chars().any(|character| !character.is_ascii_graphic() || character == '\\') {
            return None;
        }
        let authority = rest.split(['/', '?', '#']).next()?;
        let (user, host_and_port) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let host = match host_and_port.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                let _ = host.parse::<std::net::Ipv6Addr>().ok()?;
                check_port(port.strip_prefix(':').or_else(|| port.is_empty().then_some("1"))?)?;
                host
            }
            None => match host_and_port.split_once(':') {
                Some((host, port)) => {
                    check_port(port)?;
                    host
                }
                None => host_and_port,
            },
        };
        let is_host = |character: char| character.is_ascii_alphanumeric() || ".-_:".contains(character);
        let is_fine = !host.is_empty() && host.chars().all(is_host);
        is_fine.then_some(Self { host, has_user: user.is_some(), has_query: rest.contains(['?', '#']) })
    }
}

fn check_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok().filter(|port| *port > 0))?
}

/// Whether a host is a cloud metadata service, which hands out the credentials of a machine: requests must never go
/// there.
#[must_use]
pub fn is_metadata_host(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if host == "metadata.google.internal" || host == "metadata" {
        return true;
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_link_local());
            mapped || address.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        }
        // Resolvers also accept an address written as one number, or in hexadecimal or octal parts.
        Err(_) => inet_aton(&host).is_some_and(|address| address.is_link_local()),
    }
}

/// Parses an IPv4 address as `inet_aton` does.
fn inet_aton(host: &str) -> Option<std::net::Ipv4Addr> {
    let part = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let parts: Vec<u32> = host.split('.').map(part).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let mut address = 0_u32;
    for (index, part) in leading.iter().enumerate() {
        address |= part << (24 - 8 * index);
    }
    let room = 32 - 8 * leading.len();
    (u64::from(*last) < 1_u64 << room).then(|| (address | last).into())
}

#[cfg(test)]
mod tests {
    use super::{UrlKind, ValueKind, is_metadata_host};
    use crate::problem::ProblemCode;
    use crate::tree::TomlValue;

    fn parse(text: &str) -> Result<String, ProblemCode> {
        UrlKind::parse(&TomlValue::Text(text.to_owned())).map_err(|error| error.code)
    }

    #[test]
    fn urls_name_a_host_and_nothing_secret() {
        for good in [
            "https://api.anthropic.com",
            "http://127.0.0.1:7710",
            "https://h/v1/",
            "http://[::1]:80/x",
            "redis://cache:6379",
            "http://10.0.0.1",
        ] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "example.com",
            "https://",
            "https:///x",
            "https://a b",
            "HTTP://x",
            "http://x:0",
            "http://x:99999",
            "http://x:",
            "http://[x]",
            "http://a\\b",
            "http://[::1]x",
            "http://例え.jp",
            "http://h/漫",
            "http://h/\u{7f}",
        ] {
            assert_eq!(parse(bad), Err(ProblemCode::ParseError), "{bad}");
        }
        for bad in ["https://user@h", "https://u:p@h", "https://h?key=1", "https://h/#x"] {
            assert_eq!(parse(bad), Err(ProblemCode::CredentialInUrl), "{bad}");
        }
        assert_eq!(parse("http://169.254.169.254/latest"), Err(ProblemCode::MetadataAddress));
    }

    #[test]
    fn metadata_hosts_are_known_however_they_are_written() {
        for host in [
            "169.254.169.254",
            "169.254.170.2",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "metadata.google.internal",
            "Metadata.Google.Internal.",
            "2852039166",
            "0xa9fea9fe",
            "0251.0376.0251.0376",
            "169.254.43518",
        ] {
            assert!(is_metadata_host(host), "{host}");
        }
        for host in [
            "127.0.0.1",
            "10.0.0.1",
            "::1",
            "example.com",
            "fd00:ec2::253",
            "1.2.3.4.5",
            "256.1",
            "169.253.1.1",
        ] {
            assert!(!is_metadata_host(host), "{host}");
        }
    }
}

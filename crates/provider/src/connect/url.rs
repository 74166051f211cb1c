//! Base URLs of servers.

use super::metadata::AddressPolicy;
use crate::http1::{Endpoint, Scheme};
use seawall_core::setting::SettingError;
use std::net::IpAddr;

/// Scheme, host, port and base path. All request paths are appended to the base path.
///
/// ```
/// use seawall_provider::connect::BaseUrl;
///
/// let url = BaseUrl::parse("http://localhost:11434/v1/")?;
/// assert_eq!(url.endpoint().authority(), "localhost:11434");
/// assert_eq!(url.path("/chat/completions"), "/v1/chat/completions");
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    endpoint: Endpoint,
    /// Without a trailing slash; empty for the root.
    base: String,
}

impl BaseUrl {
    /// Parses `http://host`, `https://host:port/path` and so on. Private addresses are allowed, because self-hosted
    /// models use them. The address of a cloud's metadata service is rejected, and so are user names, queries and
    /// fragments.
    pub fn parse(url: &str) -> Result<Self, SettingError> {
        Self::parse_with_policy(url, AddressPolicy::DenyMetadata)
    }

    /// The same with other addresses allowed.
    pub(crate) fn parse_with_policy(url: &str, policy: AddressPolicy) -> Result<Self, SettingError> {
        let wrong = |problem: &str| SettingError::new("base_url", format!("{url}: {problem}"));
        let (scheme, rest) = match url.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        if rest.contains(['?', '#', '@', '\\']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("must consist of host, port and path only"));
        }
        let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = split_port(authority).ok_or_else(|| wrong("must contain a host"))?;
        let port = match port {
            None => scheme.default_port(),
            Some(port) => match port.parse() {
                Ok(port @ 1..) => port,
                Ok(0) | Err(_) => return Err(wrong("must have a port between 1 and 65535")),
            },
        };
        if host.parse().is_ok_and(|address| !policy.allows(address)) {
            return Err(wrong("is a cloud metadata address"));
        }
        let endpoint = Endpoint::new(scheme, host, port).map_err(|error| wrong(error.problem()))?;
        Ok(Self { endpoint, base: base.trim_end_matches('/').to_owned() })
    }

    /// The server.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The full path for `below`, which begins with a slash.
    #[must_use]
    pub fn path(&self, below: &str) -> String {
        format!("{}{below}", self.base)
    }
}

/// Host and port. An IPv6 address is in brackets, because it contains colons itself.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inside) => {
            let (host, rest) = inside.split_once(']')?;
            host.parse::<IpAddr>().ok().filter(IpAddr::is_ipv6)?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port))),
        None => rest.is_empty().then_some((host, None)),
    }
    .filter(|(host, _)| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::BaseUrl;
    use crate::http1::Scheme;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn an_address_is_read_into_its_parts() {
        for (url, scheme, host, port, path) in [
            ("http://127.0.0.1:7710", Scheme::Http, "127.0.0.1", 7710, "/x"),
            ("http://localhost", Scheme::Http, "localhost", 80, "/x"),
            ("https://api.example.com", Scheme::Https, "api.example.com", 443, "/x"),
            ("https://api.example.com/", Scheme::Https, "api.example.com", 443, "/x"),
            ("https://api.example.com:8443/a/b//", Scheme::Https, "api.example.com", 8443, "/a/b/x"),
            ("http://[::1]:65535/v1", Scheme::Http, "::1", 65_535, "/v1/x"),
            ("http://[::1]", Scheme::Http, "::1", 80, "/x"),
            ("http://localhost:1/v1", Scheme::Http, "localhost", 1, "/v1/x"),
        ] {
            let read = BaseUrl::parse(url).unwrap();
            let endpoint = read.endpoint();
            assert_eq!((endpoint.scheme(), endpoint.host(), endpoint.port()), (scheme, host, port), "{url}");
            assert_eq!(read.path("/x"), path, "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let parts = "must consist of host, port and path only";
        for (url, problem) in [
            ("127.0.0.1:80", "must begin with http:// or https://"),
            ("ftp://127.0.0.1:80", "must begin with http:// or https://"),
            ("http://127.0.0.1:x", "must have a port between 1 and 65535"),
            ("http://127.0.0.1:0", "must have a port between 1 and 65535"),
            ("http://127.0.0.1:65536", "must have a port between 1 and 65535"),
            ("http://127.0.0.1:", "must have a port between 1 and 65535"),
            ("http://", "must contain a host"),
            ("http://:80", "must contain a host"),
            ("http://[::1", "must contain a host"),
            ("http://[::1]80", "must contain a host"),
            ("http://[127.0.0.1]", "must contain a host"),
            ("http://a,b", "\"a,b\" is neither a host name nor an IP address"),
            ("http://user@127.0.0.1:80", parts),
            ("http://localhost/?a=b", parts),
            ("http://localhost/#a", parts),
            ("http://localhost\\evil", parts),
            ("http://local host", parts),
            ("http://localhost/é", parts),
            ("http://169.254.169.254:80", "is a cloud metadata address"),
            ("http://[::ffff:169.254.169.254]:80/v1", "is a cloud metadata address"),
        ] {
            let refusal = BaseUrl::parse(url).err().map(|error| error.to_string());
            assert_eq!(refusal, Some(format!("base_url: {url}: {problem}")));
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            is_secure: bool,
            host in "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\\.[a-z]{1,5}){0,3}",
            port in proptest::option::of(1_u16..),
            base in "(/[!-.0->A-Z^-~]{1,6}){0,3}",
            slashes in "/{0,2}",
        ) {
            let scheme = if is_secure { Scheme::Https } else { Scheme::Http };
            let named = port.map_or_else(String::new, |port| format!(":{port}"));
            let base: String = base.chars().filter(|byte| !"#".contains(*byte)).collect();
            let base = base.replace("//", "/");
            let base = base.trim_end_matches('/');
            let url = BaseUrl::parse(&format!("{}://{host}{named}{base}{slashes}", scheme.name())).unwrap();
            prop_assert_eq!((url.endpoint().scheme(), url.endpoint().host()), (scheme, host.as_str()));
            prop_assert_eq!(url.endpoint().port(), port.unwrap_or(scheme.default_port()));
            prop_assert_eq!(url.path("/x"), format!("{base}/x"));
        }

        #[test]
        fn whatever_is_read_fits_into_a_request(url in "(http|https)://\\PC{0,30}") {
            if let Ok(url) = BaseUrl::parse(&url) {
                prop_assert!(url.path("/x").bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(url.path("/x").starts_with('/'));
                prop_assert!(url.endpoint().authority().bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}

//! Access control of the admin API.
//!
//! With a credential configured, every request must present it, wherever it comes from. Without one, only requests to a
//! loopback address under a loopback host name are accepted. The host check stops DNS rebinding: a foreign page that
//! points its own name to this machine does not use a loopback name. A page that calls the loopback address directly is
//! recognised by the headers in which browsers report the origin of a request.

use super::response::AdminError;
use crate::identity::hash_api_key;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The header in which a browser reports which site made the request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The SHA-256 hash of the admin credential.
#[derive(Clone, Copy)]
pub(crate) struct AdminCredential([u8; 32]);

impl AdminCredential {
    pub(crate) fn new(text: &str) -> Self {
        Self(hash_api_key(text))
    }

    /// Whether a caller's key with this hash would pass as the admin credential.
    pub(crate) fn matches_hash(&self, hash: &[u8; 32]) -> bool {
        self.0 == *hash
    }

    fn matches(&self, text: &str) -> bool {
        verify_slices_are_equal(&self.0, &hash_api_key(text)).is_ok()
    }
}

impl std::fmt::Debug for AdminCredential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Credential")
    }
}

/// Checks admin requests.
#[derive(Debug)]
pub(crate) struct AdminGuard {
    is_loopback: bool,
    credential: Mutex<Option<AdminCredential>>,
}

impl AdminGuard {
    /// The check for a listener on this address.
    pub(crate) fn new(address: SocketAddr, credential: Option<AdminCredential>) -> Self {
        Self { is_loopback: is_loopback(address.ip()), credential: Mutex::new(credential) }
    }

    /// Whether the listener may run without a credential.
    pub(crate) const fn may_omit_credential(&self) -> bool {
        self.is_loopback
    }

    /// Replaces the credential.
    pub(crate) fn set_credential(&self, credential: Option<AdminCredential>) {
        *self.credential.lock().unwrap_or_else(PoisonError::into_inner) = credential;
    }

    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AdminError> {
        let credential = *self.credential.lock().unwrap_or_else(PoisonError::into_inner);
        match credential {
            Some(credential) => match bearer_token(headers) {
                Some(shown) if credential.matches(shown) => Ok(()),
                _ => Err(AdminError::Unauthenticated),
            },
            // Such settings are refused earlier. If one slips through, every request is rejected.
            None if !self.is_loopback => Err(AdminError::Unauthenticated),
            None => check_local_request(uri, headers),
        }
    }
}

/// The value of a header that occurs once. With two of them it would be unclear which one counts.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, credential) = single_value(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential)
}

fn check_local_request(uri: &Uri, headers: &HeaderMap) -> Result<(), AdminError> {
    const NAME: AdminError = AdminError::Forbidden(
        "without admin.credential, only requests with a loopback host name such as localhost or 127.0.0.1 are accepted",
    );
    const SITE: AdminError =
        AdminError::Forbidden("without admin.credential, requests from pages of other sites are refused");
    let host = single_value(headers, &HOST).ok_or(NAME)?;
    if !is_loopback_name(host) || uri.authority().is_some_and(|named| !is_loopback_name(named.as_str())) {
        return Err(NAME);
    }
    let is_same_origin = |origin: &str| {
        origin.strip_prefix("http://").is_some_and(|host_of_origin| host_of_origin.eq_ignore_ascii_case(host))
    };
    if headers.contains_key(ORIGIN) && !single_value(headers, &ORIGIN).is_some_and(is_same_origin) {
        return Err(SITE);
    }
    let is_allowed_site = |site: &str| site == "same-origin" || site == "none";
    if headers.contains_key(&FETCH_SITE) && !single_value(headers, &FETCH_SITE).is_some_and(is_allowed_site) {
        return Err(SITE);
    }
    Ok(())
}

/// Whether `host`, with or without a port, is a loopback name or address.
fn is_loopback_name(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return is_loopback(address.ip());
    }
    let name = match host.rsplit_once(':') {
        Some((name, port))
            if port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => host,
    };
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address = match inside {
        Some(inside) => inside.parse().ok().filter(IpAddr::is_ipv6),
        None => name.parse().ok().filter(IpAddr::is_ipv4),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::{AdminCredential, AdminGuard, is_loopback_name};
    use crate::admin::response::AdminError;
    use hyper::Uri;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn guard(address: &str, credential: Option<&str>) -> AdminGuard {
        AdminGuard::new(address.parse().unwrap(), credential.map(AdminCredential::new))
    }

    fn asks(guard: &AdminGuard, pairs: &[(&'static str, &'static str)]) -> Result<(), AdminError> {
        guard.check(&Uri::from_static("/admin/status"), &headers(pairs))
    }

    #[test]
    fn loopback_names_are_recognised() {
        for own in ["localhost", "LOCALHOST:7701", "127.0.0.1", "127.8.9.1:1", "[::1]", "[::1]:7701"] {
            assert!(is_loopback_name(own), "{own}");
        }
        for other in [
            "",
            "localhost.example",
            "127.0.0.1.example",
            "example:7701",
            "10.0.0.1:7701",
            "[::2]:7701",
            "[127.0.0.1]",
            "::1",
            "localhost:x",
            "localhost:+1",
            "localhost:99999",
            "localhost:",
            "user@localhost",
            "0.0.0.0",
            "2130706433",
        ] {
            assert!(!is_loopback_name(other), "{other}");
        }
    }

    #[test]
    fn with_a_credential_every_request_must_present_it() {
        let guard = guard("0.0.0.0:1", Some("s3cret"));
        assert_eq!(asks(&guard, &[("authorization", "Bearer s3cret"), ("host", "anything")]), Ok(()));
        assert_eq!(asks(&guard, &[("authorization", "bearer s3cret")]), Ok(()));
        for wrong in [
            &[][..],
            &[("host", "localhost")],
            &[("authorization", "Bearer s3cre")],
            &[("authorization", "Bearer s3crets")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer  s3cret")],
            &[("authorization", "Basic s3cret")],
            &[("authorization", "s3cret")],
            &[("x-api-key", "s3cret")],
            &[("authorization", "Bearer s3cret"), ("authorization", "Bearer other")],
        ] {
            assert_eq!(asks(&guard, wrong), Err(AdminError::Unauthenticated), "{wrong:?}");
        }
        guard.set_credential(Some(AdminCredential::new("other")));
        assert_eq!(asks(&guard, &[("authorization", "Bearer s3cret")]), Err(AdminError::Unauthenticated));
        assert_eq!(asks(&guard, &[("authorization", "Bearer other")]), Ok(()));
        assert_eq!(format!("{guard:?}").matches("Credential").count(), 1);
    }

    #[test]
    fn without_a_credential_remote_requests_are_refused() {
        let open = guard("10.0.0.1:1", None);
        assert!(!open.may_omit_credential());
        assert_eq!(asks(&open, &[("host", "localhost")]), Err(AdminError::Unauthenticated));
    }

    #[test]
    fn without_a_credential_a_browsers_page_of_another_site_is_refused() {
        let guard = guard("[::1]:1", None);
        assert!(guard.may_omit_credential());
        for right in [
            &[("host", "localhost:7701")][..],
            &[("host", "localhost:7701"), ("origin", "http://localhost:7701")],
            &[("host", "127.0.0.1:7701"), ("sec-fetch-site", "same-origin")],
            &[("host", "127.0.0.1:7701"), ("sec-fetch-site", "none")],
        ] {
            assert_eq!(asks(&guard, right), Ok(()), "{right:?}");
        }
        for wrong in [
            &[][..],
            &[("host", "rebound.example:7701")],
            &[("host", "localhost"), ("host", "localhost")],
            &[("host", "localhost:7701"), ("origin", "http://example")],
            &[("host", "localhost:7701"), ("origin", "http://localhost:7702")],
            &[("host", "localhost:7701"), ("origin", "https://localhost:7701")],
            &[("host", "localhost:7701"), ("origin", "null")],
            &[("host", "localhost:7701"), ("origin", "http://localhost:7701"), ("origin", "http://example")],
            &[("host", "localhost:7701"), ("sec-fetch-site", "cross-site")],
            &[("host", "localhost:7701"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(matches!(asks(&guard, wrong), Err(AdminError::Forbidden(_))), "{wrong:?}");
        }
        let named = Uri::from_static("http://rebound.example/admin/status");
        let answer = guard.check(&named, &headers(&[("host", "localhost")]));
        assert!(matches!(answer, Err(AdminError::Forbidden(_))));
    }

    #[test]
    fn a_callers_key_that_is_the_credential_is_noticed() {
        let credential = AdminCredential::new("sk-test");
        assert!(credential.matches_hash(&crate::identity::hash_api_key("sk-test")));
        assert!(!credential.matches_hash(&crate::identity::hash_api_key("sk-tess")));
    }
}

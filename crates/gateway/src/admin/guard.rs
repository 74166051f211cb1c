//! Access control of the admin API.
//!
//! With a credential configured, every request must present it, wherever it comes from. Without one, only requests to a
//! loopback address under a loopback host name are accepted. The host check stops DNS rebinding: a foreign page that
//! points its own name to this machine does not use a loopback name. A page that calls the loopback address directly is
//! recognised by the headers in which browsers report the origin of a request.

use super::answer::AdminError;
use crate::identity::credential_of_key;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// The header in which a browser reports which site made the request.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The SHA-256 hash of the admin credential.
#[derive(Clone, Copy)]
pub(crate) struct Credential([u8; 32]);

impl Credential {
    pub(crate) fn new(text: &str) -> Self {
        Self(credential_of_key(text))
    }

    /// Whether a caller's key with this hash would pass as the admin credential.
    pub(crate) fn is_key(&self, hash: &[u8; 32]) -> bool {
        self.0 == *hash
    }

    fn is_shown_by(&self, text: &str) -> bool {
        verify_slices_are_equal(&self.0, &credential_of_key(text)).is_ok()
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Credential")
    }
}

/// Checks admin requests.
#[derive(Debug)]
pub(crate) struct Guard {
    is_loopback: bool,
    credential: Mutex<Option<Credential>>,
}

impl Guard {
    /// The check for a listener on this address.
    pub(crate) fn new(address: SocketAddr, credential: Option<Credential>) -> Self {
        Self { is_loopback: is_loopback(address.ip()), credential: Mutex::new(credential) }
    }

    /// Whether the listener may run without a credential.
    pub(crate) const fn may_be_open(&self) -> bool {
        self.is_loopback
    }

    /// Replaces the credential.
    pub(crate) fn change(&self, credential: Option<Credential>) {
        *self.credential.lock().unwrap_or_else(PoisonError::into_inner) = credential;
    }

    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), AdminError> {
        let credential = *self.credential.lock().unwrap_or_else(PoisonError::into_inner);
        match credential {
            Some(credential) => match bearer(headers) {
                Some(shown) if credential.is_shown_by(shown) => Ok(()),
                _ => Err(AdminError::Unauthenticated),
            },
            // Such settings are refused earlier. If one slips through, every request is rejected.
            None if !self.is_loopback => Err(AdminError::Unauthenticated),
            None => from_this_machine(uri, headers),
        }
    }
}

/// The value of a header that occurs once. With two of them it would be unclear which one counts.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, credential) = only(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(credential)
}

fn from_this_machine(uri: &Uri, headers: &HeaderMap) -> Result<(), AdminError> {
    const NAME: AdminError = AdminError::Forbidden(
        "without a credential this address answers only to a loopback name, such as localhost or 127.0.0.1",
    );
    const SITE: AdminError =
        AdminError::Forbidden("without a credential this address does not answer pages of other sites");
    let host = only(headers, &HOST).ok_or(NAME)?;
    if !is_loopback_name(host) || uri.authority().is_some_and(|named| !is_loopback_name(named.as_str())) {
        return Err(NAME);
    }
    let is_own =
        |origin: &str| origin.strip_prefix("http://").is_some_and(|own| own.eq_ignore_ascii_case(host));
    if headers.contains_key(ORIGIN) && !only(headers, &ORIGIN).is_some_and(is_own) {
        return Err(SITE);
    }
    let is_invited = |site: &str| site == "same-origin" || site == "none";
    if headers.contains_key(&FETCH_SITE) && !only(headers, &FETCH_SITE).is_some_and(is_invited) {
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
    use super::{Credential, Guard, is_loopback_name};
    use crate::admin::answer::AdminError;
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

    fn guard(address: &str, credential: Option<&str>) -> Guard {
        Guard::new(address.parse().unwrap(), credential.map(Credential::new))
    }

    fn asks(guard: &Guard, pairs: &[(&'static str, &'static str)]) -> Result<(), AdminError> {
        guard.check(&Uri::from_static("/admin/status"), &headers(pairs))
    }

    #[test]
    fn names_of_this_machine_are_told_from_all_others() {
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
    fn with_a_credential_only_who_shows_it_may_ask() {
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
        guard.change(Some(Credential::new("other")));
        assert_eq!(asks(&guard, &[("authorization", "Bearer s3cret")]), Err(AdminError::Unauthenticated));
        assert_eq!(asks(&guard, &[("authorization", "Bearer other")]), Ok(()));
        assert_eq!(format!("{guard:?}").matches("Credential").count(), 1);
    }

    #[test]
    fn without_a_credential_no_other_machine_is_ever_answered() {
        let open = guard("10.0.0.1:1", None);
        assert!(!open.may_be_open());
        assert_eq!(asks(&open, &[("host", "localhost")]), Err(AdminError::Unauthenticated));
    }

    #[test]
    fn without_a_credential_a_browsers_page_of_another_site_is_refused() {
        let guard = guard("[::1]:1", None);
        assert!(guard.may_be_open());
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
        let credential = Credential::new("sk-test");
        assert!(credential.is_key(&crate::identity::credential_of_key("sk-test")));
        assert!(!credential.is_key(&crate::identity::credential_of_key("sk-tess")));
    }
}

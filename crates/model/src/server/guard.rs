//! Access check of the admin endpoints.
//!
//! The endpoints require no credential, so web pages in a browser must not be able to call them: neither a cross-site
//! page, which browsers mark in `origin` and `sec-fetch-site`, nor a page whose host name resolves to this machine (DNS
//! rebinding). The latter is stopped by the host check: the host must be a loopback name or address, or the address
//! that was connected to.

use hyper::Request;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use std::net::{IpAddr, SocketAddr};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason to refuse a request that arrived at this address; `None` if it is allowed.
pub(super) fn refusal<B>(request: &Request<B>, local: SocketAddr) -> Option<&'static str> {
    let headers = request.headers();
    // HTTP/2 sends the host as the authority of the URI.
    let named = single_value(headers, &HOST).and_then(|host| host.parse::<Authority>().ok());
    let host = request.uri().authority().cloned().or(named);
    let Some(host) = host.filter(|host| is_local_host(host, local.ip())) else {
        return Some(
            "forbidden: the host must be a loopback name or the listener's own address, such as localhost or 127.0.0.1",
        );
    };
    let own = format!("http://{host}");
    let is_foreign_origin = headers.contains_key(ORIGIN)
        && !single_value(headers, &ORIGIN).is_some_and(|origin| origin.eq_ignore_ascii_case(&own));
    let is_cross_site = headers.contains_key(&SEC_FETCH_SITE)
        && !single_value(headers, &SEC_FETCH_SITE)
            .is_some_and(|site| site == "same-origin" || site == "none");
    (is_foreign_origin || is_cross_site).then_some("forbidden: cross-site requests are not allowed")
}

/// A header that occurs exactly once. Duplicates are ambiguous and count as absent.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_local_host(host: &Authority, local: IpAddr) -> bool {
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let is_address = |address: IpAddr| {
        address.to_canonical().is_loopback() || address.to_canonical() == local.to_canonical()
    };
    !host.as_str().contains('@')
        && (name.eq_ignore_ascii_case("localhost") || address.is_some_and(is_address))
}

#[cfg(test)]
mod tests {
    use super::refusal;
    use hyper::Request;

    #[test]
    fn only_local_hosts_and_same_site_requests_are_allowed() {
        let is_allowed = |headers: &[(&str, &str)]| {
            let mut request = Request::get("/admin/bill");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            refusal(&request.body(()).unwrap(), "10.0.0.7:7710".parse().unwrap()).is_none()
        };
        for right in [
            &[("host", "localhost:7710")][..],
            &[("host", "127.0.0.1:7710")],
            &[("host", "[::1]:7710")],
            &[("host", "10.0.0.7:7710")],
            &[
                ("host", "localhost:7710"),
                ("origin", "http://localhost:7710"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("host", "localhost:7710"), ("sec-fetch-site", "none")],
        ] {
            assert!(is_allowed(right), "{right:?}");
        }
        for wrong in [
            &[][..],
            &[("host", "rebound.example:7710")],
            &[("host", "localhost.example")],
            &[("host", "10.0.0.8:7710")],
            &[("host", "me@localhost")],
            &[("host", "localhost"), ("host", "localhost")],
            &[("host", "localhost:7710"), ("origin", "http://example")],
            &[("host", "localhost:7710"), ("origin", "null")],
            &[("host", "localhost:7710"), ("origin", "http://localhost:7711")],
            &[("host", "localhost:7710"), ("sec-fetch-site", "cross-site")],
            &[("host", "localhost:7710"), ("sec-fetch-site", "same-site")],
        ] {
            assert!(!is_allowed(wrong), "{wrong:?}");
        }
        let named =
            Request::get("http://rebound.example/admin/bill").header("host", "localhost").body(()).unwrap();
        assert!(refusal(&named, "127.0.0.1:7710".parse().unwrap()).is_some());
    }
}

//! The client address of a request, and how much of it may be stored.
//!
//! [`client_address`] looks through the proxies that the settings trust; forwarding headers of other peers are ignored.
//! [`address_key`] identifies an address in limits and logs: a hash under a salt that changes each month, so that old
//! logs identify no address.
//!
//! It does not read `Forwarded` or vendors' headers, and does not guess: from the first hop that cannot be parsed, the
//! last known proxy counts as the client.

use super::hash::{hmac_key, hmac_sha256};
use hyper::header::{HeaderMap, HeaderName};
use seawall_config::AddressRange;
use seawall_core::time::UtcTime;
use std::net::{IpAddr, Ipv6Addr};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum number of proxies in a row, more than occur in practice. Further hops are not read.
const MAX_HOPS: usize = 32;

/// The client address: the peer's or, if the peer is a trusted proxy, the right-most address in `x-forwarded-for` that
/// is not one. Everything left of it was written by the client and is not trusted.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[AddressRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let mut client = peer.to_canonical();
    // Usually no proxy is trusted, and no header is read.
    if !is_trusted(client) {
        return client;
    }
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let hops = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
    for hop in hops.take(MAX_HOPS) {
        let Some(address) = std::str::from_utf8(hop.trim_ascii()).ok().and_then(parse_hop) else { break };
        client = address;
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// Parses an address with or without a port.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let address =
        text.parse::<IpAddr>().or_else(|_| text.parse().map(|socket: std::net::SocketAddr| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// The salt of address keys for one calendar month.
#[derive(Clone)]
pub struct MonthSalt(aws_lc_rs::hmac::Key);

impl std::fmt::Debug for MonthSalt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MonthSalt")
    }
}

impl MonthSalt {
    /// The salt of the month of this moment. Every node with this secret derives the same one.
    #[must_use]
    pub fn new(secret: &[u8], now: UtcTime) -> Self {
        let (year, month, _) = now.civil();
        Self(hmac_key(&hmac_sha256(
            &hmac_key(secret),
            format!("address salt {year:04}-{month:02}").as_bytes(),
        )))
    }
}

/// The bits that identify an address in memory, never in a log. For IPv6 they are those of the network, because one
/// subscriber has all addresses in it.
#[must_use]
pub(super) fn network_bits(address: IpAddr, ipv6_prefix: u8) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => {
            address.to_bits() & !u128::MAX.checked_shr(u32::from(ipv6_prefix)).unwrap_or(0)
        }
    }
}

/// The key of an address. IPv6 counts by its first bits, usually 64, because one subscriber has all the rest.
#[must_use]
pub fn address_key(address: IpAddr, ipv6_prefix: u8, salt: &MonthSalt) -> [u8; 32] {
    let written = match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let rest = u128::MAX.checked_shr(u32::from(ipv6_prefix)).unwrap_or(0);
            format!("{}/{ipv6_prefix}", Ipv6Addr::from_bits(address.to_bits() & !rest))
        }
    };
    hmac_sha256(&salt.0, written.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{AddressRange, MAX_HOPS, MonthSalt, address_key, client_address, network_bits};
    use hyper::header::{HeaderMap, HeaderValue};
    use proptest::collection;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use seawall_core::time::UtcTime;
    use std::net::IpAddr;
    use std::time::Duration;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn ranges(texts: &[&str]) -> Vec<AddressRange> {
        texts.iter().map(|text| AddressRange::parse(text).unwrap()).collect()
    }

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let trusted = ranges(&["10.0.0.0/8", "2001:db8::/32"]);
        let from = |peer: &str, values: &[&[u8]]| {
            client_address(address(peer), &headers(values), &trusted).to_string()
        };
        assert_eq!(from("198.51.100.1", &[b"192.0.2.1"]), "198.51.100.1");
        assert_eq!(from("::ffff:198.51.100.1", &[]), "198.51.100.1");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1"]), "192.0.2.1");
        assert_eq!(from("::ffff:10.0.0.1", &[b"::ffff:192.0.2.1"]), "192.0.2.1");
        // The client wrote the left part, to spoof its address.
        assert_eq!(from("10.0.0.1", &[b"127.0.0.1, 192.0.2.1 ,10.0.0.2"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &[b"127.0.0.1", b"192.0.2.1", b"10.0.0.2"]), "192.0.2.1");
        assert_eq!(from("2001:db8::1", &[b"[2001:db9::7]:443"]), "2001:db9::7");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1:1234"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &[b"10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        // An unreadable hop ends the search; the last proxy counts.
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1,"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1, \xff"]), "10.0.0.1");
    }

    #[test]
    fn an_endless_row_of_proxies_is_not_followed() {
        let row = |hops: usize| format!("192.0.2.1{}", ",10.0.0.2".repeat(hops));
        let trusted = ranges(&["10.0.0.0/8"]);
        let from = |hops| client_address(address("10.0.0.1"), &headers(&[row(hops).as_bytes()]), &trusted);
        assert_eq!((from(MAX_HOPS - 1), from(MAX_HOPS)), (address("192.0.2.1"), address("10.0.0.2")));
        assert_eq!(MAX_HOPS, 32);
    }

    #[test]
    fn an_address_is_known_by_its_subscriber() {
        let salt = MonthSalt::new(b"secret", UtcTime::from_civil(2026, 11, 1));
        let key = |text| address_key(address(text), 64, &salt);
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_eq!(format!("{salt:?}"), "MonthSalt");
    }

    #[test]
    fn a_network_is_an_ipv4_address_or_the_prefix_of_an_ipv6_one() {
        let bits = |text| network_bits(address(text), 64);
        assert_eq!(bits("192.0.2.1"), bits("::ffff:192.0.2.1"));
        assert_ne!(bits("192.0.2.1"), bits("192.0.2.2"));
        assert_eq!(bits("2001:db8:0:1::1"), bits("2001:db8:0:1:ffff::"));
        assert_ne!(bits("2001:db8:0:1::1"), bits("2001:db8:0:2::1"));
        assert_eq!(
            network_bits(address("2001:db8::1"), 128),
            address("2001:db8::1").to_string().parse::<std::net::Ipv6Addr>().unwrap().to_bits()
        );
    }

    #[test]
    fn a_salt_lasts_one_month() {
        let key = |secret: &[u8], now| address_key(address("192.0.2.1"), 64, &MonthSalt::new(secret, now));
        let first = UtcTime::from_civil(2026, 11, 1);
        let last = UtcTime::from_nanos(UtcTime::from_civil(2026, 12, 1).as_nanos() - 1);
        assert_eq!(key(b"secret", first), key(b"secret", last));
        assert_ne!(key(b"secret", first), key(b"secret", last + Duration::from_nanos(1)));
        assert_ne!(key(b"secret", first), key(b"secret", UtcTime::from_civil(2025, 11, 1)));
        assert_ne!(key(b"secret", first), key(b"other", first));
    }

    proptest! {
        #[test]
        fn who_is_not_trusted_cannot_change_its_address(peer: u32, bytes in collection::vec(any::<u8>(), 0..60)) {
            let peer = IpAddr::V4(peer.into());
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut headers = HeaderMap::new();
                headers.append("x-forwarded-for", value);
                let trusted = ranges(&["127.0.0.0/8"]);
                let seen = client_address(peer, &headers, &trusted);
                if !trusted[0].contains(peer) {
                    prop_assert_eq!(seen, peer);
                }
            }
        }

        #[test]
        fn an_address_and_its_ipv6_form_count_alike(bits: u32, fixed in 0_u32..=32) {
            let (plain, mapped) = (IpAddr::V4(bits.into()), IpAddr::V6(std::net::Ipv4Addr::from(bits).to_ipv6_mapped()));
            let start = std::net::Ipv4Addr::from(u32::MAX.checked_shl(32 - fixed).unwrap_or(0) & 0x0A14_1E28);
            let range = AddressRange::parse(&format!("{start}/{fixed}")).unwrap();
            let naive = (0..fixed).all(|bit| (bits ^ 0x0A14_1E28) & (1 << (31 - bit)) == 0);
            prop_assert_eq!((range.contains(plain), range.contains(mapped)), (naive, naive));
        }
    }
}

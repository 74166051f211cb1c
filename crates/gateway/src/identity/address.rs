//! Where a request came from, and what may be remembered of it.
//!
//! [`client_address`] looks through the proxies that the settings trust; what anybody else says about addresses counts for
//! nothing. [`address_key`] is what limits and logs know an address by: a hash under a salt that changes each month, so that
//! old logs name nobody.
//!
//! It will not read `Forwarded` or vendors' headers, and will not guess: from the first hop on that cannot be read, the
//! last proxy that is known counts as the caller.

use super::hash::{code, code_key};
use hyper::header::{HeaderMap, HeaderName};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::net::{IpAddr, Ipv6Addr};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// More proxies in a row than anybody has. What lies beyond is not read.
const MOST_HOPS: usize = 32;

/// Addresses that begin alike, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    start: IpAddr,
    /// How many bits of the address are fixed.
    fixed: u32,
}

impl AddressRange {
    /// Reads a range such as `10.0.0.0/8`, or a single address.
    ///
    /// ```
    /// use seawall_gateway::identity::AddressRange;
    ///
    /// let range = AddressRange::parse("10.0.0.0/8").unwrap();
    /// assert!(range.holds("10.255.0.1".parse().unwrap()) && !range.holds("11.0.0.1".parse().unwrap()));
    /// assert!(AddressRange::parse("10.0.0.1/8").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let wrong = |problem: &str| SettingError::new("address range", format!("{text:?} {problem}"));
        let (address, fixed) =
            text.split_once('/').map_or((text, None), |(address, fixed)| (address, Some(fixed)));
        let start: IpAddr = address.parse().map_err(|_| wrong("is not a range such as 10.0.0.0/8"))?;
        if start != start.to_canonical() {
            return Err(wrong("is an IPv4 address written as IPv6"));
        }
        let width = if start.is_ipv4() { 32 } else { 128 };
        let fixed = match fixed {
            None => width,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| wrong("is not a range such as 10.0.0.0/8"))?
            }
            Some(_) => return Err(wrong("is not a range such as 10.0.0.0/8")),
        };
        if fixed > width {
            return Err(wrong("fixes more bits than an address has"));
        }
        let range = Self { start, fixed };
        // A bit beyond the fixed ones is a slip: somebody meant a smaller range than this would be.
        if bits(start) & !range.mask() != 0 {
            return Err(wrong("has bits beyond those it fixes"));
        }
        Ok(range)
    }

    /// Whether this address is one of them. An IPv4 address written as IPv6 counts as IPv4.
    #[must_use]
    pub fn holds(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.start.is_ipv4() && bits(address) & self.mask() == bits(self.start)
    }

    fn mask(self) -> u128 {
        let width = if self.start.is_ipv4() { 32 } else { 128 };
        let all = u128::MAX >> (128 - width);
        all & !all.checked_shr(self.fixed).unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Whom a request is from: who connected or, where that is a trusted proxy, the right-most address in `x-forwarded-for`
/// that is not. What stands left of it was written by the caller.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[AddressRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.holds(address));
    let mut client = peer.to_canonical();
    // Nothing is read where nobody is trusted, which is most of the time.
    if !is_trusted(client) {
        return client;
    }
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let hops = values.flat_map(|value| value.as_bytes().rsplit(|sign| *sign == b','));
    for hop in hops.take(MOST_HOPS) {
        let Some(address) = std::str::from_utf8(hop.trim_ascii()).ok().and_then(hop_address) else { break };
        client = address;
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// An address with or without a port.
fn hop_address(text: &str) -> Option<IpAddr> {
    let address =
        text.parse::<IpAddr>().or_else(|_| text.parse().map(|socket: std::net::SocketAddr| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// What keys of addresses are made with in one calendar month.
#[derive(Clone)]
pub struct MonthSalt(aws_lc_rs::hmac::Key);

impl std::fmt::Debug for MonthSalt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MonthSalt")
    }
}

impl MonthSalt {
    /// The salt of the month of this moment. Every node with this secret has the same one.
    #[must_use]
    pub fn new(secret: &[u8], now: UtcTime) -> Self {
        let (year, month, _) = now.civil();
        Self(code_key(&code(&code_key(secret), format!("address salt {year:04}-{month:02}").as_bytes())))
    }
}

/// What an address is known by. IPv6 counts by its first 64 bits, because one subscriber has all the rest.
#[must_use]
pub fn address_key(address: IpAddr, salt: &MonthSalt) -> [u8; 32] {
    let written = match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{}/64", Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    };
    code(&salt.0, written.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{AddressRange, MOST_HOPS, MonthSalt, address_key, client_address};
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
    fn a_range_ends_where_its_fixed_bits_say() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.6", "192.0.2.8"]),
            ("192.0.2.6/31", ["192.0.2.6", "192.0.2.7"], ["192.0.2.5", "192.0.2.8"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "2001:db8::"]),
            ("2001:db8::/33", ["2001:db8::", "2001:db8:7fff:ffff::1"], ["2001:db8:8000::", "2001:db7::"]),
            ("::/0", ["::1", "ffff::"], ["1.2.3.4", "::ffff:1.2.3.4"]),
        ] {
            let range = AddressRange::parse(range).unwrap();
            assert!(inside.iter().all(|text| range.holds(address(text))), "{range:?}");
            assert!(!outside.iter().any(|text| range.holds(address(text))), "{range:?}");
        }
    }

    #[test]
    fn a_range_that_means_something_else_is_refused() {
        for (text, problem) in [
            ("", "is not a range such as 10.0.0.0/8"),
            ("10.0.0.0/", "is not a range such as 10.0.0.0/8"),
            ("10.0.0.0/+8", "is not a range such as 10.0.0.0/8"),
            ("10.0.0/8", "is not a range such as 10.0.0.0/8"),
            ("10.0.0.0/99999999999", "is not a range such as 10.0.0.0/8"),
            ("10.0.0.0/33", "fixes more bits than an address has"),
            ("::/129", "fixes more bits than an address has"),
            ("10.0.0.1/8", "has bits beyond those it fixes"),
            ("2001:db8::1/127", "has bits beyond those it fixes"),
            ("::ffff:10.0.0.0/104", "is an IPv4 address written as IPv6"),
        ] {
            let error = AddressRange::parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("address range: {text:?} {problem}"));
        }
        assert!(AddressRange::parse("10.0.0.0/32").is_ok() && AddressRange::parse("::1/128").is_ok());
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
        // The caller wrote the left part, in the hope that it is believed.
        assert_eq!(from("10.0.0.1", &[b"127.0.0.1, 192.0.2.1 ,10.0.0.2"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &[b"127.0.0.1", b"192.0.2.1", b"10.0.0.2"]), "192.0.2.1");
        assert_eq!(from("2001:db8::1", &[b"[2001:db9::7]:443"]), "2001:db9::7");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1:1234"]), "192.0.2.1");
        assert_eq!(from("10.0.0.1", &[b"10.0.0.3, 10.0.0.2"]), "10.0.0.3");
        // What cannot be read ends the way; the last proxy counts.
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1, unknown, 10.0.0.2"]), "10.0.0.2");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1,"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[b"192.0.2.1, \xff"]), "10.0.0.1");
    }

    #[test]
    fn an_endless_row_of_proxies_is_not_followed() {
        let row = |hops: usize| format!("192.0.2.1{}", ",10.0.0.2".repeat(hops));
        let trusted = ranges(&["10.0.0.0/8"]);
        let from = |hops| client_address(address("10.0.0.1"), &headers(&[row(hops).as_bytes()]), &trusted);
        assert_eq!((from(MOST_HOPS - 1), from(MOST_HOPS)), (address("192.0.2.1"), address("10.0.0.2")));
        assert_eq!(MOST_HOPS, 32);
    }

    #[test]
    fn an_address_is_known_by_its_subscriber() {
        let salt = MonthSalt::new(b"secret", UtcTime::from_civil(2026, 11, 1));
        let key = |text| address_key(address(text), &salt);
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_eq!(format!("{salt:?}"), "MonthSalt");
    }

    #[test]
    fn a_salt_lasts_one_month() {
        let key = |secret: &[u8], now| address_key(address("192.0.2.1"), &MonthSalt::new(secret, now));
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
                if !trusted[0].holds(peer) {
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
            prop_assert_eq!((range.holds(plain), range.holds(mapped)), (naive, naive));
        }
    }
}

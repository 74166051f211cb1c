//! Blocks the metadata services of clouds, which serve credentials and never a model.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services outside the link-local range: those of two clouds, and the host agent of a third.
const V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
const V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Whether a cloud serves credentials or configuration to its instances at this address. The whole link-local range
/// counts, and so does an IPv4 address embedded in an IPv6 one.
#[must_use]
pub fn is_metadata_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local() || V4.contains(&address),
        IpAddr::V6(address) => {
            address.is_unicast_link_local()
                || V6.contains(&address)
                || embedded_ipv4(address).is_some_and(|address| is_metadata_address(IpAddr::V4(address)))
        }
    }
}

/// Which addresses may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressPolicy {
    /// Addresses that a target may have.
    DenyMetadata,
    /// Any address, for credential sources that call the metadata service at its fixed address.
    AllowAll,
}

impl AddressPolicy {
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        self == Self::AllowAll || !is_metadata_address(address)
    }
}

/// The IPv4 address inside a mapped, compatible or NAT64 address.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., high, low] = address.segments();
    let is_nat64 = address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
    if is_nat64 { Some(Ipv4Addr::new(a, b, c, d)) } else { address.to_ipv4() }
}

#[cfg(test)]
mod tests {
    use super::{AddressPolicy, is_metadata_address};
    use crate::connect::BaseUrl;

    #[test]
    fn metadata_addresses_are_recognised_in_every_encoding() {
        for address in [
            "169.254.169.254",
            "169.254.170.2",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "::ffff:100.100.100.200",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
        ] {
            assert!(is_metadata_address(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn only_credential_sources_may_reach_metadata_addresses() {
        for (address, is_targets) in [("169.254.169.254", false), ("127.0.0.1", true)] {
            let read = address.parse().unwrap();
            assert!(
                AddressPolicy::AllowAll.allows(read)
                    && AddressPolicy::DenyMetadata.allows(read) == is_targets
            );
            let url = format!("http://{address}");
            assert!(BaseUrl::parse_with_policy(&url, AddressPolicy::AllowAll).is_ok());
            assert_eq!(BaseUrl::parse(&url).is_ok(), is_targets);
        }
    }

    #[test]
    fn private_addresses_are_allowed_for_self_hosted_models() {
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "100.100.100.201",
            "168.63.129.17",
            "192.0.0.193",
            "169.253.255.255",
            "169.255.0.0",
            "::1",
            "fd00:ec2::253",
            "fd20:ce::253",
            "64:ff9b::10.0.0.1",
            "65:ff9b::169.254.169.254",
            "fd12::1",
            "203.0.113.7",
        ] {
            assert!(!is_metadata_address(address.parse().unwrap()), "{address}");
        }
    }
}

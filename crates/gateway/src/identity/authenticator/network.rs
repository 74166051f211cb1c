//! Networks, as limits and logs identify them.
//!
//! An IPv6 subscriber has a whole network, usually a /64, and some have a /48 with 65,536 of those. A client that
//! rotates through them must not get a limit for each. Beyond eight networks of one /48 that were active within the
//! last hour, all others of it count as one network. A subscriber therefore never has more than nine networks' worth
//! of a limit in an hour.

use crate::core_registry::lock;
use crate::identity::address::{MonthSalt, address_key, network_bits};
use crate::identity::master::MasterSecret;
use arc_swap::ArcSwap;
use arrayvec::ArrayVec;
use seawall_core::time::UtcTime;
use seawall_pipeline::callers::caller_id_of;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The prefix that counts as one network when too many of its networks are active.
const SITE_PREFIX: u8 = 48;
/// Networks per site that count individually.
const MAX_NETWORKS: usize = 8;
/// A network without requests for this long is no longer active.
const ACTIVE: Duration = Duration::from_secs(3_600);
/// Maximum number of tracked sites. Any further site counts as one network, until some have become inactive.
const MAX_SITES: usize = 1 << 16;
/// Interval between two sweeps of inactive sites.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Maps addresses to network numbers.
pub(super) struct Networks {
    secret: [u8; 32],
    ipv6_prefix: u8,
    /// Rebuilt when the month changes.
    salt: ArcSwap<(Month, MonthSalt)>,
    sites: Arc<Mutex<Sites>>,
}

/// The recently active networks of each site, with the time of their last request.
#[derive(Debug, Default)]
struct Sites {
    active: BTreeMap<u128, ArrayVec<(u128, UtcTime), MAX_NETWORKS>>,
    swept: Option<UtcTime>,
}

impl Sites {
    /// Whether this network of a site counts individually.
    fn counts_individually(&mut self, site: u128, network: u128, now: UtcTime) -> bool {
        let is_over = |seen: UtcTime| now.since(seen) > ACTIVE;
        if self.active.len() >= MAX_SITES && !self.active.contains_key(&site) {
            if self.swept.is_some_and(|swept| now.since(swept) < SWEEP_EVERY) {
                return false;
            }
            self.swept = Some(now);
            self.active.retain(|_, networks| networks.iter().any(|(_, seen)| !is_over(*seen)));
            if self.active.len() >= MAX_SITES {
                return false;
            }
        }
        let networks = self.active.entry(site).or_default();
        if let Some((_, seen)) = networks.iter_mut().find(|(known, _)| *known == network) {
            *seen = now;
            return true;
        }
        networks.retain(|(_, seen)| !is_over(*seen));
        networks.try_push((network, now)).is_ok()
    }
}

type Month = (i64, u32);

fn month(now: UtcTime) -> Month {
    let (year, month, _) = now.civil();
    (year, month)
}

impl Networks {
    /// Takes over the activity that `before` has recorded.
    pub(super) fn new(master: &MasterSecret, ipv6_prefix: u8, now: UtcTime, before: Option<&Self>) -> Self {
        let secret = master.derive("networks");
        let salt = ArcSwap::from_pointee((month(now), MonthSalt::new(&secret, now)));
        let sites = before.map(|before| Arc::clone(&before.sites)).unwrap_or_default();
        Self { secret, ipv6_prefix, salt, sites }
    }

    pub(super) const fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }

    /// The number of the network of this address. It changes every month.
    pub(super) fn network_number(&self, address: IpAddr, now: UtcTime) -> u64 {
        let salt = self.salt.load();
        let prefix = self.prefix(address, now);
        if salt.0 == month(now) {
            return caller_id_of(&address_key(address, prefix, &salt.1));
        }
        let next = MonthSalt::new(&self.secret, now);
        let number = caller_id_of(&address_key(address, prefix, &next));
        self.salt.store(Arc::new((month(now), next)));
        number
    }

    /// The prefix length by which an address counts.
    fn prefix(&self, address: IpAddr, now: UtcTime) -> u8 {
        if self.ipv6_prefix <= SITE_PREFIX || address.to_canonical().is_ipv4() {
            return self.ipv6_prefix;
        }
        let [site, network] = [SITE_PREFIX, self.ipv6_prefix].map(|bits| network_bits(address, bits));
        if lock(&self.sites).counts_individually(site, network, now) { self.ipv6_prefix } else { SITE_PREFIX }
    }
}

#[cfg(test)]
mod tests {
    use super::{ACTIVE, MAX_NETWORKS, MAX_SITES, MasterSecret, Networks};
    use seawall_core::time::UtcTime;
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv6Addr};
    use std::time::Duration;

    fn noon() -> UtcTime {
        UtcTime::from_civil(2026, 11, 16) + Duration::from_secs(43_200)
    }

    fn networks(prefix: u8) -> Networks {
        Networks::new(&MasterSecret::new(vec![7; 32]).unwrap(), prefix, noon(), None)
    }

    /// A host in this network of this site.
    fn host(site: u16, network: u16, host: u16) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, site, network, 0, 0, 0, host))
    }

    #[test]
    fn rotating_through_the_networks_of_a_site_yields_at_most_nine_addresses() {
        let networks = networks(64);
        let numbers = |site: u16, of: std::ops::Range<u16>, now| {
            of.map(|network| networks.network_number(host(site, network, network), now))
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(numbers(1, 0..1_000, noon()).len(), MAX_NETWORKS + 1);
        // Also on repeated use, and in another order.
        let later = noon() + Duration::from_secs(600);
        assert_eq!(numbers(1, 500..2_000, later).len(), 1);
        assert_eq!(numbers(1, 0..8, later).len(), 8);
        // Another site is independent, and so is one network with many hosts.
        assert_eq!(numbers(2, 0..8, noon()).len(), 8);
        let hosts: BTreeSet<u64> =
            (0..1_000).map(|number| networks.network_number(host(3, 0, number), noon())).collect();
        assert_eq!(hosts.len(), 1);
        // Networks that were inactive for an hour make room for others.
        let quiet = later + ACTIVE + Duration::from_secs(1);
        assert_eq!(numbers(1, 5_000..5_008, quiet).len(), 8);
        assert_eq!(numbers(1, 6_000..7_000, quiet).len(), 1);
    }

    #[test]
    fn other_settings_forget_nothing_and_ipv4_counts_by_address() {
        let before = networks(64);
        for network in 0..8 {
            let _number = before.network_number(host(1, network, 0), noon());
        }
        let master = MasterSecret::new(vec![7; 32]).unwrap();
        let after = Networks::new(&master, 64, noon(), Some(&before));
        assert_eq!(
            after.network_number(host(1, 100, 0), noon()),
            after.network_number(host(1, 200, 0), noon())
        );
        let addresses = (0..=255).map(|last| IpAddr::from([198, 51, 100, last]));
        assert_eq!(
            addresses.map(|address| after.network_number(address, noon())).collect::<BTreeSet<_>>().len(),
            256
        );
        let wide = networks(48);
        assert_eq!(wide.network_number(host(1, 1, 0), noon()), wide.network_number(host(1, 2, 0), noon()));
    }

    #[test]
    fn more_sites_than_can_be_known_count_as_one_address_each() {
        let networks = networks(64);
        let site = |number: usize| {
            let [.., high, low] = (number as u64).to_be_bytes().map(u16::from);
            let middle = u16::try_from(number >> 16).unwrap();
            IpAddr::V6(Ipv6Addr::new(0x2001, middle, high << 8 | low, 7, 0, 0, 0, 1))
        };
        for number in 0..MAX_SITES {
            let _number = networks.network_number(site(number), noon());
        }
        let one = host(9, 1, 1);
        assert_eq!(networks.network_number(one, noon()), networks.network_number(host(9, 2, 1), noon()));
        let quiet = noon() + ACTIVE + Duration::from_secs(61);
        assert_ne!(networks.network_number(one, quiet), networks.network_number(host(9, 2, 1), quiet));
    }
}

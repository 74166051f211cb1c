//! Networks, as limits and logs know them.

use crate::identity::address::{MonthSalt, address_key};
use crate::identity::master::MasterSecret;
use arc_swap::ArcSwap;
use seawall_core::time::UtcTime;
use seawall_pipeline::callers::number_of;
use std::net::IpAddr;
use std::sync::Arc;

/// What networks are known by.
pub(super) struct Networks {
    secret: [u8; 32],
    ipv6_prefix: u8,
    /// Made anew when the month changes.
    salt: ArcSwap<(Month, MonthSalt)>,
}

type Month = (i64, u32);

fn month(now: UtcTime) -> Month {
    let (year, month, _) = now.civil();
    (year, month)
}

impl Networks {
    pub(super) fn new(master: &MasterSecret, ipv6_prefix: u8, now: UtcTime) -> Self {
        let secret = master.derived("networks");
        let salt = ArcSwap::from_pointee((month(now), MonthSalt::new(&secret, now)));
        Self { secret, ipv6_prefix, salt }
    }

    pub(super) const fn ipv6_prefix(&self) -> u8 {
        self.ipv6_prefix
    }

    /// The number of the network of this address, for a month.
    pub(super) fn number(&self, address: IpAddr, now: UtcTime) -> u64 {
        let salt = self.salt.load();
        if salt.0 == month(now) {
            return number_of(&address_key(address, self.ipv6_prefix, &salt.1));
        }
        let next = MonthSalt::new(&self.secret, now);
        let number = number_of(&address_key(address, self.ipv6_prefix, &next));
        self.salt.store(Arc::new((month(now), next)));
        number
    }
}

//! Fair shares of a target's concurrency slots.
//!
//! With a limit on all calls in flight alone, one caller could take every slot: streams that it reads slowly, or not at
//! all, each occupy a slot until they time out, and no other caller is answered. So admission depends on the caller:
//!
//! - the last tenth of the slots is reserved for callers that have none in flight there;
//! - one caller has at most its share, and so have the guests of one network;
//! - all guests together have at most half.
//!
//! **When it acts.** On every call that needs a slot. [`SlotShares::decide`] is the pure decision; [`SlotLimit`]
//! applies it under a lock, in one step with the total count ([`InFlightLimit`]), so that no interleaving grants a slot
//! too many.
//!
//! **What it does not do.** It does not queue and does not revoke slots. A limit of fewer than four slots reserves
//! none: setting half of two slots aside for callers that may never come would cost more than it protects.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::{InFlightLimit, InFlightPermit};
use crate::invariant::{Violation, enforce, in_flight_within_limit};
use crate::setting::Ratio;
use crate::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU32;

/// Below this number of slots none is reserved: first come, first served.
const MIN_SLOTS_TO_RESERVE: u32 = 4;

/// How the slots of a target are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShares {
    /// The share of one caller.
    pub per_caller: Ratio,
    /// The share of all guests of one network together.
    pub per_address: Ratio,
    /// The share of all guests together.
    pub guests: Ratio,
    /// The share reserved for callers with none in flight; `None` to reserve no slots.
    pub reserved: Option<Ratio>,
}

/// The party that requests a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotOwner {
    /// The caller's number.
    pub caller: u64,
    /// The network of a guest; `None` for an authenticated caller.
    pub guest_network: Option<u64>,
}

/// Why no slot was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRefusal {
    /// All slots are in use.
    Full,
    /// The remaining slots are reserved for callers with none in flight, and this caller has one.
    Reserved,
    /// The caller has used its share.
    CallerShare,
    /// The guests of this network have used their share.
    NetworkShare,
    /// All guests together have used their share.
    GuestShare,
}

/// The slots in use when a slot is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// By all callers.
    pub all: u32,
    /// By the requesting caller.
    pub caller: u32,
    /// By guests of its network.
    pub network: u32,
    /// By all guests.
    pub guests: u32,
}

impl Default for SlotShares {
    /// One caller may have all but the reserved tenth, all guests half, the guests of one network a quarter.
    fn default() -> Self {
        Self {
            per_caller: Ratio::WHOLE,
            per_address: Ratio::of_percent::<25>(),
            guests: Ratio::of_percent::<50>(),
            reserved: Some(Ratio::of_percent::<10>()),
        }
    }
}

impl SlotShares {
    /// Whether one more of `limit` slots may be granted.
    pub fn decide(&self, limit: u32, in_use: &SlotUse, is_guest: bool) -> Result<(), SlotRefusal> {
        if in_use.all >= limit {
            return Err(SlotRefusal::Full);
        }
        if is_guest && in_use.guests >= share(self.guests, limit) {
            return Err(SlotRefusal::GuestShare);
        }
        if is_guest && in_use.network >= share(self.per_address, limit) {
            return Err(SlotRefusal::NetworkShare);
        }
        if in_use.caller >= share(self.per_caller, limit) {
            return Err(SlotRefusal::CallerShare);
        }
        // A guest becomes a new caller whenever it drops its cookie, so its network decides whether it has any in
        // flight.
        let own = if is_guest { in_use.network } else { in_use.caller };
        if own > 0 && in_use.all >= limit - self.reserved_of(limit) {
            return Err(SlotRefusal::Reserved);
        }
        Ok(())
    }

    fn reserved_of(&self, limit: u32) -> u32 {
        match self.reserved {
            // At least one; otherwise one caller could have them all.
            Some(reserved) if limit >= MIN_SLOTS_TO_RESERVE => share(reserved, limit).min(limit - 1),
            _ => 0,
        }
    }
}

/// A share of the slots: at least one, so that no party is locked out completely.
fn share(ratio: Ratio, limit: u32) -> u32 {
    u32::try_from(ratio.of(limit.into())).unwrap_or(limit).max(1)
}

/// The concurrency slots of one target. Clones share them.
#[derive(Clone, Debug)]
pub struct SlotLimit {
    all: InFlightLimit,
    owners: Arc<Mutex<SlotOwners>>,
}

#[derive(Debug)]
struct SlotOwners {
    shares: SlotShares,
    callers: BTreeMap<u64, u32>,
    networks: BTreeMap<u64, u32>,
    guests: u32,
}

/// A permit for one slot; dropping it frees the slot.
#[derive(Debug)]
#[must_use = "dropping it gives the slot back"]
pub struct SlotPermit {
    /// Released while `owners` is locked, so that both counts change in one step.
    permit: Option<InFlightPermit>,
    owner: SlotOwner,
    owners: Arc<Mutex<SlotOwners>>,
}

impl SlotLimit {
    /// Creates `limit` slots with these shares.
    #[must_use]
    pub fn new(limit: NonZeroU32, shares: SlotShares) -> Self {
        let owners = SlotOwners { shares, callers: BTreeMap::new(), networks: BTreeMap::new(), guests: 0 };
        Self { all: InFlightLimit::new(limit), owners: Arc::new(Mutex::new(owners)) }
    }

    /// A slot, if the shares allow `owner` one now.
    pub fn try_acquire(&self, owner: SlotOwner) -> Result<SlotPermit, SlotRefusal> {
        let mut owners = lock(&self.owners);
        let in_use = SlotUse {
            all: self.all.in_flight(),
            caller: owners.callers.get(&owner.caller).copied().unwrap_or(0),
            network: owner.guest_network.and_then(|from| owners.networks.get(&from).copied()).unwrap_or(0),
            guests: owners.guests,
        };
        owners.shares.decide(self.all.limit(), &in_use, owner.guest_network.is_some())?;
        let permit = self.all.try_acquire().ok_or(SlotRefusal::Full)?;
        enforce(self.check_in_flight());
        *owners.callers.entry(owner.caller).or_insert(0) += 1;
        if let Some(from) = owner.guest_network {
            *owners.networks.entry(from).or_insert(0) += 1;
            owners.guests += 1;
        }
        Ok(SlotPermit { permit: Some(permit), owner, owners: Arc::clone(&self.owners) })
    }

    /// The invariant of the slots. Under the lock neither number changes.
    fn check_in_flight(&self) -> Result<(), Violation> {
        in_flight_within_limit(self.all.in_flight(), self.all.limit())
    }

    /// Slots in use.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.all.in_flight()
    }

    /// The current number of slots.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.all.limit()
    }

    /// The maximum number of slots that were ever in use at once.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.all.peak()
    }

    /// Changes the number of slots and their shares; slots in use stay in use.
    pub fn set_limits(&self, limit: NonZeroU32, shares: SlotShares) {
        let mut owners = lock(&self.owners);
        self.all.set_limit(limit);
        owners.shares = shares;
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let mut owners = lock(&self.owners);
        decrement(&mut owners.callers, self.owner.caller);
        if let Some(from) = self.owner.guest_network {
            decrement(&mut owners.networks, from);
            owners.guests = owners.guests.saturating_sub(1);
        }
        self.permit = None;
    }
}

/// Decrements a count and removes it at zero.
fn decrement(counts: &mut BTreeMap<u64, u32>, number: u64) {
    if let Entry::Occupied(mut count) = counts.entry(number) {
        match count.get().saturating_sub(1) {
            0 => drop(count.remove()),
            less => drop(count.insert(less)),
        }
    }
}

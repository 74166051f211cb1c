//! Who may have how many of a target's slots.
//!
//! A limit on all calls in flight lets one caller take all of them: streams that it reads slowly, or not at all, occupy a
//! slot each until their time is over, and nobody else is answered. So a slot is given by who asks:
//!
//! - the last tenth of the slots is for callers that have none in flight there;
//! - one caller has at most its share, and so have the guests of one address;
//! - all guests together have at most half.
//!
//! **When it acts.** On every call that wants a slot. [`SlotShares::decide`] is the pure decision; [`SlotLimit`] applies it
//! under a lock, in one step with the count of all ([`InFlightLimit`]), so that no order of events gives a slot too many.
//!
//! **What it will not do.** It does not queue and takes no slot back. A limit of fewer than four slots reserves none: half
//! of two slots for callers that may never come would be dearer than what it protects.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::{InFlightLimit, InFlightPermit};
use crate::setting::{Ratio, SettingError};
use crate::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Fewer slots than this are all for whoever comes first.
const MIN_SLOTS_TO_RESERVE: u32 = 4;

/// How the slots of a target are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotShares {
    /// What one caller may have.
    pub per_caller: Ratio,
    /// What the guests of one address may have together.
    pub per_address: Ratio,
    /// What all guests may have together.
    pub guests: Ratio,
    /// What only callers get that have none in flight; nothing to reserve none.
    pub reserved: Option<Ratio>,
}

/// Who wants a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHolder {
    /// The number of the caller.
    pub caller: u64,
    /// The network that a guest comes from; nothing for callers that have shown who they are.
    pub guest_from: Option<u64>,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRefusal {
    /// All are taken.
    Full,
    /// What is left is for callers that have none in flight, and this one has.
    Reserved,
    /// The caller has its share.
    CallerShare,
    /// The guests of this address have their share.
    AddressShare,
    /// All guests together have their share.
    GuestShare,
}

/// The slots that are in use when somebody asks for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotUse {
    /// By anybody.
    pub all: u32,
    /// By the one who asks.
    pub caller: u32,
    /// By guests of its address.
    pub address: u32,
    /// By guests.
    pub guests: u32,
}

impl Default for SlotShares {
    /// A caller may have all but a tenth, guests half, one address of theirs a quarter.
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
    /// Whether one more slot may be given, of so many that there are.
    pub fn decide(&self, limit: u32, in_use: &SlotUse, is_guest: bool) -> Result<(), SlotRefusal> {
        if in_use.all >= limit {
            return Err(SlotRefusal::Full);
        }
        if is_guest && in_use.guests >= share(self.guests, limit) {
            return Err(SlotRefusal::GuestShare);
        }
        if is_guest && in_use.address >= share(self.per_address, limit) {
            return Err(SlotRefusal::AddressShare);
        }
        if in_use.caller >= share(self.per_caller, limit) {
            return Err(SlotRefusal::CallerShare);
        }
        // A guest is a new caller as often as it drops its cookie: its address tells whether it has any in flight.
        let own = if is_guest { in_use.address } else { in_use.caller };
        if own > 0 && in_use.all >= limit - self.reserved_of(limit) {
            return Err(SlotRefusal::Reserved);
        }
        Ok(())
    }

    fn reserved_of(&self, limit: u32) -> u32 {
        match self.reserved {
            // At least one, or one caller could have them all.
            Some(reserved) if limit >= MIN_SLOTS_TO_RESERVE => share(reserved, limit).min(limit - 1),
            _ => 0,
        }
    }
}

/// A share of the slots: at least one, so that nobody is shut out.
fn share(ratio: Ratio, limit: u32) -> u32 {
    u32::try_from(ratio.of(limit.into())).unwrap_or(limit).max(1)
}

/// The slots of one target. Clones share them.
#[derive(Clone, Debug)]
pub struct SlotLimit {
    all: InFlightLimit,
    holders: Arc<Mutex<Holders>>,
}

#[derive(Debug)]
struct Holders {
    shares: SlotShares,
    callers: BTreeMap<u64, u32>,
    addresses: BTreeMap<u64, u32>,
    guests: u32,
}

/// A slot, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the slot back"]
pub struct SlotPermit {
    /// Given back while the holders are locked, so that both counts change in one step.
    permit: Option<InFlightPermit>,
    holder: SlotHolder,
    holders: Arc<Mutex<Holders>>,
}

impl SlotLimit {
    /// So many slots, shared like this. Refuses a limit of nothing.
    pub fn new(limit: u32, shares: SlotShares) -> Result<Self, SettingError> {
        let holders = Holders { shares, callers: BTreeMap::new(), addresses: BTreeMap::new(), guests: 0 };
        Ok(Self { all: InFlightLimit::new(limit)?, holders: Arc::new(Mutex::new(holders)) })
    }

    /// A slot, if this one may have one now.
    pub fn try_acquire(&self, holder: SlotHolder) -> Result<SlotPermit, SlotRefusal> {
        let mut holders = lock(&self.holders);
        let in_use = SlotUse {
            all: self.all.in_flight(),
            caller: holders.callers.get(&holder.caller).copied().unwrap_or(0),
            address: holder.guest_from.and_then(|from| holders.addresses.get(&from).copied()).unwrap_or(0),
            guests: holders.guests,
        };
        holders.shares.decide(self.all.limit(), &in_use, holder.guest_from.is_some())?;
        let permit = self.all.try_acquire().ok_or(SlotRefusal::Full)?;
        *holders.callers.entry(holder.caller).or_insert(0) += 1;
        if let Some(from) = holder.guest_from {
            *holders.addresses.entry(from).or_insert(0) += 1;
            holders.guests += 1;
        }
        Ok(SlotPermit { permit: Some(permit), holder, holders: Arc::clone(&self.holders) })
    }

    /// Slots in use now.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.all.in_flight()
    }

    /// How many there are.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.all.limit()
    }

    /// The most that were ever in use at once.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.all.peak()
    }

    /// Another number of slots, shared otherwise, from now on; those in use stay in use. Refuses a limit of nothing and
    /// changes nothing then.
    pub fn change(&self, limit: u32, shares: SlotShares) -> Result<(), SettingError> {
        let mut holders = lock(&self.holders);
        self.all.set_limit(limit)?;
        holders.shares = shares;
        Ok(())
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let mut holders = lock(&self.holders);
        give_back(&mut holders.callers, self.holder.caller);
        if let Some(from) = self.holder.guest_from {
            give_back(&mut holders.addresses, from);
            holders.guests = holders.guests.saturating_sub(1);
        }
        self.permit = None;
    }
}

/// Counts one less, and forgets who has none.
fn give_back(counts: &mut BTreeMap<u64, u32>, number: u64) {
    if let Entry::Occupied(mut count) = counts.entry(number) {
        match count.get().saturating_sub(1) {
            0 => drop(count.remove()),
            less => drop(count.insert(less)),
        }
    }
}

//! Hash table of the callers' accounts of one day.
//!
//! With a million callers a lookup is dominated by cache misses. The table therefore uses open addressing with linear
//! probing: an account lies in the slot that its hash selects or a few slots behind it, which costs one miss where a
//! tree costs one per level. The table is split into shards that grow separately, so that no request pays for
//! rehashing all callers.
//!
//! **What it does not do.** It keeps no order; code that lists accounts must sort them.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::account::BudgetAccount;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Shards, each of which grows on its own.
const SHARDS: usize = 256;
/// The load factor at which a shard grows: [`MAX_FULL`] of `OF` slots.
const OF: usize = 16;
const MAX_FULL: usize = 13;
/// Capacity of a shard that holds its first account.
const MIN_CAPACITY: usize = 4;
/// Marks an empty slot. The account of a caller with this number is stored outside the table.
const EMPTY: u64 = 0;

/// A slot of the table.
#[derive(Clone, Copy, Debug, Default)]
struct AccountSlot {
    caller: u64,
    account: BudgetAccount,
}

/// One shard of the table.
#[derive(Debug, Default)]
struct AccountShard {
    slots: Vec<AccountSlot>,
    occupied: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct AccountTable {
    shards: Box<[AccountShard]>,
    zero_caller: Option<BudgetAccount>,
    /// Secret hash seed. With a known seed a client could choose callers that collide and make every lookup slow.
    seed: u64,
    /// Shards that [`AccountTable::remove_any`] has emptied so far.
    drained: usize,
}

impl Default for AccountTable {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl AccountTable {
    /// An empty table with this hash seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| AccountShard::default()).collect(),
            zero_caller: None,
            seed,
            drained: 0,
        }
    }

    /// Rehashes all accounts with another seed.
    pub(super) fn rehashed(&self, seed: u64) -> Self {
        let mut other = Self::seeded(seed);
        self.iter().for_each(|(caller, account)| *other.open(caller) = account);
        other
    }

    pub(super) fn get(&self, caller: u64) -> Option<BudgetAccount> {
        if caller == EMPTY {
            return self.zero_caller;
        }
        let hash = hash(caller, self.seed);
        let shard = &self.shards[shard_of(hash)];
        shard.find(hash, caller).ok().map(|slot| shard.slots[slot].account)
    }

    /// The account of a caller, inserted with zero sums if it is absent.
    pub(super) fn open(&mut self, caller: u64) -> &mut BudgetAccount {
        if caller == EMPTY {
            return self.zero_caller.get_or_insert_default();
        }
        let hash = hash(caller, self.seed);
        self.shards[shard_of(hash)].open(hash, caller, self.seed)
    }

    pub(super) fn remove(&mut self, caller: u64) {
        if caller == EMPTY {
            self.zero_caller = None;
            return;
        }
        let hash = hash(caller, self.seed);
        self.shards[shard_of(hash)].remove(hash, caller, self.seed);
    }

    /// All accounts, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, BudgetAccount)> {
        let slots = self.shards.iter().flat_map(|shard| &shard.slots).filter(|slot| slot.caller != EMPTY);
        let zero_caller = self.zero_caller.iter().map(|account| (EMPTY, *account));
        slots.map(|slot| (slot.caller, slot.account)).chain(zero_caller)
    }

    /// Removes an arbitrary account and returns whether there was one. Lookups are no longer valid afterwards.
    pub(super) fn remove_any(&mut self) -> bool {
        if self.zero_caller.take().is_some() {
            return true;
        }
        while let Some(shard) = self.shards.get_mut(self.drained) {
            if shard.remove_any() {
                return true;
            }
            self.drained += 1;
        }
        false
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.occupied).sum::<usize>()
            + usize::from(self.zero_caller.is_some())
    }
}

impl AccountShard {
    /// The slot of a caller's account, or the empty slot where it would be inserted (`None` if the shard is full).
    fn find(&self, hash: u64, caller: u64) -> Result<usize, Option<usize>> {
        let first = self.home(hash);
        for at in (first..self.slots.len()).chain(0..first) {
            match self.slots[at].caller {
                found if found == caller => return Ok(at),
                EMPTY => return Err(Some(at)),
                _ => {}
            }
        }
        Err(None)
    }

    fn open(&mut self, hash: u64, caller: u64, seed: u64) -> &mut BudgetAccount {
        let at = match self.find(hash, caller) {
            Ok(at) => at,
            Err(available) => {
                let at = match available.filter(|_| (self.occupied + 1) * OF <= self.slots.len() * MAX_FULL) {
                    Some(available) => available,
                    None => self.grow(hash, seed),
                };
                self.slots[at].caller = caller;
                self.occupied += 1;
                at
            }
        };
        &mut self.slots[at].account
    }

    /// Rehashes the shard into 1.5 times its capacity. Returns the slot for one more account with this hash.
    fn grow(&mut self, hash: u64, seed: u64) -> usize {
        let length = (self.slots.len() + self.slots.len() / 2).max(MIN_CAPACITY);
        let old = std::mem::replace(&mut self.slots, vec![AccountSlot::default(); length]);
        for slot in old.into_iter().filter(|slot| slot.caller != EMPTY) {
            let at = self.free_from(self::hash(slot.caller, seed));
            self.slots[at] = slot;
        }
        self.free_from(hash)
    }

    /// The first empty slot for this hash. There always is one: the load factor keeps a shard from filling up.
    fn free_from(&self, hash: u64) -> usize {
        self.find(hash, EMPTY).unwrap_or_default()
    }

    fn remove(&mut self, hash: u64, caller: u64, seed: u64) {
        let Ok(mut hole) = self.find(hash, caller) else { return };
        let length = self.slots.len();
        let behind = |from: usize, to: usize| if to >= from { to - from } else { to + length - from };
        // Backward-shift deletion: entries behind the hole move up as far as their home slot permits, because a lookup
        // stops at the first empty slot.
        for at in (hole + 1..length).chain(0..hole) {
            let slot = self.slots[at];
            if slot.caller == EMPTY {
                break;
            }
            let home = self.home(self::hash(slot.caller, seed));
            if behind(home, at) >= behind(hole, at) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = AccountSlot::default();
        self.occupied -= 1;
    }

    /// The slot where probing starts: multiply-shift range reduction, as even as a remainder and faster.
    fn home(&self, hash: u64) -> usize {
        let first = (u128::from(hash) * self.slots.len() as u128) >> 64;
        usize::try_from(first).unwrap_or(0)
    }

    fn remove_any(&mut self) -> bool {
        while let Some(slot) = self.slots.pop() {
            if slot.caller != EMPTY {
                self.occupied = self.occupied.saturating_sub(1);
                return true;
            }
        }
        self.slots = Vec::new();
        false
    }
}

fn hash(caller: u64, seed: u64) -> u64 {
    FixedState::with_seed(seed).hash_one(caller)
}

/// The lowest bits of the hash select the shard; the highest bits select the slot within it.
fn shard_of(hash: u64) -> usize {
    usize::try_from(hash % SHARDS as u64).unwrap_or(0)
}

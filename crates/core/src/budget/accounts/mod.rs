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

use super::account::Account;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Shards, each of which grows on its own.
const PARTS: usize = 256;
/// The load factor at which a shard grows: [`MOST_FULL`] of `OF` slots.
const OF: usize = 16;
const MOST_FULL: usize = 13;
/// Capacity of a shard that holds its first account.
const FEWEST: usize = 4;
/// Marks an empty slot. The account of a caller with this number is stored outside the table.
const NOBODY: u64 = 0;

/// A slot of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    caller: u64,
    account: Account,
}

/// One shard of the table.
#[derive(Debug, Default)]
struct Part {
    places: Vec<Place>,
    taken: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Accounts {
    parts: Box<[Part]>,
    nobody: Option<Account>,
    /// Secret hash seed. With a known seed a client could choose callers that collide and make every lookup slow.
    seed: u64,
    /// Shards that [`Accounts::dismantle`] has emptied so far.
    apart: usize,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Accounts {
    /// An empty table with this hash seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect(), nobody: None, seed, apart: 0 }
    }

    /// Rehashes all accounts with another seed.
    pub(super) fn laid_out_by(&self, seed: u64) -> Self {
        let mut other = Self::seeded(seed);
        self.iter().for_each(|(caller, account)| *other.open(caller) = account);
        other
    }

    pub(super) fn get(&self, caller: u64) -> Option<Account> {
        if caller == NOBODY {
            return self.nobody;
        }
        let hash = hash(caller, self.seed);
        let part = &self.parts[part_of(hash)];
        part.find(hash, caller).ok().map(|place| part.places[place].account)
    }

    /// The account of a caller, inserted with zero sums if it is absent.
    pub(super) fn open(&mut self, caller: u64) -> &mut Account {
        if caller == NOBODY {
            return self.nobody.get_or_insert_default();
        }
        let hash = hash(caller, self.seed);
        self.parts[part_of(hash)].open(hash, caller, self.seed)
    }

    pub(super) fn remove(&mut self, caller: u64) {
        if caller == NOBODY {
            self.nobody = None;
            return;
        }
        let hash = hash(caller, self.seed);
        self.parts[part_of(hash)].remove(hash, caller, self.seed);
    }

    /// All accounts, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Account)> {
        let places = self.parts.iter().flat_map(|part| &part.places).filter(|place| place.caller != NOBODY);
        let nobody = self.nobody.iter().map(|account| (NOBODY, *account));
        places.map(|place| (place.caller, place.account)).chain(nobody)
    }

    /// Removes an arbitrary account and returns whether there was one. Lookups are no longer valid afterwards.
    pub(super) fn dismantle(&mut self) -> bool {
        if self.nobody.take().is_some() {
            return true;
        }
        while let Some(part) = self.parts.get_mut(self.apart) {
            if part.dismantle() {
                return true;
            }
            self.apart += 1;
        }
        false
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.taken).sum::<usize>() + usize::from(self.nobody.is_some())
    }
}

impl Part {
    /// The slot of a caller's account, or the empty slot where it would be inserted (`None` if the shard is full).
    fn find(&self, hash: u64, caller: u64) -> Result<usize, Option<usize>> {
        let first = self.home(hash);
        for at in (first..self.places.len()).chain(0..first) {
            match self.places[at].caller {
                found if found == caller => return Ok(at),
                NOBODY => return Err(Some(at)),
                _ => {}
            }
        }
        Err(None)
    }

    fn open(&mut self, hash: u64, caller: u64, seed: u64) -> &mut Account {
        let at = match self.find(hash, caller) {
            Ok(at) => at,
            Err(free) => {
                let at = match free.filter(|_| (self.taken + 1) * OF <= self.places.len() * MOST_FULL) {
                    Some(free) => free,
                    None => self.grow(hash, seed),
                };
                self.places[at].caller = caller;
                self.taken += 1;
                at
            }
        };
        &mut self.places[at].account
    }

    /// Rehashes the shard into 1.5 times its capacity. Returns the slot for one more account with this hash.
    fn grow(&mut self, hash: u64, seed: u64) -> usize {
        let length = (self.places.len() + self.places.len() / 2).max(FEWEST);
        let old = std::mem::replace(&mut self.places, vec![Place::default(); length]);
        for place in old.into_iter().filter(|place| place.caller != NOBODY) {
            let at = self.free_from(self::hash(place.caller, seed));
            self.places[at] = place;
        }
        self.free_from(hash)
    }

    /// The first empty slot for this hash. There always is one: the load factor keeps a shard from filling up.
    fn free_from(&self, hash: u64) -> usize {
        self.find(hash, NOBODY).unwrap_or_default()
    }

    fn remove(&mut self, hash: u64, caller: u64, seed: u64) {
        let Ok(mut hole) = self.find(hash, caller) else { return };
        let length = self.places.len();
        let behind = |from: usize, to: usize| if to >= from { to - from } else { to + length - from };
        // Backward-shift deletion: entries behind the hole move up as far as their home slot permits, because a lookup
        // stops at the first empty slot.
        for at in (hole + 1..length).chain(0..hole) {
            let place = self.places[at];
            if place.caller == NOBODY {
                break;
            }
            let home = self.home(self::hash(place.caller, seed));
            if behind(home, at) >= behind(hole, at) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole] = Place::default();
        self.taken -= 1;
    }

    /// The slot where probing starts: multiply-shift range reduction, as even as a remainder and faster.
    fn home(&self, hash: u64) -> usize {
        let first = (u128::from(hash) * self.places.len() as u128) >> 64;
        usize::try_from(first).unwrap_or(0)
    }

    fn dismantle(&mut self) -> bool {
        while let Some(place) = self.places.pop() {
            if place.caller != NOBODY {
                self.taken = self.taken.saturating_sub(1);
                return true;
            }
        }
        self.places = Vec::new();
        false
    }
}

fn hash(caller: u64, seed: u64) -> u64 {
    FixedState::with_seed(seed).hash_one(caller)
}

/// The lowest bits of the hash select the shard; the highest bits select the slot within it.
fn part_of(hash: u64) -> usize {
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

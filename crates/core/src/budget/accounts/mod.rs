//! What every caller has spent on one day.
//!
//! With a million callers, finding one of them is mostly waiting for memory. So an account lies in the very place that its
//! caller's number leads to, or a few places behind it: one wait, where a tree has one on every level. Places are laid out
//! anew when they have become full, a small part of all callers at a time, so that no request pays for all of them.
//!
//! **What it will not do.** It keeps no order. Whoever shows accounts to somebody puts them in order.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::account::Account;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Parts that grow each for itself.
const PARTS: usize = 256;
/// Of so many places, in a row or not, [`MOST_FULL`] may be taken.
const OF: usize = 16;
const MOST_FULL: usize = 13;
/// The fewest places that a part has, if it has any.
const FEWEST: usize = 4;
/// The caller in a place that is free. The account of a caller of this number lies elsewhere.
const NOBODY: u64 = 0;

/// Where an account lies, and whose it is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    caller: u64,
    account: Account,
}

/// Accounts whose callers' numbers fall into the same part.
#[derive(Debug, Default)]
struct Part {
    places: Vec<Place>,
    taken: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Accounts {
    parts: Box<[Part]>,
    nobody: Option<Account>,
    /// What nobody outside knows: who could choose callers whose accounts want the same place would make all of them slow.
    seed: u64,
    /// How many parts, from the first on, have been taken apart.
    apart: usize,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::seeded(0)
    }
}

impl Accounts {
    /// No accounts, to be laid out by this seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect(), nobody: None, seed, apart: 0 }
    }

    /// The same accounts, by another seed.
    pub(super) fn laid_out_by(&self, seed: u64) -> Self {
        let mut other = Self::seeded(seed);
        self.iter().for_each(|(caller, account)| *other.open(caller) = account);
        other
    }

    /// The account of a caller that has one.
    pub(super) fn get(&self, caller: u64) -> Option<Account> {
        if caller == NOBODY {
            return self.nobody;
        }
        let hash = hash(caller, self.seed);
        let part = &self.parts[part_of(hash)];
        part.find(hash, caller).ok().map(|place| part.places[place].account)
    }

    /// The account of a caller, with nothing in it if it is new.
    pub(super) fn open(&mut self, caller: u64) -> &mut Account {
        if caller == NOBODY {
            return self.nobody.get_or_insert_default();
        }
        let hash = hash(caller, self.seed);
        self.parts[part_of(hash)].open(hash, caller, self.seed)
    }

    /// Closes an account.
    pub(super) fn remove(&mut self, caller: u64) {
        if caller == NOBODY {
            self.nobody = None;
            return;
        }
        let hash = hash(caller, self.seed);
        self.parts[part_of(hash)].remove(hash, caller, self.seed);
    }

    /// All accounts, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Account)> {
        let places = self.parts.iter().flat_map(|part| &part.places).filter(|place| place.caller != NOBODY);
        let nobody = self.nobody.iter().map(|account| (NOBODY, *account));
        places.map(|place| (place.caller, place.account)).chain(nobody)
    }

    /// Takes one account out, whichever is nearest, and says whether there was one. None can be found any more.
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
    /// Where the account of a caller lies; or, if it has none, the free place that it would get.
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

    /// Lays all accounts out anew, with room to spare. Returns the place for one more with this hash.
    fn grow(&mut self, hash: u64, seed: u64) -> usize {
        let length = (self.places.len() + self.places.len() / 2).max(FEWEST);
        let old = std::mem::replace(&mut self.places, vec![Place::default(); length]);
        for place in old.into_iter().filter(|place| place.caller != NOBODY) {
            let at = self.free_from(self::hash(place.caller, seed));
            self.places[at] = place;
        }
        self.free_from(hash)
    }

    /// The first free place for this hash. There is one: a part that has places is never full.
    fn free_from(&self, hash: u64) -> usize {
        self.find(hash, NOBODY).unwrap_or_default()
    }

    fn remove(&mut self, hash: u64, caller: u64, seed: u64) {
        let Ok(mut hole) = self.find(hash, caller) else { return };
        let length = self.places.len();
        let behind = |from: usize, to: usize| if to >= from { to - from } else { to + length - from };
        // Those behind it move up as far as they may: whoever looks for one of them must not come upon a hole before it.
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

    /// Where to begin looking. The high half of a product: as even as a remainder, and quicker.
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

/// The place in a part is chosen by the highest bits of the hash, the part by the lowest.
fn part_of(hash: u64) -> usize {
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

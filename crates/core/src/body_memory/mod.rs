//! How many bytes of request bodies may be held in memory at once.
//!
//! Bodies are held until their requests have ended. Without a bound, whoever sends many large ones at the same time
//! decides how much memory the process has. One account bounds the sum; within it no caller and no address may have
//! more than its share, so that one of them cannot take the room of all.
//!
//! **When it acts.** As bytes arrive: what a request says of its length counts for nothing. A body that has arrived in
//! one piece ([`BodyMemory::hold_whole`]) costs one addition and one subtraction on a shared number; shares are looked
//! at only for bodies that come in several pieces ([`HeldBytes::add`]). The last eighth of the account is for the former
//! alone, so that a few large bodies never stop plain requests.
//!
//! **Answers.** An answer that waits to be read counts against its caller's share ([`HeldBytes::add_answer`]), not against
//! the account: it is there already and cannot be refused. A caller whose share is exceeded by unread answers sends no
//! further request until it has read some.
//!
//! **What it promises.** No order of events on any number of threads takes the account above its capacity, or a holder's
//! bodies above its share. Everything that was held is given back when its [`HeldBytes`] is dropped.
//!
//! **What it will not do.** It makes nobody wait: whoever is refused is told why, and may come back.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::setting::{Ratio, SettingError, at_least_one};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Locks for holders, so that threads with different callers seldom meet.
const SHARDS: usize = 16;

/// The account, as somebody wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyMemoryOptions {
    /// Bytes that may be held at once.
    pub capacity: u64,
    /// The share of one caller.
    pub caller_share: Ratio,
    /// The share of one address.
    pub address_share: Ratio,
}

/// Who sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyHolder {
    /// The number of the caller.
    pub caller: u64,
    /// The network that it comes from; nothing where that is a proxy that many are behind.
    pub address: Option<u128>,
}

/// Why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    /// The body alone is larger than the share of its caller or address, which is this many bytes.
    TooLarge(u64),
    /// The caller's share is taken by its other requests.
    CallerShare,
    /// The address's share is taken by other requests.
    AddressShare,
    /// The account is full.
    Full,
}

/// The account. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyMemory(Arc<Account>);

#[derive(Debug)]
struct Account {
    held: AtomicU64,
    limits: Limits,
    holders: [Mutex<BTreeMap<Holder, u64>>; SHARDS],
    /// Holders whose unread answers take more than their share. Nearly always none, so that nobody has to look.
    exceeded: AtomicUsize,
}

/// Changed one by one: each holds by itself.
#[derive(Debug)]
struct Limits {
    capacity: AtomicU64,
    caller: AtomicU64,
    address: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Caller(u64),
    Address(u128),
}

impl BodyMemoryOptions {
    /// The bytes of each limit: all, a caller's and an address's.
    fn limits(&self) -> Result<[u64; 3], SettingError> {
        at_least_one("body_memory", self.capacity)?;
        let of = |share: Ratio| share.of(self.capacity).max(1);
        Ok([self.capacity, of(self.caller_share), of(self.address_share)])
    }
}

impl BodyMemory {
    /// An account with nothing in it. Refuses one that could hold nothing.
    pub fn new(options: BodyMemoryOptions) -> Result<Self, SettingError> {
        let [capacity, caller, address] = options.limits()?.map(AtomicU64::new);
        Ok(Self(Arc::new(Account {
            held: AtomicU64::new(0),
            limits: Limits { capacity, caller, address },
            holders: std::array::from_fn(|_| Mutex::new(BTreeMap::new())),
            exceeded: AtomicUsize::new(0),
        })))
    }

    /// Other limits from now on; what is held stays held.
    pub fn change(&self, options: BodyMemoryOptions) -> Result<(), SettingError> {
        let [capacity, caller, address] = options.limits()?;
        let limits = &self.0.limits;
        limits.capacity.store(capacity, Ordering::Relaxed);
        limits.caller.store(caller, Ordering::Relaxed);
        limits.address.store(address, Ordering::Relaxed);
        let over = |shard: &Mutex<BTreeMap<Holder, u64>>| {
            let is_over =
                |(holder, held): &(&Holder, &u64)| matches!(holder, Holder::Caller(_)) && **held > caller;
            lock(shard).iter().filter(is_over).count()
        };
        self.0.exceeded.store(self.0.holders.iter().map(over).sum(), Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of bodies that are held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Bytes that may be held.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.limits.capacity.load(Ordering::Relaxed)
    }

    /// Holds a body that has arrived in one piece.
    pub fn hold_whole(&self, of: BodyHolder, bytes: u64) -> Result<HeldBytes, BodyRefusal> {
        let account = &self.0;
        // Nobody is over its share, as a rule, and then no lock is taken here.
        if account.exceeded.load(Ordering::Relaxed) > 0 && account.is_exceeded(Holder::Caller(of.caller)) {
            return Err(BodyRefusal::CallerShare);
        }
        account.take(bytes, account.limits.capacity.load(Ordering::Relaxed))?;
        Ok(HeldBytes { account: Arc::clone(account), of, bytes, shared: 0, answer: 0 })
    }

    /// Holds nothing yet, for a body that comes in pieces or an answer.
    pub fn hold_nothing(&self, of: BodyHolder) -> HeldBytes {
        HeldBytes { account: Arc::clone(&self.0), of, bytes: 0, shared: 0, answer: 0 }
    }
}

impl Account {
    /// Takes bytes of the account, or nothing.
    fn take(&self, bytes: u64, capacity: u64) -> Result<(), BodyRefusal> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > capacity {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::Full);
        }
        Ok(())
    }

    fn shard(&self, holder: Holder) -> MutexGuard<'_, BTreeMap<Holder, u64>> {
        let number = match holder {
            Holder::Caller(caller) => caller,
            // The low half of an IPv6 network is empty.
            #[expect(clippy::cast_possible_truncation, reason = "any bits spread holders over shards")]
            Holder::Address(address) => (address ^ (address >> 64)) as u64,
        };
        // The upper bits of neighbouring numbers are alike; a multiplication brings the lower ones up.
        let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        lock(&self.holders[spread as usize % SHARDS])
    }

    /// Takes bytes of a holder's share, or nothing.
    fn take_share(&self, holder: Holder, bytes: u64, share: u64) -> bool {
        let mut holders = self.shard(holder);
        let held = holders.get(&holder).copied().unwrap_or(0);
        let fits = held.saturating_add(bytes) <= share;
        if fits && bytes > 0 {
            holders.insert(holder, held + bytes);
        }
        fits
    }

    /// Counts bytes to a holder that are there already.
    fn add_share(&self, holder: Holder, bytes: u64, share: u64) {
        if bytes == 0 {
            return;
        }
        let mut holders = self.shard(holder);
        let held = holders.entry(holder).or_insert(0);
        let before = *held;
        *held = before.saturating_add(bytes);
        if before <= share && *held > share {
            self.exceeded.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn give_back_share(&self, holder: Holder, bytes: u64, share: u64) {
        let mut holders = self.shard(holder);
        let Entry::Occupied(mut held) = holders.entry(holder) else { return };
        let before = *held.get();
        let after = before.saturating_sub(bytes);
        if before > share && after <= share && matches!(holder, Holder::Caller(_)) {
            // Limits that are being changed may have been counted otherwise.
            let _ = self
                .exceeded
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
        if after == 0 {
            held.remove();
        } else {
            held.insert(after);
        }
    }

    fn is_exceeded(&self, holder: Holder) -> bool {
        let share = self.limits.caller.load(Ordering::Relaxed);
        self.shard(holder).get(&holder).is_some_and(|held| *held > share)
    }
}

/// Bytes that are held, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the bytes back"]
pub struct HeldBytes {
    account: Arc<Account>,
    of: BodyHolder,
    /// Of the account.
    bytes: u64,
    /// Of those, how many count against shares.
    shared: u64,
    /// Of answers: against the caller's share alone.
    answer: u64,
}

impl HeldBytes {
    /// Holds the next piece of a body too, or refuses it and holds what it held before.
    pub fn add(&mut self, bytes: u64) -> Result<(), BodyRefusal> {
        let (account, limits) = (&self.account, &self.account.limits);
        let (caller, address) =
            (limits.caller.load(Ordering::Relaxed), limits.address.load(Ordering::Relaxed));
        let capacity = limits.capacity.load(Ordering::Relaxed);
        let for_pieces = capacity - capacity / 8;
        let alone = self.of.address.map_or(caller, |_| caller.min(address)).min(for_pieces);
        if self.bytes.saturating_add(bytes) > alone {
            return Err(BodyRefusal::TooLarge(alone));
        }
        account.take(bytes, for_pieces)?;
        if !account.take_share(Holder::Caller(self.of.caller), bytes, caller) {
            account.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::CallerShare);
        }
        if let Some(network) = self.of.address
            && !account.take_share(Holder::Address(network), bytes, address)
        {
            account.give_back_share(Holder::Caller(self.of.caller), bytes, caller);
            account.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::AddressShare);
        }
        self.bytes += bytes;
        self.shared += bytes;
        Ok(())
    }

    /// Gives the body back, and counts the answer to it instead, which waits to be read.
    pub fn into_answer(self, bytes: u64) -> Self {
        let account = Arc::clone(&self.account);
        let mut answer = Self { account, of: self.of, bytes: 0, shared: 0, answer: 0 };
        answer.add_answer(bytes);
        answer
    }

    /// Counts an answer that waits to be read.
    pub fn add_answer(&mut self, bytes: u64) {
        let share = self.account.limits.caller.load(Ordering::Relaxed);
        self.account.add_share(Holder::Caller(self.of.caller), bytes, share);
        self.answer = self.answer.saturating_add(bytes);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        let (account, limits) = (&self.account, &self.account.limits);
        if self.bytes > 0 {
            account.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        let of_caller = self.shared.saturating_add(self.answer);
        if of_caller > 0 {
            let share = limits.caller.load(Ordering::Relaxed);
            account.give_back_share(Holder::Caller(self.of.caller), of_caller, share);
        }
        if let Some(network) = self.of.address.filter(|_| self.shared > 0) {
            let share = limits.address.load(Ordering::Relaxed);
            account.give_back_share(Holder::Address(network), self.shared, share);
        }
    }
}

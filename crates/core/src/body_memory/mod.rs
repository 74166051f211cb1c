//! Bounds the bytes of request bodies held in memory.
//!
//! Bodies are held until their requests have ended. Without a bound, clients that send many large bodies at once
//! determine the memory use of the process. One global limit bounds the sum; within it no caller and no network may
//! exceed its share, so that one of them cannot crowd out the others.
//!
//! **When it acts.** As bytes arrive; the declared `Content-Length` is ignored. A body that arrived in one piece
//! ([`BodyMemory::charge_whole`]) costs one addition and one subtraction on a shared atomic; shares are checked only for
//! bodies that arrive in several pieces ([`ChargedBytes::add`]). The last eighth of the capacity is reserved for the
//! former, so that a few large bodies never block small requests.
//!
//! **Responses.** A response that waits to be read counts against its caller's share ([`ChargedBytes::add_response`]), not
//! against the global limit: it exists already and cannot be refused. A caller whose unread responses exceed its share
//! is refused further requests until it has read some.
//!
//! **Guarantees.** No interleaving of threads takes the total above the capacity, or an owner's bodies above its
//! share. Charged bytes are released when their [`ChargedBytes`] is dropped.
//!
//! **What it does not do.** It queues nothing: a refused request gets the reason and may be retried.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::setting::Ratio;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU64;

/// Mutex shards of the owners, to reduce contention between threads with different callers.
const SHARDS: usize = 16;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyMemoryOptions {
    /// Maximum bytes held at once.
    pub capacity: NonZeroU64,
    /// Maximum share of one caller.
    pub caller_share: Ratio,
    /// Maximum share of one network.
    pub address_share: Ratio,
}

/// The sender of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyOwner {
    /// The caller's number.
    pub caller: u64,
    /// The client's network; `None` behind a shared proxy.
    pub network: Option<u128>,
}

/// Why bytes were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    /// The body alone exceeds the share of its caller or network, which is this many bytes.
    TooLarge(u64),
    /// The caller's share is used by its other requests.
    CallerShare,
    /// The network's share is used by other requests.
    NetworkShare,
    /// The capacity is exhausted.
    Full,
}

/// The accounting of body memory. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyMemory(Arc<BodyMemoryState>);

#[derive(Debug)]
struct BodyMemoryState {
    held: AtomicU64,
    limits: BodyLimits,
    owners: [Mutex<BTreeMap<Owner, u64>>; SHARDS],
    /// Number of callers whose unread responses exceed their share. Nearly always zero, so that the check needs no
    /// lock.
    exceeded: AtomicUsize,
}

/// Updated one by one: each limit is valid by itself.
#[derive(Debug)]
struct BodyLimits {
    capacity: AtomicU64,
    caller: AtomicU64,
    network: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Caller(u64),
    Network(u128),
}

impl BodyMemoryOptions {
    /// The limits in bytes: total, per caller and per network.
    fn limits(&self) -> [u64; 3] {
        let capacity = self.capacity.get();
        let of = |share: Ratio| share.of(capacity).max(1);
        [capacity, of(self.caller_share), of(self.address_share)]
    }
}

impl BodyMemory {
    /// Starts with nothing held.
    #[must_use]
    pub fn new(options: BodyMemoryOptions) -> Self {
        let [capacity, caller, network] = options.limits().map(AtomicU64::new);
        Self(Arc::new(BodyMemoryState {
            held: AtomicU64::new(0),
            limits: BodyLimits { capacity, caller, network },
            owners: std::array::from_fn(|_| Mutex::new(BTreeMap::new())),
            exceeded: AtomicUsize::new(0),
        }))
    }

    /// Replaces the limits; held bytes stay held.
    pub fn set_limits(&self, options: BodyMemoryOptions) {
        let [capacity, caller, network] = options.limits();
        let limits = &self.0.limits;
        limits.capacity.store(capacity, Ordering::Relaxed);
        limits.caller.store(caller, Ordering::Relaxed);
        limits.network.store(network, Ordering::Relaxed);
        let count_exceeded = |shard: &Mutex<BTreeMap<Owner, u64>>| {
            let is_over =
                |(owner, held): &(&Owner, &u64)| matches!(owner, Owner::Caller(_)) && **held > caller;
            lock(shard).iter().filter(is_over).count()
        };
        self.0.exceeded.store(self.0.owners.iter().map(count_exceeded).sum(), Ordering::Relaxed);
    }

    /// Bytes of bodies held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Maximum bytes held at once.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.0.limits.capacity.load(Ordering::Relaxed)
    }

    /// Holds a body that has arrived in one piece.
    pub fn charge_whole(&self, owner: BodyOwner, bytes: u64) -> Result<ChargedBytes, BodyRefusal> {
        let account = &self.0;
        // Usually no caller exceeds its share, and then no lock is taken here.
        if account.exceeded.load(Ordering::Relaxed) > 0 && account.is_exceeded(Owner::Caller(owner.caller)) {
            return Err(BodyRefusal::CallerShare);
        }
        account.take(bytes, account.limits.capacity.load(Ordering::Relaxed))?;
        Ok(ChargedBytes { account: Arc::clone(account), owner, bytes, shared: 0, response: 0 })
    }

    /// Holds nothing yet, for a body that arrives in pieces or for a response.
    pub fn charge_empty(&self, owner: BodyOwner) -> ChargedBytes {
        ChargedBytes { account: Arc::clone(&self.0), owner, bytes: 0, shared: 0, response: 0 }
    }
}

impl BodyMemoryState {
    /// Takes all of the bytes from the capacity, or none.
    fn take(&self, bytes: u64, capacity: u64) -> Result<(), BodyRefusal> {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > capacity {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::Full);
        }
        Ok(())
    }

    fn shard(&self, owner: Owner) -> MutexGuard<'_, BTreeMap<Owner, u64>> {
        let number = match owner {
            Owner::Caller(caller) => caller,
            // The low half of an IPv6 network is empty.
            #[expect(clippy::cast_possible_truncation, reason = "any bits spread holders over shards")]
            Owner::Network(network) => (network ^ (network >> 64)) as u64,
        };
        // Fibonacci hashing: the upper bits of neighbouring numbers are alike, and the multiplication mixes in the
        // lower ones.
        let spread = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        lock(&self.owners[spread as usize % SHARDS])
    }

    /// Takes all of the bytes from an owner's share, or none.
    fn take_share(&self, owner: Owner, bytes: u64, share: u64) -> bool {
        let mut owners = self.shard(owner);
        let held = owners.get(&owner).copied().unwrap_or(0);
        let fits = held.saturating_add(bytes) <= share;
        if fits && bytes > 0 {
            owners.insert(owner, held + bytes);
        }
        fits
    }

    /// Adds bytes to an owner that exist already, even above its share.
    fn add_share(&self, owner: Owner, bytes: u64, share: u64) {
        if bytes == 0 {
            return;
        }
        let mut owners = self.shard(owner);
        let held = owners.entry(owner).or_insert(0);
        let before = *held;
        *held = before.saturating_add(bytes);
        if before <= share && *held > share {
            self.exceeded.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn release_share(&self, owner: Owner, bytes: u64, share: u64) {
        let mut owners = self.shard(owner);
        let Entry::Occupied(mut held) = owners.entry(owner) else { return };
        let before = *held.get();
        let after = before.saturating_sub(bytes);
        if before > share && after <= share && matches!(owner, Owner::Caller(_)) {
            // The count may be lower after a concurrent change of the limits.
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

    fn is_exceeded(&self, owner: Owner) -> bool {
        let share = self.limits.caller.load(Ordering::Relaxed);
        self.shard(owner).get(&owner).is_some_and(|held| *held > share)
    }
}

/// Held bytes, released on drop.
#[derive(Debug)]
#[must_use = "dropping it gives the bytes back"]
pub struct ChargedBytes {
    account: Arc<BodyMemoryState>,
    owner: BodyOwner,
    /// Bytes that count against the capacity.
    bytes: u64,
    /// The part of them that counts against shares.
    shared: u64,
    /// Bytes of responses, which count against the caller's share only.
    response: u64,
}

impl ChargedBytes {
    /// Charges the next piece of a body as well, or rejects it and keeps what was charged before.
    pub fn add(&mut self, bytes: u64) -> Result<(), BodyRefusal> {
        let (account, limits) = (&self.account, &self.account.limits);
        let (caller_limit, network_limit) =
            (limits.caller.load(Ordering::Relaxed), limits.network.load(Ordering::Relaxed));
        let capacity = limits.capacity.load(Ordering::Relaxed);
        let for_pieces = capacity - capacity / 8;
        let alone =
            self.owner.network.map_or(caller_limit, |_| caller_limit.min(network_limit)).min(for_pieces);
        if self.bytes.saturating_add(bytes) > alone {
            return Err(BodyRefusal::TooLarge(alone));
        }
        account.take(bytes, for_pieces)?;
        if !account.take_share(Owner::Caller(self.owner.caller), bytes, caller_limit) {
            account.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::CallerShare);
        }
        if let Some(network) = self.owner.network
            && !account.take_share(Owner::Network(network), bytes, network_limit)
        {
            account.release_share(Owner::Caller(self.owner.caller), bytes, caller_limit);
            account.held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BodyRefusal::NetworkShare);
        }
        self.bytes += bytes;
        self.shared += bytes;
        Ok(())
    }

    /// Releases the body, and counts the unread response to it instead.
    pub fn into_response(self, bytes: u64) -> Self {
        let account = Arc::clone(&self.account);
        let mut response = Self { account, owner: self.owner, bytes: 0, shared: 0, response: 0 };
        response.add_response(bytes);
        response
    }

    /// Counts a response that waits to be read.
    pub fn add_response(&mut self, bytes: u64) {
        let share = self.account.limits.caller.load(Ordering::Relaxed);
        self.account.add_share(Owner::Caller(self.owner.caller), bytes, share);
        self.response = self.response.saturating_add(bytes);
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        let (account, limits) = (&self.account, &self.account.limits);
        if self.bytes > 0 {
            account.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        let of_caller = self.shared.saturating_add(self.response);
        if of_caller > 0 {
            let share = limits.caller.load(Ordering::Relaxed);
            account.release_share(Owner::Caller(self.owner.caller), of_caller, share);
        }
        if let Some(network) = self.owner.network.filter(|_| self.shared > 0) {
            let share = limits.network.load(Ordering::Relaxed);
            account.release_share(Owner::Network(network), self.shared, share);
        }
    }
}

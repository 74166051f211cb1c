//! The in-memory store of all quota usage.

use super::decision::{
    Cost, GroupId, LimitId, LimitView, MOST_LIMITS, MOST_SCOPES, QuotaDecision, QuotaKey, Refusal,
    Reservation, Scope, ScopeError, Taken,
};
use super::groups::{Group, Groups, SHARDS};
use super::index::Slot;
use super::rule::{Check, Quota, QuotaGroup};
use super::rules::Limit;
use super::shard::Shard;
use crate::setting::SettingError;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Now;
use arrayvec::ArrayVec;
use foldhash::fast::FixedState;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// The usage of every caller under every limit, in memory, shared between threads.
///
/// A decision locks the shard of each scope, in the order of the groups, for a few hundred nanoseconds.
///
/// ```
/// use seawall_core::quota::{Cost, Quota, QuotaBook, QuotaDecision, QuotaGroup, QuotaKey, Scope, Unit};
/// use seawall_core::time::Now;
/// use std::time::Duration;
///
/// let minute = Duration::from_secs(60);
/// let guests = QuotaGroup::new("guest", vec![
///     Quota::sliding("minute", Unit::Request, 10, minute, 2)?,
///     Quota::sliding("hour", Unit::Request, 50, minute * 60, 0)?,
/// ])?;
/// let book = QuotaBook::new(vec![guests], 42)?;
/// let scopes = [Scope { group: book.group("guest").unwrap(), key: QuotaKey(7) }];
///
/// for _ in 0..12 {
///     let decision = book.reserve(&scopes, Cost::REQUEST, Now::default()).unwrap();
///     assert!(matches!(decision, QuotaDecision::Granted { .. }));
/// }
/// let QuotaDecision::RetryAfter(refusal) = book.reserve(&scopes, Cost::REQUEST, Now::default()).unwrap() else {
///     panic!("the thirteenth should have to wait");
/// };
/// assert_eq!(book.quota(refusal.binding.limit).unwrap().name(), "minute");
/// assert_eq!(refusal.wait, Duration::from_secs(61));
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
#[derive(Debug)]
pub struct QuotaBook {
    pub(super) groups: Groups,
    hasher: FixedState,
    /// Serializes changes of the limits. Decisions do not take it.
    pub(super) changing: Mutex<()>,
}

/// The size of a book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BookMemory {
    /// The number of callers in all groups.
    pub callers: usize,
    /// Bytes allocated for them.
    pub bytes: usize,
}

/// A scope under decision, with its locked shard and, if the caller is known, its slot.
struct Opened<'book> {
    scope: Scope,
    shard: MutexGuard<'book, Shard>,
    hash: u64,
    slot: Option<Slot>,
}

impl QuotaBook {
    /// Creates a book without usage. The seed randomizes how keys are spread over shards.
    pub fn new(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        check_groups(&groups)?;
        let groups = Groups::new(groups);
        Ok(Self { groups, hasher: FixedState::with_seed(seed), changing: Mutex::new(()) })
    }

    /// The group with this name, if it currently has limits.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        let (position, group) = self.groups.iter().enumerate().find(|(_, group)| *group.name == *name)?;
        group.rules()?;
        u16::try_from(position).ok().map(GroupId)
    }

    /// The current limit with this id.
    #[must_use]
    pub fn quota(&self, limit: LimitId) -> Option<Quota> {
        let rules = self.groups.get(limit.group)?.rules()?;
        let found = rules.limits.iter().find(|one| one.number == limit.quota)?;
        Some(found.quota.clone())
    }

    /// Charges `cost` to every limit of every scope, or to none.
    pub fn reserve(&self, scopes: &[Scope], cost: Cost, now: Now) -> Result<QuotaDecision, ScopeError> {
        let mut opened = ArrayVec::new();
        self.open(scopes, &mut opened)?;
        let tightest = match judge(&opened, cost, now) {
            Verdict::Room(tightest) => tightest,
            Verdict::Wait(refusal) => return Ok(QuotaDecision::RetryAfter(refusal)),
            Verdict::Never { limit, capacity } => return Ok(QuotaDecision::TooLarge { limit, capacity }),
        };
        // Every scope gets its slot before the first is charged: all or nothing, even when memory is full.
        for Opened { scope, shard, hash, slot } in &mut opened {
            if slot.is_none() {
                *slot = shard.insert(*hash, scope.key, |key| self.hash(key));
            }
            if slot.is_none() {
                return Err(ScopeError::Full(scope.group));
            }
        }
        let mut reservation = Reservation { cost, scopes: ArrayVec::new(), marks: ArrayVec::new() };
        for Opened { scope, shard, slot, .. } in &mut opened {
            if let (Some(slot), Some(rules)) = (*slot, shard.rules()) {
                let limits = u8::try_from(rules.limits.len()).unwrap_or(u8::MAX);
                let taken = Taken { key: scope.key, version: rules.version, group: scope.group, limits };
                reservation.scopes.push(taken);
                shard.take(slot, now, cost, |mark| reservation.marks.push(mark));
            }
        }
        Ok(QuotaDecision::Granted { reservation, tightest })
    }

    /// What remains of every limit of these scopes. Changes nothing.
    pub fn view(&self, scopes: &[Scope], now: Now) -> Result<ArrayVec<LimitView, MOST_LIMITS>, ScopeError> {
        let mut opened = ArrayVec::new();
        self.open(scopes, &mut opened)?;
        let mut views = ArrayVec::new();
        for opened in &opened {
            opened.check(Cost::NOTHING, now, |limit, capacity, check| {
                let remaining = match check {
                    Check::Fits { remaining } | Check::Wait { remaining, .. } => remaining,
                    Check::Never { .. } => 0,
                };
                views.push(LimitView { limit, capacity, remaining });
            });
        }
        Ok(views)
    }

    /// Corrects a reservation to its actual cost: the unused part is refunded to the windows it was taken from, and any
    /// excess becomes debt.
    pub fn settle(&self, reservation: Reservation, actual: Cost, now: Now) {
        let Reservation { cost, scopes, marks } = reservation;
        let mut marks = marks.as_slice();
        for Taken { key, version, group, limits } in scopes {
            let (own, rest) = marks.split_at(usize::from(limits).min(marks.len()));
            marks = rest;
            let Some(group) = self.groups.get(group) else { continue };
            let hash = self.hash(key);
            let mut shard = lock(&group.shards[shard_of(hash)]);
            if shard.rules().is_none() {
                continue;
            }
            // A caller that was swept meanwhile had nothing left in any window, this reservation included. Only an
            // excess over the reservation has to be booked.
            let slot = shard.find(hash, key);
            let beyond = actual.requests > cost.requests || actual.tokens > cost.tokens;
            match slot {
                Some(slot) => shard.settle(slot, now, (version, own), (cost, actual)),
                None if beyond => {
                    if let Some(slot) = shard.insert(hash, key, |key| self.hash(key)) {
                        shard.settle(slot, now, (version, own), (cost, actual));
                    }
                }
                None => {}
            }
        }
    }

    /// Refunds a whole reservation.
    pub fn refund(&self, reservation: Reservation, now: Now) {
        self.settle(reservation, Cost::NOTHING, now);
    }

    /// Evicts the callers of one of the 64 shards that have nothing left in any window, and returns how many. Call it
    /// for one shard after the other, a few per second.
    pub fn sweep(&self, shard: usize, now: Now) -> usize {
        let sweep = |group: &Group| lock(&group.shards[shard % SHARDS]).sweep(now);
        self.groups.iter().map(sweep).sum()
    }

    /// The number of callers in the book and the memory they take.
    #[must_use]
    pub fn memory(&self) -> BookMemory {
        let mut memory = BookMemory::default();
        for group in self.groups.iter() {
            for shard in &group.shards {
                let shard = lock(shard);
                memory.callers += shard.len();
                memory.bytes += shard.bytes();
            }
        }
        memory
    }

    /// Locks the shard of every scope and looks up its caller.
    fn open<'book>(
        &'book self,
        scopes: &[Scope],
        opened: &mut ArrayVec<Opened<'book>, MOST_SCOPES>,
    ) -> Result<(), ScopeError> {
        if scopes.is_empty() {
            return Err(ScopeError::None);
        }
        let mut ordered: ArrayVec<Scope, MOST_SCOPES> = ArrayVec::new();
        for scope in scopes {
            ordered.try_push(*scope).map_err(|_| ScopeError::TooMany)?;
        }
        // Every decision takes the locks in this order, which rules out deadlock.
        ordered.sort_unstable_by_key(|scope| scope.group);
        for pair in ordered.windows(2) {
            if pair[0].group == pair[1].group {
                return Err(ScopeError::Repeated(pair[0].group));
            }
        }
        let mut limits = 0;
        for scope in ordered {
            let unknown = ScopeError::Unknown(scope.group);
            let group = self.groups.get(scope.group).ok_or(unknown)?;
            let hash = self.hash(scope.key);
            let shard = lock(&group.shards[shard_of(hash)]);
            limits += shard.rules().ok_or(unknown)?.limits.len();
            if limits > MOST_LIMITS {
                return Err(ScopeError::TooMany);
            }
            let slot = shard.find(hash, scope.key);
            opened.push(Opened { scope, shard, hash, slot });
        }
        Ok(())
    }

    /// Runs `work` under the lock of the scope's shard, with the hash of its key and the hash function for other keys.
    pub(super) fn with_shard(
        &self,
        scope: Scope,
        work: impl FnOnce(&mut Shard, u64, &dyn Fn(QuotaKey) -> u64),
    ) {
        let Some(group) = self.groups.get(scope.group) else { return };
        let hash = self.hash(scope.key);
        let mut shard = lock(&group.shards[shard_of(hash)]);
        if shard.rules().is_some() {
            work(&mut shard, hash, &|key| self.hash(key));
        }
    }

    fn hash(&self, key: QuotaKey) -> u64 {
        self.hasher.hash_one(key.0)
    }
}

impl Opened<'_> {
    /// Calls `each` for every limit with its id, its capacity and the result of the check.
    fn check(&self, cost: Cost, now: Now, mut each: impl FnMut(LimitId, u32, Check)) {
        let group = self.scope.group;
        self.shard.check(self.slot, now, cost, |Limit { quota, number }, check| {
            each(LimitId { group, quota: *number }, quota.capacity(), check);
        });
    }
}

/// Rejects an empty list, too many groups, and duplicate names.
pub(super) fn check_groups(groups: &[QuotaGroup]) -> Result<(), SettingError> {
    if groups.is_empty() || groups.len() > usize::from(u16::MAX) {
        return Err(SettingError::new("groups", format!("{} is not between 1 and 65535", groups.len())));
    }
    let mut names = BTreeSet::new();
    match groups.iter().find(|group| !names.insert(group.name())) {
        Some(twice) => Err(SettingError::new("groups", format!("two groups are named {}", twice.name()))),
        None => Ok(()),
    }
}

/// The combined result over all limits: the tightest limit if all have room; otherwise a limit that can never admit the
/// request, or the one with the longest wait.
enum Verdict {
    Room(LimitView),
    Wait(Refusal),
    Never { limit: LimitId, capacity: u32 },
}

fn judge(opened: &[Opened<'_>], cost: Cost, now: Now) -> Verdict {
    let mut tightest: Option<LimitView> = None;
    let mut refusal: Option<Refusal> = None;
    let mut never = None;
    for scope in opened {
        scope.check(cost, now, |limit, capacity, check| match check {
            Check::Never { capacity } => never = never.or(Some((limit, capacity))),
            Check::Wait { wait, remaining } => {
                if refusal.is_none_or(|worst| wait > worst.wait) {
                    refusal = Some(Refusal { binding: LimitView { limit, capacity, remaining }, wait });
                }
            }
            Check::Fits { remaining } => {
                if tightest.is_none_or(|least| remaining < least.remaining) {
                    tightest = Some(LimitView { limit, capacity, remaining });
                }
            }
        });
    }
    match (never, refusal, tightest) {
        (Some((limit, capacity)), _, _) => Verdict::Never { limit, capacity },
        (None, Some(refusal), _) => Verdict::Wait(refusal),
        (None, None, Some(tightest)) => Verdict::Room(tightest),
        // Unreachable: there is at least one scope, and every group has a limit.
        (None, None, None) => Verdict::Never { limit: LimitId { group: GroupId(0), quota: 0 }, capacity: 0 },
    }
}

/// The index inside a shard uses the highest and the lowest bits of the hash, so the shard is chosen by other bits.
fn shard_of(hash: u64) -> usize {
    usize::try_from((hash >> 8) % SHARDS as u64).unwrap_or(0)
}

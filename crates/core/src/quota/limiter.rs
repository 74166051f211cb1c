//! The in-memory store of all quota usage.

use super::decision::{
    ChargedScope, GroupId, LimitId, LimitView, MAX_SCOPES, QuotaDecision, QuotaKey, QuotaRefusal,
    QuotaReservation, QuotaScope, QuotaUnits, ScopeError,
};
use super::groups::{Group, GroupList, SHARDS};
use super::index::RecordSlot;
use super::rule::{LimitCheck, Quota, QuotaGroup};
use super::rules::NumberedQuota;
use super::shard::Shard;
use crate::invariant::enforce;
use crate::setting::SettingError;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Now;
use arrayvec::ArrayVec;
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// The usage of every caller under every limit, in memory, shared between threads.
///
/// A decision locks the shard of each scope, in the order of the groups, for a few hundred nanoseconds.
///
/// ```
/// use seawall_core::quota::{QuotaUnits, Quota, RateLimiter, QuotaDecision, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit};
/// use seawall_core::time::Now;
/// use std::time::Duration;
///
/// let minute = Duration::from_secs(60);
/// let guests = QuotaGroup::new("guest", vec![
///     Quota::sliding("minute", QuotaUnit::Request, 10, minute, 2)?,
///     Quota::sliding("hour", QuotaUnit::Request, 50, minute * 60, 0)?,
/// ])?;
/// let limiter = RateLimiter::new(vec![guests], 42)?;
/// let scopes = [QuotaScope { group: limiter.group("guest").unwrap(), key: QuotaKey(7) }];
///
/// for _ in 0..12 {
///     let decision = limiter.reserve(&scopes, QuotaUnits::REQUEST, Now::default()).unwrap();
///     assert!(matches!(decision, QuotaDecision::Granted { .. }));
/// }
/// let QuotaDecision::RetryAfter(refusal) = limiter.reserve(&scopes, QuotaUnits::REQUEST, Now::default()).unwrap() else {
///     panic!("the thirteenth should have to wait");
/// };
/// assert_eq!(limiter.quota(refusal.binding.limit).unwrap().name(), "minute");
/// assert_eq!(refusal.wait, Duration::from_secs(61));
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
#[derive(Debug)]
pub struct RateLimiter {
    pub(super) groups: GroupList,
    hasher: FixedState,
    /// Serializes changes of the limits. Decisions do not take it.
    pub(super) changing: Mutex<()>,
}

/// The size of a limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimiterMemory {
    /// The number of callers in all groups.
    pub callers: usize,
    /// Bytes allocated for them.
    pub bytes: usize,
}

/// A scope under decision, with its locked shard and, if the caller is known, its slot.
struct LockedScope<'limiter> {
    scope: QuotaScope,
    shard: MutexGuard<'limiter, Shard>,
    hash: u64,
    slot: Option<RecordSlot>,
}

impl RateLimiter {
    /// Creates a limiter without usage. The seed randomizes how keys are spread over shards.
    pub fn new(groups: Vec<QuotaGroup>, seed: u64) -> Result<Self, SettingError> {
        check_groups(&groups)?;
        let groups = GroupList::new(groups);
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
    pub fn reserve(
        &self,
        scopes: &[QuotaScope],
        cost: QuotaUnits,
        now: Now,
    ) -> Result<QuotaDecision, ScopeError> {
        let mut opened = ArrayVec::new();
        self.open(scopes, &mut opened)?;
        let tightest = match check_all(&opened, cost, now) {
            LimitsCheck::Room(tightest) => tightest,
            LimitsCheck::Wait(refusal) => return Ok(QuotaDecision::RetryAfter(refusal)),
            LimitsCheck::Never { limit, capacity } => return Ok(QuotaDecision::TooLarge { limit, capacity }),
        };
        // Every scope gets its slot before the first is charged: all or nothing, even when memory is full.
        for LockedScope { scope, shard, hash, slot } in &mut opened {
            if slot.is_none() {
                *slot = shard.insert(*hash, scope.key, |key| self.hash(key));
            }
            if slot.is_none() {
                return Err(ScopeError::Full(scope.group));
            }
        }
        let mut reservation = QuotaReservation { cost, scopes: SmallVec::new(), marks: SmallVec::new() };
        for LockedScope { scope, shard, slot, .. } in &mut opened {
            if let (Some(slot), Some(rules)) = (*slot, shard.rules()) {
                let limits = u8::try_from(rules.limits.len()).unwrap_or(u8::MAX);
                let charged =
                    ChargedScope { key: scope.key, version: rules.version, group: scope.group, limits };
                reservation.scopes.push(charged);
                shard.take(slot, now, cost, |mark| reservation.marks.push(mark));
                enforce(shard.check_usage(slot, now, cost));
            }
        }
        Ok(QuotaDecision::Granted { reservation, tightest })
    }

    /// What remains of every limit of these scopes. Changes nothing.
    pub fn view(&self, scopes: &[QuotaScope], now: Now) -> Result<Vec<LimitView>, ScopeError> {
        let mut opened = ArrayVec::new();
        self.open(scopes, &mut opened)?;
        let mut views = Vec::new();
        for opened in &opened {
            opened.check(QuotaUnits::NOTHING, now, |limit, capacity, check| {
                let remaining = match check {
                    LimitCheck::Fits { remaining } | LimitCheck::Wait { remaining, .. } => remaining,
                    LimitCheck::Never { .. } => 0,
                };
                views.push(LimitView { limit, capacity, remaining });
            });
        }
        Ok(views)
    }

    /// Corrects a reservation to its actual cost: the unused part is refunded to the windows it was taken from, and any
    /// excess becomes debt.
    pub fn settle(&self, reservation: QuotaReservation, actual: QuotaUnits, now: Now) {
        let QuotaReservation { cost, scopes, marks } = reservation;
        let mut marks = marks.as_slice();
        for ChargedScope { key, version, group, limits } in scopes {
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
    pub fn refund(&self, reservation: QuotaReservation, now: Now) {
        self.settle(reservation, QuotaUnits::NOTHING, now);
    }

    /// Evicts the callers of one of the 64 shards that have nothing left in any window, and returns how many. Call it
    /// for one shard after the other, a few per second.
    pub fn sweep(&self, shard: usize, now: Now) -> usize {
        let sweep = |group: &Group| lock(&group.shards[shard % SHARDS]).sweep(now);
        self.groups.iter().map(sweep).sum()
    }

    /// The number of callers in the limiter and the memory they take.
    #[must_use]
    pub fn memory(&self) -> RateLimiterMemory {
        let mut memory = RateLimiterMemory::default();
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
    fn open<'limiter>(
        &'limiter self,
        scopes: &[QuotaScope],
        opened: &mut ArrayVec<LockedScope<'limiter>, MAX_SCOPES>,
    ) -> Result<(), ScopeError> {
        if scopes.is_empty() {
            return Err(ScopeError::None);
        }
        let mut ordered: ArrayVec<QuotaScope, MAX_SCOPES> = ArrayVec::new();
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
        for &scope in &ordered {
            let unknown = ScopeError::Unknown(scope.group);
            let group = self.groups.get(scope.group).ok_or(unknown)?;
            let hash = self.hash(scope.key);
            let shard = lock(&group.shards[shard_of(hash)]);
            if shard.rules().is_none() {
                return Err(unknown);
            }
            let slot = shard.find(hash, scope.key);
            opened.push(LockedScope { scope, shard, hash, slot });
        }
        Ok(())
    }

    /// Runs `work` under the lock of the scope's shard, with the hash of its key and the hash function for other keys.
    pub(super) fn with_shard(
        &self,
        scope: QuotaScope,
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

impl LockedScope<'_> {
    /// Calls `each` for every limit with its id, its capacity and the result of the check.
    fn check(&self, cost: QuotaUnits, now: Now, mut each: impl FnMut(LimitId, u32, LimitCheck)) {
        let group = self.scope.group;
        self.shard.check(self.slot, now, cost, |NumberedQuota { quota, number }, check| {
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
enum LimitsCheck {
    Room(LimitView),
    Wait(QuotaRefusal),
    Never { limit: LimitId, capacity: u32 },
}

fn check_all(opened: &[LockedScope<'_>], cost: QuotaUnits, now: Now) -> LimitsCheck {
    let mut tightest: Option<LimitView> = None;
    let mut refusal: Option<QuotaRefusal> = None;
    let mut never = None;
    for scope in opened {
        scope.check(cost, now, |limit, capacity, check| match check {
            LimitCheck::Never { capacity } => never = never.or(Some((limit, capacity))),
            LimitCheck::Wait { wait, remaining } => {
                if refusal.is_none_or(|longest| wait > longest.wait) {
                    refusal = Some(QuotaRefusal { binding: LimitView { limit, capacity, remaining }, wait });
                }
            }
            LimitCheck::Fits { remaining } => {
                if tightest.is_none_or(|lowest| remaining < lowest.remaining) {
                    tightest = Some(LimitView { limit, capacity, remaining });
                }
            }
        });
    }
    match (never, refusal, tightest) {
        (Some((limit, capacity)), _, _) => LimitsCheck::Never { limit, capacity },
        (None, Some(refusal), _) => LimitsCheck::Wait(refusal),
        (None, None, Some(tightest)) => LimitsCheck::Room(tightest),
        // Unreachable: there is at least one scope, and every group has a limit.
        (None, None, None) => {
            LimitsCheck::Never { limit: LimitId { group: GroupId(0), quota: 0 }, capacity: 0 }
        }
    }
}

/// The index inside a shard uses the highest and the lowest bits of the hash, so the shard is chosen by other bits.
fn shard_of(hash: u64) -> usize {
    usize::try_from((hash >> 8) % SHARDS as u64).unwrap_or(0)
}

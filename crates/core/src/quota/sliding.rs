//! A limit over any sliding period.
//!
//! The period is cut into sixty slices, and the sum runs over sixty-one: the current slice and the sixty before
//! it. So no window of the period's length, wherever it begins, ever holds more than the limit, and a unit is
//! released at most one slice late. Fewer slices in the sum would let twice the limit through at a slice's edge.
//!
//! Few callers have been active in more than two slices, so two are kept in place and a whole ring only for
//! those who need it.

use super::rule::Check;
use crate::setting::{SettingError, at_least_one};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// Slices that count, the current one included.
const SLICES: u32 = 61;
/// Places in a ring: a power of two, so that neighbours stay apart where slice numbers wrap around.
const PLACES: u32 = 64;

/// At most `limit` units in any period of sixty slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingRule {
    slice_nanos: u64,
    limit: u32,
}

/// Where in time slices lie: the number of the current one, and when it began.
#[derive(Clone, Copy, Debug)]
struct Present {
    slice: u32,
    into_slice: u64,
}

/// Units taken in one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    number: u32,
    units: u32,
}

/// All slices of one caller who has been busy.
#[derive(Clone, Debug)]
pub(crate) struct SliceRing {
    newest: u32,
    units: [u32; PLACES as usize],
}

/// What one caller has used: up to two slices in place, or a ring kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slices {
    Few([Slice; 2]),
    Many(RingId),
}

/// A ring in a [`RingPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingId(u32);

impl Default for Slices {
    fn default() -> Self {
        Self::Few([Slice::default(); 2])
    }
}

impl SlidingRule {
    pub(crate) fn new(limit: u32, per: Duration, burst: u32) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        if per < Duration::from_secs(1) {
            return Err(SettingError::new("per", format!("{per:?} is shorter than 1s")));
        }
        let Some(limit) = limit.checked_add(burst) else {
            return Err(SettingError::new("burst", format!("{limit} + {burst} is more than can be counted")));
        };
        Ok(Self { slice_nanos: nanos(per).div_ceil(u64::from(SLICES - 1)), limit })
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    fn present(&self, now: Timestamp, newest: Option<u32>) -> Present {
        let now = now.as_nanos();
        let slice = truncated(now / self.slice_nanos);
        // A moment from before the newest slice, read by a slower thread, belongs to the newest.
        match newest {
            Some(newest) if newest.wrapping_sub(slice).wrapping_sub(1) < SLICES => {
                Present { slice: newest, into_slice: 0 }
            }
            _ => Present { slice, into_slice: now % self.slice_nanos },
        }
    }

    /// Decides from the live slices, oldest first, and their sum.
    fn check(&self, present: Present, used: u32, slices: impl Iterator<Item = Slice>, units: u32) -> Check {
        if units > self.limit {
            return Check::Never { capacity: self.limit };
        }
        let left = self.limit.saturating_sub(used);
        if units <= left {
            return Check::Fits { remaining: left - units };
        }
        let mut still_used = used;
        for slice in slices {
            still_used = still_used.saturating_sub(slice.units);
            if units <= self.limit.saturating_sub(still_used) {
                return Check::Wait { wait: self.until_released(slice.number, present), remaining: left };
            }
        }
        // Not reached while the slices add up to `used`; a whole period is always enough.
        Check::Wait { wait: Duration::from_nanos(self.slice_nanos * u64::from(SLICES)), remaining: left }
    }

    fn until_released(&self, slice: u32, present: Present) -> Duration {
        let age = present.slice.wrapping_sub(slice);
        let slices = u64::from(SLICES.saturating_sub(age));
        Duration::from_nanos((self.slice_nanos * slices).saturating_sub(present.into_slice))
    }
}

impl Slice {
    fn is_live(self, present: u32) -> bool {
        self.units > 0 && present.wrapping_sub(self.number) < SLICES
    }
}

impl SliceRing {
    pub(crate) fn new() -> Self {
        Self { newest: 0, units: [0; PLACES as usize] }
    }

    pub(crate) fn has_room(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> bool {
        matches!(self.check(rule, now, units), Check::Fits { .. })
    }

    fn check(&self, rule: &SlidingRule, now: Timestamp, units: u32) -> Check {
        let present = rule.present(now, Some(self.newest));
        let live = self.live(present);
        let used = live.clone().fold(0_u32, |sum, slice| sum.saturating_add(slice.units));
        rule.check(present, used, live, units)
    }

    /// The slices that count at present, oldest first.
    fn live(&self, present: Present) -> impl Iterator<Item = Slice> + Clone {
        let numbers = (0..SLICES).rev().map(move |age| present.slice.wrapping_sub(age));
        let kept = numbers.filter(|number| self.newest.wrapping_sub(*number) < SLICES);
        kept.map(|number| Slice { number, units: self.units[ring_index(number)] })
    }

    /// Takes units whether they fit or not, and returns the slice they were taken from.
    pub(crate) fn take(&mut self, rule: &SlidingRule, now: Timestamp, units: u32) -> u32 {
        let slice = rule.present(now, Some(self.newest)).slice;
        self.advance(slice);
        let cell = &mut self.units[ring_index(slice)];
        *cell = cell.saturating_add(units);
        slice
    }

    fn advance(&mut self, slice: u32) {
        let steps = slice.wrapping_sub(self.newest).min(PLACES);
        for back in 0..steps {
            self.units[ring_index(slice.wrapping_sub(back))] = 0;
        }
        self.newest = slice;
    }

    fn give_back(&mut self, slice: u32, units: u32) {
        if self.newest.wrapping_sub(slice) < SLICES {
            let cell = &mut self.units[ring_index(slice)];
            *cell = cell.saturating_sub(units);
        }
    }
}

/// Rings of the busy callers of one shard; freed ones are used again, so a steady crowd allocates nothing.
#[derive(Debug, Default)]
pub(super) struct RingPool {
    rings: Vec<SliceRing>,
    free: Vec<u32>,
}

impl RingPool {
    fn ring(&self, id: RingId) -> Option<&SliceRing> {
        self.rings.get(id.0 as usize)
    }

    fn ring_mut(&mut self, id: RingId) -> Option<&mut SliceRing> {
        self.rings.get_mut(id.0 as usize)
    }

    fn add(&mut self, ring: SliceRing) -> RingId {
        if let Some(free) = self.free.pop() {
            self.rings[free as usize] = ring;
            return RingId(free);
        }
        self.rings.push(ring);
        RingId(truncated(self.rings.len() as u64 - 1))
    }

    pub(super) fn bytes(&self) -> usize {
        self.rings.capacity() * size_of::<SliceRing>() + self.free.capacity() * size_of::<u32>()
    }
}

impl Slices {
    pub(super) fn check(&self, rule: &SlidingRule, pool: &RingPool, now: Timestamp, units: u32) -> Check {
        match self {
            Self::Few(few) => {
                let present = rule.present(now, newest_of(few));
                let live = few.iter().copied().filter(|slice| slice.is_live(present.slice));
                let used = live.clone().fold(0_u32, |sum, slice| sum.saturating_add(slice.units));
                rule.check(present, used, live, units)
            }
            Self::Many(id) => match pool.ring(*id) {
                Some(ring) => ring.check(rule, now, units),
                None => Check::Fits { remaining: rule.limit },
            },
        }
    }

    /// Takes units whether they fit or not, and returns the slice they were taken from.
    pub(super) fn take(
        &mut self,
        rule: &SlidingRule,
        pool: &mut RingPool,
        now: Timestamp,
        units: u32,
    ) -> u64 {
        let few = match self {
            Self::Few(few) => few,
            Self::Many(id) => return pool.ring_mut(*id).map_or(0, |ring| ring.take(rule, now, units).into()),
        };
        let present = rule.present(now, newest_of(few)).slice;
        if units == 0 {
            return present.into();
        }
        // Oldest first: what is no longer live makes room at the front.
        if !few[0].is_live(present) {
            few.swap(0, 1);
        }
        if let Some(current) = few.iter_mut().find(|slice| slice.number == present && slice.units > 0) {
            current.units = current.units.saturating_add(units);
        } else if let Some(room) = few.iter_mut().find(|slice| !slice.is_live(present)) {
            *room = Slice { number: present, units };
        } else {
            let mut ring = SliceRing::new();
            ring.newest = present;
            for slice in few.iter().chain([&Slice { number: present, units }]) {
                ring.units[ring_index(slice.number)] = slice.units;
            }
            *self = Self::Many(pool.add(ring));
        }
        present.into()
    }

    pub(super) fn give_back(&mut self, pool: &mut RingPool, slice: u64, units: u32) {
        let slice = truncated(slice);
        match self {
            Self::Few(few) => {
                for taken in few.iter_mut().filter(|taken| taken.number == slice) {
                    taken.units = taken.units.saturating_sub(units);
                }
            }
            Self::Many(id) => {
                if let Some(ring) = pool.ring_mut(*id) {
                    ring.give_back(slice, units);
                }
            }
        }
    }

    pub(super) fn is_idle(&self, rule: &SlidingRule, pool: &RingPool, now: Timestamp) -> bool {
        self.check(rule, pool, now, rule.limit) == Check::Fits { remaining: 0 }
    }

    /// Gives the ring of a caller who has calmed down back to the pool.
    pub(super) fn compact(&mut self, rule: &SlidingRule, pool: &mut RingPool, now: Timestamp) {
        let Self::Many(id) = *self else { return };
        let Some(ring) = pool.ring(id) else { return };
        let mut few = [Slice::default(); 2];
        let mut places = few.iter_mut();
        for slice in ring.live(rule.present(now, Some(ring.newest))).filter(|slice| slice.units > 0) {
            match places.next() {
                Some(place) => *place = slice,
                None => return,
            }
        }
        pool.free.push(id.0);
        *self = Self::Few(few);
    }
}

fn newest_of(few: &[Slice; 2]) -> Option<u32> {
    let [first, second] = *few;
    match (first.units, second.units) {
        (0, 0) => None,
        (_, 0) => Some(first.number),
        (0, _) => Some(second.number),
        _ if second.number.wrapping_sub(first.number) < SLICES => Some(second.number),
        _ => Some(first.number),
    }
}

fn ring_index(slice: u32) -> usize {
    (slice % PLACES) as usize
}

/// Slice numbers wrap after 2^32 slices and are only ever compared over 61 of them.
fn truncated(number: u64) -> u32 {
    (number & u64::from(u32::MAX)).try_into().unwrap_or(u32::MAX)
}

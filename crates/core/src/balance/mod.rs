//! In which order the targets of one model are tried.
//!
//! **Why not always the order of the settings?** An order sends everything to the first target until it fails. With
//! several targets for one model (regions, accounts, replicas) that wastes the others' capacity, and the first one throttles
//! while they idle.
//!
//! | strategy | chooses first | for |
//! | --- | --- | --- |
//! | ordered | the first in the settings | a preferred target and its fallbacks; the default |
//! | weighted | at random, by weight | capacities that are known |
//! | least latency | the better of two at random | replicas of varying load |
//! | affinity | the same member for the same key | a vendor's prompt cache, which is kept per replica |
//!
//! **How.** Each member has a score from the key and its id (weighted rendezvous hashing): the lowest score is first, with
//! a probability in proportion to the weight. With a random key that is a weighted draw. With the hash of a prompt it is
//! an affinity: if a member leaves, only its own keys move. *Bounded load* keeps a popular prompt from overloading one
//! member: a member with more than [`LOAD_FACTOR`] times its share of the calls in flight comes after the others.
//! *Least latency* compares two random members by [`PeakEwma`] times calls in flight (power of two choices).
//!
//! **What always holds.** The order contains every member once, and unavailable members come last, because the others may
//! fail too.
//!
//! **What it does not do.** It does not know what makes a member unavailable, and keeps no state.

mod latency;
mod stable_hash;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use latency::PeakEwma;
pub use stable_hash::StableHash;

use crate::random::SeededRandom;
use crate::vocabulary::named_enum;
use smallvec::SmallVec;
use std::time::Duration;

/// How far the load of a member may exceed its share before a prompt spills over to the next one.
pub const LOAD_FACTOR: f64 = 1.25;
/// Calls in flight that a member may have whatever its share: with few calls, shares are noise.
pub const MIN_LOAD_BOUND: u32 = 4;

named_enum! {
    /// How the first of several targets is chosen.
    pub enum BalanceStrategy as "balance" {
        /// The first in the settings.
        Ordered = "ordered",
        /// At random, by weight.
        Weighted = "weighted",
        /// The better of two at random.
        LeastLatency = "least_latency",
        /// The same one for the same prompt or session.
        Affinity = "affinity",
    }
}

named_enum! {
    /// Which targets of a route are balanced with each other.
    pub enum BalanceScope as "balance_across" {
        /// Targets of the same model.
        Model = "model",
        /// Targets of the same grade.
        Grade = "grade",
    }
}

/// One target among those that are balanced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceMember {
    /// Identifies it across changes of the settings: a hash of its name.
    pub id: u64,
    /// Its share of the requests, relative to the others. Zero: only if no other is available.
    pub weight: u32,
    /// Whether a call would be sent at once.
    pub is_available: bool,
    /// Its calls in flight.
    pub in_flight: u32,
    /// The time that a call usually takes to start, for least latency.
    pub latency: Duration,
}

/// Positions of members, in the order in which they are tried.
pub type BalanceOrder = SmallVec<[usize; 8]>;

/// The order in which members are tried. `key` is random, or identifies the prompt or session for an affinity.
#[must_use]
pub fn balance(strategy: BalanceStrategy, members: &[BalanceMember], key: u64) -> BalanceOrder {
    let mut order: BalanceOrder = (0..members.len()).collect();
    match strategy {
        BalanceStrategy::Ordered => {}
        BalanceStrategy::Weighted => sort_by_score(&mut order, members, key),
        BalanceStrategy::LeastLatency => sort_by_latency(&mut order, members, key),
        BalanceStrategy::Affinity => {
            sort_by_score(&mut order, members, key);
            let bounds = LoadBounds::of(members);
            order.sort_by_key(|index| bounds.is_exceeded_by(&members[*index]));
        }
    }
    // Stable, so that each part keeps its order.
    order.sort_by_key(|index| !members[*index].is_available);
    order
}

fn sort_by_score(order: &mut BalanceOrder, members: &[BalanceMember], key: u64) {
    let scores: SmallVec<[f64; 8]> = members.iter().map(|member| score(key, member)).collect();
    order.sort_by(|one, other| scores[*one].total_cmp(&scores[*other]));
}

/// An exponentially distributed number with the weight as its rate: the lowest of several belongs to each member with a
/// probability in proportion to its weight.
#[expect(clippy::cast_precision_loss, reason = "the high 53 bits of a hash fit into a double")]
fn score(key: u64, member: &BalanceMember) -> f64 {
    let mut hash = SeededRandom::new(key ^ member.id.rotate_left(32));
    hash.draw();
    let uniform = ((hash.draw().bits() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    -uniform.ln() / f64::from(member.weight)
}

/// The better of two random available members first, all others by their cost.
fn sort_by_latency(order: &mut BalanceOrder, members: &[BalanceMember], key: u64) {
    order.sort_by(|one, other| cost(&members[*one]).total_cmp(&cost(&members[*other])));
    let candidates: SmallVec<[usize; 8]> = (0..order.len())
        .filter(|at| members[order[*at]].is_available && members[order[*at]].weight > 0)
        .collect();
    let mut random = SeededRandom::new(key);
    let mut below = |bound: usize| usize::try_from(random.draw().below(bound as u64)).unwrap_or_default();
    if candidates.len() > 2 {
        let one = below(candidates.len());
        let other = (one + 1 + below(candidates.len() - 1)) % candidates.len();
        // They are sorted by cost, so the earlier is the better.
        let better = candidates[one.min(other)];
        order[..=better].rotate_right(1);
    }
}

/// The expected wait behind the calls in flight. Members without weight come last.
fn cost(member: &BalanceMember) -> f64 {
    match member.weight {
        0 => f64::INFINITY,
        weight => member.latency.as_secs_f64() * (f64::from(member.in_flight) + 1.0) / f64::from(weight),
    }
}

/// The calls in flight that each available member may have.
struct LoadBounds {
    per_weight: f64,
}

impl LoadBounds {
    fn of(members: &[BalanceMember]) -> Self {
        let available = members.iter().filter(|member| member.is_available);
        let (calls, weights) = available.fold((1.0, 0.0), |(calls, weights), member| {
            (calls + f64::from(member.in_flight), weights + f64::from(member.weight))
        });
        Self { per_weight: if weights > 0.0 { LOAD_FACTOR * calls / weights } else { 0.0 } }
    }

    /// Whether one more call would exceed the member's bound.
    fn is_exceeded_by(&self, member: &BalanceMember) -> bool {
        let bound = (self.per_weight * f64::from(member.weight)).ceil().max(f64::from(MIN_LOAD_BOUND));
        f64::from(member.in_flight) >= bound
    }
}

//! Invariant: the rate limit of one caller over both nodes, in any minute.
//!
//! Decisions of the shared store respect the limit; decisions that nodes made without it are counted and added. That
//! bound is exact until the store or a node first loses its counts. From then on each process of a node may in addition
//! admit its share of the limit. A node that has just started, or finds the store empty, may assume that it is the only
//! one, so that share may be the whole limit.

use super::{Evidence, InvariantResult};
use crate::history::Observations;
use crate::setting::minute;
use crate::traffic::ChaosCaller;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// How long a node may take to apply its settings.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum delay between a decision and the reading that includes it.
const MAX_READING_DELAY: Duration = Duration::from_secs(3);

/// The count that came closest to its bound.
#[derive(Clone, Copy, Default)]
struct ClosestCount {
    number: u64,
    bound: u64,
}

impl ClosestCount {
    /// Keeps the one closer to its bound. Returns whether this one exceeds it.
    fn note(&mut self, number: u64, bound: u64) -> bool {
        if number * self.bound >= self.number * bound {
            *self = Self { number, bound };
        }
        number > bound
    }
}

pub(super) fn check(evidence: &Evidence) -> InvariantResult {
    let observations = &evidence.observations;
    let mut callers: BTreeMap<ChaosCaller, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for request in &observations.requests {
        // Only answered requests have certainly been charged to the limit.
        if let (Some(head), Some(200)) = (request.response.head_at, request.response.status) {
            callers.entry(request.caller).or_default().push((request.response.sent_at, head));
        }
    }
    let mut violations = Vec::new();
    let (mut exact, mut any) = (ClosestCount::default(), ClosestCount::default());
    for (caller, mut times) in callers {
        times.sort_unstable();
        for (index, (from, _)) in times.iter().enumerate() {
            let to = *from + MINUTE;
            // The time of the decision is not known: it lies between the request and the head of its response.
            let until = |end: Timestamp| times[index..].iter().filter(|(_, head)| *head < end).count() as u64;
            let exact_until = observations.counts_lost_at.map_or(to, |counts_lost_at| counts_lost_at.min(to));
            let exact_bound = limit(observations, caller, *from, exact_until)
                .saturating_add(local_decisions(observations, exact_until));
            let loose_bound = with_shares(observations, caller, *from, to);
            // After the first loss of counts the exact bound does not apply.
            let is_over = exact_until > *from && exact.note(until(exact_until), exact_bound);
            if any.note(until(to), loose_bound) || is_over {
                violations.push(format!(
                    "{caller:?} was admitted {} of {exact_bound} times before counts were lost, and {} of {loose_bound} in a minute",
                    until(exact_until),
                    until(to),
                ));
                break;
            }
        }
    }
    let counts = format!(
        "at most {} of {} before counts were lost, {} of {} in any minute; {} decided locally",
        exact.number,
        exact.bound,
        any.number,
        any.bound,
        observations.local_decisions.last().map_or(0, |(_, decided)| *decided),
    );
    InvariantResult::new("rate limits hold across both nodes", counts, violations)
}

/// The highest limit in force between these moments.
fn limit(observations: &Observations, caller: ChaosCaller, from: Timestamp, to: Timestamp) -> u64 {
    let held = observations.variants.iter().enumerate().filter(|(index, (since, _))| {
        let until = observations.variants.get(index + 1).map(|(next, _)| *next + RELOAD_TIMEOUT);
        *since <= to && until.is_none_or(|until| until >= from)
    });
    let limits = held.map(|(_, (_, variant))| {
        let (rate, burst) = minute(caller.tier, *variant);
        u64::from(rate) + u64::from(burst)
    });
    limits.max().unwrap_or(0)
}

/// An upper bound of the requests that nodes decided without the shared store up to this moment.
fn local_decisions(observations: &Observations, to: Timestamp) -> u64 {
    let read = observations.local_decisions.iter().filter(|(at, _)| *at <= to + MAX_READING_DELAY);
    read.map(|(_, decided)| *decided).max().unwrap_or(0)
}

/// The limit, and once more for each process while they may have decided separately.
fn with_shares(observations: &Observations, caller: ChaosCaller, from: Timestamp, to: Timestamp) -> u64 {
    let limit = limit(observations, caller, from, to);
    let processes =
        observations.processes.iter().filter(|process| process.span.overlaps(from, to)).count() as u64;
    limit.saturating_add(processes.saturating_mul(limit))
}

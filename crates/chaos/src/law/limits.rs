//! Invariant: the rate limit of one caller over both nodes, in any minute.
//!
//! Decisions of the shared store respect the limit; decisions that nodes made without it are counted and added. That
//! bound is exact until the store or a node first loses its counts. From then on each process of a node may in addition
//! admit its share of the limit. A node that has just started, or finds the store empty, may assume that it is the only
//! one, so that share may be the whole limit.

use super::{Evidence, Law};
use crate::history::Seen;
use crate::setting::minute;
use crate::traffic::Who;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// How long a node may take to apply its settings.
const FOLLOWS: Duration = Duration::from_secs(5);
/// Maximum delay between a decision and the reading that includes it.
const READ_BY: Duration = Duration::from_secs(3);

/// The count that came closest to its bound.
#[derive(Clone, Copy, Default)]
struct Fullest {
    number: u64,
    bound: u64,
}

impl Fullest {
    /// Keeps the one closer to its bound. Returns whether this one exceeds it.
    fn note(&mut self, number: u64, bound: u64) -> bool {
        if number * self.bound >= self.number * bound {
            *self = Self { number, bound };
        }
        number > bound
    }
}

pub(super) fn law(evidence: &Evidence) -> Law {
    let seen = &evidence.seen;
    let mut callers: BTreeMap<Who, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for asked in &seen.asked {
        // Only answered requests have certainly been charged to the limit.
        if let (Some(head), Some(200)) = (asked.got.head, asked.got.status) {
            callers.entry(asked.who).or_default().push((asked.got.put, head));
        }
    }
    let mut against = Vec::new();
    let (mut exact, mut any) = (Fullest::default(), Fullest::default());
    for (who, mut times) in callers {
        times.sort_unstable();
        for (place, (from, _)) in times.iter().enumerate() {
            let to = *from + MINUTE;
            // The time of the decision is not known: it lies between the request and the head of its response.
            let until = |end: Timestamp| times[place..].iter().filter(|(_, head)| *head < end).count() as u64;
            let known = seen.forgotten.map_or(to, |forgotten| forgotten.min(to));
            let strict = limit(seen, who, *from, known).saturating_add(decided_alone(seen, known));
            let loose = with_shares(seen, who, *from, to);
            // After the first loss of counts the exact bound does not apply.
            let is_over = known > *from && exact.note(until(known), strict);
            if any.note(until(to), loose) || is_over {
                against.push(format!(
                    "{who:?} got {} of {strict} before anything was forgotten, and {} of {loose} in a minute",
                    until(known),
                    until(to),
                ));
                break;
            }
        }
    }
    let counts = format!(
        "at most {} of {} before anything was forgotten, {} of {} in any minute; {} decided without the store",
        exact.number,
        exact.bound,
        any.number,
        any.bound,
        seen.alone.last().map_or(0, |(_, decided)| *decided),
    );
    Law::new("callers keep their limits over both nodes", counts, against)
}

/// The highest limit in force between these moments.
fn limit(seen: &Seen, who: Who, from: Timestamp, to: Timestamp) -> u64 {
    let held = seen.variants.iter().enumerate().filter(|(place, (since, _))| {
        let until = seen.variants.get(place + 1).map(|(next, _)| *next + FOLLOWS);
        *since <= to && until.is_none_or(|until| until >= from)
    });
    let limits = held.map(|(_, (_, variant))| {
        let (usual, burst) = minute(who.tier, *variant);
        u64::from(usual) + u64::from(burst)
    });
    limits.max().unwrap_or(0)
}

/// An upper bound of the requests that nodes decided without the shared store up to this moment.
fn decided_alone(seen: &Seen, to: Timestamp) -> u64 {
    let read = seen.alone.iter().filter(|(at, _)| *at <= to + READ_BY);
    read.map(|(_, decided)| *decided).max().unwrap_or(0)
}

/// The limit, and once more for each process while they may have decided separately.
fn with_shares(seen: &Seen, who: Who, from: Timestamp, to: Timestamp) -> u64 {
    let limit = limit(seen, who, from, to);
    let lives = seen.lives.iter().filter(|life| life.span.touches(from, to)).count() as u64;
    limit.saturating_add(lives.saturating_mul(limit))
}

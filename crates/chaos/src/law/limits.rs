//! What one caller got over both nodes in any minute.
//!
//! What the shared store decides keeps the limit; what nodes have decided without it comes on top, and is counted. That is
//! exact until the store or a node first forgets. From then on each process of a node may admit its share of the limit
//! besides: and since a node that has just been started, or finds the store empty, may believe itself alone, that share may
//! be all of it.

use super::{Evidence, Law};
use crate::history::Seen;
use crate::setting::minute;
use crate::traffic::Who;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// How long a node may take to follow its settings.
const FOLLOWS: Duration = Duration::from_secs(5);
/// How long after a decision the reading that has it may come.
const READ_BY: Duration = Duration::from_secs(3);

/// A number beside its bound.
#[derive(Clone, Copy, Default)]
struct Fullest {
    number: u64,
    bound: u64,
}

impl Fullest {
    /// Keeps what comes closer to its bound. Whether this one is beyond it.
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
        // Only what was answered has surely been taken from the limit.
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
            // When it was decided is not known: between the question and the head of its answer.
            let until = |end: Timestamp| times[place..].iter().filter(|(_, head)| *head < end).count() as u64;
            let known = seen.forgotten.map_or(to, |forgotten| forgotten.min(to));
            let strict = limit(seen, who, *from, known).saturating_add(decided_alone(seen, known));
            let loose = with_shares(seen, who, *from, to);
            // Behind the first loss of memory there is nothing to be exact about.
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

/// The highest limit that held between these moments.
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

/// Requests of anybody that nodes decided without the shared store up to this moment, and perhaps a few more.
fn decided_alone(seen: &Seen, to: Timestamp) -> u64 {
    let read = seen.alone.iter().filter(|(at, _)| *at <= to + READ_BY);
    read.map(|(_, decided)| *decided).max().unwrap_or(0)
}

/// The limit, and once again for each process where they may have decided apart.
fn with_shares(seen: &Seen, who: Who, from: Timestamp, to: Timestamp) -> u64 {
    let limit = limit(seen, who, from, to);
    let lives = seen.lives.iter().filter(|life| life.span.touches(from, to)).count() as u64;
    limit.saturating_add(lives.saturating_mul(limit))
}

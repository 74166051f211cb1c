//! What one caller got over both nodes in any minute.
//!
//! While the shared store decides, a limit is a limit. From its first absence on, each process of a node may admit its share
//! of the limit besides: and since a node that has just been started, or finds the store empty, may believe itself alone,
//! that share may be all of it.

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

pub(super) fn law(evidence: &Evidence) -> Law {
    let seen = &evidence.seen;
    let mut callers: BTreeMap<Who, Vec<(Timestamp, Timestamp)>> = BTreeMap::new();
    for asked in &seen.asked {
        // Only what was answered has surely been taken from the limit.
        if let (Some(head), Some(200)) = (asked.got.head, asked.got.status) {
            callers.entry(asked.who).or_default().push((asked.got.put, head));
        }
    }
    let (mut against, mut fullest) = (Vec::new(), (0, 0));
    for (who, mut times) in callers {
        times.sort_unstable();
        for (place, (from, _)) in times.iter().enumerate() {
            let to = *from + MINUTE;
            // When it was decided is not known; it was between these two.
            let inside = times[place..].iter().filter(|(_, head)| *head < to).count() as u64;
            let bound = most(seen, who, *from, to);
            if inside * fullest.1 >= fullest.0 * bound {
                fullest = (inside, bound);
            }
            if inside > bound {
                against.push(format!("{who:?} got {inside} in a minute, and at most {bound} may be"));
                break;
            }
        }
    }
    let counts = format!("at most {} of {} in a minute", fullest.0, fullest.1);
    Law::new("callers keep their limits over both nodes", counts, against)
}

/// What a caller may get at most between these moments.
fn most(seen: &Seen, who: Who, from: Timestamp, to: Timestamp) -> u64 {
    let limit = seen.variants.iter().enumerate().filter(|(place, (since, _))| {
        let until = seen.variants.get(place + 1).map(|(next, _)| *next + FOLLOWS);
        *since <= to && until.is_none_or(|until| until >= from)
    });
    let limit = limit.map(|(_, (_, variant))| {
        let (usual, burst) = minute(who.tier, *variant);
        u64::from(usual) + u64::from(burst)
    });
    let limit = limit.max().unwrap_or(0);
    let is_calm = seen.store_away.iter().all(|span| span.from > to)
        && seen.lives.iter().all(|life| life.decided_alone == 0);
    if is_calm {
        return limit;
    }
    let lives = seen.lives.iter().filter(|life| life.span.touches(from, to)).count() as u64;
    limit + lives * limit
}

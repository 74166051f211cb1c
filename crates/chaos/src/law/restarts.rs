//! Invariant: the rate limit of one caller, in any minute, at a gateway with local limits that is killed repeatedly.

use super::{Evidence, Law};
use crate::lone::WHO;
use crate::setting::minute;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn law(evidence: &Evidence) -> Law {
    let mut times = evidence.seen.lone.clone();
    times.sort_unstable();
    let (usual, burst) = minute(WHO.tier, 0);
    let (limit, mut most) = (u64::from(usual + burst), 0);
    let mut against = Vec::new();
    for (place, (from, _)) in times.iter().enumerate() {
        // The time of the decision is not known: it lies between the request and the head of its response.
        let admitted = times[place..].iter().filter(|(_, head)| *head < *from + MINUTE).count() as u64;
        most = most.max(admitted);
        if admitted > limit {
            against.push(format!("{admitted} of {limit} in the minute from {from:?}"));
        }
    }
    let counts = format!("{} admitted, at most {most} of {limit} in a minute", times.len());
    Law::new("restarts renew no limit", counts, against)
}

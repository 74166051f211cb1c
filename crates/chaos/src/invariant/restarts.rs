//! Invariant: the rate limit of one caller, in any minute, at a gateway with local limits that is killed repeatedly.

use super::{Evidence, InvariantResult};
use crate::setting::minute;
use crate::standalone::CALLER;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn check(evidence: &Evidence) -> InvariantResult {
    let mut times = evidence.observations.standalone.clone();
    times.sort_unstable();
    let (rate, burst) = minute(CALLER.tier, 0);
    let (limit, mut max_admitted) = (u64::from(rate + burst), 0);
    let mut violations = Vec::new();
    for (index, (from, _)) in times.iter().enumerate() {
        // The time of the decision is not known: it lies between the request and the head of its response.
        let admitted = times[index..].iter().filter(|(_, head)| *head < *from + MINUTE).count() as u64;
        max_admitted = max_admitted.max(admitted);
        if admitted > limit {
            violations.push(format!("{admitted} of {limit} in the minute from {from:?}"));
        }
    }
    let counts = format!("{} admitted, at most {max_admitted} of {limit} in a minute", times.len());
    InvariantResult::new("restarts do not reset limits", counts, violations)
}

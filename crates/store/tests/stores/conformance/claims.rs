//! Claims: one at a time, until they expire, and a request that is done stays done.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use seawall_core::time::Timestamp;
use seawall_store::{ClaimDecision, ClaimRequest, Claims};
use std::collections::BTreeMap;

/// Keys that collide if caller and key are joined carelessly.
const NAMES: [(u64, &str); 4] = [(1, "1a"), (11, "a"), (1, "a"), (2, "")];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Claim { name: usize, fingerprint: u64, lasts: u64, keep: u64 },
    Finish(usize),
    GiveUp(usize),
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let operation = prop_oneof![
        3 => (0..NAMES.len(), 0_u64..2, 0_u64..30, 0_u64..30)
            .prop_map(|(name, fingerprint, lasts, keep)| Operation::Claim { name, fingerprint, lasts, keep }),
        1 => (0_usize..8).prop_map(Operation::Finish),
        1 => (0_usize..8).prop_map(Operation::GiveUp),
    ];
    vec((operation, prop_oneof![3 => 0_u64..3, 1 => 0_u64..40]), 1..60)
}

/// The expected state of a key, and its expiry.
#[derive(Clone, Copy)]
struct Known {
    fingerprint: u64,
    /// The claim that holds it; none when it is done.
    by: Option<usize>,
    until: Timestamp,
}

/// Runs the suite against a store of claims.
pub(crate) fn claims<S: Claims>(effort: Effort, drive: &impl Drive, make: impl Fn() -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    let (store, now) = (make(), start());
    for round in 0..20_u64 {
        let name = format!("round {round}");
        let ask = ClaimRequest {
            caller: 7,
            key: &name,
            fingerprint: 1,
            timeout: millis(1_000),
            retention: millis(1_000),
        };
        let wins = at_once(effort.threads, |_| {
            matches!(drive.drive(store.claim(&ask, now)), Ok(ClaimDecision::Granted(_)))
        });
        same("winners of one claim", wins.into_iter().filter(|won| *won).count(), 1)?;
    }
    Ok(())
}

fn play<S: Claims>(store: &S, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let mut known: BTreeMap<usize, Known> = BTreeMap::new();
    let mut open: Vec<(usize, usize, u64, S::Claim)> = Vec::new();
    for (turn, (operation, passes)) in operations.into_iter().enumerate() {
        now = now + millis(passes);
        known.retain(|_, known| now.monotonic < known.until);
        match operation {
            Operation::Claim { name, fingerprint, lasts, keep } => {
                let (caller, text) = NAMES[name];
                let ask = ClaimRequest {
                    caller,
                    key: text,
                    fingerprint,
                    timeout: millis(lasts),
                    retention: millis(keep),
                };
                let expected = match known.get(&name) {
                    None => "yours",
                    Some(known) if known.fingerprint != fingerprint => "other",
                    Some(Known { by: Some(_), .. }) => "in progress",
                    Some(Known { by: None, .. }) => "done",
                };
                let decision = drive.drive(store.claim(&ask, now)).unwrap();
                let seen = match &decision {
                    ClaimDecision::Granted(_) => "yours",
                    ClaimDecision::InProgress => "in progress",
                    ClaimDecision::Completed => "done",
                    ClaimDecision::OutcomeUnknown => "unknown",
                    ClaimDecision::KeyReused => "other",
                };
                prop_assert_eq!(seen, expected, "turn {}", turn);
                if let ClaimDecision::Granted(claim) = decision {
                    let until = now.monotonic + millis(lasts);
                    known.insert(name, Known { fingerprint, by: Some(turn), until });
                    open.push((name, turn, keep, claim));
                }
            }
            Operation::Finish(which) | Operation::GiveUp(which) if !open.is_empty() => {
                let (name, number, keep, claim) = open.swap_remove(which % open.len());
                let is_held = known.get(&name).is_some_and(|known| known.by == Some(number));
                if matches!(operation, Operation::Finish(_)) {
                    drive.drive(store.finish(claim, now)).unwrap();
                    if let Some(known) = known.get_mut(&name).filter(|_| is_held) {
                        (known.by, known.until) = (None, now.monotonic + millis(keep));
                    }
                } else {
                    drive.drive(store.release(claim, now)).unwrap();
                    if is_held {
                        known.remove(&name);
                    }
                }
            }
            Operation::Finish(_) | Operation::GiveUp(_) => {}
        }
    }
    Ok(())
}

//! Probes: never more than the stage has, and none of a stage that is over.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::time::Timestamp;
use seawall_store::{ProbeRequest, Probes};
use std::collections::BTreeMap;

const TARGETS: [&str; 2] = ["strong", "fast"];

#[derive(Clone, Copy, Debug)]
enum Operation {
    Lease { target: usize, wants: ProbeLease, stage_size: u32, node: u64, lasts: u64 },
    GiveBack { target: usize, lease: ProbeLease, node: u64 },
}

fn wants() -> impl Strategy<Value = ProbeLease> {
    let stage = prop_oneof![4 => (1_u64..2, 0_usize..2), 1 => (0_u64..3, 0_usize..3)];
    (stage, 0_u32..8).prop_map(|((episode, stage), probes)| ProbeLease { episode, stage, probes })
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let operation = prop_oneof![
        4 => (0_usize..2, wants(), 0_u32..11, 0_u64..4, 0_u64..40).prop_map(
            |(target, wants, stage_size, node, lasts)| Operation::Lease { target, wants, stage_size, node, lasts }
        ),
        1 => (0_usize..2, wants(), 0_u64..4)
            .prop_map(|(target, lease, node)| Operation::GiveBack { target, lease, node }),
    ];
    vec((operation, 0_u64..15), 1..60)
}

/// Runs the suite against a store of probe leases.
pub(crate) fn probes<S: Probes>(effort: Effort, drive: &impl Drive, make: impl Fn() -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    let (store, now) = (make(), start());
    for episode in 1..20 {
        let granted = at_once(effort.threads, |node| {
            let wants = ProbeLease { episode, stage: 1, probes: 2 };
            let (node, lasts) = (NodeId(node), millis(1_000));
            let ask = ProbeRequest { target: "strong", requested: wants, stage_size: 3, node, ttl: lasts };
            drive.drive(store.lease(&ask, now)).unwrap().probes
        });
        super::same("probes of a stage of three", granted.into_iter().sum::<u32>(), 3)?;
    }
    Ok(())
}

/// The latest episode and stage, and the lease of each node with its expiry.
type Known = ((u64, usize), Vec<(u64, u32, Timestamp)>);

fn play(store: &impl Probes, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let mut known: BTreeMap<usize, Known> = BTreeMap::new();
    for (operation, passes) in operations {
        now = now + millis(passes);
        match operation {
            Operation::Lease { target, wants, stage_size, node, lasts } => {
                let requested_stage = (wants.episode, wants.stage);
                let (latest, shares) = known.entry(target).or_insert((requested_stage, Vec::new()));
                let expected = if requested_stage < *latest {
                    0
                } else {
                    if requested_stage > *latest {
                        (*latest, *shares) = (requested_stage, Vec::new());
                    }
                    shares.retain(|(owner, _, until)| *owner != node && now.monotonic < *until);
                    let leased: u32 = shares.iter().map(|(_, probes, _)| probes).sum();
                    let probes = wants.probes.min(stage_size.saturating_sub(leased));
                    shares.push((node, probes, now.monotonic + millis(lasts)));
                    probes
                };
                let (target, node, lasts) = (TARGETS[target], NodeId(node), millis(lasts));
                let ask = ProbeRequest { target, requested: wants, stage_size, node, ttl: lasts };
                let seen = drive.drive(store.lease(&ask, now)).unwrap();
                prop_assert_eq!(seen, ProbeLease { probes: expected, ..wants });
            }
            Operation::GiveBack { target, lease, node } => {
                drive.drive(store.give_back(TARGETS[target], lease, NodeId(node), now)).unwrap();
                if let Some((latest, shares)) = known.get_mut(&target)
                    && *latest == (lease.episode, lease.stage)
                {
                    shares.retain(|(owner, ..)| *owner != node);
                }
            }
        }
    }
    Ok(())
}

//! The board: the newest view of every node that has not expired.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use seawall_core::breaker::NodeId;
use seawall_core::time::Timestamp;
use seawall_store::{Board, Fleet, NodeView};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Publish { node: u64, sequence: u64, ttl: u64 },
    Leave(u64),
    Read,
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let operation = prop_oneof![
        3 => (0_u64..4, 0_u64..12, 0_u64..50)
            .prop_map(|(node, sequence, ttl)| Operation::Publish { node, sequence, ttl }),
        1 => (0_u64..4).prop_map(Operation::Leave),
        2 => proptest::strategy::Just(Operation::Read),
    ];
    vec((operation, 0_u64..20), 1..60)
}

/// The content of a view follows from its number, so that the same number means the same view.
fn view(node: u64, sequence: u64) -> NodeView {
    let text = format!("{node} {sequence} \0");
    let mut parts = BTreeMap::from([("breakers".into(), text.into_bytes().into())]);
    if sequence.is_multiple_of(3) {
        parts.insert("喫茶".into(), vec![0, 255, 128].into());
    }
    NodeView { sequence, parts }
}

/// Runs the suite against a board.
pub(crate) fn board<S: Board>(effort: Effort, drive: &impl Drive, make: impl Fn() -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    // In whatever order views arrive, the newest stays.
    let (store, now) = (make(), start());
    at_once(effort.threads, |thread| {
        for sequence in 0..30 {
            let sequence = sequence * effort.threads + thread;
            drive.drive(store.publish(NodeId(1), &view(1, sequence), millis(1_000), now)).unwrap();
        }
    });
    let newest = view(1, 30 * effort.threads - 1);
    same("the board", drive.drive(store.read(now)).unwrap(), Fleet::from([(NodeId(1), newest)]))
}

fn play(store: &impl Board, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let mut known: BTreeMap<u64, (u64, Timestamp)> = BTreeMap::new();
    for (operation, passes) in operations {
        now = now + millis(passes);
        known.retain(|_, (_, expires)| now.monotonic < *expires);
        match operation {
            Operation::Publish { node, sequence, ttl } => {
                // The same number again is a duplicate of the same message, which has the same time.
                if known.get(&node).is_some_and(|(there, _)| *there == sequence) {
                    continue;
                }
                let (published, ttl) = (view(node, sequence), millis(ttl));
                for _ in 0..2 {
                    drive.drive(store.publish(NodeId(node), &published, ttl, now)).unwrap();
                }
                if known.get(&node).is_none_or(|(there, _)| sequence > *there) {
                    known.insert(node, (sequence, now.monotonic + ttl));
                }
            }
            Operation::Leave(node) => {
                drive.drive(store.leave(NodeId(node), now)).unwrap();
                known.remove(&node);
            }
            Operation::Read => {
                let expected: Fleet = known
                    .iter()
                    .map(|(node, (sequence, _))| (NodeId(*node), view(*node, *sequence)))
                    .collect();
                prop_assert_eq!(drive.drive(store.read(now)).unwrap(), expected);
            }
        }
    }
    Ok(())
}

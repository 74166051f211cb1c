//! The wait queue, shared by many threads.

use super::{Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::queue::{
    AcceptedGrades, EnterDecision, QueueOptions, QueueRequest, QueueSettings, WaitQueue,
};
use seawall_core::vocabulary::{Grade, Priority};
use seawall_store::RequestQueue;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Enter { priority: Priority, session: u64, grades: AcceptedGrades, patience: u64 },
    Next(Grade),
    Cancel(usize),
    PopExpired,
    Look,
}

fn settings() -> QueueSettings {
    QueueOptions { capacity: 6, ..QueueOptions::default() }.check().unwrap()
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let grades = select(vec![AcceptedGrades::Fast, AcceptedGrades::Strong, AcceptedGrades::Either]);
    let operation = prop_oneof![
        4 => (select(Priority::ALL.to_vec()), 0_u64..3, grades, 0_u64..40_000).prop_map(
            |(priority, session, grades, patience)| Operation::Enter { priority, session, grades, patience }
        ),
        2 => select(Grade::ALL.to_vec()).prop_map(Operation::Next),
        1 => (0_usize..9).prop_map(Operation::Cancel),
        1 => proptest::strategy::Just(Operation::PopExpired),
        1 => proptest::strategy::Just(Operation::Look),
    ];
    vec((operation, prop_oneof![3 => 0_u64..50, 1 => 0_u64..20_000]), 1..60)
}

/// Runs the suite against a queue.
pub(crate) fn queue<S: RequestQueue>(effort: Effort, make: impl Fn(QueueSettings) -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(settings()), operations))?;
    let settings = QueueOptions { capacity: 1_000, ..QueueOptions::default() }.check().unwrap();
    let (store, now) = (make(settings), start().monotonic);
    let counts = at_once(effort.threads, |thread| {
        let (mut entered, mut left) = (0_u64, 0_u64);
        for _ in 0..50 {
            let request = QueueRequest::new(Priority::Normal, thread, now + Duration::from_secs(20));
            match store.enter(&request, now) {
                EnterDecision::Queued { evicted, .. } => {
                    entered += 1;
                    left += u64::from(evicted.is_some());
                }
                EnterDecision::Refused { .. } => {}
            }
            left += u64::from(store.next(Grade::Fast, now).is_some());
        }
        (entered, left)
    });
    let entered: u64 = counts.iter().map(|(entered, _)| entered).sum();
    let left: u64 = counts.iter().map(|(_, left)| left).sum();
    same("who is still inside", store.stats(now).size as u64, entered - left)
}

fn play(store: &impl RequestQueue, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start().monotonic;
    let mut queue = WaitQueue::new(settings());
    let mut tickets = Vec::new();
    for (operation, passes) in operations {
        now = now + millis(passes);
        match operation {
            Operation::Enter { priority, session, grades, patience } => {
                let deadline = now + millis(patience);
                let request = QueueRequest { grades, ..QueueRequest::new(priority, session, deadline) };
                let expected = queue.enter(&request, now);
                prop_assert_eq!(store.enter(&request, now), expected);
                if let EnterDecision::Queued { ticket, .. } = expected {
                    tickets.push(ticket);
                }
            }
            Operation::Next(grade) => prop_assert_eq!(store.next(grade, now), queue.next(grade, now)),
            Operation::Cancel(which) => {
                if let Some(ticket) = tickets.get(which) {
                    prop_assert_eq!(store.cancel(*ticket, now), queue.cancel(*ticket, now));
                }
            }
            Operation::PopExpired => prop_assert_eq!(store.pop_expired(now), queue.pop_expired(now)),
            Operation::Look => {
                prop_assert_eq!(store.stats(now), queue.stats(now));
                prop_assert_eq!(store.next_deadline(), queue.next_deadline());
            }
        }
    }
    Ok(())
}

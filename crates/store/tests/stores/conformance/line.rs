//! The wait queue, shared by many threads.

use super::{Effort, Step, Verdict, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::queue::{EnterDecision, Queue, QueueOptions, QueueRequest, QueueSettings, Wants};
use seawall_core::vocabulary::{Grade, Priority};
use seawall_store::Line;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Enter { priority: Priority, session: u64, wants: Wants, patience: u64 },
    Next(Grade),
    Cancel(usize),
    PopExpired,
    Look,
}

fn settings() -> QueueSettings {
    QueueOptions { capacity: 6, ..QueueOptions::default() }.check().unwrap()
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, u64)>> {
    let wants = select(vec![Wants::Fast, Wants::Strong, Wants::Either]);
    let deed = prop_oneof![
        4 => (select(Priority::ALL.to_vec()), 0_u64..3, wants, 0_u64..40_000).prop_map(
            |(priority, session, wants, patience)| Deed::Enter { priority, session, wants, patience }
        ),
        2 => select(Grade::ALL.to_vec()).prop_map(Deed::Next),
        1 => (0_usize..9).prop_map(Deed::Cancel),
        1 => proptest::strategy::Just(Deed::PopExpired),
        1 => proptest::strategy::Just(Deed::Look),
    ];
    vec((deed, prop_oneof![3 => 0_u64..50, 1 => 0_u64..20_000]), 1..60)
}

/// Runs the suite against a queue.
pub(crate) fn line<S: Line>(effort: Effort, make: impl Fn(QueueSettings) -> S) -> Verdict {
    explore(effort, &deeds(), |deeds| play(&make(settings()), deeds))?;
    let settings = QueueOptions { capacity: 1_000, ..QueueOptions::default() }.check().unwrap();
    let (store, now) = (make(settings), start().monotonic);
    let counts = at_once(effort.threads, |thread| {
        let (mut entered, mut left) = (0_u64, 0_u64);
        for _ in 0..50 {
            let request = QueueRequest::new(Priority::Normal, thread, now + Duration::from_secs(20));
            match store.enter(&request, now) {
                EnterDecision::Queued { pushed_out, .. } => {
                    entered += 1;
                    left += u64::from(pushed_out.is_some());
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

fn play(store: &impl Line, deeds: Vec<(Deed, u64)>) -> Step {
    let mut now = start().monotonic;
    let mut queue = Queue::new(settings());
    let mut tickets = Vec::new();
    for (deed, passes) in deeds {
        now = now + millis(passes);
        match deed {
            Deed::Enter { priority, session, wants, patience } => {
                let deadline = now + millis(patience);
                let request = QueueRequest { wants, ..QueueRequest::new(priority, session, deadline) };
                let expected = queue.enter(&request, now);
                prop_assert_eq!(store.enter(&request, now), expected);
                if let EnterDecision::Queued { ticket, .. } = expected {
                    tickets.push(ticket);
                }
            }
            Deed::Next(grade) => prop_assert_eq!(store.next(grade, now), queue.next(grade, now)),
            Deed::Cancel(which) => {
                if let Some(ticket) = tickets.get(which) {
                    prop_assert_eq!(store.cancel(*ticket, now), queue.cancel(*ticket, now));
                }
            }
            Deed::PopExpired => prop_assert_eq!(store.pop_expired(now), queue.pop_expired(now)),
            Deed::Look => {
                prop_assert_eq!(store.stats(now), queue.stats(now));
                prop_assert_eq!(store.next_deadline(), queue.next_deadline());
            }
        }
    }
    Ok(())
}

//! One caller cannot fill a queue for all others.

use super::{at, check_invariants, enter, of, small};
use crate::queue::{
    DepartureReason, EnterDecision, QueueOwner, QueueRequest, QueueShares, QueueTicket, WaitQueue,
};
use crate::vocabulary::Priority;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

fn guest(session: u64) -> QueueRequest {
    QueueRequest { owner: QueueOwner::Guests, ..of(Priority::Normal, session) }
}

/// The entry evicted by a request that was admitted; `None` if the request was refused.
fn push(queue: &mut WaitQueue, request: &QueueRequest, millis: u64) -> Option<Option<QueueTicket>> {
    match queue.enter(request, at(millis)) {
        EnterDecision::Queued { evicted, .. } => {
            assert!(evicted.is_none_or(|left| left.reason == DepartureReason::Evicted));
            Some(evicted.map(|left| left.ticket))
        }
        EnterDecision::Refused { .. } => None,
    }
}

#[test]
fn a_queue_that_one_caller_fills_has_room_for_others() {
    let mut queue = small(6);
    let mine: Vec<_> = (0..6).map(|_| enter(&mut queue, &of(Priority::Normal, 1), 0)).collect();
    assert_eq!(push(&mut queue, &of(Priority::Normal, 1), 1), None, "its own share is full");
    for evicted in 0..3 {
        let expected = Some(Some(mine[5 - evicted]));
        assert_eq!(push(&mut queue, &of(Priority::Normal, 2), 2), expected, "its latest goes first");
    }
    assert_eq!(push(&mut queue, &of(Priority::Normal, 2), 3), None, "three each is even");
    assert_eq!(push(&mut queue, &of(Priority::Normal, 1), 3), None);
    assert!(push(&mut queue, &of(Priority::Normal, 3), 4).is_some());
    check_invariants(&queue, at(4));
}

#[test]
fn all_guests_together_are_one_holder() {
    let mut queue = small(4);
    for session in 0..4 {
        enter(&mut queue, &guest(session), 0);
    }
    assert_eq!(push(&mut queue, &guest(9), 1), None, "another cookie is no other holder");
    assert!(push(&mut queue, &of(Priority::Normal, 1), 1).is_some());
    assert!(push(&mut queue, &of(Priority::Normal, 1), 1).is_some());
    assert_eq!(push(&mut queue, &of(Priority::Normal, 1), 1), None);
}

#[test]
fn many_callers_with_one_request_each_are_not_evicted() {
    let mut queue = small(5);
    for session in 0..5 {
        enter(&mut queue, &of(Priority::Normal, session), 0);
    }
    assert_eq!(push(&mut queue, &of(Priority::Normal, 9), 1), None);
}

#[test]
fn a_higher_priority_is_safe_and_one_that_has_moved_up_is_not() {
    let mut queue = small(3);
    for _ in 0..3 {
        enter(&mut queue, &of(Priority::High, 1), 0);
    }
    assert_eq!(push(&mut queue, &of(Priority::Normal, 2), 1), None);
    let mut queue = small(3);
    for _ in 0..3 {
        enter(&mut queue, &of(Priority::Normal, 1), 0);
    }
    // After half the time to live all of them have been promoted by one class.
    assert_eq!(queue.pop_expired(at(15_000)), None);
    assert_eq!(queue.stats(at(15_000)).by_class, [0, 3, 0, 0, 0]);
    assert!(push(&mut queue, &of(Priority::Normal, 2), 15_000).is_some());
}

proptest! {
    #[test]
    fn the_shares_equal_lists_that_are_counted_anew(
        steps in vec((any::<bool>(), 0_u64..5, 0_u64..40), 0..120),
    ) {
        let mut shares = QueueShares::default();
        let mut lists: BTreeMap<QueueOwner, Vec<u64>> = BTreeMap::new();
        let owner = |number: u64| if number == 0 { QueueOwner::Guests } else { QueueOwner::Caller(number) };
        for (adds, number, ticket) in steps {
            let list = lists.entry(owner(number)).or_default();
            list.retain(|other| *other != ticket);
            if adds {
                list.push(ticket);
                shares.add(owner(number), ticket);
            } else {
                shares.remove(owner(number), ticket);
            }
            for newcomer in (0..6).map(owner) {
                let own = lists.get(&newcomer).map_or(0, Vec::len);
                let largest = lists.iter().max_by_key(|(owner, list)| (list.len(), **owner));
                let expected = largest.filter(|(_, list)| list.len() >= own + 2);
                let expected = expected.and_then(|(owner, list)| Some((*owner, *list.iter().max()?)));
                prop_assert_eq!(shares.eviction_candidate(newcomer), expected);
            }
        }
    }

    #[test]
    fn when_all_want_more_than_there_is_everybody_has_the_same(
        arrivals in vec(0_u64..4, 0..60),
        capacity in 4_usize..12,
    ) {
        let mut queue = small(capacity);
        let mut held = BTreeMap::new();
        let mut session_of = BTreeMap::new();
        // Whatever came before: in the end each of four callers has requested the whole capacity.
        let crowd = arrivals.into_iter().chain((0..4).flat_map(|caller| vec![caller; capacity]));
        for caller in crowd {
            if let EnterDecision::Queued { ticket, evicted, .. } = queue.enter(&of(Priority::Normal, caller), at(0)) {
                session_of.insert(ticket, caller);
                *held.entry(caller).or_insert(0_usize) += 1;
                if let Some(left) = evicted {
                    *held.entry(session_of[&left.ticket]).or_insert(0) -= 1;
                }
            }
        }
        let (least, most) = (held.values().min().unwrap(), held.values().max().unwrap());
        prop_assert!(held.len() == 4 && most - least <= 1, "{:?}", held);
    }
}

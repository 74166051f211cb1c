//! Each guarantee of the queue, with its numbers.

mod fairness;
mod model;
mod shares;

use super::{
    AcceptedGrades, Departure, DepartureReason, EnterDecision, QueueOptions, QueueRefusal, QueueRequest,
    QueueTicket, WaitQueue,
};
use crate::invariant::{Invariant, every_entry_accounted_for, units_within_capacity};
use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn queue() -> WaitQueue {
    WaitQueue::new(QueueOptions::default().check().unwrap())
}

fn small(capacity: usize) -> WaitQueue {
    WaitQueue::new(QueueOptions { capacity, ..QueueOptions::default() }.check().unwrap())
}

fn of(priority: Priority, session: u64) -> QueueRequest {
    QueueRequest::new(priority, session, Timestamp::NEVER)
}

fn enter(queue: &mut WaitQueue, request: &QueueRequest, millis: u64) -> QueueTicket {
    match queue.enter(request, at(millis)) {
        EnterDecision::Queued { ticket, .. } => ticket,
        refused @ EnterDecision::Refused { .. } => panic!("{refused:?}"),
    }
}

fn expired(queue: &mut WaitQueue, millis: u64) -> Vec<QueueTicket> {
    let mut tickets = vec![];
    while let Some(departure) = queue.pop_expired(at(millis)) {
        assert_eq!(departure.reason, DepartureReason::Expired);
        tickets.push(departure.ticket);
    }
    tickets
}

fn check_invariants(queue: &WaitQueue, now: Timestamp) {
    let stats = queue.stats(now);
    units_within_capacity(stats.size as u64, stats.capacity as u64).unwrap();
    let left = [stats.served, stats.expired, stats.evicted, stats.cancelled];
    every_entry_accounted_for(stats.entered, &left, stats.size as u64).unwrap();
    assert_eq!(stats.by_class.iter().sum::<usize>(), stats.size);
}

#[test]
fn no_entry_expires_early_however_many_enter() {
    let mut queue = queue();
    let first: Vec<_> =
        (0..100).map(|session| enter(&mut queue, &of(Priority::Normal, session), 0)).collect();
    for tick in 1..600 {
        let session = 1_000 + tick;
        let newcomer = enter(&mut queue, &of(Priority::ALL[(tick % 5) as usize], session), tick * 50);
        assert_eq!(queue.pop_expired(at(tick * 50)), None);
        assert_eq!(queue.cancel(newcomer, at(tick * 50)).unwrap().reason, DepartureReason::Cancelled);
    }
    assert_eq!(expired(&mut queue, 29_999), []);
    assert_eq!(expired(&mut queue, 30_000), first);
    check_invariants(&queue, at(30_000));
}

#[test]
fn entries_expire_by_their_own_deadline_and_never_by_their_class() {
    let mut queue = queue();
    let deadline = |priority, millis| QueueRequest { deadline: at(millis), ..of(priority, 1) };
    let late = enter(&mut queue, &deadline(Priority::Critical, 3_000), 0);
    let soon = enter(&mut queue, &deadline(Priority::Bulk, 1_000), 0);
    let middle = enter(&mut queue, &deadline(Priority::High, 2_000), 0);
    assert_eq!(queue.next_deadline(), Some(at(1_000)));
    assert_eq!(expired(&mut queue, 999), []);
    assert_eq!(expired(&mut queue, 1_000), [soon]);
    assert_eq!(expired(&mut queue, 5_000), [middle, late]);
    assert_eq!(queue.next_deadline(), None);
}

#[test]
fn an_expired_entry_is_never_served_and_is_reported() {
    let mut queue = queue();
    let ticket = enter(&mut queue, &QueueRequest { deadline: at(100), ..of(Priority::Normal, 7) }, 0);
    assert_eq!(queue.next(Grade::Fast, at(100)), None);
    assert_eq!(queue.cancel(ticket, at(100)), None);
    assert_eq!(queue.stats(at(100)).size, 0);
    assert_eq!(queue.next_deadline(), Some(at(100)));
    let departure = queue.pop_expired(at(130)).unwrap();
    assert_eq!((departure.ticket, departure.session), (ticket, 7));
    assert_eq!(departure.waited, Duration::from_millis(100));
    assert_eq!(queue.pop_expired(at(130)), None);
}

#[test]
fn a_full_queue_refuses_the_next_with_a_retry_after() {
    let mut queue = queue();
    for session in 0..1_000 {
        enter(&mut queue, &of(Priority::Normal, session), session);
    }
    assert!((queue.stats(at(999)).utilisation_percent() - 100.0).abs() < 1e-9);
    let refused = queue.enter(&of(Priority::Normal, 5_000), at(1_000));
    // No slot for a second: the first is expected to take as long again.
    let retry_after = Duration::from_secs(1);
    assert_eq!(refused, EnterDecision::Refused { reason: QueueRefusal::Full, retry_after });
    for _ in 0..64 {
        let _refused = queue.enter(&of(Priority::Low, 5_000), at(1_000));
        check_invariants(&queue, at(1_000));
    }
    assert_eq!(queue.stats(at(1_000)).rejected_full, 65);
    let first = queue.cancel(QueueTicket(0), at(1_000)).unwrap();
    assert_eq!(first.session, 0);
    enter(&mut queue, &of(Priority::Normal, 5_000), 1_000);
    assert_eq!(queue.stats(at(1_000)).size, 1_000);
}

#[test]
fn a_full_queue_expects_room_at_the_pace_of_its_places() {
    let mut queue = small(1);
    enter(&mut queue, &of(Priority::Normal, 1), 0);
    let _served = queue.next(Grade::Fast, at(200)).unwrap();
    enter(&mut queue, &of(Priority::High, 1), 300);
    let refused = queue.enter(&of(Priority::High, 2), at(300));
    let retry_after = Duration::from_millis(200);
    assert_eq!(refused, EnterDecision::Refused { reason: QueueRefusal::Full, retry_after });
}

#[test]
fn a_higher_class_evicts_the_newest_of_the_lowest() {
    let mut queue = small(4);
    enter(&mut queue, &of(Priority::High, 1), 0);
    let older = enter(&mut queue, &of(Priority::Bulk, 9), 0);
    let newest = enter(&mut queue, &of(Priority::Bulk, 2), 1);
    let low = enter(&mut queue, &of(Priority::Low, 3), 2);
    let mut push = |priority| match queue.enter(&of(priority, 4), at(10)) {
        EnterDecision::Queued { evicted, .. } => Some(evicted.unwrap()),
        EnterDecision::Refused { .. } => None,
    };
    assert_eq!(push(Priority::Bulk), None);
    let first = push(Priority::Low).unwrap();
    let expected = Departure {
        ticket: newest,
        reason: DepartureReason::Evicted,
        session: 2,
        priority: Priority::Bulk,
        class: Priority::Bulk,
        waited: Duration::from_millis(9),
    };
    assert_eq!(first, expected);
    assert_eq!(push(Priority::High).unwrap().ticket, older);
    assert_eq!(push(Priority::Low), None);
    // Of two low-priority entries the newer is evicted first.
    assert_ne!(push(Priority::Normal).unwrap().ticket, low);
    assert_eq!(push(Priority::Normal).unwrap().ticket, low);
    assert_eq!(push(Priority::Normal), None);
    check_invariants(&queue, at(10));
    let stats = queue.stats(at(10));
    assert_eq!((stats.evicted, stats.rejected_full, stats.by_class), (4, 3, [0, 2, 2, 0, 0]));
}

#[test]
fn classes_are_served_in_strict_order() {
    let mut queue = queue();
    let mut tickets: Vec<_> = Priority::ALL
        .into_iter()
        .rev()
        .flat_map(|priority| [(priority, 1), (priority, 2)])
        .map(|(priority, session)| (priority, enter(&mut queue, &of(priority, session), 0)))
        .collect();
    tickets.sort_unstable();
    for (priority, ticket) in tickets {
        let departure = queue.next(Grade::Fast, at(5)).unwrap();
        assert_eq!((departure.priority, departure.ticket), (priority, ticket));
        assert_eq!((departure.reason, departure.waited), (DepartureReason::Served, Duration::from_millis(5)));
    }
    assert_eq!(queue.next(Grade::Fast, at(5)), None);
}

#[test]
fn an_entry_moves_up_by_one_class_at_exactly_half_its_time_and_only_once() {
    for place in 1..5 {
        let mut queue = queue();
        let (own, above) = (Priority::ALL[place], Priority::ALL[place - 1]);
        let waiting = enter(&mut queue, &of(own, 1), 0);
        assert_eq!(queue.next_deadline(), Some(at(15_000)));
        let other = enter(&mut queue, &of(above, 2), 14_000);
        assert_eq!(queue.pop_expired(at(14_999)), None);
        assert_eq!(queue.stats(at(14_999)).by_class[place], 1);
        assert_eq!(queue.pop_expired(at(15_000)), None);
        assert_eq!(queue.stats(at(15_000)).by_class[place], 0);
        let younger = enter(&mut queue, &of(own, 3), 15_000);
        // It joined its new class behind the entries there, and before all of its old class.
        let order: Vec<_> = (0..3).map(|_| queue.next(Grade::Strong, at(28_999)).unwrap()).collect();
        assert_eq!(order.iter().map(|left| left.ticket).collect::<Vec<_>>(), [other, waiting, younger]);
        assert_eq!((order[1].priority, order[1].class), (own, above));
    }
    let mut queue = queue();
    enter(&mut queue, &of(Priority::Critical, 1), 0);
    assert_eq!(queue.next_deadline(), Some(at(30_000)));
}

#[test]
fn a_request_whose_turn_comes_too_late_is_answered_at_once() {
    // A slot every second, and four ahead: four seconds.
    let prepare = || {
        let mut queue = queue();
        for _ in 0..2 {
            enter(&mut queue, &of(Priority::Normal, 0), 0);
        }
        let _served = queue.next(Grade::Fast, at(1_000)).unwrap();
        let _served = queue.next(Grade::Fast, at(2_000)).unwrap();
        for session in 1..=4 {
            enter(&mut queue, &of(Priority::Normal, session), 2_000);
        }
        queue
    };
    let wait = Duration::from_secs(4);
    for (deadline, fits) in [(3_000, false), (3_999, false), (4_000, false), (4_001, true), (40_000, true)] {
        let request = QueueRequest { deadline: at(2_000 + deadline), ..of(Priority::Normal, 5) };
        let decision = prepare().enter(&request, at(2_000));
        match decision {
            EnterDecision::Queued { expected_wait, .. } => assert!(fits && expected_wait == Some(wait)),
            EnterDecision::Refused { reason, retry_after } => {
                assert!(!fits, "{deadline}");
                assert_eq!((reason, retry_after), (QueueRefusal::TooLate, wait));
            }
        }
    }
    // None is ahead of a higher class, and all are ahead of a lower one.
    let queue = prepare();
    let expected = |priority, session| queue.expected_wait(&of(priority, session), at(2_000));
    assert_eq!(expected(Priority::High, 5), Some(Duration::ZERO));
    assert_eq!(expected(Priority::Low, 5), Some(wait));
    // The second of a session waits for its first, and for at most two of each other session: there is one.
    assert_eq!(expected(Priority::Normal, 4), Some(wait));
    let mut queue = prepare();
    assert!(matches!(
        queue.enter(&QueueRequest { deadline: at(2_000), ..of(Priority::Critical, 1) }, at(2_000)),
        EnterDecision::Refused { reason: QueueRefusal::TooLate, retry_after: Duration::ZERO }
    ));
    assert_eq!(queue.stats(at(2_000)).rejected_late, 1);
}

#[test]
fn the_time_to_live_bounds_the_expected_wait_too() {
    let mut queue = queue();
    for session in 0..40 {
        enter(&mut queue, &of(Priority::Normal, session), 0);
    }
    let _served = queue.next(Grade::Fast, at(1_000)).unwrap();
    let decision = queue.enter(&of(Priority::Normal, 99), at(1_000));
    let retry_after = Duration::from_secs(39);
    assert_eq!(decision, EnterDecision::Refused { reason: QueueRefusal::TooLate, retry_after });
}

#[test]
fn before_the_first_measurement_every_request_may_wait() {
    let mut queue = queue();
    for session in 0..50 {
        let request = QueueRequest { deadline: at(2_001), ..of(Priority::Normal, session) };
        let decision = queue.enter(&request, at(2_000));
        assert!(matches!(decision, EnterDecision::Queued { expected_wait: None, .. }));
    }
}

#[test]
fn a_queue_that_was_filled_at_once_expects_room_when_the_first_expires() {
    let mut queue = small(1);
    enter(&mut queue, &QueueRequest { deadline: at(700), ..of(Priority::High, 1) }, 100);
    let refused = queue.enter(&of(Priority::High, 2), at(100));
    let retry_after = Duration::from_millis(600);
    assert_eq!(refused, EnterDecision::Refused { reason: QueueRefusal::Full, retry_after });
}

#[test]
fn a_standstill_from_the_start_is_noticed() {
    let options = QueueOptions { ttl: Duration::from_secs(600), ..QueueOptions::default() };
    let mut queue = WaitQueue::new(options.check().unwrap());
    for session in 0..900 {
        enter(&mut queue, &of(Priority::Normal, session), 0);
    }
    // After a minute without any slot, three seconds cannot be the remaining wait.
    let hurried = QueueRequest { deadline: at(63_000), ..of(Priority::Normal, 9_999) };
    let retry_after = Duration::from_secs(60);
    let refused = EnterDecision::Refused { reason: QueueRefusal::TooLate, retry_after };
    assert_eq!(queue.enter(&hurried, at(60_000)), refused);
}

#[test]
fn before_the_first_place_a_crowd_is_not_turned_away() {
    let mut queue = queue();
    for session in 0..900 {
        enter(&mut queue, &of(Priority::Normal, session), 0);
    }
    // The first calls after a start take two seconds. How many slots they free is not known yet.
    for (left, fits) in [(2_000, false), (2_001, true)] {
        let request = QueueRequest { deadline: at(2_000 + left), ..of(Priority::Normal, 9_999) };
        let decision = queue.enter(&request, at(2_000));
        assert_eq!(matches!(decision, EnterDecision::Queued { .. }), fits, "{left}");
    }
}

#[test]
fn a_request_for_a_fast_slot_is_refused_when_none_was_freed_for_a_minute() {
    let options = QueueOptions { ttl: Duration::from_secs(600), ..QueueOptions::default() };
    let mut queue = WaitQueue::new(options.check().unwrap());
    let fast = |session| QueueRequest { grades: AcceptedGrades::Fast, ..of(Priority::Normal, session) };
    for session in 0..5 {
        enter(&mut queue, &fast(session), 0);
    }
    // The fast model frees no slot for a minute; requests that accept either are served by the strong one.
    for round in 1..=6_000 {
        enter(&mut queue, &of(Priority::High, 100 + round), round * 10);
        let served = queue.next(Grade::Strong, at(round * 10)).unwrap();
        assert_eq!(served.waited, Duration::ZERO);
    }
    let now = at(60_000);
    assert_eq!(queue.expected_wait(&fast(9_999), now), Some(Duration::from_secs(60)));
    let hurried = QueueRequest { deadline: at(63_000), ..fast(9_999) };
    assert!(matches!(queue.enter(&hurried, now), EnterDecision::Refused { .. }));
    // A request that accepts either gets a strong slot at once.
    let either = of(Priority::Normal, 9_999);
    assert_eq!(queue.expected_wait(&either, now), Some(Duration::ZERO));
    // And the first fast slot shows how long they take: a minute, for each of the four that are left.
    let _served = queue.next(Grade::Fast, now).unwrap();
    assert_eq!(queue.expected_wait(&fast(9_999), now), Some(Duration::from_secs(240)));
}

#[test]
fn a_standstill_of_one_grade_does_not_hold_up_the_other() {
    let mut queue = queue();
    let wanting = |grades, session| QueueRequest { grades, ..of(Priority::Normal, session) };
    for grades in [AcceptedGrades::Strong, AcceptedGrades::Fast] {
        enter(&mut queue, &wanting(grades, 0), 0);
    }
    let _served = queue.next(Grade::Strong, at(1_000)).unwrap();
    let _served = queue.next(Grade::Fast, at(10)).unwrap();
    for session in 1..=20 {
        enter(&mut queue, &wanting(AcceptedGrades::Strong, session), 1_000);
    }
    let expected =
        |queue: &WaitQueue, grades, millis| queue.expected_wait(&wanting(grades, 99), at(millis)).unwrap();
    assert_eq!(expected(&queue, AcceptedGrades::Strong, 1_000), Duration::from_secs(20));
    assert_eq!(expected(&queue, AcceptedGrades::Fast, 1_000), Duration::ZERO);
    assert_eq!(expected(&queue, AcceptedGrades::Either, 1_000), Duration::ZERO);
    // The interval in progress counts with an eighth: 7/8 + 9/8 seconds.
    assert_eq!(expected(&queue, AcceptedGrades::Strong, 10_000), Duration::from_secs(40));
}

#[test]
fn an_entry_that_cannot_use_the_slot_is_skipped_and_keeps_its_turn() {
    let mut queue = queue();
    let wanting = |grades, session| QueueRequest { grades, ..of(Priority::Normal, session) };
    let strong = enter(&mut queue, &wanting(AcceptedGrades::Strong, 1), 0);
    let fast: Vec<_> = (0..5).map(|_| enter(&mut queue, &wanting(AcceptedGrades::Fast, 2), 0)).collect();
    let either = enter(&mut queue, &wanting(AcceptedGrades::Either, 1), 0);
    let low =
        enter(&mut queue, &QueueRequest { priority: Priority::Low, ..wanting(AcceptedGrades::Strong, 3) }, 0);
    let mut served = |grade| queue.next(grade, at(1)).map(|departure| departure.ticket);
    // Session 1 came first, and its second entry can use the slot.
    assert_eq!(served(Grade::Fast), Some(either));
    assert_eq!(served(Grade::Fast), Some(fast[0]));
    assert_eq!(served(Grade::Fast), Some(fast[1]));
    assert_eq!(served(Grade::Strong), Some(strong));
    assert_eq!(served(Grade::Strong), Some(low));
    assert_eq!(served(Grade::Strong), None);
    assert_eq!(served(Grade::Fast), Some(fast[2]));
}

#[test]
fn the_oldest_wait_is_that_of_the_oldest_of_all() {
    let mut queue = queue();
    assert_eq!(queue.stats(at(500)).oldest_wait, Duration::ZERO);
    enter(&mut queue, &of(Priority::Bulk, 1), 1_000);
    enter(&mut queue, &of(Priority::Critical, 2), 4_000);
    let stats = queue.stats(at(5_000));
    assert_eq!((stats.oldest_wait, stats.size), (Duration::from_secs(4), 2));
    assert!((stats.utilisation_percent() - 0.2).abs() < 1e-9);
    assert_eq!(queue.stats(at(10)).oldest_wait, Duration::from_secs(3), "time does not go back");
}

#[test]
fn a_ticket_is_good_for_one_departure() {
    let mut queue = queue();
    let ticket = enter(&mut queue, &of(Priority::Normal, 1), 0);
    assert_eq!(queue.cancel(ticket, at(1)).unwrap().ticket, ticket);
    assert_eq!(queue.cancel(ticket, at(1)), None);
    assert_eq!(queue.next(Grade::Fast, at(1)), None);
    let ticket = enter(&mut queue, &of(Priority::Normal, 1), 1);
    let _served = queue.next(Grade::Fast, at(1)).unwrap();
    assert_eq!(queue.cancel(ticket, at(1)), None);
    assert_eq!(expired(&mut queue, 100_000), []);
    check_invariants(&queue, at(100_000));
}

#[test]
fn an_entry_that_is_counted_twice_is_a_violation() {
    let mut queue = small(1);
    enter(&mut queue, &of(Priority::Normal, 1), 0);
    assert_eq!(queue.check_counts(), Ok(()));
    queue.counts.served += 1;
    assert_eq!(queue.check_counts().unwrap_err().invariant, Invariant::EveryEntryAccountedFor);
    queue.insert(&of(Priority::Normal, 2), at(0), Timestamp::NEVER);
    assert_eq!(queue.check_counts().unwrap_err().invariant, Invariant::UnitsWithinCapacity);
}

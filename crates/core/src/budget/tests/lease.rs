//! Tests of the authority's ledger.

use super::{at, nanos, small};
use crate::budget::{
    BudgetOptions, Lease, LeaseBook, LeaseDecision, LeaseId, LeaseReport, LeaseState, LentBooks, Recall,
    ReconcileDecision,
};
use crate::invariant::spend_within_cap;
use crate::money::Money;
use crate::setting::Factor;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::time::Duration;

const LASTS: Duration = Duration::from_nanos(100);
const LATER: Timestamp = Timestamp::from_nanos(100);
const START: Timestamp = Timestamp::ZERO;

fn of(node: u64, tier: Tier) -> LeaseId {
    LeaseId { day: 0, tier, node, generation: 0 }
}

fn guest(node: u64) -> LeaseId {
    of(node, Tier::Guest)
}

fn next(id: LeaseId) -> LeaseId {
    LeaseId { generation: id.generation + 1, ..id }
}

/// Total granted after asking for `total`.
fn granted(book: &mut LeaseBook, id: LeaseId, total: u64) -> u64 {
    match book.grant(id, nanos(total), LASTS, START) {
        LeaseDecision::Granted(lease) => lease.granted.as_nanos(),
        other => panic!("{other:?}"),
    }
}

fn report(book: &mut LeaseBook, lease: LeaseId, posted: u64, returned: u64) -> u64 {
    let report = LeaseReport { lease, posted: nanos(posted), returned: nanos(returned) };
    book.report(&report).rest().as_nanos()
}

fn books(posted: u64, lent: u64, written_off: u64) -> LentBooks {
    LentBooks { posted: nanos(posted), lent: nanos(lent), written_off: nanos(written_off) }
}

fn closed(freed: u64) -> ReconcileDecision {
    ReconcileDecision::Closed { freed: nanos(freed) }
}

#[test]
fn who_missed_several_closings_is_told_of_the_latest() {
    let mut book = LeaseBook::new(small());
    let lasts = Duration::from_secs(1);
    let id = |generation| LeaseId { day: 0, tier: Tier::Guest, node: 1, generation };
    for generation in [0, 1] {
        let now = Timestamp::ZERO + lasts * u32::try_from(generation).unwrap();
        let _ = book.grant(id(generation), nanos(10), lasts, now);
        book.expire(now + lasts);
        let _ = book.reconcile(id(generation), nanos(3));
    }
    let told = book.grant(id(0), nanos(10), lasts, Timestamp::ZERO);
    assert!(matches!(told, LeaseDecision::Over(lease) if lease.id == id(2)), "{told:?}");
}

#[test]
fn nodes_get_what_they_ask_for_until_the_rest_and_then_nothing() {
    let mut book = LeaseBook::new(small());
    assert_eq!(granted(&mut book, guest(1), 100), 100);
    assert_eq!(granted(&mut book, guest(2), 100), 50);
    let spent = book.grant(guest(3), nanos(1), LASTS, START);
    assert_eq!(
        (spent, book.lease(guest(3))),
        (LeaseDecision::Spent(Lease { lasts: LASTS, expires: LATER, ..Lease::new(guest(3)) }), None)
    );
    assert!(
        matches!(book.grant(guest(2), nanos(51), LASTS, START), LeaseDecision::Spent(lease) if lease.granted == nanos(50))
    );
    assert_eq!(report(&mut book, guest(1), 0, 30), 70);
    assert_eq!(granted(&mut book, guest(3), 100), 30);
    assert_eq!(report(&mut book, guest(1), 0, 100), 0);
    assert_eq!(book.tier(0, Tier::Guest), books(0, 80, 0));
    assert_eq!(granted(&mut book, LeaseId { day: 1, ..guest(3) }, 200), 150);
}

#[test]
fn asking_for_nothing_new_renews_and_is_no_sign_of_a_spent_day() {
    let mut book = LeaseBook::new(small());
    assert_eq!(granted(&mut book, guest(1), 0), 0);
    assert_eq!((book.lease(guest(1)), book.all(0)), (None, LentBooks::default()));
    assert_eq!(granted(&mut book, guest(1), 150), 150);
    // The guest tier is lent out completely, but a renewal is not a refusal.
    for total in [150, 10, 0] {
        assert_eq!(granted(&mut book, guest(1), total), 150);
    }
    let later = book.grant(guest(1), Money::ZERO, LASTS, Timestamp::from_nanos(50));
    assert_eq!(later.lease().expires, Timestamp::from_nanos(150));
    // A delayed renewal does not shorten the lease.
    assert_eq!(book.grant(guest(1), Money::ZERO, LASTS, START).lease().expires, Timestamp::from_nanos(150));
    assert_eq!(book.expire(Timestamp::from_nanos(149)), []);
    assert_eq!(book.expire(Timestamp::from_nanos(150)).len(), 1);
}

#[test]
fn a_message_that_comes_twice_or_late_changes_nothing() {
    let mut book = LeaseBook::new(small());
    for total in [60, 60, 20, 60] {
        let _ = book.grant(guest(1), nanos(total), LASTS, START);
        assert_eq!(book.tier(0, Tier::Guest), books(0, 60, 0));
    }
    for (posted, returned) in [(20, 10), (20, 10), (5, 0), (0, 10)] {
        assert_eq!(report(&mut book, guest(1), posted, returned), 30);
        assert_eq!(book.tier(0, Tier::Guest), books(20, 30, 0));
    }
    // Returned money can be lent once, not twice.
    assert_eq!(granted(&mut book, guest(2), 150), 100);
}

#[test]
fn an_overrun_is_booked_and_pays_for_nothing_new() {
    let mut book = LeaseBook::new(small());
    assert_eq!(granted(&mut book, guest(1), 100), 100);
    assert_eq!(report(&mut book, guest(1), 120, 0), 0);
    assert_eq!(book.tier(0, Tier::Guest), books(120, 0, 0));
    // 30 of the 150 are left, on top of the 120.
    assert_eq!(granted(&mut book, guest(1), 1_000), 150);
    assert_eq!(book.tier(0, Tier::Guest), books(120, 30, 0));
    // Spend on a lease that was never granted is posted all the same.
    assert_eq!(report(&mut book, guest(9), 5, 0), 0);
    assert_eq!(book.all(0), books(125, 30, 0));
}

#[test]
fn a_lease_without_a_rest_is_not_written_off() {
    let mut book = LeaseBook::new(small());
    for (node, posted, returned) in [(1, 10, 0), (2, 0, 10), (3, 4, 6), (4, 4, 5)] {
        assert_eq!(granted(&mut book, guest(node), 10), 10);
        report(&mut book, guest(node), posted, returned);
    }
    assert_eq!(book.expire(Timestamp::NEVER).iter().map(|lease| lease.id.node).collect::<Vec<_>>(), [4]);
    assert_eq!(book.tier(0, Tier::Guest), books(18, 0, 1));
    // It is raised when asked for again, and expires like any other.
    assert_eq!(granted(&mut book, guest(1), 20), 20);
    assert_eq!(book.expire(LATER).len(), 1);
}

#[test]
fn a_silent_node_takes_its_rest_with_it_until_it_is_reconciled() {
    let mut book = LeaseBook::new(small());
    let id = guest(1);
    assert_eq!(granted(&mut book, id, 100), 100);
    report(&mut book, id, 10, 0);
    // Its node may still spend it.
    assert_eq!(book.reconcile(id, nanos(10)), ReconcileDecision::Running);
    assert_eq!(book.expire(Timestamp::from_nanos(99)), []);
    assert_eq!(book.expire(LATER).iter().map(|lease| lease.id).collect::<Vec<_>>(), [id]);
    assert_eq!(book.expire(LATER), []);
    assert_eq!(book.tier(0, Tier::Guest), books(10, 0, 90));
    // A late report reduces the written-off amount.
    report(&mut book, id, 30, 0);
    assert_eq!(book.tier(0, Tier::Guest), books(30, 0, 70));
    assert_eq!(granted(&mut book, guest(2), 100), 50);
    assert_eq!(book.reconcile(id, nanos(45)), closed(55));
    assert_eq!(book.tier(0, Tier::Guest), books(45, 50, 0));
    assert_eq!(book.reconcile(id, nanos(45)), closed(0));
    // A still later report raises the spend; its returned amount is ignored.
    report(&mut book, id, 47, 50);
    assert_eq!(book.reconcile(id, nanos(46)), closed(0));
    assert_eq!(book.reconcile(id, nanos(48)), closed(0));
    assert_eq!(book.tier(0, Tier::Guest), books(48, 50, 0));
    // Reconciled spend may be less than the node has reported: the larger counts.
    assert_eq!(granted(&mut book, guest(3), 10), 10);
    report(&mut book, guest(3), 4, 0);
    book.expire(LATER);
    assert_eq!(book.reconcile(guest(3), nanos(1)), closed(6));
}

#[test]
fn a_node_that_was_only_slow_has_its_lease_again() {
    let mut book = LeaseBook::new(small());
    assert_eq!(granted(&mut book, guest(1), 100), 100);
    book.expire(LATER);
    let now = Timestamp::from_nanos(200);
    let renewed = book.grant(guest(1), nanos(100), LASTS, now);
    assert_eq!((renewed.lease().state, renewed.lease().rest()), (LeaseState::Running, nanos(100)));
    assert_eq!(book.tier(0, Tier::Guest), books(0, 100, 0));
    assert_eq!(book.expire(Timestamp::from_nanos(299)), []);
    assert_eq!(book.expire(Timestamp::from_nanos(300)).len(), 1);
}

#[test]
fn a_closed_lease_does_not_come_back_and_the_next_one_starts_from_nothing() {
    let mut book = LeaseBook::new(small());
    let id = guest(1);
    assert_eq!(granted(&mut book, id, 100), 100);
    book.expire(LATER);
    assert_eq!(book.reconcile(id, nanos(10)), closed(90));
    // The node does not know yet and asks for its old total.
    let over = book.grant(id, nanos(100), LASTS, LATER);
    assert_eq!(over, LeaseDecision::Over(Lease::new(next(id))));
    assert_eq!(book.tier(0, Tier::Guest), books(10, 0, 0));
    assert_eq!(granted(&mut book, next(id), 30), 30);
    assert_eq!(book.tier(0, Tier::Guest), books(10, 30, 0));
    // The reply repeats until the node has switched generations, and renews nothing.
    let LeaseDecision::Over(lease) = book.grant(id, nanos(100), LASTS, LATER) else { panic!() };
    assert_eq!(
        (lease.id, lease.granted, lease.lasts, lease.expires),
        (next(id), nanos(30), Duration::ZERO, LATER)
    );
    // A generation ahead of the authority's is rejected as well.
    assert!(
        matches!(book.grant(next(next(id)), nanos(1), LASTS, LATER), LeaseDecision::Over(lease) if lease.id == next(id))
    );
    // Costs are posted to the lease that incurred them.
    report(&mut book, id, 12, 0);
    report(&mut book, next(id), 7, 0);
    assert_eq!(book.tier(0, Tier::Guest), books(19, 23, 0));
}

#[test]
fn a_lower_cap_asks_the_largest_rests_back() {
    let mut book = LeaseBook::new(small());
    let [first, second] = [1, 2].map(|node| of(node, Tier::Prime));
    assert_eq!(granted(&mut book, first, 300), 300);
    assert_eq!(granted(&mut book, second, 200), 200);
    report(&mut book, first, 0, 150);
    assert_eq!(granted(&mut book, first, 450), 450);
    assert_eq!(granted(&mut book, guest(2), 20), 20);
    let lost = guest(3);
    let _ = book.grant(lost, nanos(10), Duration::ZERO, START);
    book.expire(START);
    assert_eq!(granted(&mut book, LeaseId { day: 1, ..second }, 500), 500);
    assert_eq!(book.set_limits(small(), 0), []);
    // 1,000 become 400: prime has 500 committed of 200, guests 30 of 60, and all together 530 of 400.
    let less = small().scaled(Factor::new("budget", 0.4).unwrap());
    let recall = |lease, returned| Recall { lease, returned: nanos(returned) };
    // The first lease has 300 outstanding and 150 returned; recalling all of it means a returned total of 450.
    assert_eq!(book.set_limits(less.clone(), 0), [recall(first, 450)]);
    assert_eq!(book.set_limits(less, 0), [recall(first, 450)]);
    // Shares under which each tier fits, but not all of them together.
    let odd = BudgetOptions {
        day: nanos(505),
        caller_day: nanos(5),
        shares: [99.9, 0.05, 0.05],
        ..BudgetOptions::default()
    };
    assert_eq!(book.set_limits(odd.check().unwrap(), 0), [recall(first, 150 + 5), recall(guest(2), 20)]);
    let none = small().scaled(Factor::new("budget", 0.001).unwrap());
    assert_eq!(book.set_limits(none, 0), [recall(first, 450), recall(second, 200), recall(guest(2), 20)]);
}

#[test]
fn days_are_forgotten_two_days_after_their_last_use_unless_a_rest_is_out() {
    const HOUR: u64 = 3_600;
    let mut book = LeaseBook::new(small());
    assert_eq!(granted(&mut book, guest(1), 10), 10);
    let lost = of(1, Tier::Prime);
    let tomorrow = LeaseId { day: 1, ..lost };
    for id in [lost, tomorrow] {
        let _ = book.grant(id, nanos(10), LASTS, START);
    }
    report(&mut book, guest(1), 10, 0);
    report(&mut book, tomorrow, 3, 7);
    book.expire(at(48 * HOUR - 1).monotonic);
    assert_eq!(book.all(1), books(3, 0, 0));
    book.expire(at(48 * HOUR).monotonic);
    assert_eq!((book.all(1), book.lease(tomorrow)), (LentBooks::default(), None));
    // Writing off counts as a use, and the remainder is still outstanding.
    book.expire(at(200 * HOUR).monotonic);
    assert_eq!(book.all(0), books(10, 0, 10));
    assert_eq!(book.reconcile(lost, nanos(2)), closed(8));
    book.expire(at(248 * HOUR).monotonic);
    assert_eq!((book.all(0), book.lease(lost), book.lease(guest(1))), (LentBooks::default(), None, None));
    // Spend that becomes known after that is posted.
    assert_eq!(book.reconcile(lost, nanos(3)), closed(0));
    report(&mut book, guest(1), 11, 0);
    assert_eq!(book.all(0), books(14, 0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Grant {
        id: LeaseId,
        total: u64,
    },
    Report {
        id: LeaseId,
        posted: u64,
        returned: u64,
    },
    Reconcile {
        id: LeaseId,
        spent: u64,
    },
    /// Repeats an earlier step.
    Again(Index),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || {
        (0..3_u64, 0..3_usize, 0..2_u64, 0..2_u64).prop_map(|(node, tier, day, generation)| LeaseId {
            day,
            tier: Tier::ALL[tier],
            node,
            generation,
        })
    };
    let step = prop_oneof![
        4 => (id(), 0..600_u64).prop_map(|(id, total)| Step::Grant { id, total }),
        4 => (id(), 0..300_u64, 0..300_u64).prop_map(|(id, posted, returned)| Step::Report { id, posted, returned }),
        1 => (id(), 0..300_u64).prop_map(|(id, spent)| Step::Reconcile { id, spent }),
        3 => any::<Index>().prop_map(Step::Again),
        1 => Just(Step::Expire),
    ];
    vec(step, 1..60)
}

fn take(book: &mut LeaseBook, step: &Step) {
    match *step {
        Step::Grant { id, total } => drop(book.grant(id, nanos(total), LASTS, START)),
        Step::Report { id, posted, returned } => drop(report(book, id, posted, returned)),
        Step::Reconcile { id, spent } => drop(book.reconcile(id, nanos(spent))),
        Step::Again(_) => {}
        Step::Expire => drop(book.expire(LATER)),
    }
}

proptest! {
    /// Whatever nodes report, in whatever order and however often: the sums match the leases, and no grant makes them
    /// exceed the cap. Spend beyond leases is included.
    #[test]
    fn what_is_posted_lent_and_written_off_stays_within_the_cap(steps in steps()) {
        let mut book = LeaseBook::new(small());
        let places = || [0, 1].into_iter().flat_map(|day| Tier::ALL.map(|tier| (day, tier)));
        let mut overrun = BTreeMap::new();
        for (place, step) in steps.iter().enumerate() {
            let step = match step {
                Step::Again(which) => &steps[which.index(place.max(1))],
                step => step,
            };
            let before: Vec<_> = places().map(|(day, tier)| book.tier(day, tier)).collect();
            take(&mut book, step);
            let once: Vec<_> = places().map(|(day, tier)| book.tier(day, tier)).collect();
            take(&mut book, step);
            for (which, (day, tier)) in places().enumerate() {
                let books = book.tier(day, tier);
                prop_assert_eq!(books, once[which], "said twice");
                let overrun = overrun.entry((day, tier)).or_insert(Money::ZERO);
                if !matches!(step, Step::Grant { .. }) {
                    let more = books.committed().saturating_sub(before[which].committed());
                    *overrun = overrun.saturating_add(more);
                }
                let held = books.lent.saturating_add(books.written_off);
                prop_assert_eq!(spend_within_cap(books.posted, held, *overrun, small().tier_cap(day, tier)), Ok(()));
                let (mut posted, mut lent, mut written_off) = (0, 0, 0);
                for lease in book.of_day(day).filter(|lease| lease.id.tier == tier) {
                    let [granted, spent, back] = [lease.granted, lease.posted, lease.returned].map(Money::as_nanos);
                    posted += spent;
                    match lease.state {
                        LeaseState::Running => lent += granted.saturating_sub(spent + back),
                        LeaseState::WrittenOff => written_off += granted.saturating_sub(spent + back),
                        LeaseState::Closed => {}
                    }
                }
                prop_assert_eq!(books, self::books(posted, lent, written_off));
            }
        }
    }
}

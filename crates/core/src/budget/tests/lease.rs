//! Tests of the authority's ledger.

use super::{at, nanos, small};
use crate::budget::{
    BudgetLease, BudgetOptions, LeaseDecision, LeaseId, LeaseLedger, LeaseRecall, LeaseReport, LeaseState,
    LeaseTotals, ReconcileDecision,
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
fn granted(ledger: &mut LeaseLedger, id: LeaseId, total: u64) -> u64 {
    match ledger.grant(id, nanos(total), LASTS, START) {
        LeaseDecision::Granted(lease) => lease.granted.as_nanos(),
        other => panic!("{other:?}"),
    }
}

fn report(ledger: &mut LeaseLedger, lease: LeaseId, posted: u64, returned: u64) -> u64 {
    let report = LeaseReport { lease, posted: nanos(posted), returned: nanos(returned) };
    ledger.report(&report).remainder().as_nanos()
}

fn totals(posted: u64, leased: u64, written_off: u64) -> LeaseTotals {
    LeaseTotals { posted: nanos(posted), leased: nanos(leased), written_off: nanos(written_off) }
}

fn closed(freed: u64) -> ReconcileDecision {
    ReconcileDecision::Closed { freed: nanos(freed) }
}

#[test]
fn a_node_that_missed_several_closings_gets_the_latest_generation() {
    let mut ledger = LeaseLedger::new(small());
    let lasts = Duration::from_secs(1);
    let id = |generation| LeaseId { day: 0, tier: Tier::Guest, node: 1, generation };
    for generation in [0, 1] {
        let now = Timestamp::ZERO + lasts * u32::try_from(generation).unwrap();
        let _ = ledger.grant(id(generation), nanos(10), lasts, now);
        ledger.expire(now + lasts);
        let _ = ledger.reconcile(id(generation), nanos(3));
    }
    let decision = ledger.grant(id(0), nanos(10), lasts, Timestamp::ZERO);
    assert!(matches!(decision, LeaseDecision::Superseded(lease) if lease.id == id(2)), "{decision:?}");
}

#[test]
fn nodes_are_granted_leases_until_the_cap_is_exhausted() {
    let mut ledger = LeaseLedger::new(small());
    assert_eq!(granted(&mut ledger, guest(1), 100), 100);
    assert_eq!(granted(&mut ledger, guest(2), 100), 50);
    let spent = ledger.grant(guest(3), nanos(1), LASTS, START);
    assert_eq!(
        (spent, ledger.lease(guest(3))),
        (
            LeaseDecision::Exhausted(BudgetLease {
                term: LASTS,
                expires: LATER,
                ..BudgetLease::new(guest(3))
            }),
            None
        )
    );
    assert!(
        matches!(ledger.grant(guest(2), nanos(51), LASTS, START), LeaseDecision::Exhausted(lease) if lease.granted == nanos(50))
    );
    assert_eq!(report(&mut ledger, guest(1), 0, 30), 70);
    assert_eq!(granted(&mut ledger, guest(3), 100), 30);
    assert_eq!(report(&mut ledger, guest(1), 0, 100), 0);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(0, 80, 0));
    assert_eq!(granted(&mut ledger, LeaseId { day: 1, ..guest(3) }, 200), 150);
}

#[test]
fn asking_for_the_same_total_renews_the_lease() {
    let mut ledger = LeaseLedger::new(small());
    assert_eq!(granted(&mut ledger, guest(1), 0), 0);
    assert_eq!((ledger.lease(guest(1)), ledger.all(0)), (None, LeaseTotals::default()));
    assert_eq!(granted(&mut ledger, guest(1), 150), 150);
    // The guest tier is lent out completely, but a renewal is not a refusal.
    for total in [150, 10, 0] {
        assert_eq!(granted(&mut ledger, guest(1), total), 150);
    }
    let later = ledger.grant(guest(1), Money::ZERO, LASTS, Timestamp::from_nanos(50));
    assert_eq!(later.lease().expires, Timestamp::from_nanos(150));
    // A delayed renewal does not shorten the lease.
    assert_eq!(ledger.grant(guest(1), Money::ZERO, LASTS, START).lease().expires, Timestamp::from_nanos(150));
    assert_eq!(ledger.expire(Timestamp::from_nanos(149)), []);
    assert_eq!(ledger.expire(Timestamp::from_nanos(150)).len(), 1);
}

#[test]
fn a_duplicate_or_late_message_changes_nothing() {
    let mut ledger = LeaseLedger::new(small());
    for total in [60, 60, 20, 60] {
        let _ = ledger.grant(guest(1), nanos(total), LASTS, START);
        assert_eq!(ledger.tier(0, Tier::Guest), totals(0, 60, 0));
    }
    for (posted, returned) in [(20, 10), (20, 10), (5, 0), (0, 10)] {
        assert_eq!(report(&mut ledger, guest(1), posted, returned), 30);
        assert_eq!(ledger.tier(0, Tier::Guest), totals(20, 30, 0));
    }
    // Returned money can be lent once, not twice.
    assert_eq!(granted(&mut ledger, guest(2), 150), 100);
}

#[test]
fn an_overrun_is_booked_and_pays_for_nothing_new() {
    let mut ledger = LeaseLedger::new(small());
    assert_eq!(granted(&mut ledger, guest(1), 100), 100);
    assert_eq!(report(&mut ledger, guest(1), 120, 0), 0);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(120, 0, 0));
    // 30 of the 150 are left, on top of the 120.
    assert_eq!(granted(&mut ledger, guest(1), 1_000), 150);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(120, 30, 0));
    // Spend on a lease that was never granted is posted all the same.
    assert_eq!(report(&mut ledger, guest(9), 5, 0), 0);
    assert_eq!(ledger.all(0), totals(125, 30, 0));
}

#[test]
fn a_lease_without_remainder_is_not_written_off() {
    let mut ledger = LeaseLedger::new(small());
    for (node, posted, returned) in [(1, 10, 0), (2, 0, 10), (3, 4, 6), (4, 4, 5)] {
        assert_eq!(granted(&mut ledger, guest(node), 10), 10);
        report(&mut ledger, guest(node), posted, returned);
    }
    assert_eq!(ledger.expire(Timestamp::NEVER).iter().map(|lease| lease.id.node).collect::<Vec<_>>(), [4]);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(18, 0, 1));
    // It is raised when asked for again, and expires like any other.
    assert_eq!(granted(&mut ledger, guest(1), 20), 20);
    assert_eq!(ledger.expire(LATER).len(), 1);
}

#[test]
fn the_remainder_of_a_silent_node_is_written_off_until_reconciled() {
    let mut ledger = LeaseLedger::new(small());
    let id = guest(1);
    assert_eq!(granted(&mut ledger, id, 100), 100);
    report(&mut ledger, id, 10, 0);
    // Its node may still spend it.
    assert_eq!(ledger.reconcile(id, nanos(10)), ReconcileDecision::Running);
    assert_eq!(ledger.expire(Timestamp::from_nanos(99)), []);
    assert_eq!(ledger.expire(LATER).iter().map(|lease| lease.id).collect::<Vec<_>>(), [id]);
    assert_eq!(ledger.expire(LATER), []);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(10, 0, 90));
    // A late report reduces the written-off amount.
    report(&mut ledger, id, 30, 0);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(30, 0, 70));
    assert_eq!(granted(&mut ledger, guest(2), 100), 50);
    assert_eq!(ledger.reconcile(id, nanos(45)), closed(55));
    assert_eq!(ledger.tier(0, Tier::Guest), totals(45, 50, 0));
    assert_eq!(ledger.reconcile(id, nanos(45)), closed(0));
    // A still later report raises the spend; its returned amount is ignored.
    report(&mut ledger, id, 47, 50);
    assert_eq!(ledger.reconcile(id, nanos(46)), closed(0));
    assert_eq!(ledger.reconcile(id, nanos(48)), closed(0));
    assert_eq!(ledger.tier(0, Tier::Guest), totals(48, 50, 0));
    // Reconciled spend may be less than the node has reported: the larger counts.
    assert_eq!(granted(&mut ledger, guest(3), 10), 10);
    report(&mut ledger, guest(3), 4, 0);
    ledger.expire(LATER);
    assert_eq!(ledger.reconcile(guest(3), nanos(1)), closed(6));
}

#[test]
fn a_node_that_was_only_slow_has_its_lease_again() {
    let mut ledger = LeaseLedger::new(small());
    assert_eq!(granted(&mut ledger, guest(1), 100), 100);
    ledger.expire(LATER);
    let now = Timestamp::from_nanos(200);
    let renewed = ledger.grant(guest(1), nanos(100), LASTS, now);
    assert_eq!((renewed.lease().state, renewed.lease().remainder()), (LeaseState::Running, nanos(100)));
    assert_eq!(ledger.tier(0, Tier::Guest), totals(0, 100, 0));
    assert_eq!(ledger.expire(Timestamp::from_nanos(299)), []);
    assert_eq!(ledger.expire(Timestamp::from_nanos(300)).len(), 1);
}

#[test]
fn a_closed_lease_does_not_come_back_and_the_next_one_starts_from_nothing() {
    let mut ledger = LeaseLedger::new(small());
    let id = guest(1);
    assert_eq!(granted(&mut ledger, id, 100), 100);
    ledger.expire(LATER);
    assert_eq!(ledger.reconcile(id, nanos(10)), closed(90));
    // The node does not know yet and asks for its old total.
    let over = ledger.grant(id, nanos(100), LASTS, LATER);
    assert_eq!(over, LeaseDecision::Superseded(BudgetLease::new(next(id))));
    assert_eq!(ledger.tier(0, Tier::Guest), totals(10, 0, 0));
    assert_eq!(granted(&mut ledger, next(id), 30), 30);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(10, 30, 0));
    // The reply repeats until the node has switched generations, and renews nothing.
    let LeaseDecision::Superseded(lease) = ledger.grant(id, nanos(100), LASTS, LATER) else { panic!() };
    assert_eq!(
        (lease.id, lease.granted, lease.term, lease.expires),
        (next(id), nanos(30), Duration::ZERO, LATER)
    );
    // A generation ahead of the authority's is rejected as well.
    assert!(
        matches!(ledger.grant(next(next(id)), nanos(1), LASTS, LATER), LeaseDecision::Superseded(lease) if lease.id == next(id))
    );
    // Costs are posted to the lease that incurred them.
    report(&mut ledger, id, 12, 0);
    report(&mut ledger, next(id), 7, 0);
    assert_eq!(ledger.tier(0, Tier::Guest), totals(19, 23, 0));
}

#[test]
fn a_lower_cap_recalls_the_largest_remainders() {
    let mut ledger = LeaseLedger::new(small());
    let [first, second] = [1, 2].map(|node| of(node, Tier::Prime));
    assert_eq!(granted(&mut ledger, first, 300), 300);
    assert_eq!(granted(&mut ledger, second, 200), 200);
    report(&mut ledger, first, 0, 150);
    assert_eq!(granted(&mut ledger, first, 450), 450);
    assert_eq!(granted(&mut ledger, guest(2), 20), 20);
    let lost = guest(3);
    let _ = ledger.grant(lost, nanos(10), Duration::ZERO, START);
    ledger.expire(START);
    assert_eq!(granted(&mut ledger, LeaseId { day: 1, ..second }, 500), 500);
    assert_eq!(ledger.set_limits(small(), 0), []);
    // 1,000 become 400: prime has 500 committed of 200, guests 30 of 60, and all together 530 of 400.
    let less = small().scaled(Factor::new("budget", 0.4).unwrap());
    let recall = |lease, returned| LeaseRecall { lease, returned: nanos(returned) };
    // The first lease has 300 outstanding and 150 returned; recalling all of it means a returned total of 450.
    assert_eq!(ledger.set_limits(less.clone(), 0), [recall(first, 450)]);
    assert_eq!(ledger.set_limits(less, 0), [recall(first, 450)]);
    // Shares under which each tier fits, but not all of them together.
    let odd = BudgetOptions {
        day: nanos(505),
        caller_day: nanos(5),
        shares: [99.9, 0.05, 0.05],
        ..BudgetOptions::default()
    };
    assert_eq!(ledger.set_limits(odd.check().unwrap(), 0), [recall(first, 150 + 5), recall(guest(2), 20)]);
    let none = small().scaled(Factor::new("budget", 0.001).unwrap());
    assert_eq!(ledger.set_limits(none, 0), [recall(first, 450), recall(second, 200), recall(guest(2), 20)]);
}

#[test]
fn days_are_evicted_two_days_after_last_use_unless_a_remainder_is_lent() {
    const HOUR: u64 = 3_600;
    let mut ledger = LeaseLedger::new(small());
    assert_eq!(granted(&mut ledger, guest(1), 10), 10);
    let lost = of(1, Tier::Prime);
    let tomorrow = LeaseId { day: 1, ..lost };
    for id in [lost, tomorrow] {
        let _ = ledger.grant(id, nanos(10), LASTS, START);
    }
    report(&mut ledger, guest(1), 10, 0);
    report(&mut ledger, tomorrow, 3, 7);
    ledger.expire(at(48 * HOUR - 1).monotonic);
    assert_eq!(ledger.all(1), totals(3, 0, 0));
    ledger.expire(at(48 * HOUR).monotonic);
    assert_eq!((ledger.all(1), ledger.lease(tomorrow)), (LeaseTotals::default(), None));
    // Writing off counts as a use, and the remainder is still outstanding.
    ledger.expire(at(200 * HOUR).monotonic);
    assert_eq!(ledger.all(0), totals(10, 0, 10));
    assert_eq!(ledger.reconcile(lost, nanos(2)), closed(8));
    ledger.expire(at(248 * HOUR).monotonic);
    assert_eq!(
        (ledger.all(0), ledger.lease(lost), ledger.lease(guest(1))),
        (LeaseTotals::default(), None, None)
    );
    // Spend that becomes known after that is posted.
    assert_eq!(ledger.reconcile(lost, nanos(3)), closed(0));
    report(&mut ledger, guest(1), 11, 0);
    assert_eq!(ledger.all(0), totals(14, 0, 0));
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

fn take(ledger: &mut LeaseLedger, step: &Step) {
    match *step {
        Step::Grant { id, total } => drop(ledger.grant(id, nanos(total), LASTS, START)),
        Step::Report { id, posted, returned } => drop(report(ledger, id, posted, returned)),
        Step::Reconcile { id, spent } => drop(ledger.reconcile(id, nanos(spent))),
        Step::Again(_) => {}
        Step::Expire => drop(ledger.expire(LATER)),
    }
}

proptest! {
    /// Whatever nodes report, in whatever order and however often: the sums match the leases, and no grant makes them
    /// exceed the cap. Spend beyond leases is included.
    #[test]
    fn posted_lent_and_written_off_stay_within_the_cap(steps in steps()) {
        let mut ledger = LeaseLedger::new(small());
        let places = || [0, 1].into_iter().flat_map(|day| Tier::ALL.map(|tier| (day, tier)));
        let mut overrun = BTreeMap::new();
        for (place, step) in steps.iter().enumerate() {
            let step = match step {
                Step::Again(which) => &steps[which.index(place.max(1))],
                step => step,
            };
            let before: Vec<_> = places().map(|(day, tier)| ledger.tier(day, tier)).collect();
            take(&mut ledger, step);
            let once: Vec<_> = places().map(|(day, tier)| ledger.tier(day, tier)).collect();
            take(&mut ledger, step);
            for (which, (day, tier)) in places().enumerate() {
                let totals = ledger.tier(day, tier);
                prop_assert_eq!(totals, once[which], "reported twice");
                let overrun = overrun.entry((day, tier)).or_insert(Money::ZERO);
                if !matches!(step, Step::Grant { .. }) {
                    let more = totals.committed().saturating_sub(before[which].committed());
                    *overrun = overrun.saturating_add(more);
                }
                let held = totals.leased.saturating_add(totals.written_off);
                prop_assert_eq!(spend_within_cap(totals.posted, held, *overrun, small().tier_cap(day, tier)), Ok(()));
                let (mut posted, mut leased, mut written_off) = (0, 0, 0);
                for lease in ledger.of_day(day).filter(|lease| lease.id.tier == tier) {
                    let [granted, spent, back] = [lease.granted, lease.posted, lease.returned].map(Money::as_nanos);
                    posted += spent;
                    match lease.state {
                        LeaseState::Running => leased += granted.saturating_sub(spent + back),
                        LeaseState::WrittenOff => written_off += granted.saturating_sub(spent + back),
                        LeaseState::Closed => {}
                    }
                }
                prop_assert_eq!(totals, self::totals(posted, leased, written_off));
            }
        }
    }
}

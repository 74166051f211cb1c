//! Tests of a node's ledger on leases.

use super::{account, ask, at, nanos, post, small};
use crate::budget::{
    ApplyDecision, BudgetEntry, BudgetLease, BudgetLedger, BudgetRefusal, LeaseId, LeaseReport, LeaseState,
    ReservationRequest,
};
use crate::money::Money;
use crate::time::{Timestamp, UtcTime};
use crate::vocabulary::Tier;
use std::time::Duration;

const NODE: u64 = 7;
const SECOND: Duration = Duration::from_secs(1);

fn id(generation: u64) -> LeaseId {
    LeaseId { day: 0, tier: Tier::Guest, node: NODE, generation }
}

/// A lease of thirty seconds.
fn lease(generation: u64, granted: u64) -> BudgetLease {
    BudgetLease {
        id: id(generation),
        granted: nanos(granted),
        posted: Money::ZERO,
        returned: Money::ZERO,
        term: Duration::from_secs(30),
        expires: Timestamp::ZERO,
        state: LeaseState::Running,
    }
}

fn ledger() -> BudgetLedger {
    BudgetLedger::with_leases(small(), NODE)
}

#[test]
fn a_node_spends_what_was_leased_to_it_and_gives_back_what_is_free() {
    let mut ledger = ledger();
    assert!(matches!(ledger.reserve(&ask(1, Tier::Guest, 1), at(0)), Err(BudgetRefusal::TierDay { .. })));
    let entry = BudgetEntry::Leased { lease: id(0), granted: nanos(100), returned: Money::ZERO };
    assert_eq!(ledger.set_lease(&lease(0, 100), at(0).monotonic, SECOND), Some(entry));
    assert_eq!(ledger.tier_cap(0, Tier::Guest), nanos(100));
    let reserved = ledger.reserve(&ask(1, Tier::Guest, 70), at(0)).unwrap();
    assert!(ledger.reserve(&ask(1, Tier::Prime, 1), at(0)).is_err());
    assert!(ledger.reserve(&ask(2, Tier::Guest, 31), at(0)).is_err());
    // Returns are totals: repeating a return of 10 changes nothing.
    assert_eq!([10, 10, 5].map(|total| ledger.give_back(0, Tier::Guest, nanos(total))), [nanos(10); 3]);
    assert_eq!(ledger.give_back(0, Tier::Guest, Money::MAX), nanos(30));
    assert_eq!(ledger.decide_return(0, Tier::Guest, Money::MAX), None);
    assert_eq!(ledger.give_back(5, Tier::Guest, Money::MAX), Money::ZERO);
    let _ = ledger.apply(&post(reserved, 30));
    let entry = BudgetEntry::Returned { lease: id(0), total: nanos(70) };
    assert_eq!(ledger.decide_return(0, Tier::Guest, Money::MAX), Some(entry));
    assert_eq!(ledger.apply(&entry), ApplyDecision::Applied);
    assert_eq!((ledger.tier(0, Tier::Guest), ledger.tier_cap(0, Tier::Guest)), (account(30, 0), nanos(30)));
    let report = LeaseReport { lease: id(0), posted: nanos(30), returned: nanos(70) };
    assert_eq!((ledger.lease_reports(0), ledger.lease_reports(1)), (vec![report], vec![]));
    // The cap per caller also applies on leases.
    ledger.set_lease(&lease(0, 1_000), at(0).monotonic, SECOND);
    assert!(matches!(ledger.reserve(&ask(1, Tier::Guest, 121), at(0)), Err(BudgetRefusal::CallerDay { .. })));
    assert!(ledger.reserve(&ask(1, Tier::Guest, 120), at(0)).is_ok());
}

#[test]
fn a_duplicate_or_late_reply_lends_nothing_more() {
    let mut ledger = ledger();
    let early = lease(0, 40);
    let late = BudgetLease { returned: nanos(5), ..lease(0, 100) };
    for (answer, is_news) in [(late, true), (late, false), (early, false), (late, false)] {
        assert_eq!(ledger.set_lease(&answer, at(0).monotonic, SECOND).is_some(), is_news);
        assert_eq!(ledger.tier_cap(0, Tier::Guest), nanos(95));
    }
    // Leases of other nodes, and leases in a ledger without leases, are ignored.
    let other = BudgetLease { id: LeaseId { node: 8, ..id(0) }, ..lease(0, 500) };
    assert_eq!(ledger.set_lease(&other, at(0).monotonic, SECOND), None);
    let mut alone = super::small_ledger();
    assert_eq!(alone.set_lease(&lease(0, 1), at(0).monotonic, SECOND), None);
    assert_eq!((alone.tier_cap(0, Tier::Guest), alone.held_lease(0, Tier::Guest)), (nanos(150), None));
    assert_eq!(alone.give_back(0, Tier::Guest, Money::MAX), Money::ZERO);
}

#[test]
fn a_node_does_not_spend_a_lease_that_has_ended() {
    let mut ledger = ledger();
    // Requested at 10 for thirty seconds, less a margin of one.
    ledger.set_lease(&lease(0, 100), at(10).monotonic, SECOND);
    assert_eq!(ledger.held_lease(0, Tier::Guest).unwrap().until, at(39).monotonic);
    let last = ledger
        .reserve(&ReservationRequest { max_cost: nanos(10), ..ask(1, Tier::Guest, 0) }, at(38))
        .unwrap();
    let refusal = BudgetRefusal::TierDay {
        tier: Tier::Guest,
        wanted: nanos(1),
        available: Money::ZERO,
        unspent: nanos(150),
        resets: UtcTime::start_of_day(1),
    };
    assert_eq!(ledger.reserve(&ask(1, Tier::Guest, 1), at(39)), Err(refusal));
    // A call in flight is posted all the same.
    let _ = ledger.apply(&post(last, 10));
    assert_eq!(ledger.tier(0, Tier::Guest), account(10, 0));
    // An older reply does not shorten the lease; a newer one revives it.
    ledger.set_lease(&lease(0, 100), at(5).monotonic, SECOND);
    assert!(ledger.reserve(&ask(1, Tier::Guest, 1), at(38)).is_ok());
    ledger.set_lease(&lease(0, 100), at(50).monotonic, SECOND);
    assert!(ledger.reserve(&ask(1, Tier::Guest, 1), at(78)).is_ok());
    assert!(ledger.reserve(&ask(1, Tier::Guest, 1), at(79)).is_err());
}

#[test]
fn after_a_closed_lease_the_node_reports_both_generations() {
    let mut ledger = ledger();
    ledger.set_lease(&lease(0, 100), at(0).monotonic, SECOND);
    let open = ledger.reserve(&ask(1, Tier::Guest, 60), at(0)).unwrap();
    assert_eq!(ledger.give_back(0, Tier::Guest, nanos(15)), nanos(15));
    // The authority announces the next generation, of which nothing may be spent yet.
    let over = BudgetLease { term: Duration::ZERO, ..lease(1, 0) };
    ledger.set_lease(&over, at(1).monotonic, SECOND);
    assert!(ledger.reserve(&ask(2, Tier::Guest, 1), at(1)).is_err());
    assert_eq!(ledger.held_lease(0, Tier::Guest).unwrap().id, id(1));
    ledger.set_lease(&lease(1, 20), at(2).monotonic, SECOND);
    // A stale report on the old lease changes nothing.
    assert_eq!(ledger.set_lease(&lease(0, 140), at(3).monotonic, SECOND), None);
    assert_eq!(
        ledger.apply(&BudgetEntry::Returned { lease: id(0), total: nanos(90) }),
        ApplyDecision::Unchanged
    );
    assert_eq!(ledger.tier_cap(0, Tier::Guest), nanos(60 + 20));
    assert!(ledger.reserve(&ask(2, Tier::Guest, 21), at(3)).is_err());
    let new = ledger.reserve(&ask(2, Tier::Guest, 20), at(3)).unwrap();
    // Each cost is posted to the lease that paid for it.
    let _ = ledger.apply(&post(open, 50));
    let _ = ledger.apply(&post(new, 12));
    let report = |generation, posted, returned| LeaseReport {
        lease: id(generation),
        posted: nanos(posted),
        returned: nanos(returned),
    };
    assert_eq!(ledger.lease_reports(0), [report(0, 50, 15), report(1, 12, 0)]);
    assert_eq!(ledger.tier(0, Tier::Guest), account(62, 0));
}

#[test]
fn a_book_on_leases_is_the_sum_of_its_entries() {
    let mut ledger = ledger();
    let mut journal: Vec<BudgetEntry> =
        ledger.set_lease(&lease(0, 100), at(0).monotonic, SECOND).into_iter().collect();
    let reserved = ledger.decide(&ask(1, Tier::Guest, 60), at(0)).unwrap();
    journal.push(reserved);
    let _ = ledger.apply(&reserved);
    let back = ledger.decide_return(0, Tier::Guest, nanos(25)).unwrap();
    journal.push(back);
    let _ = ledger.apply(&back);
    let mut again = self::ledger();
    for entry in &journal {
        assert_eq!(again.apply(entry), ApplyDecision::Applied);
    }
    again.recover();
    let held = again.held_lease(0, Tier::Guest).unwrap();
    assert_eq!((held.granted, held.returned, held.account), (nanos(100), nanos(25), account(60, 0)));
    // Whether the lease still runs is unknown: monotonic clocks of two processes are unrelated.
    assert!(again.reserve(&ask(2, Tier::Guest, 1), at(0)).is_err());
    again.set_lease(&lease(0, 100), at(0).monotonic, SECOND);
    assert!(again.reserve(&ask(2, Tier::Guest, 16), at(0)).is_err());
    assert!(again.reserve(&ask(2, Tier::Guest, 15), at(0)).is_ok());
    for entry in &journal {
        assert_eq!(again.apply(entry), ApplyDecision::Unchanged);
    }
}

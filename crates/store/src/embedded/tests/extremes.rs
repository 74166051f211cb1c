//! Edge cases: amounts that overflow, calendars that jump, names that are too long.

use super::recovery::{Node, ask, cost_of_day, posted};
use super::{noon, options, wait};
use crate::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use crate::ledger::{LeaseRequest, Ledger};
use crate::node_ledger::{JournalRecord, LedgerCall, NodeLedger};
use crate::usage::{CallId, Certainty};
use seawall_core::budget::{
    BudgetEntry, BudgetLease, BudgetSource, LeaseId, LeaseReport, LeaseState, ReservationRequest,
};
use seawall_core::money::{Money, Usage};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_testkit::TestDirectory;
use std::time::Duration;

fn small() -> EmbeddedOptions {
    EmbeddedOptions { segment_bytes: 30, ..options() }
}

#[test]
fn a_saturated_cost_is_stored_and_the_directory_reopens() {
    let scratch = TestDirectory::in_memory().unwrap();
    let now = noon();
    let day = now.utc.day();
    let mut node = Node::with(scratch.path(), small());
    let mut reserve = |caller, tier| {
        let ask = ReservationRequest { caller, tier, session: None, ..ask(1, 100) };
        let entry = node.opened.budget_ledger.decide(&ask, now).unwrap();
        node.write(&[JournalRecord::Entry(entry)]);
        let BudgetEntry::Reserved(reservation) = entry else { panic!("{entry:?}") };
        reservation.id
    };
    let (first, expired) = (reserve(1, Tier::Standard), reserve(2, Tier::Guest));
    let (second, third) = (reserve(1, Tier::Guest), reserve(2, Tier::Standard));
    let post = |id, cost| JournalRecord::Entry(BudgetEntry::Posted { id, usage: Usage::default(), cost });
    node.write(&[JournalRecord::Entry(BudgetEntry::Expired(expired))]);
    for id in [first, second, third] {
        node.write(&[post(id, Money::MAX)]);
    }
    // The call was charged at its maximum cost, and turns out cheaper when the total has already saturated.
    node.write(&[post(expired, Money::ZERO)]);
    drop(node);
    for _ in 0..3 {
        let node = Node::with(scratch.path(), small());
        assert_eq!(node.opened.budget_ledger.all(day).posted, Money::MAX);
        assert_eq!(node.opened.budget_ledger.all(day).held, Money::ZERO);
    }
}

#[test]
fn a_lease_with_saturated_reports_is_stored() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = Node::open(scratch.path()).opened;
    let day = noon().utc.day();
    for node in [1, 2] {
        let lease = LeaseId { day, tier: Tier::Prime, node, generation: 0 };
        let ask = LeaseRequest { lease, total: Money::from_nanos(500), term: Duration::from_secs(30) };
        let _ = wait(opened.store.lease(&ask, noon())).unwrap();
        let report = LeaseReport { lease, posted: Money::MAX, returned: Money::ZERO };
        wait(opened.store.report(&[report], noon())).unwrap();
    }
    let before = wait(opened.store.day(day)).unwrap();
    drop(opened);
    let opened = Node::open(scratch.path()).opened;
    assert_eq!(wait(opened.store.day(day)).unwrap().leases, before.leases);
}

#[test]
fn a_conversation_with_a_hold_is_stored_after_its_last_day() {
    let scratch = TestDirectory::in_memory().unwrap();
    let day = |number: u64| noon() + Duration::from_secs(86_400 * number);
    let mut node = Node::with(scratch.path(), small());
    // The calendar is set back for a moment while a call is in flight.
    node.reserve(1, 10, day(1));
    let id = node.reserve(1, 10, day(0));
    node.post(1, id, 4);
    for number in 2..8 {
        let id = node.reserve(2, 10, day(number));
        node.post(2, id, 4);
    }
    wait(node.opened.store.post(&[])).unwrap();
    drop(node);
    let node = Node::with(scratch.path(), small());
    assert_eq!(node.opened.report.charged.len(), 1);
}

#[test]
fn a_lease_of_a_day_without_calls_is_stored() {
    let scratch = TestDirectory::in_memory().unwrap();
    let leases = EmbeddedOptions { source: BudgetSource::Leases { node: 5 }, ..small() };
    let day = noon().utc.day();
    let id = LeaseId { day, tier: Tier::Standard, node: 5, generation: 0 };
    let mut node = Node::with(scratch.path(), leases.clone());
    let granted = Money::from_nanos(700);
    node.write(&[JournalRecord::Entry(BudgetEntry::Leased { lease: id, granted, returned: Money::ZERO })]);
    node.write(&[JournalRecord::Entry(BudgetEntry::Returned { lease: id, total: Money::from_nanos(200) })]);
    drop(node);
    for _ in 0..2 {
        let node = Node::with(scratch.path(), leases.clone());
        let held = node.opened.budget_ledger.held_lease(day, Tier::Standard).unwrap();
        assert_eq!((held.granted, held.returned), (granted, Money::from_nanos(200)));
    }
}

#[test]
fn a_database_with_another_budget_source_is_not_reported_as_damaged() {
    let day = noon().utc.day();
    let caps = BudgetSource::Caps;
    let leases = |node| BudgetSource::Leases { node };
    for (before, after) in [(caps, leases(5)), (leases(5), caps), (leases(5), leases(6))] {
        let scratch = TestDirectory::in_memory().unwrap();
        let mut node = Node::with(scratch.path(), EmbeddedOptions { source: before, ..small() });
        if before != caps {
            let lease = LeaseId { day, tier: Tier::Standard, node: 5, generation: 0 };
            let granted = Money::from_nanos(700);
            let lease = BudgetLease {
                id: lease,
                granted,
                posted: Money::ZERO,
                returned: Money::ZERO,
                term: Duration::from_secs(30),
                expires: Timestamp::NEVER,
                state: LeaseState::Running,
            };
            let entry =
                node.opened.budget_ledger.set_lease(&lease, noon().monotonic, Duration::ZERO).unwrap();
            node.write(&[JournalRecord::Entry(entry)]);
        }
        let id = node.reserve(1, 100, noon());
        node.post(1, id, 30);
        drop(node);
        let found = super::contents(scratch.path());
        let refusal =
            EmbeddedStore::open(scratch.path(), EmbeddedOptions { source: after, ..small() }, noon())
                .unwrap_err();
        assert!(!matches!(refusal, OpenError::Damaged { .. }), "{before:?} {after:?} {refusal}");
        assert_eq!(super::contents(scratch.path()), found);
        let node = Node::with(scratch.path(), EmbeddedOptions { source: before, ..small() });
        assert_eq!(posted(&node.opened.budget_ledger), (30, 0));
    }
}

#[test]
fn many_calls_that_expire_at_once_are_all_stored() {
    const MANY: u64 = 150_000;
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = Node::open(scratch.path()).opened;
    let (store, ledger) = (opened.store, NodeLedger::with_ledger(opened.budget_ledger, opened.journal));
    let expires = noon().monotonic + Duration::from_secs(5);
    let holds: Vec<_> = (0..MANY)
        .map(|number| {
            let attempt = LedgerCall {
                id: CallId { request: number.into(), attempt: 0 },
                model: "m".into(),
                labels: Default::default(),
            };
            let ask = ReservationRequest { caller: number, session: None, expires, ..ask(1, 1) };
            ledger.reserve(&ask, attempt, noon()).unwrap()
        })
        .collect();
    assert_eq!(ledger.expire(noon() + Duration::from_secs(6)), usize::try_from(MANY).unwrap());
    assert_eq!(ledger.stats().journal_failures, 0);
    drop((holds, store, ledger));
}

#[test]
fn a_model_name_that_is_too_long_is_refused_and_any_other_can_be_posted() {
    let scratch = TestDirectory::in_memory().unwrap();
    let opened = Node::open(scratch.path()).opened;
    let (store, ledger) = (opened.store, NodeLedger::with_ledger(opened.budget_ledger, opened.journal));
    let reserve = |length: usize| {
        let id = CallId { request: u128::MAX, attempt: u32::MAX };
        let attempt = LedgerCall { id, model: "\0".repeat(length).into(), labels: Default::default() };
        ledger.reserve(&ReservationRequest { caller: u64::MAX, session: None, ..ask(1, 1) }, attempt, noon())
    };
    assert!(reserve(4_097).is_err() && reserve(1 << 20).is_err());
    let usage = Usage {
        input: u64::MAX,
        cache_read: u64::MAX,
        cache_write: u64::MAX,
        output: u64::MAX,
        ..Usage::NONE
    };
    reserve(4_096).unwrap().post(usage, Money::MAX, Certainty::Reported, noon());
    assert_eq!((ledger.open_reservations(), ledger.stats().journal_failures), (0, 0));
    drop((store, ledger));
    let opened = Node::open(scratch.path()).opened;
    assert_eq!((opened.report.replayed, cost_of_day(&opened)), (2, (1, u64::MAX)));
}

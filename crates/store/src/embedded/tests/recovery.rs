//! Recovery from what a crash leaves of the journal.

use super::{contents, noon, options, wait};
use crate::embedded::segment::{HEADER_BYTES, list, segment_path};
use crate::embedded::{EmbeddedOptions, EmbeddedStore, OpenError, OpenedStore};
use crate::ledger::Ledger;
use crate::node_ledger::{Journal, JournalRecord};
use crate::usage::{CallId, Certainty, UsageEvent};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::budget::{
    BudgetEntry, BudgetLedger, BudgetLimits, BudgetOptions, Correction, ReservationId, ReservationRequest,
};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Tier;
use seawall_testkit::TestDirectory;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A minimal node: its budget ledger over a journal.
pub(super) struct Node {
    pub(super) opened: OpenedStore,
}

impl Node {
    pub(super) fn open(data_dir: &Path) -> Self {
        Self::with(data_dir, options())
    }

    pub(super) fn with(data_dir: &Path, options: EmbeddedOptions) -> Self {
        Self { opened: EmbeddedStore::open(data_dir, options, noon()).unwrap() }
    }

    pub(super) fn write(&mut self, records: &[JournalRecord]) {
        self.opened.journal.write(records).unwrap();
        for record in records {
            if let JournalRecord::Entry(entry) = record {
                let _ = self.opened.budget_ledger.apply(entry);
            }
        }
    }

    pub(super) fn reserve(&mut self, number: u128, max_cost: u64, now: Now) -> ReservationId {
        let entry = self.opened.budget_ledger.decide(&ask(number, max_cost), now).unwrap();
        let BudgetEntry::Reserved(reservation) = entry else { panic!("{entry:?}") };
        let attempt = JournalRecord::CallAssigned {
            reservation: reservation.id,
            id: call(number),
            model: "strong".into(),
        };
        self.write(&[JournalRecord::Entry(entry), attempt]);
        reservation.id
    }

    pub(super) fn post(&mut self, number: u128, id: ReservationId, cost: u64) {
        let (usage, cost) = (Usage { input: 1, ..Usage::default() }, Money::from_nanos(cost));
        let event = posted_event(number, usage, cost);
        self.write(&[
            JournalRecord::Entry(BudgetEntry::Posted { id, usage, cost }),
            JournalRecord::Event(event),
        ]);
    }

    pub(super) fn void(&mut self, id: ReservationId) {
        self.write(&[JournalRecord::Entry(BudgetEntry::Voided(id))]);
    }
}

pub(super) fn call(number: u128) -> CallId {
    CallId { request: number, attempt: 2 }
}

fn posted_event(number: u128, usage: Usage, cost: Money) -> UsageEvent {
    UsageEvent {
        id: call(number),
        at: noon().utc,
        day: noon().utc.day(),
        caller: 7,
        tier: Tier::Standard,
        model: "strong".into(),
        usage,
        cost,
        certainty: Certainty::Reported,
        labels: Default::default(),
    }
}

pub(super) fn ask(number: u128, amount: u64) -> ReservationRequest {
    ReservationRequest {
        caller: 7,
        tier: Tier::Standard,
        session: Some(u64::try_from(number % 3).unwrap()),
        limits: TokenLimits::default(),
        input: 10,
        output: 20,
        max_cost: Money::from_nanos(amount),
        expires: Timestamp::NEVER,
        windows: super::windows(number.is_multiple_of(2)),
    }
}

pub(super) fn cost_of_day(opened: &OpenedStore) -> (u64, u64) {
    let totals = wait(opened.store.day(noon().utc.day())).unwrap().tiers[Tier::Standard.index()];
    (totals.calls, totals.cost.as_nanos())
}

pub(super) fn posted(budget_ledger: &BudgetLedger) -> (u64, u64) {
    let account = budget_ledger.all(noon().utc.day());
    (account.posted.as_nanos(), account.held.as_nanos())
}

#[test]
fn open_reservations_are_charged_once_at_maximum_cost_and_the_rest_is_unchanged() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut node = Node::open(scratch.path());
    let [paid, free, open] = [1, 2, 3].map(|number| node.reserve(number, 100, noon()));
    node.post(1, paid, 30);
    node.void(free);
    assert_eq!(posted(&node.opened.budget_ledger), (30, 100));
    // Nothing was settled, which is what a crash looks like to the journal.
    drop(node);
    for round in 0..3 {
        let node = Node::open(scratch.path());
        let report = &node.opened.report;
        let maximum_event = UsageEvent {
            certainty: Certainty::Maximum,
            ..posted_event(3, Usage { input: 10, output: 20, ..Usage::default() }, Money::from_nanos(100))
        };
        let charged = if round == 0 { vec![maximum_event] } else { vec![] };
        assert_eq!((&report.charged, report.replayed), (&charged, if round == 0 { 9 } else { 0 }));
        assert_eq!(posted(&node.opened.budget_ledger), (130, 0));
        assert_eq!(cost_of_day(&node.opened), (2, 130));
        assert_eq!(node.opened.budget_ledger.open(), 0);
    }
    // A reservation number is never reused.
    assert!(Node::open(scratch.path()).reserve(4, 1, noon()) > open);
}

#[test]
fn a_reservation_without_a_recorded_call_is_charged_under_an_id_of_its_own() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut node = Node::open(scratch.path());
    for _ in 0..2 {
        let entry = node.opened.budget_ledger.decide(&ask(0, 5), noon()).unwrap();
        node.write(&[JournalRecord::Entry(entry)]);
    }
    drop(node);
    let node = Node::open(scratch.path());
    let [first, second] = &node.opened.report.charged[..] else { panic!() };
    assert_ne!(first.id, second.id);
    assert_eq!((&*first.model, first.cost.as_nanos()), ("unknown", 5));
    assert_eq!(cost_of_day(&node.opened), (2, 10));
}

#[test]
fn an_expired_call_is_reported_though_it_is_charged_already() {
    for is_late in [false, true] {
        let scratch = TestDirectory::in_memory().unwrap();
        // So small that a reservation and its end are in different segments.
        let small = EmbeddedOptions { segment_bytes: 30, ..options() };
        let mut node = Node::with(scratch.path(), small.clone());
        let id = node.reserve(1, 100, noon());
        node.write(&[JournalRecord::Entry(BudgetEntry::Expired(id))]);
        assert_eq!(posted(&node.opened.budget_ledger), (100, 0));
        node.reserve(2, 1, noon());
        if is_late {
            node.post(1, id, 30);
        }
        drop(node);
        let node = Node::with(scratch.path(), small);
        let total = if is_late { 31 } else { 101 };
        assert_eq!(node.opened.report.charged.len(), if is_late { 1 } else { 2 });
        assert_eq!((cost_of_day(&node.opened), posted(&node.opened.budget_ledger)), ((2, total), (total, 0)));
    }
}

#[test]
fn interrupted_recovery_has_the_same_result() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut node = Node::open(scratch.path());
    let paid = node.reserve(1, 100, noon());
    node.post(1, paid, 30);
    node.reserve(2, 100, noon());
    drop(node);
    let crashed = contents(scratch.path());
    let end = {
        let node = Node::open(scratch.path());
        (cost_of_day(&node.opened), posted(&node.opened.budget_ledger))
    };
    assert_eq!(end, ((2, 130), (130, 0)));
    // Before the transaction: the old database, and perhaps a segment that was just created, or only half.
    for begun in [None, Some(0), Some(5), Some(HEADER_BYTES)] {
        fs::remove_dir_all(scratch.path()).unwrap();
        fs::create_dir_all(scratch.path()).unwrap();
        for (path, bytes) in &crashed {
            fs::write(path, bytes).unwrap();
        }
        if let Some(length) = begun {
            let next = list(scratch.path()).unwrap().last().unwrap() + 1;
            fs::write(segment_path(scratch.path(), next), &crate::embedded::segment::header(next)[..length])
                .unwrap();
        }
        for _ in 0..2 {
            let node = Node::open(scratch.path());
            assert_eq!((cost_of_day(&node.opened), posted(&node.opened.budget_ledger)), end, "{begun:?}");
        }
    }
    // After the transaction, before the old segments were deleted.
    for (path, bytes) in &crashed {
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::write(path, bytes).unwrap();
        }
    }
    let node = Node::open(scratch.path());
    assert_eq!((cost_of_day(&node.opened), posted(&node.opened.budget_ledger)), end);
    assert_eq!(list(scratch.path()).unwrap().len(), 1);
}

#[test]
fn a_torn_end_is_truncated_and_reported_and_damage_before_it_is_refused() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut node = Node::open(scratch.path());
    node.reserve(1, 100, noon());
    let path = segment_path(scratch.path(), 1);
    let before = fs::metadata(&path).unwrap().len();
    node.reserve(2, 50, noon());
    drop(node);
    let crashed = contents(scratch.path());
    let whole = fs::read(&path).unwrap();
    let restore = || {
        fs::remove_dir_all(scratch.path()).unwrap();
        fs::create_dir_all(scratch.path()).unwrap();
        for (path, bytes) in &crashed {
            fs::write(path, bytes).unwrap();
        }
    };
    for length in [before + 1, before + 9, whole.len() as u64 - 1] {
        restore();
        fs::write(&path, &whole[..usize::try_from(length).unwrap()]).unwrap();
        let node = Node::open(scratch.path());
        assert_eq!(node.opened.report.truncated, Some((path.clone(), length - before)));
        assert_eq!(posted(&node.opened.budget_ledger), (100, 0), "what was never told of was not under way");
    }
    for position in HEADER_BYTES..usize::try_from(before).unwrap() {
        restore();
        let mut damaged = whole.clone();
        damaged[position] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let found = contents(scratch.path());
        let refusal = EmbeddedStore::open(scratch.path(), options(), noon()).unwrap_err();
        assert!(matches!(&refusal, OpenError::Damaged { path: named, .. } if *named == path), "{refusal}");
        assert_eq!(contents(scratch.path()), found);
    }
}

#[test]
fn full_segments_are_applied_to_the_database_and_deleted() {
    let scratch = TestDirectory::in_memory().unwrap();
    let small = EmbeddedOptions { segment_bytes: 400, ..options() };
    let mut node = Node::with(scratch.path(), small.clone());
    let open = node.reserve(1_000, 7, noon());
    for number in 0..200 {
        let id = node.reserve(number, 10, noon());
        node.post(number, id, 4);
    }
    // A later write is replied to after the checkpoints that were ordered before it.
    wait(node.opened.store.post(&[])).unwrap();
    let segments = list(scratch.path()).unwrap();
    assert!(segments.len() <= 2 && segments[0] > 50, "{segments:?}");
    assert!(cost_of_day(&node.opened).0 > 190, "the calls have arrived in the ledger");
    assert_eq!(posted(&node.opened.budget_ledger), (800, 7));
    drop(node);
    let mut node = Node::with(scratch.path(), small);
    assert!(node.opened.report.replayed < 10);
    assert_eq!(node.opened.report.charged[0].id, call(1_000));
    assert_eq!((posted(&node.opened.budget_ledger), cost_of_day(&node.opened)), ((807, 0), (201, 807)));
    assert!(node.reserve(1, 1, noon()) > open);
}

#[test]
fn old_days_and_conversations_are_dropped() {
    let scratch = TestDirectory::in_memory().unwrap();
    let day = |number: u64| noon() + Duration::from_secs(86_400 * number);
    let mut node = Node::open(scratch.path());
    let open_id = node.reserve(999, 3, day(0));
    for number in 0..10 {
        let id = node.reserve(u128::from(number), 10, day(number));
        node.post(u128::from(number), id, 4);
    }
    node.void(open_id);
    drop(node);
    let node = Node::open(scratch.path());
    drop(node);
    let node = Node::open(scratch.path());
    let posted_on = |number: u64| node.opened.budget_ledger.all(day(number).utc.day()).posted.as_nanos();
    assert_eq!([0, 5, 6, 9].map(posted_on), [0, 0, 4, 4]);
}

fn limits() -> BudgetLimits {
    let day = Money::from_nanos(1_000);
    BudgetOptions { day, caller_day: day, shares: [10.0, 80.0, 10.0], ..BudgetOptions::default() }
        .check()
        .unwrap()
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 40, ..Default::default() })]

    /// Reserves, settles and crashes at random; compares with a ledger that never crashes but charges what is open.
    #[test]
    fn a_recovered_ledger_equals_one_that_never_crashed(
        steps in vec((0_u8..15, any::<usize>(), 1_u64..200), 1..60),
    ) {
        let scratch = TestDirectory::in_memory().unwrap();
        let small = EmbeddedOptions { segment_bytes: 300, ..EmbeddedOptions::new(limits()) };
        let mut node = Node::with(scratch.path(), small.clone());
        let mut model = BudgetLedger::new(limits());
        let (mut open, mut next, mut total) = (Vec::new(), 0_u128, 0_u64);
        // The last posted cost, which an operator may correct.
        let mut posted = None;
        for (step, which, amount) in steps {
            match step {
                0..5 => {
                    let decided = model.reserve(&ask(next, amount), noon());
                    if let Ok(id) = decided {
                        prop_assert_eq!(node.reserve(next, amount, noon()), id);
                        open.push((next, id, amount));
                    } else {
                        prop_assert!(node.opened.budget_ledger.decide(&ask(next, amount), noon()).is_err());
                    }
                    next += 1;
                }
                5..11 if !open.is_empty() => {
                    let (number, id, max_cost) = open.swap_remove(which % open.len());
                    if step < 9 {
                        // Some calls cost more than was reserved for them.
                        let cost = if which % 5 == 0 { max_cost + 3 } else { amount.min(max_cost) };
                        posted = Some(cost);
                        node.post(number, id, cost);
                        total += cost;
                        let usage = Usage { input: 1, ..Usage::default() };
                        let _ = model.apply(&BudgetEntry::Posted { id, usage, cost: Money::from_nanos(cost) });
                    } else {
                        node.void(id);
                        let _ = model.apply(&BudgetEntry::Voided(id));
                    }
                }
                11 if !open.is_empty() => {
                    let (_, id, _) = open[which % open.len()];
                    node.write(&[JournalRecord::Entry(BudgetEntry::Expired(id))]);
                    let _ = model.apply(&BudgetEntry::Expired(id));
                }
                12 if posted.is_some() => {
                    let (charged, cost) = (posted.take().unwrap(), amount % 50);
                    let [charged, cost] = [charged, cost].map(Money::from_nanos);
                    let day = noon().utc.day();
                    let correction = Correction { day, caller: 7, tier: Tier::Standard, charged, cost };
                    let decided = node.opened.budget_ledger.decide_correction(&correction);
                    prop_assert_eq!(decided, model.decide_correction(&correction));
                    if let Ok(entry) = decided {
                        node.write(&[JournalRecord::Entry(entry)]);
                        let _ = model.apply(&entry);
                    }
                }
                _ => {
                    drop(node);
                    node = Node::with(scratch.path(), small.clone());
                    let _ = model.recover();
                    total += open.drain(..).map(|(_, _, max_cost)| max_cost).sum::<u64>();
                    prop_assert_eq!(cost_of_day(&node.opened).1, total);
                }
            }
            let (day, budget_ledger) = (noon().utc.day(), &node.opened.budget_ledger);
            prop_assert_eq!((budget_ledger.all(day), budget_ledger.caller(day, 7), budget_ledger.open()), (model.all(day), model.caller(day, 7), model.open()));
            for session in 0..3 {
                prop_assert_eq!(budget_ledger.session(session), model.session(session));
            }
            for tier in Tier::ALL {
                prop_assert_eq!(budget_ledger.overrun(day, tier), model.overrun(day, tier));
            }
            let overrun = budget_ledger.overrun(day, Tier::Standard);
            prop_assert!(budget_ledger.all(day).committed().saturating_sub(overrun) <= Money::from_nanos(800));
        }
    }
}

//! Tests of the ledger under concurrency, crashes and journals that fail.

use super::spool::MAX_EVENTS;
use super::{Hold, Journal, JournalRecord, LedgerCall, NoJournal, NodeLedger, ReserveError};
use crate::usage::{CallId, Certainty};
use crate::{StoreError, lock};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_core::budget::{
    BudgetAccount, BudgetLease, BudgetLedger, BudgetLimits, BudgetOptions, BudgetRefusal, LeaseId,
    LeaseLedger, ReservationRequest,
};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAY: u64 = 20_772;
const SECOND: Duration = Duration::from_secs(1);

fn nanos(nanos: u64) -> Money {
    Money::from_nanos(nanos)
}

fn now() -> Now {
    Now::new(Timestamp::ZERO + SECOND * 1_000, UtcTime::start_of_day(DAY))
}

/// The first tier has half of the day's budget.
fn limits(day: u64) -> BudgetLimits {
    let options = BudgetOptions { day: nanos(day), caller_day: nanos(day), ..BudgetOptions::default() };
    BudgetOptions { single_source_alarm: 100.0, ..options }.check().unwrap()
}

fn ask(max_cost: u64) -> ReservationRequest {
    ReservationRequest {
        caller: 7,
        tier: Tier::Prime,
        session: Some(3),
        limits: TokenLimits::default(),
        input: 20,
        output: 10,
        max_cost: nanos(max_cost),
        expires: now().monotonic + SECOND * 60,
        windows: Default::default(),
    }
}

fn attempt(request: u128) -> LedgerCall {
    LedgerCall { id: CallId { request, attempt: 1 }, model: "strong".into(), labels: Default::default() }
}

fn usage() -> Usage {
    Usage { input: 5, output: 3, ..Usage::default() }
}

fn account(posted: u64, held: u64) -> BudgetAccount {
    BudgetAccount { posted: nanos(posted), held: nanos(held) }
}

/// A journal that keeps every write in memory, or fails when set to.
#[derive(Clone, Default)]
struct RecordingJournal {
    writes: Arc<Mutex<Vec<Vec<JournalRecord>>>>,
    fails: Arc<AtomicBool>,
}

impl RecordingJournal {
    fn writes(&self) -> Vec<Vec<JournalRecord>> {
        lock(&self.writes).clone()
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }

    /// The ledger that recovery would read back.
    fn read_back(&self, mut budget_ledger: BudgetLedger) -> BudgetLedger {
        for record in self.writes().into_iter().flatten() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            if let Some(entry) = JournalRecord::decode(&bytes).unwrap().entry() {
                let _ = budget_ledger.apply(&entry);
            }
        }
        budget_ledger
    }
}

impl Journal for RecordingJournal {
    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::unavailable("journal", "no space left"));
        }
        lock(&self.writes).push(records.to_vec());
        Ok(())
    }
}

#[test]
fn the_cap_is_a_wall_and_the_refusal_says_what_is_left() {
    let ledger = NodeLedger::new(limits(20), NoJournal);
    let held = ledger.reserve(&ask(7), attempt(0), now()).unwrap();
    assert_eq!((held.amount(), ledger.open_reservations()), (nanos(7), 1));
    let refusal = ledger.reserve(&ask(4), attempt(1), now()).unwrap_err();
    let (tier, wanted, available, unspent) = (Tier::Prime, nanos(4), nanos(3), nanos(10));
    let resets = UtcTime::start_of_day(DAY + 1);
    assert_eq!(
        refusal,
        ReserveError::Refused(BudgetRefusal::TierDay { tier, wanted, available, unspent, resets })
    );
    let rest = ledger.reserve(&ask(3), attempt(2), now()).unwrap();
    held.post(usage(), nanos(5), Certainty::Reported, now());
    assert_eq!((ledger.day(DAY), ledger.tier(DAY, Tier::Prime)), (account(5, 3), account(5, 3)));
    rest.release();
    assert_eq!((ledger.caller(DAY, 7), ledger.open_reservations()), (account(5, 0), 0));
    assert_eq!((ledger.session(3).input, ledger.session(3).output), (5, 3));
    assert_eq!(ledger.tier_cap(DAY, Tier::Prime), nanos(10));
}

#[test]
fn a_hold_ends_once_however_it_ends_and_whether_or_not_its_time_has_passed() {
    for is_late in [false, true] {
        for (end, posted, certainty) in [
            ("posted", 9, Some(Certainty::Counted)),
            ("voided", 0, None),
            ("dropped", 4, Some(Certainty::Maximum)),
        ] {
            let journal = RecordingJournal::default();
            let ledger = NodeLedger::new(limits(100), journal.clone());
            let hold = ledger.reserve(&ask(4), attempt(8), now()).unwrap();
            let later = now() + SECOND * 60;
            assert_eq!(ledger.expire(now() + SECOND * 59), 0);
            if is_late {
                assert_eq!((ledger.expire(later), ledger.expire(later)), (1, 0));
                assert_eq!((ledger.day(DAY), ledger.open_reservations()), (account(4, 0), 0), "{end}");
                assert!(ledger.take_events(9).is_empty(), "the hold will tell");
            }
            match end {
                "posted" => hold.post(usage(), nanos(9), Certainty::Counted, later),
                "voided" => hold.release(),
                _ => drop(hold),
            }
            assert_eq!(
                (ledger.day(DAY), ledger.open_reservations()),
                (account(posted, 0), 0),
                "{end} {is_late}"
            );
            let events = ledger.take_events(9);
            let seen: Vec<_> = events.iter().map(|event| (event.cost, event.certainty, event.at)).collect();
            let at = if end == "dropped" && !is_late { now().utc + SECOND * 59 } else { later.utc };
            assert_eq!(
                seen,
                Vec::from_iter(certainty.map(|certainty| (nanos(posted), certainty, at))),
                "{end}"
            );
            // Recovery gives the same state.
            let budget_ledger = journal.read_back(BudgetLedger::new(limits(100)));
            assert_eq!((budget_ledger.all(DAY), budget_ledger.open()), (account(posted, 0), 0));
        }
    }
}

#[test]
fn an_event_says_whose_money_it_was_and_one_record_writes_it_down_with_the_entry() {
    let journal = RecordingJournal::default();
    let ledger = NodeLedger::new(limits(100), journal.clone());
    let hold = ledger.reserve(&ask(4), attempt(8), now()).unwrap();
    // A call that ends on the next day still belongs to the day it began on.
    hold.post(usage(), nanos(2), Certainty::Reported, now() + SECOND * 86_400);
    let events = ledger.take_events(usize::MAX);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.id, event.day, event.caller, event.tier), (attempt(8).id, DAY, 7, Tier::Prime));
    assert_eq!((&*event.model, event.usage, event.cost), ("strong", usage(), nanos(2)));
    assert_eq!(event.at, UtcTime::start_of_day(DAY + 1));
    let writes = journal.writes();
    let [begun, ended] = writes.as_slice() else { panic!("{writes:?}") };
    let [JournalRecord::CallStarted { reservation, id, model, .. }] = begun.as_slice() else {
        panic!("{begun:?}")
    };
    assert_eq!((reservation.max_cost, *id, &**model), (nanos(4), event.id, "strong"));
    let (reservation, at, certainty) = (reservation.id, event.at, Certainty::Reported);
    assert_eq!(
        ended,
        &[JournalRecord::CallEnded { reservation, at, usage: usage(), cost: nanos(2), certainty }]
    );
    assert!(ledger.take_events(1).is_empty());
}

#[test]
fn a_journal_that_cannot_write_stops_new_calls_and_loses_no_old_ones() {
    let journal = RecordingJournal::default();
    let ledger = NodeLedger::new(limits(100), journal.clone());
    let holds: Vec<Hold> =
        (0..3).map(|request| ledger.reserve(&ask(4), attempt(request), now()).unwrap()).collect();
    journal.fail(true);
    let refusal = ledger.reserve(&ask(4), attempt(9), now()).unwrap_err();
    assert!(matches!(&refusal, ReserveError::Journal(error) if error.is_transient()));
    assert_eq!(refusal.to_string(), "the journal store is unavailable: no space left");
    assert_eq!((ledger.day(DAY), ledger.open_reservations()), (account(0, 12), 3), "nothing was taken");
    let mut holds = holds.into_iter();
    holds.next().unwrap().post(usage(), nanos(1), Certainty::Reported, now());
    holds.next().unwrap().release();
    drop(holds);
    assert_eq!((ledger.day(DAY), ledger.open_reservations()), (account(5, 0), 0));
    assert_eq!((ledger.stats().journal_failures, ledger.take_events(9).len()), (4, 2));
    // Ends that the journal never received are charged at their maximum cost on recovery.
    let mut budget_ledger = journal.read_back(BudgetLedger::new(limits(100)));
    assert_eq!(budget_ledger.recover().len(), 3);
    assert_eq!(budget_ledger.all(DAY), account(12, 0));
    journal.fail(false);
    assert!(ledger.reserve(&ask(4), attempt(10), now()).is_ok());
}

#[test]
fn requests_look_for_what_has_passed_its_time_once_a_second() {
    let ledger = NodeLedger::new(limits(100), NoJournal);
    let forgotten = ledger.reserve(&ask(4), attempt(0), now()).unwrap();
    let short =
        ReservationRequest { expires: now().monotonic + SECOND * 60 - Duration::from_nanos(1), ..ask(1) };
    drop(ledger.reserve(&short, attempt(1), now() + SECOND * 59));
    drop(ledger.reserve(&short, attempt(2), now() + (SECOND * 60 - Duration::from_nanos(1))));
    assert_eq!(ledger.open_reservations(), 1, "too early");
    drop(ledger.reserve(&short, attempt(3), now() + SECOND * 60));
    assert_eq!((ledger.open_reservations(), ledger.day(DAY)), (0, account(7, 0)));
    forgotten.release();
    assert_eq!(ledger.day(DAY), account(3, 0));
}

#[test]
fn lowered_limits_refuse_until_enough_is_given_back() {
    let ledger = NodeLedger::new(limits(100), NoJournal);
    let hold = ledger.reserve(&ask(8), attempt(0), now()).unwrap();
    ledger.set_limits(limits(10));
    assert!(ledger.reserve(&ask(1), attempt(1), now()).is_err());
    hold.post(usage(), nanos(2), Certainty::Reported, now());
    assert!(ledger.reserve(&ask(3), attempt(2), now()).is_ok());
}

#[test]
fn a_full_spool_keeps_the_oldest_and_adds_up_the_rest() {
    let ledger = NodeLedger::new(limits(1_000_000), NoJournal);
    for request in 0..MAX_EVENTS as u128 + 3 {
        let hold =
            ledger.reserve(&ReservationRequest { session: None, ..ask(1) }, attempt(request), now()).unwrap();
        hold.post(usage(), nanos(2), Certainty::Reported, now());
    }
    let dropped = ledger.stats().dropped;
    assert_eq!((dropped.calls, dropped.cost, dropped.usage.output), (3, nanos(6), 9));
    assert_eq!(ledger.day(DAY).posted, nanos(2 * (MAX_EVENTS as u64 + 3)));
    assert_eq!(ledger.take_events(2).iter().map(|event| event.id.request).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(ledger.take_events(usize::MAX).len(), MAX_EVENTS - 2);
}

#[test]
fn an_unusual_caller_raises_one_alarm() {
    let options = BudgetOptions { day: nanos(100), caller_day: nanos(100), ..BudgetOptions::default() };
    let ledger = NodeLedger::new(options.check().unwrap(), NoJournal);
    for request in 0..4 {
        drop(ledger.reserve(&ask(6), attempt(request), now()));
    }
    let alarms = ledger.take_alarms();
    assert_eq!(alarms.iter().map(|alarm| (alarm.caller, alarm.spent)).collect::<Vec<_>>(), [(7, nanos(12))]);
    assert!(ledger.take_alarms().is_empty());
}

#[test]
fn a_node_spends_its_lease_and_gives_back_only_what_is_journaled() {
    let journal = RecordingJournal::default();
    let ledger = NodeLedger::with_leases(limits(100), 5, journal.clone());
    assert!(ledger.reserve(&ask(1), attempt(0), now()).is_err(), "nothing is leased yet");
    let mut authority = LeaseLedger::new(limits(100));
    let id = LeaseId { day: DAY, tier: Tier::Prime, node: 5, generation: 0 };
    let asked = now().monotonic;
    let decision = authority.grant(id, nanos(30), SECOND * 10, asked);
    let lease: &BudgetLease = decision.lease();
    ledger.set_lease(lease, asked, SECOND);
    assert_eq!(ledger.held_lease(DAY, Tier::Prime).unwrap().until, asked + SECOND * 9);
    let hold = ledger.reserve(&ask(12), attempt(1), now()).unwrap();
    assert!(ledger.reserve(&ask(19), attempt(2), now()).is_err());
    journal.fail(true);
    assert!(ledger.return_lease(DAY, Tier::Prime, Money::MAX).is_err());
    assert_eq!(ledger.held_lease(DAY, Tier::Prime).unwrap().returned, Money::ZERO);
    journal.fail(false);
    assert_eq!(ledger.return_lease(DAY, Tier::Prime, nanos(5)), Ok(nanos(5)));
    assert_eq!(ledger.return_lease(DAY, Tier::Prime, Money::MAX), Ok(nanos(18)), "all but what is held");
    hold.post(usage(), nanos(7), Certainty::Reported, now());
    let reports = ledger.lease_reports(DAY);
    assert_eq!(
        reports.iter().map(|report| (report.posted, report.returned)).collect::<Vec<_>>(),
        [(nanos(7), nanos(18))]
    );
    let budget_ledger = journal.read_back(BudgetLedger::with_leases(limits(100), 5));
    assert_eq!(budget_ledger.lease_reports(DAY), reports);
}

#[test]
fn sixty_four_threads_never_exceed_the_cap_and_the_ledger_ends_exact() {
    let ledger = NodeLedger::new(limits(1_000), NoJournal);
    let (expected_posted, voided) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..64_u64 {
            let (ledger, expected_posted, voided) = (&ledger, &expected_posted, &voided);
            scope.spawn(move || {
                for round in 0..300_u64 {
                    let request = u128::from(thread * 1_000 + round);
                    let Ok(hold) = ledger.reserve(&ask(7), attempt(request), now()) else { continue };
                    let day = ledger.day(DAY);
                    assert!(day.committed() <= nanos(500), "{day:?}");
                    match (round + thread) % 8 {
                        0 => {
                            expected_posted.fetch_add(1, Ordering::Relaxed);
                            hold.post(usage(), nanos(1), Certainty::Reported, now());
                        }
                        1 => {
                            expected_posted.fetch_add(7, Ordering::Relaxed);
                            drop(hold);
                        }
                        _ => {
                            voided.fetch_add(1, Ordering::Relaxed);
                            hold.release();
                        }
                    }
                }
            });
        }
    });
    assert_eq!((ledger.day(DAY), ledger.open_reservations()), (account(expected_posted.into_inner(), 0), 0));
    assert!(ledger.day(DAY).posted > nanos(493) && voided.into_inner() > 0);
    let events = ledger.take_events(usize::MAX);
    assert_eq!(events.iter().map(|event| event.cost).sum::<Money>(), ledger.day(DAY).posted);
    let mut ids: Vec<_> = events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), events.len(), "every call is told once");
}

proptest! {
    #[test]
    fn posted_and_held_are_what_was_done_and_the_journal_is_the_book(
        steps in vec((0_u8..5, 0_u64..40, any::<usize>(), 0_u64..40), 1..80),
    ) {
        let journal = RecordingJournal::default();
        let ledger = NodeLedger::new(limits(200), journal.clone());
        let mut clock = now();
        // Each open hold, and when it expires.
        let mut open: Vec<(Hold, Timestamp)> = Vec::new();
        let (mut posted, mut expected_events) = (0_u64, 0_usize);
        for (request, (step, amount, which, passes)) in steps.into_iter().enumerate() {
            clock = clock + SECOND * u32::try_from(passes).unwrap() / 10;
            let held_amount = |hold: &Hold| hold.amount().as_nanos();
            if step == 0 || open.is_empty() {
                let committed = posted + open.iter().map(|(hold, _)| held_amount(hold)).sum::<u64>();
                let next_request = ReservationRequest { expires: clock.monotonic + SECOND * 5, session: None, ..ask(amount) };
                let granted = ledger.reserve(&next_request, attempt(request as u128), clock);
                prop_assert_eq!(granted.is_ok(), committed + amount <= 100);
                open.extend(granted.map(|hold| (hold, next_request.expires)));
            } else {
                let (hold, _) = open.swap_remove(which % open.len());
                match step {
                    1 => {
                        let cost = amount.min(held_amount(&hold));
                        posted += cost;
                        hold.post(usage(), nanos(cost), Certainty::Reported, clock);
                    }
                    2 => hold.release(),
                    _ => {
                        posted += held_amount(&hold);
                        drop(hold);
                    }
                }
                expected_events += usize::from(step != 2);
            }
            ledger.expire(clock);
            let is_expired = |(_, expires): &&(Hold, Timestamp)| *expires <= clock.monotonic;
            let expired: u64 = open.iter().filter(is_expired).map(|(hold, _)| held_amount(hold)).sum();
            let all: u64 = open.iter().map(|(hold, _)| held_amount(hold)).sum();
            prop_assert_eq!(ledger.day(DAY), account(posted + expired, all - expired));
            prop_assert_eq!(ledger.open_reservations(), open.iter().filter(|hold| !is_expired(hold)).count());
            prop_assert!(ledger.day(DAY).committed() <= nanos(100));
            let budget_ledger = journal.read_back(BudgetLedger::new(limits(200)));
            prop_assert_eq!((budget_ledger.all(DAY), budget_ledger.open()), (ledger.day(DAY), ledger.open_reservations()));
        }
        prop_assert_eq!(ledger.take_events(usize::MAX).len(), expected_events);
    }
}

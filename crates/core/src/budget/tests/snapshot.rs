//! Contents of snapshots, rejected snapshots, and the effect of a restart on time.

use super::snapshot_model::{HOUR, NODE, empty, lend};
use super::{DAY, account, ask, at, nanos, post, small, small_ledger};
use crate::budget::{
    ApplyDecision, BudgetEntry, BudgetLedger, BudgetOptions, BudgetSnapshot, BudgetSource, LeaseId,
    LeaseLedger, LeaseSnapshot, ReservationId, ReservationRequest, SavedCaller, SavedLeaseDay, SavedSession,
    SessionTokens, SnapshotError,
};
use crate::money::{Money, Usage};
use crate::setting::Factor;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

/// A ledger with everything in it: posted, held and expired reservations, with or without leases, and a session.
fn full(source: BudgetSource) -> BudgetLedger {
    let mut ledger = empty(source);
    lend(&mut ledger, 0, 0, 400, at(0));
    let in_session = ReservationRequest { session: Some(4), ..ask(3, Tier::Prime, 60) };
    let [first, _, third, _] = [in_session, ask(6, Tier::Prime, 50), ask(3, Tier::Prime, 20), in_session]
        .map(|ask| ledger.reserve(&ask, at(5)).unwrap());
    let _ = ledger.apply(&post(first, 70));
    let _ = ledger.apply(&BudgetEntry::Expired(third));
    ledger
}

fn refused(source: BudgetSource, damage: impl FnOnce(&mut BudgetSnapshot)) -> Option<SnapshotError> {
    let mut snapshot = full(source).snapshot();
    damage(&mut snapshot);
    BudgetLedger::from_snapshot(small(), source, &snapshot).err()
}

fn caller(snapshot: &mut BudgetSnapshot) -> &mut SavedCaller {
    &mut snapshot.days[0].callers[0]
}

#[test]
fn a_snapshot_equals_the_book() {
    let snapshot = full(NODE).snapshot();
    assert_eq!((snapshot.next, snapshot.open.len(), snapshot.expired.len()), (4, 2, 1));
    let day = &snapshot.days[0];
    assert_eq!((day.day, day.tiers[0], day.leases[0].account), (0, account(90, 110), account(90, 110)));
    let callers: Vec<_> =
        day.callers.iter().map(|caller| (caller.caller, caller.account, caller.alarm_raised)).collect();
    assert_eq!(callers, [(3, account(90, 60), false), (6, account(0, 50), false)]);
    assert_eq!((day.leases[0].granted, snapshot.sessions[0].tokens.input_held), (nanos(400), 10));
    assert_eq!(
        small_ledger().snapshot(),
        BudgetSnapshot { next_sweep: Duration::from_secs(HOUR), ..BudgetSnapshot::default() }
    );
}

#[test]
fn snapshots_with_impossible_numbers_are_rejected() {
    for source in [BudgetSource::Caps, NODE] {
        assert_eq!(refused(source, |_| {}), None);
        assert_eq!(
            refused(source, |it| it.next = 3),
            Some(SnapshotError::UnissuedReservation(ReservationId(3)))
        );
        assert_eq!(refused(source, |it| it.next = 1 << 63), None);
        assert_eq!(
            refused(source, |it| it.next = (1 << 63) + 1),
            Some(SnapshotError::NextTooLarge((1 << 63) + 1))
        );
        let twice = |what, number| Some(SnapshotError::Duplicate { what, number });
        assert_eq!(refused(source, |it| it.open.extend_from_within(..1)), twice("reservation", 1));
        assert_eq!(refused(source, |it| it.expired.push(it.open[0])), twice("reservation", 1));
        assert_eq!(refused(source, |it| it.days.push(it.days[0].clone())), twice("day", 0));
        assert_eq!(refused(source, |it| it.sessions.extend_from_within(..)), twice("session", 4));
        assert_eq!(refused(source, |it| it.days[0].callers.extend_from_within(1..)), twice("caller", 6));
        let later = |what, number| Some(SnapshotError::UsedAfterSnapshot { what, number });
        let second = Duration::from_secs(1);
        assert_eq!(refused(source, |it| it.days[0].used = it.uptime + second), later("day", 0));
        assert_eq!(refused(source, |it| it.sessions[0].used = it.uptime + second), later("session", 4));
    }
}

#[test]
fn snapshots_with_mismatched_sums_are_rejected() {
    for source in [BudgetSource::Caps, NODE] {
        let wrong = |what| Some(SnapshotError::AccountMismatch { what, day: 0 });
        assert_eq!(refused(source, |it| caller(it).account.held = nanos(59)), wrong("a caller"));
        assert_eq!(refused(source, |it| caller(it).account.posted = nanos(19)), wrong("a caller"));
        assert_eq!(refused(source, |it| caller(it).account.posted = nanos(89)), wrong("all callers"));
        assert_eq!(refused(source, |it| it.days[0].tiers[0].held = nanos(111)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].tiers[1].held = nanos(1)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].tiers[0].posted = nanos(19)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].callers.truncate(1)), wrong("all callers"));
        assert_eq!(refused(source, |it| it.expired[0].caller = 8), wrong("the day"));
        assert_eq!(refused(source, |it| it.days.clear()), wrong("the day"));
        assert_eq!(refused(source, |it| it.open.truncate(1)), wrong("a caller"));
        assert_eq!(refused(source, |it| it.open[0].max_cost = Money::MAX), Some(SnapshotError::Overflow(0)));
        let session = Some(SnapshotError::SessionMismatch(4));
        assert_eq!(refused(source, |it| it.sessions[0].tokens.input_held += 1), session);
        assert_eq!(refused(source, |it| it.sessions[0].tokens.output_held -= 1), session);
        assert_eq!(refused(source, |it| it.sessions.clear()), session);
        let stranger = SavedSession {
            session: 9,
            used: Duration::ZERO,
            tokens: SessionTokens { input_held: 1, ..SessionTokens::default() },
        };
        assert_eq!(refused(source, |it| it.sessions.push(stranger)), Some(SnapshotError::SessionMismatch(9)));
    }
    let overflow = |it: &mut BudgetSnapshot| {
        for account in it.days[0].callers.iter_mut().map(|caller| &mut caller.account) {
            account.posted = Money::MAX;
        }
    };
    let wrong = SnapshotError::AccountMismatch { what: "all callers", day: 0 };
    assert_eq!(refused(BudgetSource::Caps, overflow), Some(wrong));
}

#[test]
fn saturated_costs_survive_a_snapshot() {
    for source in [BudgetSource::Caps, NODE] {
        let mut ledger = full(source);
        let snapshot = ledger.snapshot();
        let (open, late) = (snapshot.open[0].id, snapshot.expired[0].id);
        let before = ledger.all(0).posted;
        let short_of_all = Money::MAX.saturating_sub(before).saturating_sub(nanos(1));
        let _ = ledger.apply(&BudgetEntry::Posted { id: open, usage: Usage::default(), cost: short_of_all });
        assert_eq!(ledger.all(0).posted, Money::MAX.saturating_sub(nanos(1)));
        let again =
            |ledger: &BudgetLedger| BudgetLedger::from_snapshot(small(), source, &ledger.snapshot()).unwrap();
        assert_eq!(again(&ledger).all(0), ledger.all(0));
        // Just below saturation the actual cost still replaces the maximum cost; once saturated, nothing is credited
        // back.
        let max_cost = snapshot.expired[0].max_cost;
        let mut countable = again(&ledger);
        let _ = countable.apply(&BudgetEntry::Voided(late));
        assert_eq!(countable.all(0).posted, ledger.all(0).posted.saturating_sub(max_cost));
        let other = snapshot.open[1].id;
        let _ = ledger.apply(&BudgetEntry::Posted { id: other, usage: Usage::default(), cost: nanos(5) });
        let _ = ledger.apply(&BudgetEntry::Voided(late));
        assert_eq!(ledger.all(0).posted, Money::MAX);
        assert_eq!(again(&ledger).all(0), ledger.all(0));
    }
}

#[test]
fn foreign_leases_are_rejected() {
    let id = |node, day, generation| LeaseId { day, tier: Tier::Prime, node, generation };
    let snapshot = full(NODE).snapshot();
    for (source, lease) in
        [(BudgetSource::Caps, id(7, 0, 0)), (BudgetSource::Leases { node: 8 }, id(7, 0, 0))]
    {
        let error = BudgetLedger::from_snapshot(small(), source, &snapshot).unwrap_err();
        assert_eq!(error, SnapshotError::ForeignLease(lease));
    }
    let other_day = refused(NODE, |it| it.days[0].leases[0].id.day = 1);
    assert_eq!(other_day, Some(SnapshotError::ForeignLease(id(7, 1, 0))));
    let twice = refused(NODE, |it| it.days[0].leases.extend_from_within(..));
    assert_eq!(twice, Some(SnapshotError::DuplicateLease(id(7, 0, 0))));
    let wrong = |what| Some(SnapshotError::AccountMismatch { what, day: 0 });
    assert_eq!(refused(NODE, |it| it.days[0].leases[0].account.held = nanos(109)), wrong("a lease"));
    assert_eq!(refused(NODE, |it| it.days[0].leases[0].account.posted = nanos(91)), wrong("a tier's leases"));
    assert_eq!(refused(NODE, |it| it.days[0].leases.clear()), wrong("a tier's leases"));
    assert_eq!(SnapshotError::Duplicate { what: "day", number: 3 }.to_string(), "duplicate day 3");
}

#[test]
fn after_a_restart_leases_need_renewal_and_open_reservations_are_charged_at_maximum_cost() {
    let mut ledger = BudgetLedger::from_snapshot(small(), NODE, &full(NODE).snapshot()).unwrap();
    let held = ledger.held_lease(0, Tier::Prime).unwrap();
    assert_eq!((held.granted, held.until), (nanos(400), Timestamp::ZERO));
    assert!(ledger.reserve(&ask(9, Tier::Prime, 1), at(0)).is_err());
    let expired: Vec<BudgetEntry> = ledger.recover().into_iter().map(|(entry, _)| entry).collect();
    assert_eq!(expired, [1, 3].map(|id| BudgetEntry::Expired(ReservationId(id))));
    assert_eq!((ledger.open(), ledger.all(0)), (0, account(200, 0)));
    // Late settlements are still accepted, also for reservations that expired earlier.
    assert_eq!(ledger.apply(&post(ReservationId(3), 10)), ApplyDecision::Applied);
    assert_eq!(ledger.apply(&post(ReservationId(2), 5)), ApplyDecision::Applied);
    assert_eq!(ledger.all(0), account(135, 0));
    lend(&mut ledger, 0, 0, 400, at(0));
    assert!(ledger.reserve(&ask(9, Tier::Prime, 1), at(0)).is_ok());
}

#[test]
fn a_caller_without_usage_needs_no_account() {
    let mut ledger = small_ledger();
    let available = ReservationRequest { session: Some(1), input: 0, output: 0, ..ask(1, Tier::Guest, 0) };
    let ids = [available, available].map(|ask| ledger.reserve(&ask, at(0)).unwrap());
    let _ = ledger.apply(&BudgetEntry::Voided(ids[0]));
    assert_eq!((ledger.snapshot().days[0].callers.len(), ledger.open()), (0, 1));
    assert!(BudgetLedger::from_snapshot(small(), BudgetSource::Caps, &ledger.snapshot()).is_ok());
}

#[test]
fn a_restored_book_evicts_at_the_same_time() {
    let mut ledger = small_ledger();
    let id =
        ledger.reserve(&ReservationRequest { session: Some(1), ..ask(1, Tier::Prime, 10) }, at(0)).unwrap();
    let _ = ledger.apply(&post(id, 5));
    ledger.expire(at(47 * HOUR).monotonic);
    let snapshot = ledger.snapshot();
    assert_eq!(snapshot.uptime, Duration::from_secs(47 * HOUR));
    // Another process with a fresh clock; the time between the two does not count.
    let mut ledger = BudgetLedger::from_snapshot(small(), BudgetSource::Caps, &snapshot).unwrap();
    for (second, posted) in [(0, 5), (HOUR - 1, 5), (HOUR, 0)] {
        ledger.expire(Timestamp::ZERO + Duration::from_secs(DAY * 300 + second));
        assert_eq!(ledger.all(0), account(posted, 0), "{second}");
    }
}

#[test]
fn an_eviction_scan_in_progress_continues_after_restore() {
    let mut ledger = small_ledger();
    let ledger_sessions =
        |ledger: &BudgetLedger| (0..150).filter(|it| ledger.session(*it) != SessionTokens::default()).count();
    for session in 0..150 {
        let Ok(id) = ledger
            .reserve(&ReservationRequest { session: Some(session), ..ask(session, Tier::Prime, 1) }, at(0))
        else {
            panic!()
        };
        let _ = ledger.apply(&post(id, 0));
    }
    ledger.expire(at(49 * HOUR).monotonic);
    assert_eq!((ledger_sessions(&ledger), ledger.snapshot().session_sweep), (150 - 64, Some(64)));
    let mut ledger = BudgetLedger::from_snapshot(small(), BudgetSource::Caps, &ledger.snapshot()).unwrap();
    ledger.expire(at(0).monotonic);
    assert_eq!((ledger_sessions(&ledger), ledger.snapshot().session_sweep), (150 - 128, Some(128)));
}

#[test]
fn expired_reservations_of_an_evicted_day_are_not_saved() {
    let mut ledger = BudgetLedger::new(BudgetOptions::default().check().unwrap());
    for caller in 0..100 {
        let id = ledger.reserve(&ask(caller, Tier::Prime, 1), at(0)).unwrap();
        let _ = ledger.apply(&BudgetEntry::Expired(id));
    }
    ledger.expire(at(49 * HOUR).monotonic);
    let snapshot = ledger.snapshot();
    assert_eq!((snapshot.days.len(), snapshot.expired.len()), (0, 0));
}

#[test]
fn a_lease_gets_its_usual_term_or_what_was_left_of_a_longer_one() {
    let id = |node| LeaseId { day: 0, tier: Tier::Prime, node, generation: 0 };
    let seconds = Duration::from_secs;
    let mut ledger = LeaseLedger::new(small());
    let _ = ledger.grant(id(1), nanos(100), seconds(100), at(1_000).monotonic);
    let _ = ledger.grant(id(1), nanos(100), seconds(10), at(1_020).monotonic);
    let _ = ledger.grant(id(2), nanos(100), seconds(30), at(1_000).monotonic);
    let _ = ledger.grant(id(3), nanos(100), seconds(5), at(1_000).monotonic);
    assert_eq!(ledger.expire(at(1_020).monotonic).len(), 1);
    let snapshot = ledger.snapshot();
    assert_eq!((snapshot.at, snapshot.uptime), (at(1_020).monotonic, seconds(20)));
    let restored = LeaseLedger::from_snapshot(small(), &snapshot, at(7).monotonic).unwrap();
    let expires = [1, 2, 3].map(|node| restored.lease(id(node)).unwrap().expires);
    assert_eq!(expires, [at(7 + 80).monotonic, at(7 + 30).monotonic, Timestamp::ZERO]);
    assert_eq!(restored.all(0), ledger.all(0));
    let mut restored = restored;
    assert_eq!(restored.expire(at(36).monotonic), []);
    assert_eq!(restored.expire(at(37).monotonic).len(), 1);
    assert_eq!(restored.expire(at(87).monotonic).len(), 1);
    assert_eq!(LeaseLedger::new(small()).snapshot(), LeaseSnapshot::default());
}

#[test]
fn an_inconsistent_authority_snapshot_is_rejected() {
    let id = |node| LeaseId { day: 0, tier: Tier::Prime, node, generation: 0 };
    let mut ledger = LeaseLedger::new(small());
    for node in 1..=2 {
        let _ = ledger.grant(id(node), nanos(100), Duration::from_secs(10), at(5).monotonic);
    }
    let refused = |damage: fn(&mut LeaseSnapshot)| {
        let mut snapshot = ledger.snapshot();
        damage(&mut snapshot);
        LeaseLedger::from_snapshot(small(), &snapshot, at(0).monotonic).err()
    };
    assert_eq!(refused(|_| {}), None);
    assert_eq!(
        refused(|it| it.days[0].leases.extend_from_within(1..)),
        Some(SnapshotError::DuplicateLease(id(2)))
    );
    assert_eq!(refused(|it| it.days[0].day = 1), Some(SnapshotError::ForeignLease(id(1))));
    let twice = Some(SnapshotError::Duplicate { what: "day", number: 0 });
    assert_eq!(refused(|it| it.days.push(SavedLeaseDay::default())), twice);
    let later = Some(SnapshotError::UsedAfterSnapshot { what: "day", number: 0 });
    assert_eq!(refused(|it| it.days[0].used = it.uptime + Duration::from_nanos(1)), later);
    let too_much = Some(SnapshotError::Overflow(0));
    // Reported spend saturates instead of being rejected.
    assert_eq!(refused(|it| it.days[0].leases.iter_mut().for_each(|lease| lease.posted = Money::MAX)), None);
    assert_eq!(refused(|it| it.days[0].leases[0].granted = Money::MAX), too_much);
    let other_tier = |it: &mut LeaseSnapshot| {
        it.days[0].leases[0].id.tier = Tier::Guest;
        it.days[0].leases[0].granted = Money::MAX;
    };
    assert_eq!(refused(other_tier), too_much);
}

#[test]
fn a_lowered_cap_refuses_until_spend_is_below_it() {
    let mut ledger = small_ledger();
    for caller in [1, 2, 3] {
        let id = ledger.reserve(&ask(caller, Tier::Prime, 100), at(0)).unwrap();
        let _ = ledger.apply(&post(id, 100));
    }
    let held = ledger.reserve(&ask(4, Tier::Prime, 100), at(0)).unwrap();
    let scaled = |factor| small().scaled(Factor::new("caps", factor).unwrap());
    ledger.set_limits(scaled(0.7)); // Prime: 350 instead of 500
    assert_eq!(ledger.tier(0, Tier::Prime), account(300, 100));
    assert!(ledger.reserve(&ask(5, Tier::Prime, 1), at(0)).is_err());
    let _ = ledger.apply(&BudgetEntry::Voided(held));
    assert!(ledger.reserve(&ask(5, Tier::Prime, 51), at(0)).is_err());
    assert!(ledger.reserve(&ask(5, Tier::Prime, 50), at(0)).is_ok());
    ledger.set_limits(scaled(1.0));
    assert!(ledger.reserve(&ask(6, Tier::Prime, 150), at(0)).is_ok());
}

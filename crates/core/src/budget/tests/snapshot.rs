//! Contents of snapshots, rejected snapshots, and the effect of a restart on time.

use super::snapshot_model::{HOUR, NODE, empty, lend};
use super::{DAY, account, ask, at, nanos, post, small, small_book};
use crate::budget::{
    ApplyDecision, Ask, BudgetBook, BudgetOptions, BudgetSnapshot, BudgetSource, Entry, LeaseBook, LeaseId,
    LeaseSnapshot, ReservationId, SavedCaller, SavedLentDay, SavedSession, SessionTokens, SnapshotError,
};
use crate::money::{Money, Usage};
use crate::setting::Factor;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use std::time::Duration;

/// A book with everything in it: posted, held and expired reservations, with or without leases, and a session.
fn full(source: BudgetSource) -> BudgetBook {
    let mut book = empty(source);
    lend(&mut book, 0, 0, 400, at(0));
    let in_session = Ask { session: Some(4), ..ask(3, Tier::Prime, 60) };
    let [first, _, third, _] = [in_session, ask(6, Tier::Prime, 50), ask(3, Tier::Prime, 20), in_session]
        .map(|ask| book.reserve(&ask, at(5)).unwrap());
    let _ = book.apply(&post(first, 70));
    let _ = book.apply(&Entry::Expired(third));
    book
}

fn refused(source: BudgetSource, damage: impl FnOnce(&mut BudgetSnapshot)) -> Option<SnapshotError> {
    let mut snapshot = full(source).snapshot();
    damage(&mut snapshot);
    BudgetBook::from_snapshot(small(), source, &snapshot).err()
}

fn caller(snapshot: &mut BudgetSnapshot) -> &mut SavedCaller {
    &mut snapshot.days[0].callers[0]
}

#[test]
fn a_snapshot_says_what_the_book_says() {
    let snapshot = full(NODE).snapshot();
    assert_eq!((snapshot.next, snapshot.open.len(), snapshot.given_up.len()), (4, 2, 1));
    let day = &snapshot.days[0];
    assert_eq!((day.day, day.tiers[0], day.leases[0].account), (0, account(90, 110), account(90, 110)));
    let callers: Vec<_> =
        day.callers.iter().map(|caller| (caller.caller, caller.account, caller.is_told)).collect();
    assert_eq!(callers, [(3, account(90, 60), false), (6, account(0, 50), false)]);
    assert_eq!((day.leases[0].granted, snapshot.sessions[0].tokens.input_held), (nanos(400), 10));
    assert_eq!(
        small_book().snapshot(),
        BudgetSnapshot { next_look: Duration::from_secs(HOUR), ..BudgetSnapshot::default() }
    );
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    for source in [BudgetSource::Caps, NODE] {
        assert_eq!(refused(source, |_| {}), None);
        assert_eq!(refused(source, |it| it.next = 3), Some(SnapshotError::NeverGiven(ReservationId(3))));
        assert_eq!(refused(source, |it| it.next = 1 << 63), None);
        assert_eq!(
            refused(source, |it| it.next = (1 << 63) + 1),
            Some(SnapshotError::NextTooLarge((1 << 63) + 1))
        );
        let twice = |what, number| Some(SnapshotError::Twice { what, number });
        assert_eq!(refused(source, |it| it.open.extend_from_within(..1)), twice("reservation", 1));
        assert_eq!(refused(source, |it| it.given_up.push(it.open[0])), twice("reservation", 1));
        assert_eq!(refused(source, |it| it.days.push(it.days[0].clone())), twice("day", 0));
        assert_eq!(refused(source, |it| it.sessions.extend_from_within(..)), twice("conversation", 4));
        assert_eq!(refused(source, |it| it.days[0].callers.extend_from_within(1..)), twice("caller", 6));
        let later = |what, number| Some(SnapshotError::UsedLater { what, number });
        let second = Duration::from_secs(1);
        assert_eq!(refused(source, |it| it.days[0].used = it.uptime + second), later("day", 0));
        assert_eq!(refused(source, |it| it.sessions[0].used = it.uptime + second), later("conversation", 4));
    }
}

#[test]
fn sums_that_do_not_add_up_are_refused() {
    for source in [BudgetSource::Caps, NODE] {
        let wrong = |what| Some(SnapshotError::DoesNotAddUp { what, day: 0 });
        assert_eq!(refused(source, |it| caller(it).account.held = nanos(59)), wrong("a caller"));
        assert_eq!(refused(source, |it| caller(it).account.posted = nanos(19)), wrong("a caller"));
        assert_eq!(refused(source, |it| caller(it).account.posted = nanos(89)), wrong("all callers"));
        assert_eq!(refused(source, |it| it.days[0].tiers[0].held = nanos(111)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].tiers[1].held = nanos(1)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].tiers[0].posted = nanos(19)), wrong("a tier"));
        assert_eq!(refused(source, |it| it.days[0].callers.truncate(1)), wrong("all callers"));
        assert_eq!(refused(source, |it| it.given_up[0].caller = 8), wrong("the day"));
        assert_eq!(refused(source, |it| it.days.clear()), wrong("the day"));
        assert_eq!(refused(source, |it| it.open.truncate(1)), wrong("a caller"));
        assert_eq!(refused(source, |it| it.open[0].worst = Money::MAX), Some(SnapshotError::TooMuch(0)));
        let session = Some(SnapshotError::SessionDoesNotAddUp(4));
        assert_eq!(refused(source, |it| it.sessions[0].tokens.input_held += 1), session);
        assert_eq!(refused(source, |it| it.sessions[0].tokens.output_held -= 1), session);
        assert_eq!(refused(source, |it| it.sessions.clear()), session);
        let stranger = SavedSession {
            session: 9,
            used: Duration::ZERO,
            tokens: SessionTokens { input_held: 1, ..SessionTokens::default() },
        };
        assert_eq!(
            refused(source, |it| it.sessions.push(stranger)),
            Some(SnapshotError::SessionDoesNotAddUp(9))
        );
    }
    let overflow = |it: &mut BudgetSnapshot| {
        for account in it.days[0].callers.iter_mut().map(|caller| &mut caller.account) {
            account.posted = Money::MAX;
        }
    };
    let wrong = SnapshotError::DoesNotAddUp { what: "all callers", day: 0 };
    assert_eq!(refused(BudgetSource::Caps, overflow), Some(wrong));
}

#[test]
fn costs_beyond_counting_stay_so_and_are_read_back() {
    for source in [BudgetSource::Caps, NODE] {
        let mut book = full(source);
        let snapshot = book.snapshot();
        let (open, late) = (snapshot.open[0].id, snapshot.given_up[0].id);
        let before = book.all(0).posted;
        let short_of_all = Money::MAX.saturating_sub(before).saturating_sub(nanos(1));
        let _ = book.apply(&Entry::Posted { id: open, usage: Usage::default(), cost: short_of_all });
        assert_eq!(book.all(0).posted, Money::MAX.saturating_sub(nanos(1)));
        let again = |book: &BudgetBook| BudgetBook::from_snapshot(small(), source, &book.snapshot()).unwrap();
        assert_eq!(again(&book).all(0), book.all(0));
        // Just below saturation the actual cost still replaces the worst case; once saturated, nothing is credited
        // back.
        let worst = snapshot.given_up[0].worst;
        let mut countable = again(&book);
        let _ = countable.apply(&Entry::Voided(late));
        assert_eq!(countable.all(0).posted, book.all(0).posted.saturating_sub(worst));
        let other = snapshot.open[1].id;
        let _ = book.apply(&Entry::Posted { id: other, usage: Usage::default(), cost: nanos(5) });
        let _ = book.apply(&Entry::Voided(late));
        assert_eq!(book.all(0).posted, Money::MAX);
        assert_eq!(again(&book).all(0), book.all(0));
    }
}

#[test]
fn leases_that_do_not_belong_are_refused() {
    let id = |node, day, generation| LeaseId { day, tier: Tier::Prime, node, generation };
    let snapshot = full(NODE).snapshot();
    for (source, lease) in
        [(BudgetSource::Caps, id(7, 0, 0)), (BudgetSource::Leases { node: 8 }, id(7, 0, 0))]
    {
        let error = BudgetBook::from_snapshot(small(), source, &snapshot).unwrap_err();
        assert_eq!(error, SnapshotError::ForeignLease(lease));
    }
    let other_day = refused(NODE, |it| it.days[0].leases[0].id.day = 1);
    assert_eq!(other_day, Some(SnapshotError::ForeignLease(id(7, 1, 0))));
    let twice = refused(NODE, |it| it.days[0].leases.extend_from_within(..));
    assert_eq!(twice, Some(SnapshotError::LeaseTwice(id(7, 0, 0))));
    let wrong = |what| Some(SnapshotError::DoesNotAddUp { what, day: 0 });
    assert_eq!(refused(NODE, |it| it.days[0].leases[0].account.held = nanos(109)), wrong("a lease"));
    assert_eq!(refused(NODE, |it| it.days[0].leases[0].account.posted = nanos(91)), wrong("a tier's leases"));
    assert_eq!(refused(NODE, |it| it.days[0].leases.clear()), wrong("a tier's leases"));
    assert_eq!(SnapshotError::Twice { what: "day", number: 3 }.to_string(), "the day 3 is there twice");
}

#[test]
fn after_a_restart_what_is_leased_waits_for_its_renewal_and_what_was_open_is_charged_at_its_worst() {
    let mut book = BudgetBook::from_snapshot(small(), NODE, &full(NODE).snapshot()).unwrap();
    let held = book.held_lease(0, Tier::Prime).unwrap();
    assert_eq!((held.granted, held.until), (nanos(400), Timestamp::ZERO));
    assert!(book.reserve(&ask(9, Tier::Prime, 1), at(0)).is_err());
    let given_up: Vec<Entry> = book.recover().into_iter().map(|(entry, _)| entry).collect();
    assert_eq!(given_up, [1, 3].map(|id| Entry::Expired(ReservationId(id))));
    assert_eq!((book.open(), book.all(0)), (0, account(200, 0)));
    // Late settlements are still accepted, also for reservations that expired earlier.
    assert_eq!(book.apply(&post(ReservationId(3), 10)), ApplyDecision::Applied);
    assert_eq!(book.apply(&post(ReservationId(2), 5)), ApplyDecision::Applied);
    assert_eq!(book.all(0), account(135, 0));
    lend(&mut book, 0, 0, 400, at(0));
    assert!(book.reserve(&ask(9, Tier::Prime, 1), at(0)).is_ok());
}

#[test]
fn who_used_nothing_and_has_no_account_is_no_contradiction() {
    let mut book = small_book();
    let free = Ask { session: Some(1), input: 0, output: 0, ..ask(1, Tier::Guest, 0) };
    let ids = [free, free].map(|ask| book.reserve(&ask, at(0)).unwrap());
    let _ = book.apply(&Entry::Voided(ids[0]));
    assert_eq!((book.snapshot().days[0].callers.len(), book.open()), (0, 1));
    assert!(BudgetBook::from_snapshot(small(), BudgetSource::Caps, &book.snapshot()).is_ok());
}

#[test]
fn a_book_that_was_read_back_forgets_when_the_first_would_have() {
    let mut book = small_book();
    let id = book.reserve(&Ask { session: Some(1), ..ask(1, Tier::Prime, 10) }, at(0)).unwrap();
    let _ = book.apply(&post(id, 5));
    book.expire(at(47 * HOUR).monotonic);
    let snapshot = book.snapshot();
    assert_eq!(snapshot.uptime, Duration::from_secs(47 * HOUR));
    // Another process with a fresh clock; the time between the two does not count.
    let mut book = BudgetBook::from_snapshot(small(), BudgetSource::Caps, &snapshot).unwrap();
    for (second, posted) in [(0, 5), (HOUR - 1, 5), (HOUR, 0)] {
        book.expire(Timestamp::ZERO + Duration::from_secs(DAY * 300 + second));
        assert_eq!(book.all(0), account(posted, 0), "{second}");
    }
}

#[test]
fn a_round_of_forgetting_that_was_under_way_goes_on() {
    let mut book = small_book();
    let book_sessions =
        |book: &BudgetBook| (0..150).filter(|it| book.session(*it) != SessionTokens::default()).count();
    for session in 0..150 {
        let Ok(id) = book.reserve(&Ask { session: Some(session), ..ask(session, Tier::Prime, 1) }, at(0))
        else {
            panic!()
        };
        let _ = book.apply(&post(id, 0));
    }
    book.expire(at(49 * HOUR).monotonic);
    assert_eq!((book_sessions(&book), book.snapshot().session_round), (150 - 64, Some(64)));
    let mut book = BudgetBook::from_snapshot(small(), BudgetSource::Caps, &book.snapshot()).unwrap();
    book.expire(at(0).monotonic);
    assert_eq!((book_sessions(&book), book.snapshot().session_round), (150 - 128, Some(128)));
}

#[test]
fn what_was_given_up_on_a_day_that_is_being_forgotten_is_not_written_down() {
    let mut book = BudgetBook::new(BudgetOptions::default().check().unwrap());
    for caller in 0..100 {
        let id = book.reserve(&ask(caller, Tier::Prime, 1), at(0)).unwrap();
        let _ = book.apply(&Entry::Expired(id));
    }
    book.expire(at(49 * HOUR).monotonic);
    let snapshot = book.snapshot();
    assert_eq!((snapshot.days.len(), snapshot.given_up.len()), (0, 0));
}

#[test]
fn a_lease_gets_its_usual_term_or_what_was_left_of_a_longer_one() {
    let id = |node| LeaseId { day: 0, tier: Tier::Prime, node, generation: 0 };
    let seconds = Duration::from_secs;
    let mut book = LeaseBook::new(small());
    let _ = book.grant(id(1), nanos(100), seconds(100), at(1_000).monotonic);
    let _ = book.grant(id(1), nanos(100), seconds(10), at(1_020).monotonic);
    let _ = book.grant(id(2), nanos(100), seconds(30), at(1_000).monotonic);
    let _ = book.grant(id(3), nanos(100), seconds(5), at(1_000).monotonic);
    assert_eq!(book.expire(at(1_020).monotonic).len(), 1);
    let snapshot = book.snapshot();
    assert_eq!((snapshot.at, snapshot.uptime), (at(1_020).monotonic, seconds(20)));
    let restored = LeaseBook::from_snapshot(small(), &snapshot, at(7).monotonic).unwrap();
    let expires = [1, 2, 3].map(|node| restored.lease(id(node)).unwrap().expires);
    assert_eq!(expires, [at(7 + 80).monotonic, at(7 + 30).monotonic, Timestamp::ZERO]);
    assert_eq!(restored.all(0), book.all(0));
    let mut restored = restored;
    assert_eq!(restored.expire(at(36).monotonic), []);
    assert_eq!(restored.expire(at(37).monotonic).len(), 1);
    assert_eq!(restored.expire(at(87).monotonic).len(), 1);
    assert_eq!(LeaseBook::new(small()).snapshot(), LeaseSnapshot::default());
}

#[test]
fn an_authority_whose_snapshot_does_not_add_up_is_refused() {
    let id = |node| LeaseId { day: 0, tier: Tier::Prime, node, generation: 0 };
    let mut book = LeaseBook::new(small());
    for node in 1..=2 {
        let _ = book.grant(id(node), nanos(100), Duration::from_secs(10), at(5).monotonic);
    }
    let refused = |damage: fn(&mut LeaseSnapshot)| {
        let mut snapshot = book.snapshot();
        damage(&mut snapshot);
        LeaseBook::from_snapshot(small(), &snapshot, at(0).monotonic).err()
    };
    assert_eq!(refused(|_| {}), None);
    assert_eq!(
        refused(|it| it.days[0].leases.extend_from_within(1..)),
        Some(SnapshotError::LeaseTwice(id(2)))
    );
    assert_eq!(refused(|it| it.days[0].day = 1), Some(SnapshotError::ForeignLease(id(1))));
    let twice = Some(SnapshotError::Twice { what: "day", number: 0 });
    assert_eq!(refused(|it| it.days.push(SavedLentDay::default())), twice);
    let later = Some(SnapshotError::UsedLater { what: "day", number: 0 });
    assert_eq!(refused(|it| it.days[0].used = it.uptime + Duration::from_nanos(1)), later);
    let too_much = Some(SnapshotError::TooMuch(0));
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
fn a_lowered_cap_refuses_until_the_day_is_under_it_and_forgets_nothing() {
    let mut book = small_book();
    for caller in [1, 2, 3] {
        let id = book.reserve(&ask(caller, Tier::Prime, 100), at(0)).unwrap();
        let _ = book.apply(&post(id, 100));
    }
    let held = book.reserve(&ask(4, Tier::Prime, 100), at(0)).unwrap();
    let scaled = |factor| small().scaled(Factor::new("caps", factor).unwrap());
    book.set_limits(scaled(0.7)); // Prime: 350 instead of 500
    assert_eq!(book.tier(0, Tier::Prime), account(300, 100));
    assert!(book.reserve(&ask(5, Tier::Prime, 1), at(0)).is_err());
    let _ = book.apply(&Entry::Voided(held));
    assert!(book.reserve(&ask(5, Tier::Prime, 51), at(0)).is_err());
    assert!(book.reserve(&ask(5, Tier::Prime, 50), at(0)).is_ok());
    book.set_limits(scaled(1.0));
    assert!(book.reserve(&ask(6, Tier::Prime, 150), at(0)).is_ok());
}

//! Model test: a restored book behaves like one that never stopped.

use super::{ask, at, nanos, small, small_book};
use crate::budget::{
    ApplyDecision, Ask, BudgetBook, BudgetRefusal, BudgetSource, Entry, Lease, LeaseBook, LeaseId,
    LeaseReport, LeaseState, ReservationId,
};
use crate::money::{Money, Usage};
use crate::setting::Factor;
use crate::time::{Now, Timestamp};
use crate::vocabulary::Tier;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use std::time::Duration;

pub(super) const NODE: BudgetSource = BudgetSource::Leases { node: 7 };
pub(super) const HOUR: u64 = 3_600;

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        caller: u64,
        session: Option<u64>,
        input: u64,
        worst: u64,
        lasts: u64,
    },
    Post {
        which: Index,
        cost: u64,
    },
    Void(Index),
    Expire,
    Wait(u64),
    Lease {
        tier: usize,
        generation: u64,
        total: u64,
    },
    Return {
        tier: usize,
        total: u64,
    },
    /// Caps, in percent.
    SetCaps(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reserve = (0..6_u64, proptest::option::of(0..3_u64), 0..40_u64, 0..120_u64, 1..200_u64).prop_map(
        |(caller, session, input, worst, lasts)| Step::Reserve { caller, session, input, worst, lasts },
    );
    let step = prop_oneof![
        6 => reserve,
        4 => (any::<Index>(), 0..140_u64).prop_map(|(which, cost)| Step::Post { which, cost }),
        1 => any::<Index>().prop_map(Step::Void),
        2 => Just(Step::Expire),
        3 => prop_oneof![4 => 0..60_u64, 1 => Just(9 * HOUR), 1 => Just(30 * HOUR)].prop_map(Step::Wait),
        2 => (0..3_usize, 0..2_u64, 0..400_u64)
            .prop_map(|(tier, generation, total)| Step::Lease { tier, generation, total }),
        1 => (0..3_usize, 0..400_u64).prop_map(|(tier, total)| Step::Return { tier, total }),
        1 => prop_oneof![Just(100_u32), Just(50), Just(10)].prop_map(Step::SetCaps),
    ];
    vec(step, 0..60)
}

/// Result of a step, which must be equal in both books.
#[derive(Debug, PartialEq)]
enum Answer {
    Decided(Result<Entry, BudgetRefusal>, Option<ApplyDecision>),
    Applied(ApplyDecision),
    Expired(Vec<(Entry, ApplyDecision)>),
    Leased(Option<Entry>),
    Returned(Money),
    Nothing,
}

fn take(book: &mut BudgetBook, step: &Step, ids: u64, now: Now) -> Answer {
    let id = |which: &Index| ReservationId(which.index(usize::try_from(ids).unwrap() + 1) as u64);
    match step {
        Step::Reserve { caller, session, input, worst, lasts } => {
            let tier = Tier::ALL[usize::try_from(caller % 3).unwrap()];
            let expires = now.monotonic + Duration::from_secs(*lasts);
            let ask = Ask { session: *session, input: *input, expires, ..ask(*caller, tier, *worst) };
            let decided = book.decide(&ask, now);
            let applied = decided.as_ref().ok().map(|entry| book.apply(entry));
            Answer::Decided(decided, applied)
        }
        Step::Post { which, cost } => {
            let usage = Usage { input: 5, output: *cost / 10, ..Usage::default() };
            Answer::Applied(book.apply(&Entry::Posted { id: id(which), usage, cost: nanos(*cost) }))
        }
        Step::Void(which) => Answer::Applied(book.apply(&Entry::Voided(id(which)))),
        Step::Expire => Answer::Expired(book.expire(now.monotonic)),
        Step::Lease { tier, generation, total } => {
            Answer::Leased(lend(book, *tier, *generation, *total, now))
        }
        Step::Return { tier, total } => {
            Answer::Returned(book.give_back(now.utc.day(), Tier::ALL[*tier], nanos(*total)))
        }
        Step::SetCaps(percent) => {
            book.set_limits(small().scaled(Factor::new("caps", f64::from(*percent) / 100.0).unwrap()));
            Answer::Nothing
        }
        Step::Wait(_) => Answer::Nothing,
    }
}

pub(super) fn lend(
    book: &mut BudgetBook,
    tier: usize,
    generation: u64,
    total: u64,
    now: Now,
) -> Option<Entry> {
    let id = LeaseId { day: now.utc.day(), tier: Tier::ALL[tier], node: 7, generation };
    let lease = Lease { granted: nanos(total), lasts: Duration::from_secs(100_000), ..Lease::new(id) };
    book.set_lease(&lease, now.monotonic, Duration::from_secs(1))
}

/// Compares all observable state of two books.
fn compare(one: &BudgetBook, other: &BudgetBook, now: Now) -> Result<(), TestCaseError> {
    for day in 0..=now.utc.day() + 1 {
        prop_assert_eq!(one.all(day), other.all(day));
        prop_assert_eq!(one.top_spenders(day, 9), other.top_spenders(day, 9));
        prop_assert_eq!(one.lease_reports(day), other.lease_reports(day));
        for tier in Tier::ALL {
            prop_assert_eq!(one.tier(day, tier), other.tier(day, tier));
            prop_assert_eq!(one.tier_cap(day, tier), other.tier_cap(day, tier));
            prop_assert_eq!(one.held_lease(day, tier), other.held_lease(day, tier));
        }
        for caller in 0..6 {
            prop_assert_eq!(one.caller(day, caller), other.caller(day, caller));
        }
    }
    for session in 0..3 {
        prop_assert_eq!(one.session(session), other.session(session));
    }
    prop_assert_eq!((one.open(), one.next_expiry()), (other.open(), other.next_expiry()));
    for (caller, worst) in (0..6_u64).zip([0, 1, 20, 50, 90, 149]) {
        let ask = Ask {
            session: Some(caller % 3),
            ..ask(caller, Tier::ALL[usize::try_from(caller % 3).unwrap()], worst)
        };
        prop_assert_eq!(one.decide(&ask, now), other.decide(&ask, now));
    }
    prop_assert_eq!(one.snapshot(), other.snapshot());
    Ok(())
}

pub(super) fn empty(source: BudgetSource) -> BudgetBook {
    match source {
        BudgetSource::Caps => small_book(),
        BudgetSource::Leases { node } => BudgetBook::on_leases(small(), node),
    }
}

proptest! {
    #[test]
    fn a_book_that_was_read_back_goes_on_as_if_it_had_never_stopped(
        before in steps(), after in steps(), on_leases in any::<bool>(), crashes in any::<bool>(),
    ) {
        let source = if on_leases { NODE } else { BudgetSource::Caps };
        let (mut never_stopped, mut now, mut limits) = (empty(source), at(0), small());
        let mut ids = 0;
        for step in &before {
            if let Step::Wait(seconds) = step { now = now + Duration::from_secs(*seconds) }
            if let Step::SetCaps(percent) = step {
                limits = small().scaled(Factor::new("caps", f64::from(*percent) / 100.0).unwrap());
            }
            if let Answer::Decided(Ok(_), _) = take(&mut never_stopped, step, ids, now) { ids += 1 }
        }
        never_stopped.expire(now.monotonic);
        let snapshot = never_stopped.snapshot();
        let mut read_back = BudgetBook::from_snapshot(limits, source, &snapshot).unwrap();
        prop_assert_eq!(&read_back.snapshot(), &snapshot);
        // Both books see the time, and leases are renewed, as after a restart.
        for book in [&mut never_stopped, &mut read_back] {
            book.expire(now.monotonic);
        }
        for day in 0..=now.utc.day() {
            for tier in Tier::ALL {
                for book in [&mut never_stopped, &mut read_back] {
                    let Some(held) = book.held_lease(day, tier) else { continue };
                    let lease = Lease { granted: held.granted, returned: held.returned, lasts: Duration::from_secs(200_000), ..Lease::new(held.id) };
                    book.set_lease(&lease, now.monotonic, Duration::ZERO);
                }
            }
        }
        if crashes {
            prop_assert_eq!(never_stopped.recover(), read_back.recover());
            prop_assert_eq!(read_back.open(), 0);
        }
        compare(&never_stopped, &read_back, now)?;
        for step in &after {
            if let Step::Wait(seconds) = step { now = now + Duration::from_secs(*seconds) }
            let answer = take(&mut never_stopped, step, ids, now);
            prop_assert_eq!(&answer, &take(&mut read_back, step, ids, now));
            if let Answer::Decided(Ok(_), _) = answer { ids += 1 }
            compare(&never_stopped, &read_back, now)?;
        }
    }

    #[test]
    fn an_authority_that_was_read_back_lends_as_if_it_had_never_stopped(
        steps in vec((0..5_u8, 0..2_u64, 0..3_usize, 0..300_u64, 1..90_u64), 1..60), cut in any::<Index>(),
    ) {
        let mut never_stopped = LeaseBook::new(small());
        never_stopped.expire(at(0).monotonic);
        let mut read_back: Option<LeaseBook> = None;
        let (cut, mut now) = (cut.index(steps.len()), at(0).monotonic);
        for (place, (what, node, tier, amount, lasts)) in steps.into_iter().enumerate() {
            let id = LeaseId { day: u64::from(what == 4), tier: Tier::ALL[tier], node, generation: amount % 2 };
            let lasts = Duration::from_secs(lasts);
            if place == cut {
                let snapshot = never_stopped.snapshot();
                let restored = LeaseBook::from_snapshot(small(), &snapshot, now).unwrap();
                for lease in snapshot.days.iter().flat_map(|day| &day.leases) {
                    let fresh = restored.lease(lease.id).unwrap();
                    if lease.state == LeaseState::Running {
                        prop_assert!(fresh.expires >= lease.expires && fresh.expires >= now + lease.lasts);
                    }
                }
                read_back = Some(restored);
            }
            for book in [Some(&mut never_stopped), read_back.as_mut()].into_iter().flatten() {
                match what {
                    0 | 4 => { let _ = book.grant(id, nanos(amount), lasts, now); }
                    1 => { book.report(&LeaseReport { lease: id, posted: nanos(amount), returned: nanos(amount / 3) }); }
                    2 => { let _ = book.reconcile(id, nanos(amount / 2)); }
                    // Terms differ after a restore, so that only leases ended in both books may be expired from then
                    // on.
                    _ if place < cut => { book.expire(now); }
                    _ => { book.expire(now + Duration::from_secs(1_000)); }
                }
            }
            if place < cut { now = now + lasts / 3 }
            if let Some(read_back) = &read_back {
                for day in 0..2 {
                    prop_assert_eq!(never_stopped.all(day), read_back.all(day));
                    for tier in Tier::ALL {
                        prop_assert_eq!(never_stopped.tier(day, tier), read_back.tier(day, tier));
                        for (node, generation) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                            let id = LeaseId { day, tier, node, generation };
                            let but_for_its_end = |book: &LeaseBook| book.lease(id).map(|lease| Lease { expires: Timestamp::ZERO, ..*lease });
                            prop_assert_eq!(but_for_its_end(&never_stopped), but_for_its_end(read_back));
                        }
                    }
                }
            }
        }
    }
}

//! Model test: a restored ledger behaves like one that never stopped.

use super::{ask, at, nanos, small, small_ledger};
use crate::budget::{
    ApplyDecision, BudgetEntry, BudgetLease, BudgetLedger, BudgetPeriod, BudgetRefusal, BudgetSource,
    LeaseId, LeaseLedger, LeaseReport, LeaseState, PeriodCaps, ReservationId, ReservationRequest, WindowCaps,
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
        max_cost: u64,
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

/// Odd callers have budgets by calendar window.
fn windows(caller: u64) -> WindowCaps {
    let cap = |period, cap| PeriodCaps::from_iter([(period, nanos(cap))]);
    if caller.is_multiple_of(2) {
        return WindowCaps::default();
    }
    let caps = [cap(BudgetPeriod::Hour, 100), cap(BudgetPeriod::Month, 170), PeriodCaps::NONE];
    WindowCaps { team: caller % 3 + 1, caps, ..WindowCaps::default() }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reserve = (0..6_u64, proptest::option::of(0..3_u64), 0..40_u64, 0..120_u64, 1..200_u64).prop_map(
        |(caller, session, input, max_cost, lasts)| Step::Reserve { caller, session, input, max_cost, lasts },
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

/// Result of a step, which must be equal in both ledgers.
#[derive(Debug, PartialEq)]
enum Answer {
    Decided(Result<BudgetEntry, BudgetRefusal>, Option<ApplyDecision>),
    Applied(ApplyDecision),
    Expired(Vec<(BudgetEntry, ApplyDecision)>),
    Leased(Option<BudgetEntry>),
    Returned(Money),
    Nothing,
}

fn take(ledger: &mut BudgetLedger, step: &Step, ids: u64, now: Now) -> Answer {
    let id = |which: &Index| ReservationId(which.index(usize::try_from(ids).unwrap() + 1) as u64);
    match step {
        Step::Reserve { caller, session, input, max_cost, lasts } => {
            let tier = Tier::ALL[usize::try_from(caller % 3).unwrap()];
            let expires = now.monotonic + Duration::from_secs(*lasts);
            let ask = ReservationRequest {
                session: *session,
                input: *input,
                expires,
                windows: windows(*caller),
                ..ask(*caller, tier, *max_cost)
            };
            let decided = ledger.decide(&ask, now);
            let applied = decided.as_ref().ok().map(|entry| ledger.apply(entry));
            Answer::Decided(decided, applied)
        }
        Step::Post { which, cost } => {
            let usage = Usage { input: 5, output: *cost / 10, ..Usage::default() };
            Answer::Applied(ledger.apply(&BudgetEntry::Posted { id: id(which), usage, cost: nanos(*cost) }))
        }
        Step::Void(which) => Answer::Applied(ledger.apply(&BudgetEntry::Voided(id(which)))),
        Step::Expire => Answer::Expired(ledger.expire(now.monotonic)),
        Step::Lease { tier, generation, total } => {
            Answer::Leased(lend(ledger, *tier, *generation, *total, now))
        }
        Step::Return { tier, total } => {
            Answer::Returned(ledger.give_back(now.utc.day(), Tier::ALL[*tier], nanos(*total)))
        }
        Step::SetCaps(percent) => {
            ledger.set_limits(small().scaled(Factor::new("caps", f64::from(*percent) / 100.0).unwrap()));
            Answer::Nothing
        }
        Step::Wait(_) => Answer::Nothing,
    }
}

pub(super) fn lend(
    ledger: &mut BudgetLedger,
    tier: usize,
    generation: u64,
    total: u64,
    now: Now,
) -> Option<BudgetEntry> {
    let id = LeaseId { day: now.utc.day(), tier: Tier::ALL[tier], node: 7, generation };
    let lease =
        BudgetLease { granted: nanos(total), term: Duration::from_secs(100_000), ..BudgetLease::new(id) };
    ledger.set_lease(&lease, now.monotonic, Duration::from_secs(1))
}

/// Compares all observable state of two ledgers.
fn compare(one: &BudgetLedger, other: &BudgetLedger, now: Now) -> Result<(), TestCaseError> {
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
    for (caller, max_cost) in (0..6_u64).zip([0, 1, 20, 50, 90, 149]) {
        let ask = ReservationRequest {
            session: Some(caller % 3),
            windows: windows(caller),
            ..ask(caller, Tier::ALL[usize::try_from(caller % 3).unwrap()], max_cost)
        };
        prop_assert_eq!(one.decide(&ask, now), other.decide(&ask, now));
    }
    prop_assert_eq!(one.snapshot(), other.snapshot());
    Ok(())
}

pub(super) fn empty(source: BudgetSource) -> BudgetLedger {
    match source {
        BudgetSource::Caps => small_ledger(),
        BudgetSource::Leases { node } => BudgetLedger::with_leases(small(), node),
    }
}

proptest! {
    #[test]
    fn a_restored_book_continues_as_if_never_stopped(
        before in steps(), after in steps(), with_leases in any::<bool>(), crashes in any::<bool>(),
    ) {
        let source = if with_leases { NODE } else { BudgetSource::Caps };
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
        let mut read_back = BudgetLedger::from_snapshot(limits, source, &snapshot).unwrap();
        prop_assert_eq!(&read_back.snapshot(), &snapshot);
        // Both ledgers see the time, and leases are renewed, as after a restart.
        for ledger in [&mut never_stopped, &mut read_back] {
            ledger.expire(now.monotonic);
        }
        for day in 0..=now.utc.day() {
            for tier in Tier::ALL {
                for ledger in [&mut never_stopped, &mut read_back] {
                    let Some(held) = ledger.held_lease(day, tier) else { continue };
                    let lease = BudgetLease { granted: held.granted, returned: held.returned, term: Duration::from_secs(200_000), ..BudgetLease::new(held.id) };
                    ledger.set_lease(&lease, now.monotonic, Duration::ZERO);
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
    fn a_restored_authority_lends_as_if_never_stopped(
        steps in vec((0..5_u8, 0..2_u64, 0..3_usize, 0..300_u64, 1..90_u64), 1..60), cut in any::<Index>(),
    ) {
        let mut never_stopped = LeaseLedger::new(small());
        never_stopped.expire(at(0).monotonic);
        let mut read_back: Option<LeaseLedger> = None;
        let (cut, mut now) = (cut.index(steps.len()), at(0).monotonic);
        for (place, (what, node, tier, amount, lasts)) in steps.into_iter().enumerate() {
            let id = LeaseId { day: u64::from(what == 4), tier: Tier::ALL[tier], node, generation: amount % 2 };
            let lasts = Duration::from_secs(lasts);
            if place == cut {
                let snapshot = never_stopped.snapshot();
                let restored = LeaseLedger::from_snapshot(small(), &snapshot, now).unwrap();
                for lease in snapshot.days.iter().flat_map(|day| &day.leases) {
                    let fresh = restored.lease(lease.id).unwrap();
                    if lease.state == LeaseState::Running {
                        prop_assert!(fresh.expires >= lease.expires && fresh.expires >= now + lease.term);
                    }
                }
                read_back = Some(restored);
            }
            for ledger in [Some(&mut never_stopped), read_back.as_mut()].into_iter().flatten() {
                match what {
                    0 | 4 => { let _ = ledger.grant(id, nanos(amount), lasts, now); }
                    1 => { ledger.report(&LeaseReport { lease: id, posted: nanos(amount), returned: nanos(amount / 3) }); }
                    2 => { let _ = ledger.reconcile(id, nanos(amount / 2)); }
                    // Terms differ after a restore, so that only leases ended in both ledgers may be expired from then
                    // on.
                    _ if place < cut => { ledger.expire(now); }
                    _ => { ledger.expire(now + Duration::from_secs(1_000)); }
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
                            let but_for_its_end = |ledger: &LeaseLedger| ledger.lease(id).map(|lease| BudgetLease { expires: Timestamp::ZERO, ..*lease });
                            prop_assert_eq!(but_for_its_end(&never_stopped), but_for_its_end(read_back));
                        }
                    }
                }
            }
        }
    }
}

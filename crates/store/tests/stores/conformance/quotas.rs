//! Idempotency keys, limits and money: all or nothing, and in this order.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::budget::DayShortage;
use seawall_core::money::Money;
use seawall_core::quota::{
    CalendarPeriod, GroupId, MAX_SCOPES, Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaReservation,
    QuotaScope, QuotaUnit, QuotaUnits, RateLimiter,
};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_store::{
    AdmissionRequest, AdmitDecision, CallerBudgetRequest, ClaimRequest, QuotaReceipt, Quotas, Settlement,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn groups() -> Vec<QuotaGroup> {
    groups_with(8)
}

/// The limits that every store is tested with: each kind and each unit, in two groups. The first limit is the one that
/// changes.
fn groups_with(minute: u32) -> Vec<QuotaGroup> {
    let second = Duration::from_secs(1);
    let caller = vec![
        Quota::sliding("minute", QuotaUnit::Request, minute, second * 60, 2).unwrap(),
        Quota::rate("smooth", QuotaUnit::Token, 10, second, 30).unwrap(),
        Quota::calendar("day", QuotaUnit::Request, 40, CalendarPeriod::Day).unwrap(),
    ];
    let global = vec![
        Quota::sliding("tokens", QuotaUnit::Token, 200, second * 600, 0).unwrap(),
        Quota::calendar("month", QuotaUnit::Token, 2_000, CalendarPeriod::Month).unwrap(),
    ];
    vec![QuotaGroup::new("caller", caller).unwrap(), QuotaGroup::new("global", global).unwrap()]
}

#[derive(Clone, Copy, Debug)]
struct TestRequest {
    caller: u64,
    cost: QuotaUnits,
    /// The maximum cost, and the cap.
    money: Option<(u64, u64)>,
    /// Key, fingerprint, expiry of the claim and how long it is kept.
    claim: Option<(usize, u64, u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Reserve(TestRequest),
    Settle {
        which: usize,
        spent: Settlement,
    },
    Refund(usize),
    Forget(usize),
    View(u64),
    /// Another value for the first limit, which keeps its counts.
    Change(u32),
}

const NAMES: [&str; 3] = ["a", "b", ""];

fn test_requests() -> impl Strategy<Value = TestRequest> {
    let cost = (0_u32..4, prop_oneof![4 => 0_u32..12, 1 => 0_u32..40])
        .prop_map(|(requests, tokens)| QuotaUnits { requests, tokens });
    let claim = (0..NAMES.len(), 0_u64..2, select(vec![0, 1, 50, 5_000]), select(vec![0, 1, 50, 5_000]));
    let money = (0_u64..60, select(vec![0, 40, 100]));
    (0_u64..3, cost, option::of(money), option::of(claim))
        .prop_map(|(caller, cost, money, claim)| TestRequest { caller, cost, money, claim })
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let spent =
        (0_u32..4, 0_u32..20, 0_u64..90, proptest::bool::ANY).prop_map(|(requests, tokens, money, done)| {
            Settlement {
                units: QuotaUnits { requests, tokens },
                cost: Money::from_nanos(money),
                answered: done,
            }
        });
    let operation = prop_oneof![
        6 => test_requests().prop_map(Operation::Reserve),
        2 => (0_usize..8, spent).prop_map(|(which, spent)| Operation::Settle { which, spent }),
        1 => (0_usize..8).prop_map(Operation::Refund),
        1 => (0_usize..8).prop_map(Operation::Forget),
        1 => (0_u64..3).prop_map(Operation::View),
        1 => (1_u32..12).prop_map(Operation::Change),
    ];
    let passes = prop_oneof![
        8 => 0_u64..3,
        4 => 0_u64..2_000,
        2 => 0_u64..61_000,
        1 => 0_u64..13 * 3_600_000,
    ];
    vec((operation, passes), 1..80)
}

fn scopes(caller: u64, [own, global]: [GroupId; 2]) -> [QuotaScope; 2] {
    [QuotaScope { group: global, key: QuotaKey(0) }, QuotaScope { group: own, key: QuotaKey(caller) }]
}

fn ids(limiter: &RateLimiter) -> [GroupId; 2] {
    ["caller", "global"].map(|name| limiter.group(name).unwrap())
}

/// Runs the suite against a store of quotas.
pub(crate) fn quotas<S: Quotas>(
    effort: Effort,
    drive: &impl Drive,
    make: impl Fn(Vec<QuotaGroup>) -> S,
) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(groups()), drive, operations))?;
    for_threads(effort, drive, &make(groups()))?;
    for_many_scopes(drive, &make(many_groups()))
}

/// More groups than may apply to one request, each with as many limits as a group can have.
fn many_groups() -> Vec<QuotaGroup> {
    let second = Duration::from_secs(1);
    let quota = |index: usize| {
        let name = format!("limit {index}");
        match index % 3 {
            0 => Quota::sliding(&name, QuotaUnit::Request, 10, second * 60, 0),
            1 => Quota::rate(&name, QuotaUnit::Token, 1, second, 10),
            _ => Quota::calendar(&name, QuotaUnit::Request, 10, CalendarPeriod::Day),
        }
        .unwrap()
    };
    let group =
        |index| QuotaGroup::new(&format!("group {index}"), (0..QuotaGroup::MAX_QUOTAS).map(quota).collect());
    (0..=MAX_SCOPES).map(|index| group(index).unwrap()).collect()
}

/// Requests that count in many groups, of one key and of a key each.
fn for_many_scopes<S: Quotas>(drive: &impl Drive, store: &S) -> TestResult {
    let now = start();
    for (count, key_per_group) in [(5, false), (5, true), (MAX_SCOPES, false), (MAX_SCOPES, true)] {
        let caller = count as u64;
        let scope = |index: u16| {
            let key = if key_per_group { u64::from(index) + 100 * caller } else { caller };
            QuotaScope { group: GroupId::from_index(index), key: QuotaKey(key) }
        };
        let scopes: Vec<QuotaScope> = (0..).map(scope).take(count).collect();
        let units = QuotaUnits { requests: 3, tokens: 3 };
        let request =
            AdmissionRequest { partition: caller, scopes: &scopes, units, money: None, claim: None };
        let remaining = || -> Vec<u32> {
            let views = drive.drive(store.view(caller, &scopes, now)).unwrap();
            views.iter().map(|view| view.remaining).collect()
        };
        let decision = drive.drive(store.reserve(&request, now)).unwrap();
        let AdmitDecision::Granted { reservation, .. } = decision else {
            return Err(format!("{count} groups are refused"));
        };
        let limits = count * QuotaGroup::MAX_QUOTAS;
        same("what is left of each limit", remaining(), vec![7; limits])?;
        drive.drive(store.refund(reservation, now)).unwrap();
        same("what is left after a refund", remaining(), vec![10; limits])?;
    }
    let scope = |index| QuotaScope { group: GroupId::from_index(index), key: QuotaKey(1) };
    let scopes: Vec<QuotaScope> = (0..).map(scope).take(MAX_SCOPES + 1).collect();
    let units = QuotaUnits::REQUEST;
    let request = AdmissionRequest { partition: 1, scopes: &scopes, units, money: None, claim: None };
    let refused =
        drive.drive(store.reserve(&request, now)).map(drop).map_err(|error| error.reason().to_owned());
    same(
        "a request with too many groups",
        refused,
        Err("a request must not name more than 16 groups".to_owned()),
    )
}

/// The expected state of a key: its fingerprint, the reservation that holds it (none when done), and its expiry.
type ExpectedKey = (u64, Option<usize>, Timestamp);

struct ReferenceQuotas {
    limiter: RateLimiter,
    names: BTreeMap<(u64, usize), ExpectedKey>,
    /// Day and caller, and the expected total.
    money: Vec<(u64, u64, u64)>,
}

/// What the reference remembers of a reservation.
struct ReferenceReservation {
    limits: QuotaReservation,
    money: Option<usize>,
    claim: Option<((u64, usize), u64)>,
    number: usize,
}

impl ReferenceQuotas {
    fn reserve(
        &mut self,
        test_request: &TestRequest,
        number: usize,
        now: Now,
    ) -> AdmitDecision<ReferenceReservation> {
        self.names.retain(|_, (_, _, until)| now.monotonic < *until);
        if let Some((name, fingerprint, ..)) = test_request.claim {
            match self.names.get(&(test_request.caller, name)) {
                Some((known, ..)) if *known != fingerprint => return AdmitDecision::KeyReused,
                Some((_, Some(_), _)) => return AdmitDecision::InProgress,
                Some((_, None, _)) => return AdmitDecision::Completed,
                None => {}
            }
        }
        let scopes = scopes(test_request.caller, ids(&self.limiter));
        let (limits, tightest) = match self.limiter.reserve(&scopes, test_request.cost, now).unwrap() {
            QuotaDecision::Granted { reservation, tightest } => (reservation, tightest),
            QuotaDecision::RetryAfter(refusal) => return AdmitDecision::RateLimited(refusal),
            QuotaDecision::TooLarge { limit, capacity } => {
                return AdmitDecision::TooLarge { limit, capacity };
            }
        };
        let today = now.utc.day();
        if let Some((max_cost, cap)) = test_request.money {
            let is_own =
                |(day, caller, _): &&(u64, u64, u64)| (*day, *caller) == (today, test_request.caller);
            let committed: u64 = self.money.iter().filter(is_own).map(|(.., amount)| amount).sum();
            let available = cap.saturating_sub(committed);
            if max_cost > available {
                self.limiter.refund(limits, now);
                let resets = UtcTime::start_of_day(today + 1);
                let available = Money::from_nanos(available);
                return AdmitDecision::InsufficientBudget(DayShortage {
                    available,
                    unspent: available,
                    resets,
                    window: Default::default(),
                });
            }
        }
        let money = test_request.money.map(|(max_cost, _)| {
            self.money.push((today, test_request.caller, max_cost));
            self.money.len() - 1
        });
        let claim = test_request.claim.map(|(name, fingerprint, lasts, keep)| {
            let key = (test_request.caller, name);
            self.names.insert(key, (fingerprint, Some(number), now.monotonic + millis(lasts)));
            (key, keep)
        });
        AdmitDecision::Granted {
            reservation: ReferenceReservation { limits, money, claim, number },
            tightest,
        }
    }

    fn settle(&mut self, expected_reservation: ReferenceReservation, spent: Settlement, now: Now) {
        self.names.retain(|_, (_, _, until)| now.monotonic < *until);
        self.limiter.settle(expected_reservation.limits, spent.units, now);
        if let Some(index) = expected_reservation.money {
            self.money[index].2 = spent.cost.as_nanos();
        }
        let Some((key, keep)) = expected_reservation.claim else { return };
        let Some((_, by, until)) = self.names.get_mut(&key) else { return };
        if *by != Some(expected_reservation.number) {
            return;
        }
        if spent.answered {
            (*by, *until) = (None, now.monotonic + millis(keep));
        } else {
            self.names.remove(&key);
        }
    }
}

/// Splits a decision from its reservation, so that it can be compared.
fn part<R>(decision: AdmitDecision<R>) -> (AdmitDecision<()>, Option<R>) {
    let decision = match decision {
        AdmitDecision::Granted { reservation, tightest } => {
            return (AdmitDecision::Granted { reservation: (), tightest }, Some(reservation));
        }
        AdmitDecision::RateLimited(refusal) => AdmitDecision::RateLimited(refusal),
        AdmitDecision::TooLarge { limit, capacity } => AdmitDecision::TooLarge { limit, capacity },
        // How much of it is only held is not compared, because not every store notices that a hold has expired.
        AdmitDecision::InsufficientBudget(day) => {
            assert!(day.unspent >= day.available);
            AdmitDecision::InsufficientBudget(DayShortage { unspent: day.available, ..day })
        }
        AdmitDecision::InProgress => AdmitDecision::InProgress,
        AdmitDecision::Completed => AdmitDecision::Completed,
        AdmitDecision::OutcomeUnknown => AdmitDecision::OutcomeUnknown,
        AdmitDecision::KeyReused => AdmitDecision::KeyReused,
    };
    (decision, None)
}

fn play<S: Quotas>(store: &S, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let limiter = RateLimiter::new(groups(), 1).unwrap();
    let ids = ids(&limiter);
    let mut reference = ReferenceQuotas { limiter, names: BTreeMap::new(), money: Vec::new() };
    let mut open: Vec<(ReferenceReservation, QuotaReceipt)> = Vec::new();
    for (turn, (operation, passes)) in operations.into_iter().enumerate() {
        now = now + millis(passes);
        match operation {
            Operation::Reserve(test_request) => {
                let scopes = scopes(test_request.caller, ids);
                let ask = ask(&test_request, &scopes);
                let (expected, expected_reservation) = part(reference.reserve(&test_request, turn, now));
                let (seen, reservation) = part(drive.drive(store.reserve(&ask, now)).unwrap());
                prop_assert_eq!(seen, expected, "turn {}", turn);
                open.extend(expected_reservation.zip(reservation));
            }
            Operation::Settle { which, .. } | Operation::Refund(which) | Operation::Forget(which)
                if !open.is_empty() =>
            {
                let (expected_reservation, reservation) = open.swap_remove(which % open.len());
                match operation {
                    Operation::Settle { spent, .. } => {
                        reference.settle(expected_reservation, spent, now);
                        drive.drive(store.settle(reservation, spent, now)).unwrap();
                    }
                    Operation::Refund(_) => {
                        reference.settle(expected_reservation, Settlement::default(), now);
                        drive.drive(store.refund(reservation, now)).unwrap();
                    }
                    // The worker has crashed: everything stays charged.
                    _ => drop((expected_reservation, reservation)),
                }
            }
            Operation::View(caller) => {
                let scopes = scopes(caller, ids);
                let expected = reference.limiter.view(&scopes, now).unwrap();
                let seen = drive.drive(store.view(caller, &scopes, now)).unwrap();
                prop_assert_eq!(seen, expected, "turn {}", turn);
            }
            Operation::Change(minute) => {
                let _ = reference.limiter.change_limits(groups_with(minute), now).unwrap();
                store.change_limits(store.check_limits(groups_with(minute)).unwrap(), now);
            }
            Operation::Settle { .. } | Operation::Refund(_) | Operation::Forget(_) => {}
        }
    }
    Ok(())
}

fn ask<'a>(test_request: &TestRequest, scopes: &'a [QuotaScope]) -> AdmissionRequest<'a> {
    let caller = test_request.caller;
    let money = test_request.money.map(|(max_cost, cap)| CallerBudgetRequest {
        caller,
        max_cost: Money::from_nanos(max_cost),
        cap: Money::from_nanos(cap),
        timeout: millis(1_000),
    });
    let claim = test_request.claim.map(|(name, fingerprint, lasts, keep)| ClaimRequest {
        caller,
        key: NAMES[name],
        fingerprint,
        timeout: millis(lasts),
        retention: millis(keep),
    });
    AdmissionRequest { partition: caller, scopes, units: test_request.cost, money, claim }
}

/// Concurrent requests: exactly what the limits allow is granted.
fn for_threads<S: Quotas>(effort: Effort, drive: &impl Drive, store: &S) -> TestResult {
    let ids = ids(&RateLimiter::new(groups(), 1).unwrap());
    let now = start();
    let try_often = |test_request: TestRequest| {
        let scopes = scopes(test_request.caller, ids);
        let grants = at_once(effort.threads, |thread| {
            let mut granted = 0_u64;
            for round in 0..12 {
                let decision = drive.drive(store.reserve(&ask(&test_request, &scopes), now)).unwrap();
                if let AdmitDecision::Granted { reservation, .. } = decision {
                    // Some are refunded, and their room is taken by other threads.
                    if (round + thread) % 3 == 0 {
                        drive.drive(store.refund(reservation, now)).unwrap();
                    } else {
                        granted += 1;
                    }
                }
            }
            granted
        });
        let scopes_left = drive.drive(store.view(test_request.caller, &scopes, now)).unwrap();
        (grants.into_iter().sum::<u64>(), scopes_left[0].remaining)
    };
    let request = TestRequest { caller: 5, cost: QuotaUnits::REQUEST, money: None, claim: None };
    let (granted, left) = try_often(request);
    same("requests kept and left of ten", granted + u64::from(left), 10)?;
    // Seven each of forty: five fit, and not six.
    let (granted, left) = try_often(TestRequest { caller: 6, money: Some((7, 40)), ..request });
    same("requests kept and left of ten, with money", granted + u64::from(left), 10)?;
    if granted > 5 {
        return Err(format!("{granted} times 7 were held of 40"));
    }
    let (granted, _) = try_often(TestRequest { caller: 7, claim: Some((0, 1, 5_000, 5_000)), ..request });
    if granted > 1 {
        return Err(format!("{granted} hold one name"));
    }
    Ok(())
}

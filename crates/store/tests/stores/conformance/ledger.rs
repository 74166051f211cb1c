//! The ledger: leases within the caps, every call once, and totals that match the calls.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::budget::{
    BudgetLease, BudgetLimits, BudgetOptions, LeaseDecision, LeaseId, LeaseLedger, LeaseReport,
};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_store::{
    CallId, Certainty, DayTotals, EventPage, KeyLabels, KeyUsage, LeaseRequest, Ledger, PostSummary,
    SpendDimension, SpendItem, SpendLabels, SpendRow, Totals, UsageEvent,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// Caps of this many nano-dollars a day, half of it for the first tier.
fn limits(day: u64) -> BudgetLimits {
    let day = Money::from_nanos(day);
    BudgetOptions { day, caller_day: day, ..BudgetOptions::default() }.check().unwrap()
}

#[derive(Clone, Debug)]
enum Operation {
    Lease {
        lease: LeaseId,
        total: u64,
        term: u64,
    },
    Report(Vec<(LeaseId, u64, u64)>),
    Expire,
    Reconcile(LeaseId, u64),
    SetLimits(u64),
    /// Calls by their number, and how long ago each ended.
    Post(Vec<(u32, u64)>),
    Day(u64),
    Caller(u64, u64),
    TopSpenders(u64, usize),
    Spend(u64, u64, SpendDimension),
    KeyUsage(u64),
    Events {
        from: u64,
        to: u64,
        limit: usize,
    },
}

fn today() -> u64 {
    start().utc.day()
}

fn leases() -> impl Strategy<Value = LeaseId> {
    (0_u64..2, select(Tier::ALL.to_vec()), 0_u64..3, prop_oneof![3 => 0_u64..1, 1 => 0_u64..3])
        .prop_map(|(day, tier, node, generation)| LeaseId { day: today() + day, tier, node, generation })
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let reports = vec((leases(), 0_u64..600, 0_u64..300), 0..3);
    let operation = prop_oneof![
        4 => (leases(), 0_u64..700, 0_u64..3_000)
            .prop_map(|(lease, total, term)| Operation::Lease { lease, total, term }),
        2 => reports.prop_map(Operation::Report),
        2 => proptest::strategy::Just(Operation::Expire),
        1 => (leases(), 0_u64..600).prop_map(|(lease, spent)| Operation::Reconcile(lease, spent)),
        1 => (1_u64..2_000).prop_map(Operation::SetLimits),
        3 => vec((0_u32..25, 0_u64..2_000), 0..6).prop_map(Operation::Post),
        1 => (0_u64..2).prop_map(Operation::Day),
        1 => (0_u64..2, 0_u64..4).prop_map(|(day, caller)| Operation::Caller(day, caller)),
        2 => (0_u64..2, 0_u64..3, select(SpendDimension::ALL.to_vec()))
            .prop_map(|(first, days, by)| Operation::Spend(first, days, by)),
        1 => (0_u64..4).prop_map(Operation::KeyUsage),
        1 => (0_u64..2, 0_usize..6).prop_map(|(day, limit)| Operation::TopSpenders(day, limit)),
        1 => (0_u64..3_000, 0_u64..3_000, 1_usize..5).prop_map(|(from, to, limit)| Operation::Events { from, to, limit }),
    ];
    vec((operation, prop_oneof![3 => 0_u64..200, 1 => 0_u64..4_000]), 1..50)
}

/// The content of a call follows from its number, but not the time at which it is posted.
fn event(number: u32, ago: u64, now: Now) -> UsageEvent {
    let small = u64::from(number);
    UsageEvent {
        id: CallId { request: u128::from(number / 2) << 70, attempt: number % 2 },
        at: UtcTime::from_nanos(now.utc.as_nanos() - ago * 1_000_000),
        day: today() + u64::from(number.is_multiple_of(5)),
        caller: small % 4,
        tier: Tier::ALL[number as usize % 3],
        model: ["strong", "fast", "漫画"][number as usize / 3 % 3].into(),
        labels: labels(number),
        usage: Usage {
            input: small,
            cache_read: small * 2,
            cache_write: 1,
            output: small + 3,
            ..Usage::default()
        },
        cost: Money::from_nanos(small % 7 + 1),
        certainty: Certainty::ALL[number as usize % 3],
    }
}

/// Some calls have a target and a route, and of these some a key with a team or tags.
fn labels(number: u32) -> SpendLabels {
    let text = |text: &str| Box::<str>::from(text);
    let tags = || [(text("cost"), text("web")), (text("env"), text("漫画"))].into();
    let key = match number % 5 {
        0 => None,
        1 => Some(KeyLabels::default()),
        2 => Some(KeyLabels { team: Some(text("web")), ..KeyLabels::default() }),
        3 => Some(KeyLabels { team: Some(text("ops")), tags: tags() }),
        _ => Some(KeyLabels { team: None, tags: tags() }),
    };
    let name = |name: &'static str| if number.is_multiple_of(7) { "".into() } else { name.into() };
    SpendLabels { target: name("t1"), route: name("r1"), key: key.map(Into::into) }
}

/// What the calls of these days cost by one dimension, by going through all of them.
fn spent(calls: &Calls, days: Range<u64>, by: SpendDimension) -> Vec<SpendRow> {
    let mut rows: BTreeMap<SpendItem, Vec<&UsageEvent>> = BTreeMap::new();
    for event in calls.values().filter(|event| days.contains(&event.day)) {
        let key = event.labels.key.as_deref();
        let name = |name: &str| SpendItem::Name(name.into());
        let items: Vec<SpendItem> = match by {
            SpendDimension::Caller => vec![SpendItem::Caller(event.caller)],
            SpendDimension::Day => vec![SpendItem::Day(event.day)],
            SpendDimension::Tier => vec![name(event.tier.name())],
            SpendDimension::Model => vec![name(&event.model)],
            SpendDimension::Target => vec![name(&event.labels.target)],
            SpendDimension::Route => vec![name(&event.labels.route)],
            SpendDimension::Team => key.and_then(|key| key.team.as_deref()).map(name).into_iter().collect(),
            SpendDimension::Tag => key
                .iter()
                .flat_map(|key| key.tags.iter().map(|(tag, value)| name(&format!("{tag}={value}"))))
                .collect(),
        };
        for item in items.into_iter().filter(|item| *item != SpendItem::Name("".into())) {
            rows.entry(item).or_default().push(event);
        }
    }
    rows.into_iter().map(|(item, calls)| SpendRow { item, totals: sum(calls.into_iter()) }).collect()
}

fn key_usage(calls: &Calls, caller: u64) -> KeyUsage {
    let of_key = || calls.values().filter(|event| event.caller == caller && event.labels.key.is_some());
    KeyUsage { totals: sum(of_key()), last_used: of_key().map(|event| event.at).max() }
}

/// Runs the suite against a ledger.
pub(crate) fn ledger<S: Ledger>(
    effort: Effort,
    drive: &impl Drive,
    make: impl Fn(BudgetLimits) -> S,
) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(limits(1_000)), drive, operations))?;
    lend_at_once(effort, drive, &make(limits(1_000)))?;
    post_at_once(effort, drive, &make(limits(1_000)))
}

/// Clears the expiry of a lease, which is measured on the store's own clock.
fn without_clock(lease: BudgetLease) -> BudgetLease {
    BudgetLease { expires: Timestamp::ZERO, ..lease }
}

fn decided(decision: LeaseDecision) -> LeaseDecision {
    match decision {
        LeaseDecision::Granted(lease) => LeaseDecision::Granted(without_clock(lease)),
        LeaseDecision::Exhausted(lease) => LeaseDecision::Exhausted(without_clock(lease)),
        LeaseDecision::Superseded(lease) => LeaseDecision::Superseded(without_clock(lease)),
    }
}

fn by_name(leases: Vec<BudgetLease>) -> Vec<BudgetLease> {
    let mut leases: Vec<BudgetLease> = leases.into_iter().map(without_clock).collect();
    leases.sort_by_key(|lease| lease.id);
    leases
}

fn sum<'a>(events: impl Iterator<Item = &'a UsageEvent>) -> Totals {
    let mut sum = Totals::default();
    for UsageEvent { usage, cost, .. } in events {
        sum.calls += 1;
        sum.usage.input += usage.input;
        sum.usage.cache_read += usage.cache_read;
        sum.usage.cache_write += usage.cache_write;
        sum.usage.output += usage.output;
        sum.cost = sum.cost.checked_add(*cost).unwrap();
    }
    sum
}

/// The posted calls, by id.
type Calls = BTreeMap<CallId, UsageEvent>;

fn of_caller(calls: &Calls, day: u64, caller: u64) -> Totals {
    sum(calls.values().filter(|event| event.day == day && event.caller == caller))
}

fn spenders(calls: &Calls, day: u64) -> Vec<(u64, Totals)> {
    let mut all: Vec<_> = (0..4).map(|caller| (caller, of_caller(calls, day, caller))).collect();
    all.retain(|(_, totals)| totals.calls > 0);
    all.sort_by_key(|(caller, totals)| (Reverse(totals.cost), *caller));
    all
}

fn day_totals(calls: &Calls, lease_ledger: &LeaseLedger, day: u64) -> DayTotals {
    let of_day = || calls.values().filter(move |event| event.day == day);
    let mut models: Vec<_> = of_day().map(|event| event.model.clone()).collect();
    models.sort();
    models.dedup();
    let of_model = |model| sum(of_day().filter(|event| event.model == model));
    DayTotals {
        tiers: Tier::ALL.map(|tier| sum(of_day().filter(|event| event.tier == tier))),
        models: models.into_iter().map(|model| (model.clone(), of_model(model))).collect(),
        leases: Tier::ALL.map(|tier| lease_ledger.tier(day, tier)),
        callers: spenders(calls, day).len() as u64,
    }
}

fn play<S: Ledger>(store: &S, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let mut lease_ledger = LeaseLedger::new(limits(1_000));
    let mut calls = Calls::new();
    for (turn, (operation, passes)) in operations.into_iter().enumerate() {
        now = now + millis(passes);
        match operation {
            Operation::Lease { lease, total, term } => {
                let ask = LeaseRequest { lease, total: Money::from_nanos(total), term: millis(term) };
                let expected = lease_ledger.grant(lease, ask.total, ask.term, now.monotonic);
                let seen = drive.drive(store.lease(&ask, now)).unwrap();
                prop_assert_eq!(decided(seen), decided(expected), "turn {}", turn);
            }
            Operation::Report(reports) => {
                let report = |(lease, posted, returned): (LeaseId, u64, u64)| LeaseReport {
                    lease,
                    posted: Money::from_nanos(posted),
                    returned: Money::from_nanos(returned),
                };
                let reports: Vec<_> = reports.into_iter().map(report).collect();
                let expected: Vec<_> =
                    reports.iter().map(|report| without_clock(lease_ledger.report(report))).collect();
                let seen = drive.drive(store.report(&reports, now)).unwrap();
                let seen: Vec<_> = seen.into_iter().map(without_clock).collect();
                prop_assert_eq!(seen, expected, "turn {}", turn);
            }
            Operation::Expire => {
                let expected = by_name(lease_ledger.expire(now.monotonic));
                prop_assert_eq!(by_name(drive.drive(store.expire(now)).unwrap()), expected, "turn {}", turn);
            }
            Operation::Reconcile(lease, spent) => {
                let spent = Money::from_nanos(spent);
                let expected = lease_ledger.reconcile(lease, spent);
                prop_assert_eq!(
                    drive.drive(store.reconcile(lease, spent, now)).unwrap(),
                    expected,
                    "turn {}",
                    turn
                );
            }
            Operation::SetLimits(day) => {
                let expected = lease_ledger.set_limits(limits(day), today());
                let seen = drive.drive(store.set_limits(limits(day), today())).unwrap();
                prop_assert_eq!(seen, expected, "turn {}", turn);
            }
            Operation::Post(numbers) => {
                let events: Vec<_> =
                    numbers.into_iter().map(|(number, ago)| event(number, ago, now)).collect();
                let before = calls.len();
                for event in &events {
                    calls.entry(event.id).or_insert_with(|| event.clone());
                }
                let new = calls.len() - before;
                let seen = drive.drive(store.post(&events)).unwrap();
                prop_assert_eq!(
                    seen,
                    PostSummary { inserted: new, duplicates: events.len() - new },
                    "turn {}",
                    turn
                );
            }
            Operation::Day(day) => {
                let day = today() + day;
                let seen = drive.drive(store.day(day)).unwrap();
                prop_assert_eq!(seen, day_totals(&calls, &lease_ledger, day), "turn {}", turn);
            }
            Operation::Caller(day, caller) => {
                let day = today() + day;
                let seen = drive.drive(store.caller(day, caller)).unwrap();
                prop_assert_eq!(seen, of_caller(&calls, day, caller), "turn {}", turn);
            }
            Operation::Spend(first, days, by) => {
                let days = today() + first..today() + first + days;
                let seen = drive.drive(store.spend(days.clone(), by)).unwrap();
                prop_assert_eq!(seen, spent(&calls, days, by), "{:?}, turn {}", by, turn);
            }
            Operation::KeyUsage(caller) => {
                let seen = drive.drive(store.key_usage(caller)).unwrap();
                prop_assert_eq!(seen, key_usage(&calls, caller), "turn {}", turn);
            }
            Operation::TopSpenders(day, limit) => {
                let day = today() + day;
                let mut expected = spenders(&calls, day);
                expected.truncate(limit);
                prop_assert_eq!(
                    drive.drive(store.top_spenders(day, limit)).unwrap(),
                    expected,
                    "turn {}",
                    turn
                );
            }
            Operation::Events { from, to, limit } => {
                let ago = |ago| UtcTime::from_nanos(now.utc.as_nanos() - ago * 1_000_000);
                let time = ago(from.max(to))..ago(from.min(to));
                let mut expected: Vec<_> =
                    calls.values().filter(|event| time.contains(&event.at)).cloned().collect();
                expected.sort_by_key(|event| (event.at, event.id));
                let (mut seen, mut place) = (Vec::new(), None);
                loop {
                    let page = drive.drive(store.events(time.clone(), place, limit)).unwrap();
                    let EventPage { events, next } = page;
                    prop_assert!(events.len() <= limit && (next.is_none() || events.len() == limit));
                    seen.extend(events);
                    place = next;
                    if place.is_none() || seen.len() > expected.len() {
                        break;
                    }
                }
                prop_assert_eq!(seen, expected, "turn {}", turn);
            }
        }
    }
    Ok(())
}

/// Nodes that each want as much as possible get together exactly what there is.
fn lend_at_once<S: Ledger>(effort: Effort, drive: &impl Drive, store: &S) -> TestResult {
    let now = start();
    let granted = at_once(effort.threads, |node| {
        let mut granted = Money::ZERO;
        for round in 1..30 {
            let lease = LeaseId { day: today(), tier: Tier::Prime, node, generation: 0 };
            let ask = LeaseRequest { lease, total: Money::from_nanos(round * 7), term: millis(1_000) };
            granted = drive.drive(store.lease(&ask, now)).unwrap().lease().granted;
        }
        granted
    });
    let granted: Money = granted.into_iter().sum();
    same("what is leased of 500", granted, Money::from_nanos(500.min(effort.threads * 29 * 7)))?;
    let leases = drive.drive(store.day(today())).unwrap().leases[0].leased;
    same("what the ledger reports as leased", leases, granted)
}

/// All threads post the same calls in different batches: each counts once.
fn post_at_once<S: Ledger>(effort: Effort, drive: &impl Drive, store: &S) -> TestResult {
    let (now, limit) = (start(), 60_u32);
    let posted = at_once(effort.threads, |thread| {
        let batch = usize::try_from(thread).unwrap() + 1;
        let events: Vec<_> = (0..limit).map(|number| event(number, 0, now)).collect();
        let new = |events| drive.drive(store.post(events)).unwrap().inserted;
        events.chunks(batch).map(new).sum::<usize>()
    });
    same("calls that were new to somebody", posted.into_iter().sum::<usize>(), limit as usize)?;
    let calls: Calls =
        (0..limit).map(|number| event(number, 0, now)).map(|event| (event.id, event)).collect();
    let lease_ledger = LeaseLedger::new(limits(1_000));
    for day in [today(), today() + 1] {
        same("the day", drive.drive(store.day(day)).unwrap(), day_totals(&calls, &lease_ledger, day))?;
    }
    Ok(())
}

//! Tests with a store whose outages are scripted, on a manual clock.

mod windows;

use super::{AwayObserver, AwayOptions, AwayReport, SharedQuotas, SharedStore, Standing};
use crate::memory::{MemoryQuotas, MemoryReceipt};
use crate::quotas::{AdmitDecision, MOST_LIMITS, MoneyAsk, QuotaAsk, Quotas, Spent};
use crate::{StoreError, lock};
use arrayvec::ArrayVec;
use seawall_core::breaker::NodeId;
use seawall_core::chance::Draw;
use seawall_core::handle::{Runtime, Timer};
use seawall_core::money::Money;
use seawall_core::quota::{Cost, GroupId, LimitView, Quota, QuotaGroup, QuotaKey, Scope, Unit};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn pass(&self, span: Duration) {
        self.0.fetch_add(u64::try_from(span.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl Runtime for Clock {
    fn now(&self) -> Now {
        Now::default() + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn draw(&self) -> Draw {
        Draw::MIDDLE
    }
}

impl Timer for Clock {
    fn monotonic(&self) -> Timestamp {
        self.now().monotonic
    }

    fn sleep_until(&self, _: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

fn drive<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// The state that all nodes share: a book, whether it is reachable, its incarnation, and the reports it has received.
struct Place {
    book: MemoryQuotas,
    away: bool,
    life: u64,
    /// The response to the next report is lost, though the report arrives.
    loses_answer: bool,
    told: Vec<AwayReport>,
    booked: Vec<AwayReport>,
}

#[derive(Clone)]
struct Store(Arc<Mutex<Place>>);

fn groups(limit: u32) -> Vec<QuotaGroup> {
    let minute = Quota::sliding("minute", Unit::Request, limit, Duration::from_secs(60), 0).unwrap();
    vec![QuotaGroup::new("tier", vec![minute]).unwrap()]
}

impl Store {
    fn new(limit: u32) -> Self {
        let book = MemoryQuotas::new(groups(limit), 1).unwrap();
        let (told, booked) = (Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(Place { book, away: false, life: 1, loses_answer: false, told, booked })))
    }

    fn set_away(&self, away: bool) {
        lock(&self.0).away = away;
    }

    fn reached<T>(&self, step: impl FnOnce(&mut Place) -> T) -> Result<T, StoreError> {
        let mut place = lock(&self.0);
        if place.away { Err(StoreError::away("test", "told to be")) } else { Ok(step(&mut place)) }
    }
}

impl Quotas for Store {
    type Receipt = MemoryReceipt;

    async fn reserve(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        self.reached(|place| drive(place.book.reserve(ask, now)))?
    }

    async fn settle(&self, receipt: MemoryReceipt, spent: Spent, now: Now) -> Result<(), StoreError> {
        self.reached(|place| drive(place.book.settle(receipt, spent, now)))?
    }

    async fn view(
        &self,
        home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError> {
        self.reached(|place| drive(place.book.view(home, scopes, now)))?
    }

    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        lock(&self.0).book.change(groups, now)
    }
}

impl SharedStore for Store {
    async fn life(&self, _: Now) -> Result<u64, StoreError> {
        self.reached(|place| place.life)
    }

    async fn merge(&self, report: &AwayReport, now: Now) -> Result<(), StoreError> {
        self.reached(|place| {
            place.told.push(report.clone());
            let is_known = |known: &AwayReport| {
                (known.node, known.life) == (report.node, report.life) && known.sequence >= report.sequence
            };
            if !place.booked.iter().any(is_known) {
                place.booked.push(report.clone());
                for admitted in &report.admitted {
                    let (home, scopes) = (report.home, &admitted.scopes);
                    let ask = QuotaAsk { home, scopes, cost: Cost::NOTHING, money: None, claim: None };
                    if let Ok(AdmitDecision::Granted { receipt, .. }) = drive(place.book.reserve(&ask, now)) {
                        let spent = Spent { cost: admitted.cost, ..Spent::default() };
                        drive(place.book.settle(receipt, spent, now)).unwrap();
                    }
                }
            }
            if std::mem::take(&mut place.loses_answer) {
                return Err(StoreError::away("test", "the answer was lost"));
            }
            Ok(())
        })?
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Standing>>>);

impl AwayObserver for Log {
    fn changed(&self, _: Standing, to: Standing, _: &str) {
        lock(&self.0).push(to);
    }
}

type Node = SharedQuotas<Store, Clock>;

fn node(store: &Store, clock: &Clock, number: u64, fleet_size: u32, limit: u32) -> (Node, Log) {
    let log = Log::default();
    let answer_within = Duration::from_millis(25);
    let options = AwayOptions { node: NodeId(number), answer_within, fleet_size, seed: 1 };
    let node = SharedQuotas::new(store.clone(), groups(limit), options, clock.clone(), Box::new(log.clone()));
    let node = node.unwrap();
    drive(node.tick(clock.now()));
    (node, log)
}

fn scope(caller: u64) -> [Scope; 1] {
    [Scope { group: GroupId::at(0), key: QuotaKey(caller) }]
}

fn reserve(
    node: &Node,
    clock: &Clock,
    caller: u64,
    money: Option<(u64, u64)>,
) -> AdmitDecision<<Node as Quotas>::Receipt> {
    let lasts = Duration::from_secs(30);
    let money = money.map(|(worst, cap)| MoneyAsk {
        caller,
        worst: Money::from_nanos(worst),
        cap: Money::from_nanos(cap),
        lasts,
    });
    let scopes = scope(caller);
    let ask = QuotaAsk { home: caller, scopes: &scopes, cost: Cost::REQUEST, money, claim: None };
    drive(node.reserve(&ask, clock.now())).unwrap()
}

fn is_granted(node: &Node, clock: &Clock, caller: u64) -> bool {
    matches!(reserve(node, clock, caller, None), AdmitDecision::Granted { .. })
}

fn left(store: &Store, clock: &Clock, caller: u64) -> u32 {
    drive(lock(&store.0).book.view(caller, &scope(caller), clock.now())).unwrap()[0].remaining
}

#[test]
fn without_the_store_a_node_admits_its_share_and_says_so_once() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, log) = node(&store, &clock, 1, 3, 100);
    store.set_away(true);
    let granted = (0..200).filter(|_| is_granted(&node, &clock, 1)).count();
    assert_eq!(granted, 34);
    assert_eq!(*lock(&log.0), [Standing::Away]);
    assert_eq!((node.counts().decided_alone, node.counts().changes), (200, 1));
    drive(node.tick(clock.now()));
    assert_eq!((node.standing(), node.waiting_to_merge()), (Standing::Away, 1));
    store.set_away(false);
    drive(node.tick(clock.now()));
    assert_eq!((node.standing(), node.waiting_to_merge(), node.counts().merged), (Standing::Here, 0, 1));
    assert_eq!(left(&store, &clock, 1), 66);
    assert_eq!(*lock(&log.0), [Standing::Away, Standing::Here]);
}

#[test]
fn what_the_store_granted_before_counts_for_the_share() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 10);
    // This is more than its share, which is possible because the other nodes were idle.
    assert_eq!((0..7).filter(|_| is_granted(&node, &clock, 1)).count(), 7);
    store.set_away(true);
    assert!(!is_granted(&node, &clock, 1));
    clock.pass(Duration::from_secs(62));
    assert!(is_granted(&node, &clock, 1));
}

#[test]
fn a_report_whose_answer_was_lost_is_sent_again_and_counts_once() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    store.set_away(true);
    for caller in 0..3 {
        assert!(is_granted(&node, &clock, caller));
    }
    store.set_away(false);
    lock(&store.0).loses_answer = true;
    drive(node.tick(clock.now()));
    assert_eq!(node.waiting_to_merge(), 3);
    drive(node.tick(clock.now()));
    assert_eq!(node.waiting_to_merge(), 0);
    let sequences: Vec<u64> = lock(&store.0).told.iter().map(|report| report.sequence).collect();
    assert_eq!(sequences, [1, 1, 2, 3]);
    assert_eq!([0, 1, 2].map(|caller| left(&store, &clock, caller)), [99; 3]);
}

#[test]
fn what_is_settled_before_it_is_told_is_told_as_it_was() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    store.set_away(true);
    let receipt = |caller| match reserve(&node, &clock, caller, Some((10, 100))) {
        AdmitDecision::Granted { receipt, .. } => receipt,
        other => panic!("{other:?}"),
    };
    let (early, late) = (receipt(1), receipt(2));
    let spent = Spent { cost: Cost { requests: 3, tokens: 0 }, money: Money::from_nanos(4), done: true };
    drive(node.settle(early, spent, clock.now())).unwrap();
    store.set_away(false);
    clock.pass(Duration::from_secs(5));
    drive(node.tick(clock.now()));
    let told = lock(&store.0).told.clone();
    assert_eq!((told[0].admitted[0].cost.requests, told[0].admitted[0].ago), (3, Duration::from_secs(5)));
    assert_eq!(told[0].admitted[0].money, Some((1, Money::from_nanos(4))));
    assert_eq!(told[1].admitted[0].money, Some((2, Money::from_nanos(10))));
    // It has been reported already: only what goes beyond is reported again.
    drive(node.settle(late, spent, clock.now())).unwrap();
    drive(node.tick(clock.now()));
    let more = lock(&store.0).told[2].clone();
    assert_eq!((more.admitted[0].cost.requests, more.admitted[0].money), (2, Some((2, Money::ZERO))));
}

#[test]
fn money_of_the_day_fails_to_the_cheap_side() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 4, 100);
    store.set_away(true);
    let granted = (0..20)
        .filter(|_| matches!(reserve(&node, &clock, 1, Some((10, 101))), AdmitDecision::Granted { .. }));
    // A quarter of 101, rounded up, is 26.
    assert_eq!(granted.count(), 2);
    let decision = reserve(&node, &clock, 1, Some((10, 101)));
    assert!(
        matches!(decision, AdmitDecision::DayShort(day) if day.free == Money::from_nanos(6)),
        "{decision:?}"
    );
}

#[test]
fn an_emptied_store_is_not_believed_alone_for_one_window() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, log) = node(&store, &clock, 1, 2, 10);
    assert_eq!((0..4).filter(|_| is_granted(&node, &clock, 1)).count(), 4);
    {
        let mut place = lock(&store.0);
        place.life = 2;
        place.book = MemoryQuotas::new(groups(10), 1).unwrap();
    }
    drive(node.tick(clock.now()));
    assert_eq!(node.standing(), Standing::Learning);
    assert_eq!((0..9).filter(|_| is_granted(&node, &clock, 1)).count(), 1, "five is its share");
    clock.pass(Duration::from_millis(60_999));
    drive(node.tick(clock.now()));
    assert_eq!(node.standing(), Standing::Learning);
    clock.pass(Duration::from_millis(1));
    drive(node.tick(clock.now()));
    assert_eq!(node.standing(), Standing::Here);
    assert_eq!((0..20).filter(|_| is_granted(&node, &clock, 1)).count(), 10);
    assert_eq!(*lock(&log.0), [Standing::Learning, Standing::Here]);
}

#[test]
fn a_request_larger_than_the_share_waits_and_one_larger_than_the_limit_never_fits() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 4, 10);
    store.set_away(true);
    let scopes = scope(1);
    let ask = |requests| {
        let cost = Cost { requests, tokens: 0 };
        let ask = QuotaAsk { home: 1, scopes: &scopes, cost, money: None, claim: None };
        drive(node.reserve(&ask, clock.now())).unwrap()
    };
    assert!(matches!(ask(10), AdmitDecision::RetryAfter(_)));
    assert!(matches!(ask(11), AdmitDecision::TooLarge { .. }));
    assert!(matches!(ask(3), AdmitDecision::Granted { .. }));
}

#[test]
fn more_homes_than_can_be_remembered_make_the_share_judge_on() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 10);
    store.set_away(true);
    let homes = crate::away::pending::MOST_HOMES as u64;
    for caller in 0..homes {
        assert!(is_granted(&node, &clock, caller));
    }
    assert_eq!(node.waiting_to_merge() as u64, homes);
    assert!(is_granted(&node, &clock, homes));
    assert_eq!(node.waiting_to_merge() as u64, homes);
    store.set_away(false);
    drive(node.tick(clock.now()));
    assert_eq!((node.standing(), node.waiting_to_merge()), (Standing::Learning, 0));
}

#[test]
fn another_size_of_the_fleet_holds_once_the_store_is_here() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    node.set_fleet_size(5);
    drive(node.tick(clock.now()));
    store.set_away(true);
    assert_eq!((0..100).filter(|_| is_granted(&node, &clock, 1)).count(), 20);
}

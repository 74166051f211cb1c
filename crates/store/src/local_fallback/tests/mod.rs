//! Tests with a store whose outages are scripted, on a manual clock.

mod windows;

use super::{
    FallbackReport, SharedQuotaStore, SharedQuotas, SharedQuotasOptions, SharedStoreState, StoreStateObserver,
};
use crate::memory::MemoryQuotas;
use crate::quotas::{
    AdmissionRequest, AdmitDecision, CallerBudgetRequest, CheckedLimits, Quotas, Settlement,
};
use crate::receipt::QuotaReceipt;
use crate::{StoreError, StoreFuture, lock};
use seawall_core::breaker::NodeId;
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, LimitView, Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits,
};
use seawall_core::random::Draw;
use seawall_core::runtime::{Runtime, Timer};
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

/// The state that all nodes share: quotas, whether the store is reachable, its incarnation, and the reports it has received.
struct SharedState {
    quotas: MemoryQuotas,
    unreachable: bool,
    incarnation: u64,
    /// The response to the next report is lost, though the report arrives.
    loses_answer: bool,
    reports: Vec<FallbackReport>,
    merged: Vec<FallbackReport>,
}

#[derive(Clone)]
struct Store(Arc<Mutex<SharedState>>);

fn groups(limit: u32) -> Vec<QuotaGroup> {
    let minute = Quota::sliding("minute", QuotaUnit::Request, limit, Duration::from_secs(60), 0).unwrap();
    vec![QuotaGroup::new("tier", vec![minute]).unwrap()]
}

impl Store {
    fn new(limit: u32) -> Self {
        let quotas = MemoryQuotas::new(groups(limit), 1).unwrap();
        let (reports, merged) = (Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(SharedState {
            quotas,
            unreachable: false,
            incarnation: 1,
            loses_answer: false,
            reports,
            merged,
        })))
    }

    fn set_unreachable(&self, unreachable: bool) {
        lock(&self.0).unreachable = unreachable;
    }

    fn reached<T>(&self, step: impl FnOnce(&mut SharedState) -> T) -> Result<T, StoreError> {
        let mut shared = lock(&self.0);
        if shared.unreachable {
            Err(StoreError::unavailable("test", "set to be unreachable"))
        } else {
            Ok(step(&mut shared))
        }
    }
}

impl Quotas for Store {
    fn reserve<'a>(&'a self, ask: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::run(|| self.reached(|shared| drive(shared.quotas.reserve(ask, now)))?)
    }

    fn settle(&self, reservation: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::run(|| self.reached(|shared| drive(shared.quotas.settle(reservation, spent, now)))?)
    }

    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::run(|| self.reached(|shared| drive(shared.quotas.view(partition, scopes, now)))?)
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        lock(&self.0).quotas.check_limits(groups)
    }

    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        lock(&self.0).quotas.change_limits(limits, now)
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        lock(&self.0).quotas.group(name)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        lock(&self.0).quotas.limit_name(limit)
    }
}

impl SharedQuotaStore for Store {
    fn incarnation(&self, _: Now) -> StoreFuture<'_, u64> {
        StoreFuture::run(|| self.reached(|shared| shared.incarnation))
    }

    fn merge<'a>(&'a self, report: &'a FallbackReport, now: Now) -> StoreFuture<'a, ()> {
        StoreFuture::run(|| {
            self.reached(|shared| {
                shared.reports.push(report.clone());
                let is_known = |known: &FallbackReport| {
                    (known.node, known.incarnation) == (report.node, report.incarnation)
                        && known.sequence >= report.sequence
                };
                if !shared.merged.iter().any(is_known) {
                    shared.merged.push(report.clone());
                    for admitted in &report.admitted {
                        let (partition, scopes) = (report.partition, &admitted.scopes);
                        let ask = AdmissionRequest {
                            partition,
                            scopes,
                            units: QuotaUnits::NOTHING,
                            money: None,
                            claim: None,
                        };
                        if let Ok(AdmitDecision::Granted { reservation, .. }) =
                            drive(shared.quotas.reserve(&ask, now))
                        {
                            let spent = Settlement { units: admitted.cost, ..Settlement::default() };
                            drive(shared.quotas.settle(reservation, spent, now)).unwrap();
                        }
                    }
                }
                if std::mem::take(&mut shared.loses_answer) {
                    return Err(StoreError::unavailable("test", "the answer was lost"));
                }
                Ok(())
            })?
        })
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<SharedStoreState>>>);

impl StoreStateObserver for Log {
    fn changed(&self, _: SharedStoreState, to: SharedStoreState, _: &str) {
        lock(&self.0).push(to);
    }
}

type Node = SharedQuotas<Store, Clock>;

fn node(store: &Store, clock: &Clock, number: u64, fleet_size: u32, limit: u32) -> (Node, Log) {
    let log = Log::default();
    let operation_timeout = Duration::from_millis(25);
    let options = SharedQuotasOptions { node: NodeId(number), operation_timeout, fleet_size, seed: 1 };
    let node = SharedQuotas::new(store.clone(), groups(limit), options, clock.clone(), Box::new(log.clone()));
    let node = node.unwrap();
    drive(node.tick(clock.now()));
    (node, log)
}

fn scope(caller: u64) -> [QuotaScope; 1] {
    [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) }]
}

fn reserve(node: &Node, clock: &Clock, caller: u64, money: Option<(u64, u64)>) -> AdmitDecision {
    let lasts = Duration::from_secs(30);
    let money = money.map(|(amount, cap)| CallerBudgetRequest {
        caller,
        max_cost: Money::from_nanos(amount),
        cap: Money::from_nanos(cap),
        timeout: lasts,
    });
    let scopes = scope(caller);
    let ask = AdmissionRequest {
        partition: caller,
        scopes: &scopes,
        units: QuotaUnits::REQUEST,
        money,
        claim: None,
    };
    drive(node.reserve(&ask, clock.now())).unwrap()
}

fn is_granted(node: &Node, clock: &Clock, caller: u64) -> bool {
    matches!(reserve(node, clock, caller, None), AdmitDecision::Granted { .. })
}

fn left(store: &Store, clock: &Clock, caller: u64) -> u32 {
    drive(lock(&store.0).quotas.view(caller, &scope(caller), clock.now())).unwrap()[0].remaining
}

#[test]
fn without_the_store_a_node_admits_its_share_and_says_so_once() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, log) = node(&store, &clock, 1, 3, 100);
    store.set_unreachable(true);
    let granted = (0..200).filter(|_| is_granted(&node, &clock, 1)).count();
    assert_eq!(granted, 34);
    assert_eq!(*lock(&log.0), [SharedStoreState::Unreachable]);
    assert_eq!((node.stats().local_decisions, node.stats().changes), (200, 1));
    drive(node.tick(clock.now()));
    assert_eq!((node.store_state(), node.pending_reports()), (SharedStoreState::Unreachable, 1));
    store.set_unreachable(false);
    drive(node.tick(clock.now()));
    assert_eq!(
        (node.store_state(), node.pending_reports(), node.stats().merged),
        (SharedStoreState::Reachable, 0, 1)
    );
    assert_eq!(left(&store, &clock, 1), 66);
    assert_eq!(*lock(&log.0), [SharedStoreState::Unreachable, SharedStoreState::Reachable]);
}

#[test]
fn what_the_store_granted_before_counts_for_the_share() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 10);
    // This is more than its share, which is possible because the other nodes were idle.
    assert_eq!((0..7).filter(|_| is_granted(&node, &clock, 1)).count(), 7);
    store.set_unreachable(true);
    assert!(!is_granted(&node, &clock, 1));
    clock.pass(Duration::from_secs(62));
    assert!(is_granted(&node, &clock, 1));
}

#[test]
fn a_report_whose_answer_was_lost_is_sent_again_and_counts_once() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    store.set_unreachable(true);
    for caller in 0..3 {
        assert!(is_granted(&node, &clock, caller));
    }
    store.set_unreachable(false);
    lock(&store.0).loses_answer = true;
    drive(node.tick(clock.now()));
    assert_eq!(node.pending_reports(), 3);
    drive(node.tick(clock.now()));
    assert_eq!(node.pending_reports(), 0);
    let sequences: Vec<u64> = lock(&store.0).reports.iter().map(|report| report.sequence).collect();
    assert_eq!(sequences, [1, 1, 2, 3]);
    assert_eq!([0, 1, 2].map(|caller| left(&store, &clock, caller)), [99; 3]);
}

#[test]
fn what_is_settled_before_it_is_reported_is_reported_as_settled() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    store.set_unreachable(true);
    let reservation = |caller| match reserve(&node, &clock, caller, Some((10, 100))) {
        AdmitDecision::Granted { reservation, .. } => reservation,
        other => panic!("{other:?}"),
    };
    let (early, late) = (reservation(1), reservation(2));
    let spent = Settlement {
        units: QuotaUnits { requests: 3, tokens: 0 },
        cost: Money::from_nanos(4),
        answered: true,
    };
    drive(node.settle(early, spent, clock.now())).unwrap();
    store.set_unreachable(false);
    clock.pass(Duration::from_secs(5));
    drive(node.tick(clock.now()));
    let reports = lock(&store.0).reports.clone();
    assert_eq!(
        (reports[0].admitted[0].cost.requests, reports[0].admitted[0].age),
        (3, Duration::from_secs(5))
    );
    assert_eq!(reports[0].admitted[0].money, Some((1, Money::from_nanos(4))));
    assert_eq!(reports[1].admitted[0].money, Some((2, Money::from_nanos(10))));
    // It has been reported already: only what goes beyond is reported again.
    drive(node.settle(late, spent, clock.now())).unwrap();
    drive(node.tick(clock.now()));
    let more = lock(&store.0).reports[2].clone();
    assert_eq!((more.admitted[0].cost.requests, more.admitted[0].money), (2, Some((2, Money::ZERO))));
}

#[test]
fn a_daily_budget_fails_to_the_cheap_side() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 4, 100);
    store.set_unreachable(true);
    let granted = (0..20)
        .filter(|_| matches!(reserve(&node, &clock, 1, Some((10, 101))), AdmitDecision::Granted { .. }));
    // A quarter of 101, rounded up, is 26.
    assert_eq!(granted.count(), 2);
    let decision = reserve(&node, &clock, 1, Some((10, 101)));
    assert!(
        matches!(decision, AdmitDecision::InsufficientBudget(day) if day.available == Money::from_nanos(6)),
        "{decision:?}"
    );
}

#[test]
fn an_emptied_store_does_not_decide_alone_for_one_window() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, log) = node(&store, &clock, 1, 2, 10);
    assert_eq!((0..4).filter(|_| is_granted(&node, &clock, 1)).count(), 4);
    {
        let mut shared = lock(&store.0);
        shared.incarnation = 2;
        shared.quotas = MemoryQuotas::new(groups(10), 1).unwrap();
    }
    drive(node.tick(clock.now()));
    assert_eq!(node.store_state(), SharedStoreState::Recovering);
    assert_eq!((0..9).filter(|_| is_granted(&node, &clock, 1)).count(), 1, "five is its share");
    clock.pass(Duration::from_millis(60_999));
    drive(node.tick(clock.now()));
    assert_eq!(node.store_state(), SharedStoreState::Recovering);
    clock.pass(Duration::from_millis(1));
    drive(node.tick(clock.now()));
    assert_eq!(node.store_state(), SharedStoreState::Reachable);
    assert_eq!((0..20).filter(|_| is_granted(&node, &clock, 1)).count(), 10);
    assert_eq!(*lock(&log.0), [SharedStoreState::Recovering, SharedStoreState::Reachable]);
}

#[test]
fn a_request_larger_than_the_share_waits_and_one_larger_than_the_limit_never_fits() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 4, 10);
    store.set_unreachable(true);
    let scopes = scope(1);
    let ask = |requests| {
        let cost = QuotaUnits { requests, tokens: 0 };
        let ask = AdmissionRequest { partition: 1, scopes: &scopes, units: cost, money: None, claim: None };
        drive(node.reserve(&ask, clock.now())).unwrap()
    };
    assert!(matches!(ask(10), AdmitDecision::RateLimited(_)));
    assert!(matches!(ask(11), AdmitDecision::TooLarge { .. }));
    assert!(matches!(ask(3), AdmitDecision::Granted { .. }));
}

#[test]
fn more_partitions_than_can_be_remembered_keep_the_share_in_force() {
    let (store, clock) = (Store::new(10), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 10);
    store.set_unreachable(true);
    let partitions = crate::local_fallback::pending::MAX_PARTITIONS as u64;
    for caller in 0..partitions {
        assert!(is_granted(&node, &clock, caller));
    }
    assert_eq!(node.pending_reports() as u64, partitions);
    assert!(is_granted(&node, &clock, partitions));
    assert_eq!(node.pending_reports() as u64, partitions);
    store.set_unreachable(false);
    drive(node.tick(clock.now()));
    assert_eq!((node.store_state(), node.pending_reports()), (SharedStoreState::Recovering, 0));
}

#[test]
fn another_fleet_size_takes_effect_once_the_store_is_reachable() {
    let (store, clock) = (Store::new(100), Clock::default());
    let (node, _) = node(&store, &clock, 1, 2, 100);
    node.set_fleet_size(5);
    drive(node.tick(clock.now()));
    store.set_unreachable(true);
    assert_eq!((0..100).filter(|_| is_granted(&node, &clock, 1)).count(), 20);
}

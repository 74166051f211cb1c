//! Read-only status of targets, limits and budgets for the admin API.

use crate::callers::{Caller, CallerIdentity};
use crate::dialect::Face;
use crate::event::EventSinks;
use crate::health::TargetHealthStatus;
use crate::pacing::PacingStatus;
use crate::pipeline::Pipeline;
use crate::target::GuardedTarget;
use seawall_core::breaker::BreakerPeek;
use seawall_core::budget::{BudgetAccount, BudgetName, BudgetOwner, BudgetPeriod, Correction};
use seawall_core::key_pool::KeyView;
use seawall_core::money::Money;
use seawall_core::pressure::Pressure;
use seawall_core::queue::QueueStats;
use seawall_core::quota::{LimitView, QuotaKey, QuotaScope};
use seawall_core::runtime::Runtime;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::{Grade, Level, Tier};
use seawall_store::{CorrectionError, NodeLedgerStats, StoreError};
use seawall_wire::RequestLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The status of one target.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// The target's name.
    pub name: Arc<str>,
    /// The provider's name of its model.
    pub model: Arc<str>,
    /// The model's grade.
    pub grade: Grade,
    /// The routes that use the target.
    pub routes: Vec<Arc<str>>,
    /// The breaker's current state.
    pub breaker: BreakerPeek,
    /// What is wrong with it, if anything.
    pub health: TargetHealthStatus,
    /// The state of each key; empty if there is only one.
    pub keys: Vec<KeyView>,
    /// The current pressure.
    pub pressure: Pressure,
    /// Calls that passed although the breaker was open, because the target was only slow and no other was available.
    pub panic_calls: u64,
    /// Pacing of a throttled target.
    pub pacing: PacingStatus,
    /// Calls in flight, the concurrency limit, and the peak.
    pub in_flight: (u32, u32, u32),
    /// The queue for concurrency slots.
    pub queue: QueueStats,
    /// Number of answers that have started, and the p50 and p95 of their time to first content.
    pub time_to_first_content: (u64, Option<Duration>, Option<Duration>),
    /// Calls that cost more than was reserved, and how long the target stays out of rotation because of them.
    pub overruns: (u64, Option<Duration>),
}

impl TargetStatus {
    fn of(target: &GuardedTarget, now: Timestamp) -> Self {
        let (breaker, panic_calls) =
            target.breaker.with(|breaker| (breaker.peek(now), breaker.panic_calls()));
        let (in_flight, time_to_first_content) = (&target.in_flight, &target.time_to_first_content);
        Self {
            name: Arc::clone(&target.name),
            model: Arc::clone(&target.model),
            grade: target.grade,
            routes: Vec::new(),
            pressure: target.pressure_now(breaker.phase, now),
            breaker,
            panic_calls,
            pacing: target.pacing_status(now),
            health: target.health.status(),
            keys: target.keys.as_ref().map(|keys| keys.views(now)).unwrap_or_default(),
            in_flight: (in_flight.in_flight(), in_flight.limit(), in_flight.peak()),
            queue: target.slot_queue.stats(now),
            time_to_first_content: (
                time_to_first_content.count(),
                time_to_first_content.quantile(0.5),
                time_to_first_content.quantile(0.95),
            ),
            overruns: (target.output.overruns(), target.output.suspended_for(now)),
        }
    }
}

/// One limit of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// The limit's name.
    pub limit: Box<str>,
    /// The limit's capacity and what remains of it.
    pub view: LimitView,
}

/// Budgets and spend of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaySpend {
    /// The day (UTC), counted from 1970.
    pub day: u64,
    /// The daily budget of all callers.
    pub cap: Money,
    /// Posted and held amounts of all callers.
    pub all: BudgetAccount,
    /// The budget of each tier with its posted and held amounts, in the order of [`Tier::ALL`].
    pub tiers: [(Money, BudgetAccount); 3],
    /// The daily budget per caller.
    pub caller_cap: Money,
    /// The amount by which calls cost more than was reserved; part of the posted amount.
    pub overrun: Money,
}

impl<R: Runtime> Pipeline<R> {
    /// The sinks of events.
    #[must_use]
    pub fn events(&self) -> &Arc<EventSinks> {
        &self.events
    }

    /// The degradation level.
    #[must_use]
    pub fn level(&self) -> Level {
        self.posture.load().level
    }

    /// Error counters of the ledger.
    #[must_use]
    pub fn ledger_stats(&self) -> NodeLedgerStats {
        self.ledger.stats()
    }

    /// Why the journal cannot be written, while it cannot.
    #[must_use]
    pub fn journal_error(&self) -> Option<StoreError> {
        self.ledger.journal_error()
    }

    /// Today's budgets and spend.
    #[must_use]
    pub fn spend(&self) -> DaySpend {
        let (day, limits) = (self.runtime.now().utc.day(), self.ledger.limits());
        DaySpend {
            day,
            cap: limits.day_cap(day),
            all: self.ledger.day(day),
            tiers: Tier::ALL.map(|tier| (self.ledger.tier_cap(day, tier), self.ledger.tier(day, tier))),
            caller_cap: limits.caller_cap(),
            overrun: self.ledger.overrun(day),
        }
    }

    /// Replaces a posted amount with the actual cost, as determined by an operator.
    pub fn correct_posting(&self, correction: &Correction) -> Result<(), CorrectionError> {
        self.ledger.correct(correction)
    }

    /// The status of every target, ordered by name.
    #[must_use]
    pub fn targets(&self) -> Vec<TargetStatus> {
        let (rules, now) = (self.rules.load(), self.runtime.monotonic());
        let mut all: BTreeMap<Arc<str>, TargetStatus> = BTreeMap::new();
        for route in rules.routes.values() {
            for target in &route.targets {
                let status = all.entry(Arc::clone(&target.name));
                let status = status.or_insert_with(|| TargetStatus::of(target, now));
                status.routes.push(Arc::clone(&route.alias));
            }
        }
        all.into_values().collect()
    }

    /// The routes that this caller may use at this face.
    #[must_use]
    pub fn routes(&self, face: Face, caller: &Caller) -> Vec<Arc<str>> {
        let rules = self.rules.load();
        let routes = rules.routes.values().filter(|route| route.is_open_at(face, caller.is_guest()));
        let routes = routes.filter(|route| caller.may_use(&route.alias));
        routes.map(|route| Arc::clone(&route.alias)).collect()
    }

    /// The provider's name of the model that this caller's requests to a route try first; `None` if the caller may not
    /// use the route at this face.
    #[must_use]
    pub fn first_model(&self, face: Face, caller: &Caller, name: &str) -> Option<Arc<str>> {
        let rules = self.rules.load();
        let route = rules.routes.find(name).filter(|route| route.is_open_at(face, caller.is_guest()))?;
        let may_use = caller.may_use(name) || caller.may_use(&route.alias);
        let target = route.targets.first().filter(|_| may_use)?;
        Some(Arc::clone(&target.model))
    }

    /// Whether faces should read the session that a caller names, because a route sends requests of the same session to the
    /// same target.
    #[must_use]
    pub fn reads_sessions(&self) -> bool {
        self.reads_sessions.load(Ordering::Relaxed)
    }

    /// Whether any route admits guests at this face.
    #[must_use]
    pub fn admits_guests(&self, face: Face) -> bool {
        self.rules.load().routes.values().any(|route| route.is_open_at(face, true))
    }

    /// Identifies a caller, if its credential is known and valid.
    pub async fn caller(&self, identity: &CallerIdentity) -> Option<Caller> {
        let callers = Arc::clone(&self.rules.load().callers);
        let found = callers.find(&self.runtime, identity).await;
        found.and_then(|caller| caller.check_expiry(self.runtime.now().utc)).ok()
    }

    /// Drops the cached lookup of a credential that was revoked.
    pub fn invalidate_caller(&self, hash: &[u8; 32]) {
        self.rules.load().callers.invalidate(hash);
    }

    /// Gives access to the size limits of requests.
    pub fn with_request_limits<T>(&self, look: impl FnOnce(&RequestLimits) -> T) -> T {
        look(&self.rules.load().request)
    }

    /// What remains of the limits of a caller of this tier.
    pub async fn limits_of(&self, caller: u64, tier: Tier) -> Vec<LimitStatus> {
        let Some(group) = self.rules.load().groups.of_tier(tier) else { return Vec::new() };
        let scopes = [QuotaScope { group, key: QuotaKey(caller) }];
        let views = self.quotas.view(caller, &scopes, self.runtime.now()).await;
        let named =
            |view: LimitView| LimitStatus { limit: self.quotas.name(view.limit).unwrap_or_default(), view };
        views.into_iter().map(named).collect()
    }

    /// Today's posted and held amounts of a caller.
    #[must_use]
    pub fn caller_spend(&self, caller: u64) -> BudgetAccount {
        self.ledger.caller(self.runtime.now().utc.day(), caller)
    }

    /// What is posted and held in the present window of a budget, and when the next window begins. `id` is the number of its
    /// owner; see [`BudgetLedger::window`](seawall_core::budget::BudgetLedger::window).
    #[must_use]
    pub fn window_spend(
        &self,
        owner: BudgetOwner,
        id: u64,
        period: BudgetPeriod,
    ) -> (BudgetAccount, UtcTime) {
        let (offset, now) = (self.rules.load().budgets.offset, self.runtime.now().utc);
        let hour = offset.hour(now);
        let account = self.ledger.window(BudgetName { owner, period }, id, hour);
        (account, offset.start(period.window(hour).end))
    }

    /// Lets the durable ledger learn of all calls that have ended, in the background.
    pub fn checkpoint_ledger(&self) -> Result<(), StoreError> {
        self.ledger.checkpoint()
    }

    /// Today's posted and held amounts of each tier, in the order of [`Tier::ALL`].
    #[must_use]
    pub fn tier_spend(&self) -> [BudgetAccount; 3] {
        let day = self.runtime.now().utc.day();
        Tier::ALL.map(|tier| self.ledger.tier(day, tier))
    }
}

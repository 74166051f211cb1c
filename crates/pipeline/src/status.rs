//! How things stand, for who operates the gateway. Looking changes nothing.

use crate::callers::{Caller, Proven};
use crate::credential::CredentialStatus;
use crate::pacing::PacingStatus;
use crate::path::Path;
use crate::speech::Face;
use crate::target::GuardedTarget;
use seawall_core::breaker::BreakerPeek;
use seawall_core::budget::Account;
use seawall_core::handle::Runtime;
use seawall_core::money::Money;
use seawall_core::pressure::Pressure;
use seawall_core::queue::QueueStats;
use seawall_core::quota::{LimitView, QuotaKey, Scope};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{Grade, Level, Tier};
use seawall_store::{BooksStats, CorrectError, StoreError};
use seawall_wire::RequestLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How one target stands.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Its name.
    pub name: Arc<str>,
    /// What the provider calls its model.
    pub model: Arc<str>,
    /// How strong it is.
    pub grade: Grade,
    /// The routes that lead there.
    pub routes: Vec<Arc<str>>,
    /// How its breaker would answer now.
    pub breaker: BreakerPeek,
    /// Whether its vendor accepts our key.
    pub credential: CredentialStatus,
    /// How hard it struggles.
    pub pressure: Pressure,
    /// Calls that passed its breaker although it blocked, because it was only slow and no other could be asked.
    pub panic_calls: u64,
    /// How it is held back.
    pub pacing: PacingStatus,
    /// Calls under way, how many may be, and the most that ever were.
    pub in_flight: (u32, u32, u32),
    /// Who waits for a place.
    pub queue: QueueStats,
    /// Answers that have begun, and how long half of them and 95 in 100 took at most to do so.
    pub starts: (u64, Option<Duration>, Option<Duration>),
    /// Calls that cost more than was reserved for them, and for how long the target is set aside because of them.
    pub overruns: (u64, Option<Duration>),
}

impl TargetStatus {
    fn of(target: &GuardedTarget, now: Timestamp) -> Self {
        let (breaker, panic_calls) =
            target.breaker.with(|breaker| (breaker.peek(now), breaker.panic_calls()));
        let (in_flight, starts) = (&target.in_flight, &target.starts);
        Self {
            name: Arc::clone(&target.name),
            model: Arc::clone(&target.model),
            grade: target.grade,
            routes: Vec::new(),
            pressure: target.pressure_now(breaker.phase, now),
            breaker,
            panic_calls,
            pacing: target.pacing_status(now),
            credential: target.credential.status(),
            in_flight: (in_flight.in_flight(), in_flight.limit(), in_flight.peak()),
            queue: target.line.stats(now),
            starts: (starts.count(), starts.quantile(0.5), starts.quantile(0.95)),
            overruns: (target.output.overruns(), target.output.set_aside(now)),
        }
    }
}

/// One limit of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// Its name.
    pub limit: Box<str>,
    /// The most it ever admits at once, and what is left of that.
    pub view: LimitView,
}

/// How a day's money stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaySpend {
    /// Which day (UTC), counted from 1970.
    pub day: u64,
    /// What all may spend.
    pub cap: Money,
    /// What all have spent and hold.
    pub all: Account,
    /// What each tier may spend, and what it has spent and holds, in the order of [`Tier::ALL`].
    pub tiers: [(Money, Account); 3],
    /// What one caller may spend.
    pub caller_cap: Money,
    /// What calls have cost beyond what was reserved for them; part of what is posted.
    pub overrun: Money,
}

impl<R: Runtime> Path<R> {
    /// How far the shop has stepped down.
    #[must_use]
    pub fn level(&self) -> Level {
        self.rules.load().posture.level
    }

    /// What went wrong with the books so far.
    #[must_use]
    pub fn books_stats(&self) -> BooksStats {
        self.books.stats()
    }

    /// Why the journal cannot be written, while it cannot.
    #[must_use]
    pub fn journal_error(&self) -> Option<StoreError> {
        self.books.journal_error()
    }

    /// How the day's money stands.
    #[must_use]
    pub fn spend(&self) -> DaySpend {
        let (day, limits) = (self.runtime.now().utc.day(), self.books.limits());
        DaySpend {
            day,
            cap: limits.day_cap(day),
            all: self.books.day(day),
            tiers: Tier::ALL.map(|tier| (self.books.tier_cap(day, tier), self.books.tier(day, tier))),
            caller_cap: limits.caller_cap(),
            overrun: self.books.overrun(day),
        }
    }

    /// An operator has found out what a call cost: `cost` takes the place of the `charged` that was posted for it.
    pub fn correct_posting(
        &self,
        day: u64,
        caller: u64,
        tier: Tier,
        charged: Money,
        cost: Money,
    ) -> Result<(), CorrectError> {
        self.books.correct(day, caller, tier, charged, cost)
    }

    /// How every target stands, by name.
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

    /// The names that this caller may use at this face.
    #[must_use]
    pub fn routes(&self, face: Face, caller: &Caller) -> Vec<Arc<str>> {
        let rules = self.rules.load();
        let routes = rules.routes.values().filter(|route| route.is_open_at(face, caller.is_guest()));
        let routes = routes.filter(|route| caller.may_use(&route.alias));
        routes.map(|route| Arc::clone(&route.alias)).collect()
    }

    /// Whether any route admits guests at this face.
    #[must_use]
    pub fn admits_guests(&self, face: Face) -> bool {
        self.rules.load().routes.values().any(|route| route.is_open_at(face, true))
    }

    /// Who is known by this proof, if anybody is.
    pub async fn caller(&self, proven: &Proven) -> Option<Caller> {
        let callers = Arc::clone(&self.rules.load().callers);
        callers.find(&self.runtime, proven).await.ok()
    }

    /// A credential was revoked: whoever shows it is looked up anew.
    pub fn forget_caller(&self, hash: &[u8; 32]) {
        self.rules.load().callers.forget(hash);
    }

    /// How large a request may be.
    pub fn with_request_limits<T>(&self, look: impl FnOnce(&RequestLimits) -> T) -> T {
        look(&self.rules.load().request)
    }

    /// What is left of the limits of a caller of this tier.
    pub async fn limits_of(&self, caller: u64, tier: Tier) -> Vec<LimitStatus> {
        let group = self.rules.load().groups.of(tier);
        let scopes = [Scope { group, key: QuotaKey(caller) }];
        let views = self.limits.view(caller, &scopes, self.runtime.now()).await;
        let named =
            |view: LimitView| LimitStatus { limit: self.limits.name(view.limit).unwrap_or_default(), view };
        views.into_iter().map(named).collect()
    }

    /// What a caller has spent today and holds.
    #[must_use]
    pub fn caller_day(&self, caller: u64) -> Account {
        self.books.caller(self.runtime.now().utc.day(), caller)
    }

    /// What each tier has spent today and holds, in the order of [`Tier::ALL`].
    #[must_use]
    pub fn tier_days(&self) -> [Account; 3] {
        let day = self.runtime.now().utc.day();
        Tier::ALL.map(|tier| self.books.tier(day, tier))
    }
}

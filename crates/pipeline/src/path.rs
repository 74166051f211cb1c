//! The whole way of a request.

use crate::admit::admit;
use crate::answer::{Answered, Content, answer};
use crate::identify::identify;
use crate::plan::plan;
use crate::receive::{InboundRequest, receive};
use crate::relay::{Patience, ReplyStream};
use crate::reply::Reply;
use crate::rules::{ArrivalLimits, RuleOptions, Rules};
use crate::settle::{Closing, Observer, Verdict};
use crate::target::GuardedTarget;
use arc_swap::ArcSwap;
use seawall_core::handle::Runtime;
use seawall_core::money::Money;
use seawall_core::quota::{LimitChange, QuotaBook};
use seawall_core::retry::RetryCounters;
use seawall_core::setting::SettingError;
use seawall_store::{DayBooks, MemoryLedger};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a path is made of.
pub struct PathOptions {
    /// What may change while requests are under way.
    pub rules: RuleOptions,
    /// The day's money.
    pub ledger: MemoryLedger,
    /// Who is told of every request that is over.
    pub observer: Arc<dyn Observer>,
    /// Spreads callers over shards.
    pub seed: u64,
}

/// What all requests share on their way.
pub struct Path<R> {
    pub(crate) runtime: R,
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) book: QuotaBook,
    pub(crate) ledger: MemoryLedger,
    pub(crate) counters: RetryCounters,
    pub(crate) observer: Arc<dyn Observer>,
}

impl<R: Runtime> Path<R> {
    /// Refuses settings that make no sense.
    pub fn new(runtime: R, options: PathOptions) -> Result<Self, SettingError> {
        let PathOptions { rules, ledger, observer, seed } = options;
        rules.check()?;
        let book = QuotaBook::new(rules.groups(), seed)?;
        Ok(Self {
            runtime,
            rules: ArcSwap::from_pointee(Rules::new(rules, &book)?),
            book,
            ledger,
            counters: RetryCounters::new(),
            observer,
        })
    }

    /// Other rules from now on. Requests under way end by the rules they came in under; what was counted stays counted.
    /// Refuses rules that make no sense, and changes nothing then. Returns what became of every limit's counts.
    pub fn change(&self, options: RuleOptions) -> Result<Vec<LimitChange>, SettingError> {
        options.check()?;
        let changes = self.book.change(options.groups(), self.runtime.now())?;
        self.rules.store(Arc::new(Rules::new(options, &self.book)?));
        Ok(changes)
    }

    /// How large a request may be now, and how long it may take to arrive.
    #[must_use]
    pub fn arrival(&self) -> (usize, ArrivalLimits) {
        let rules = self.rules.load();
        (rules.request.body, rules.arrival)
    }

    /// Another cap on the day's money; what was spent stays spent.
    pub fn set_budget(&self, cap: Money) {
        self.ledger.set_cap(cap);
    }

    /// The targets of all routes, each once, in the order of their names.
    #[must_use]
    pub fn targets(&self) -> Vec<Arc<GuardedTarget>> {
        let rules = self.rules.load();
        let all = rules.routes.values().flat_map(|route| route.targets.iter());
        let by_name: BTreeMap<&str, &Arc<GuardedTarget>> =
            all.map(|target| (target.name(), target)).collect();
        by_name.into_values().cloned().collect()
    }

    /// The books of the day.
    #[must_use]
    pub fn books(&self) -> DayBooks {
        self.ledger.day(self.runtime.now().utc)
    }

    /// What all tries came to.
    #[must_use]
    pub fn retry_counters(&self) -> &RetryCounters {
        &self.counters
    }

    /// The whole way, from the bytes that came in to the reply. A stream's reply goes on settling itself when it is
    /// read to its end or dropped.
    pub async fn serve(&self, inbound: InboundRequest) -> Reply<R> {
        let mut closing = Closing::new(&self.runtime, &self.observer, inbound.id);
        let admitted = receive(self, inbound).and_then(identify).and_then(|identified| {
            closing.record.caller = Some((identified.caller.id, identified.caller.tier));
            admit(self, identified)
        });
        let answered = match admitted.and_then(plan) {
            Ok(planned) => answer(self, planned, &closing.tally).await,
            Err(rejection) => Err(rejection),
        };
        match answered {
            Ok(answered) => self.reply(closing, answered),
            Err(rejection) => {
                closing.record.verdict = Verdict::Rejected(rejection.label());
                Reply::Rejected(rejection)
            }
        }
    }

    fn reply(&self, mut closing: Closing<R>, answered: Answered<R>) -> Reply<R> {
        let Answered { planned, attempt, content } = answered;
        let received = planned.request.received.monotonic;
        closing.record.target = Some(attempt.target.name.clone());
        closing.record.first_content = attempt.first_content().map(|first| first - received);
        match content {
            Content::Whole(body) => {
                closing.record.verdict = Verdict::Answered;
                closing.record.usage = attempt.usage;
                Reply::Whole(body)
            }
            Content::Begun(begun) => {
                let patience = Patience {
                    deadline: planned.request.deadline,
                    gap: planned.request.rules.time.stream_gap,
                };
                Reply::Stream(Box::new(ReplyStream::new(&self.runtime, *begun, attempt, patience, closing)))
            }
        }
    }
}

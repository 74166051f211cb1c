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
use arc_swap::ArcSwap;
use seawall_core::budget::{Account, BudgetLimits};
use seawall_core::handle::Runtime;
use seawall_core::history::{TokenLimits, TokenLimitsOptions};
use seawall_core::quota::{LimitChange, QuotaBook};
use seawall_core::retry::RetryCounters;
use seawall_core::setting::SettingError;
use seawall_store::Books;
use std::sync::Arc;

/// What a path is made of.
pub struct PathOptions {
    /// What may change while requests are under way.
    pub rules: RuleOptions,
    /// The day's money.
    pub books: Books,
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
    pub(crate) books: Books,
    pub(crate) token_limits: TokenLimits,
    pub(crate) counters: RetryCounters,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Who speaks to a model through us as if we were not there has no limit of tokens but the model's own window, which its
/// vendor knows best.
const fn no_limits() -> TokenLimitsOptions {
    let most = u64::MAX;
    TokenLimitsOptions { request_input: most, request_output: most / 2, window: most, overhead: 0, safety: 0 }
}

impl<R: Runtime> Path<R> {
    /// Refuses settings that make no sense.
    pub fn new(runtime: R, options: PathOptions) -> Result<Self, SettingError> {
        let PathOptions { rules, books, observer, seed } = options;
        rules.check()?;
        let book = QuotaBook::new(rules.groups(), seed)?;
        Ok(Self {
            runtime,
            rules: ArcSwap::from_pointee(Rules::new(rules, &book)?),
            book,
            books,
            token_limits: no_limits().check()?,
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

    /// Other budgets from now on; what was spent stays spent.
    pub fn set_budget(&self, limits: BudgetLimits) {
        self.books.set_limits(limits);
    }

    /// What has been spent today and what calls under way may still cost.
    #[must_use]
    pub fn day(&self) -> Account {
        self.books.day(self.runtime.now().utc.day())
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

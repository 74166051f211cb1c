//! The whole way of a request.

use crate::admit::admit;
use crate::answer::{Answered, Content, answer};
use crate::identify::{Directory, identify};
use crate::plan::{Route, plan};
use crate::receive::{InboundRequest, receive};
use crate::relay::{Patience, ReplyStream};
use crate::reply::Reply;
use crate::settle::{Closing, Observer, Verdict};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::{TimeLimitOptions, TimeLimits};
use seawall_core::handle::Runtime;
use seawall_core::quota::{GroupId, QuotaBook, QuotaGroup};
use seawall_core::retry::{RetryCounters, RetryOptions, RetryPolicy};
use seawall_core::setting::SettingError;
use seawall_core::vocabulary::Tier;
use seawall_store::{DayBooks, DayLedger};
use seawall_wire::RequestLimits;
use std::sync::Arc;
use std::time::Duration;

/// What a path is made of.
pub struct PathOptions {
    /// Who may ask.
    pub directory: Directory,
    /// The limits of each tier's callers, in the order of [`Tier::ALL`].
    pub tiers: [QuotaGroup; 3],
    /// The limits of everybody together.
    pub everybody: QuotaGroup,
    /// The day's money.
    pub ledger: DayLedger,
    /// The name callers use, and the targets behind it.
    pub route: Route,
    /// How to retry.
    pub retry: RetryOptions,
    /// How much retrying the node may add.
    pub retry_budget: RetryBudgetOptions,
    /// A stream's first content must come within this.
    pub start_limit: Duration,
    /// Who is told of every request that is over.
    pub observer: Arc<dyn Observer>,
    /// Spreads callers over shards.
    pub seed: u64,
}

/// The groups of the quota book.
pub(crate) struct Groups {
    tiers: [GroupId; 3],
    pub(crate) everybody: GroupId,
}

impl Groups {
    pub(crate) fn of(&self, tier: Tier) -> GroupId {
        match tier {
            Tier::Prime => self.tiers[0],
            Tier::Standard => self.tiers[1],
            Tier::Guest => self.tiers[2],
        }
    }
}

/// What all requests share on their way.
pub struct Path<R> {
    pub(crate) runtime: R,
    pub(crate) directory: Directory,
    pub(crate) book: QuotaBook,
    pub(crate) groups: Groups,
    pub(crate) ledger: DayLedger,
    pub(crate) route: Route,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: RetryBudget,
    pub(crate) counters: RetryCounters,
    pub(crate) limits: TimeLimits,
    pub(crate) request_limits: RequestLimits,
    pub(crate) start_limit: Duration,
    pub(crate) observer: Arc<dyn Observer>,
}

impl<R: Runtime> Path<R> {
    /// Refuses settings that make no sense.
    pub fn new(runtime: R, options: PathOptions) -> Result<Self, SettingError> {
        let PathOptions {
            directory,
            tiers,
            everybody,
            ledger,
            route,
            retry,
            retry_budget,
            start_limit,
            observer,
            seed,
        } = options;
        let [prime, standard, guest] = tiers;
        let names = [prime.name(), standard.name(), guest.name(), everybody.name()].map(str::to_owned);
        let book = QuotaBook::new(vec![prime, standard, guest, everybody], seed)?;
        let group = |name: &str| {
            book.group(name).ok_or_else(|| SettingError::new("groups", format!("{name} is missing")))
        };
        let groups = Groups {
            tiers: [group(&names[0])?, group(&names[1])?, group(&names[2])?],
            everybody: group(&names[3])?,
        };
        let limits = TimeLimitOptions::default().check();
        let limits =
            limits.map_err(|_| SettingError::new("limits", "the default time limits do not nest"))?;
        Ok(Self {
            runtime,
            directory,
            book,
            groups,
            ledger,
            route,
            retry: retry.check()?,
            retry_budget: RetryBudget::new(retry_budget)?,
            counters: RetryCounters::new(),
            limits,
            request_limits: RequestLimits::default(),
            start_limit,
            observer,
        })
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
        let admitted =
            receive(self, inbound).and_then(|received| identify(self, received)).and_then(|identified| {
                closing.record.caller = Some((identified.caller.id, identified.caller.tier));
                admit(self, identified)
            });
        let answered = match admitted.and_then(|admitted| plan(self, admitted)) {
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
                let patience = Patience { deadline: planned.request.deadline, gap: self.limits.stream_gap };
                Reply::Stream(Box::new(ReplyStream::new(&self.runtime, *begun, attempt, patience, closing)))
            }
        }
    }
}

//! The pipeline: all stages of a request.

use crate::admit::admit;
use crate::answer::{Answered, Begun, Content, Said, Telling, answer, answer_chat};
use crate::attempt::Attempt;
use crate::chat::apology;
use crate::guardrail::check_texts;
use crate::identify::identify;
use crate::limits::Limits;
use crate::plan::{PlannedRequest, plan};
use crate::prepared::{may_replace, spoken};
use crate::receive::{InboundRequest, receive};
use crate::relay::{Patience, ReplyStream};
use crate::reply::{Notes, Rejection, Reply, ReplyContent};
use crate::rules::{ArrivalLimits, RuleOptions, Rules};
use crate::settle::{Closing, Observer, Verdict};
use crate::speech::{Face, WholeAnswer};
use arc_swap::ArcSwap;
use seawall_core::budget::{Account, BudgetLimits};
use seawall_core::handle::Runtime;
use seawall_core::history::{TokenLimits, TokenLimitsOptions};
use seawall_core::quota::LimitChange;
use seawall_core::retry::RetryCounters;
use seawall_core::setting::SettingError;
use seawall_core::strategy::Language;
use seawall_core::vocabulary::Rung;
use seawall_store::Books;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Parts of a [`Path`].
pub struct PathOptions {
    /// The configuration that can be reloaded while requests are in progress.
    pub rules: RuleOptions,
    /// The quota store. It must contain the limits of the rules.
    pub limits: Limits,
    /// The ledger of the daily budgets.
    pub books: Books,
    /// Receives a record of every completed request.
    pub observer: Arc<dyn Observer>,
}

/// The state that all requests share.
pub struct Path<R> {
    pub(crate) runtime: R,
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) books: Books,
    /// Whether the ledger journals the counts of limits and idempotency keys.
    pub(crate) keeps_counts: bool,
    pub(crate) token_limits: TokenLimits,
    pub(crate) counters: RetryCounters,
    pub(crate) observer: Arc<dyn Observer>,
}

/// No limits: a pass-through request is bounded only by the model's context window, which its vendor enforces.
const fn no_limits() -> TokenLimitsOptions {
    let most = u64::MAX;
    TokenLimitsOptions { request_input: most, request_output: most / 2, window: most, overhead: 0, safety: 0 }
}

impl<R: Runtime> Path<R> {
    /// Validates the rules; the error names the invalid setting.
    pub fn new(runtime: R, options: PathOptions) -> Result<Self, SettingError> {
        let PathOptions { rules, limits, books, observer } = options;
        rules.check()?;
        Ok(Self {
            runtime,
            rules: ArcSwap::from_pointee(Rules::new(rules, &limits)?),
            limits: Arc::new(limits),
            keeps_counts: books.keeps_counts(),
            books,
            token_limits: no_limits().check()?,
            counters: RetryCounters::new(),
            observer,
        })
    }

    /// Replaces the rules. Requests in progress finish under the rules they started with, and counts are kept. On
    /// invalid rules nothing changes. Returns how each limit's counts were carried over.
    pub fn change(&self, options: RuleOptions) -> Result<Vec<LimitChange>, SettingError> {
        options.check()?;
        let changes = self.limits.change(options.limits.groups(), self.runtime.now())?;
        self.rules.store(Arc::new(Rules::new(options, &self.limits)?));
        Ok(changes)
    }

    /// The current maximum body size, and the timeouts for receiving a request.
    #[must_use]
    pub fn arrival(&self) -> (usize, ArrivalLimits) {
        let rules = self.rules.load();
        (rules.request.body, rules.arrival)
    }

    /// The default language of the chat face; English where no chat face is configured.
    #[must_use]
    pub fn chat_language(&self) -> Language {
        self.rules.load().chat.as_ref().map_or(Language::English, |chat| chat.language)
    }

    /// The quota store.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Replaces the budget limits; the amounts spent are kept.
    pub fn set_budget(&self, limits: BudgetLimits) {
        self.books.set_limits(limits);
    }

    /// Today's account: posted spend and open holds.
    #[must_use]
    pub fn day(&self) -> Account {
        self.books.day(self.runtime.now().utc.day())
    }

    /// Counters of attempts and retries.
    #[must_use]
    pub fn retry_counters(&self) -> &RetryCounters {
        &self.counters
    }

    /// Records a request that a face rejects before it enters the pipeline.
    pub fn refuse(&self, id: u64, face: Face, rejection: Rejection) -> Reply<R> {
        let closing = Closing::new(&self.runtime, &self.observer, id, face.name());
        rejected(closing, rejection)
    }

    /// Runs all stages, from the received bytes to the reply. A streamed reply settles when it is read to its end or
    /// dropped.
    pub async fn serve(&self, inbound: InboundRequest) -> Reply<R> {
        self.serve_until(inbound, pending()).await
    }

    /// Like [`serve`](Self::serve), but `cut` (shutdown) may resolve before the reply is ready. The work is then
    /// dropped, which settles it, and the caller receives a rejection saying that the gateway is shutting down.
    pub async fn serve_until(&self, inbound: InboundRequest, cut: impl Future<Output = ()>) -> Reply<R> {
        let mut closing =
            Closing::new(&self.runtime, &self.observer, inbound.id, inbound.arriving.face().name());
        let worked = {
            let (mut work, mut cut) = (pin!(self.work(inbound, &mut closing)), pin!(cut));
            poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(worked) => Poll::Ready(worked),
                Poll::Pending => cut.as_mut().poll(context).map(|()| Err(Rejection::Stopping)),
            })
            .await
        };
        let (planned, found) = match worked {
            Ok(worked) => worked,
            Err(rejection) => return rejected(closing, rejection),
        };
        match found {
            Found::Said(said) => {
                let is_stream = planned.request.chat.as_ref().is_some_and(|question| question.ask.stream);
                self.reply_chat(closing, &planned, said, is_stream)
            }
            Found::Answered(answered) => self.reply(closing, &planned, *answered),
            Found::Nothing(rejection) if planned.route.falls_back && may_replace(&rejection) => {
                self.reply_prepared(closing, &planned, rejection)
            }
            Found::Nothing(rejection) => rejected(closing, rejection),
        }
    }

    /// Runs everything up to the start of the reply.
    async fn work(
        &self,
        inbound: InboundRequest,
        closing: &mut Closing<R>,
    ) -> Result<(PlannedRequest, Found<R>), Rejection> {
        let planned = self.planned(inbound, closing).await?;
        let chat = (&planned.request.chat, &planned.request.rules.chat);
        let found = if let (Some(question), Some(rules)) = chat {
            // The less common branch is boxed: a large future is copied more than once on every request.
            Found::Said(Box::pin(answer_chat(self, &planned, question, rules, &closing.tally)).await)
        } else {
            match answer(self, &planned, &closing.tally).await {
                Ok(answered) => Found::Answered(Box::new(answered)),
                Err(rejection) => Found::Nothing(rejection),
            }
        };
        Ok((planned, found))
    }

    /// Answers with an apology if the route prefers one over an error.
    fn reply_prepared(
        &self,
        mut closing: Closing<R>,
        planned: &PlannedRequest,
        rejection: Rejection,
    ) -> Reply<R> {
        let language = planned.request.rules.chat.as_ref().map_or(Language::English, |chat| chat.language);
        let words = apology(language, self.runtime.draw());
        let Some(content) = spoken(planned, words) else { return rejected(closing, rejection) };
        closing.record.verdict = Verdict::Answered;
        let mut notes = self.begin(&mut closing, planned, Rung::Apology, None);
        notes.cost = Some(closing.tally.cost());
        Reply { content, notes }
    }

    async fn planned(
        &self,
        inbound: InboundRequest,
        closing: &mut Closing<R>,
    ) -> Result<PlannedRequest, Rejection> {
        let received = receive(self, inbound)?;
        closing.language = received.chat.as_ref().map(|question| question.ask.language());
        let identified = identify(self, received).await?;
        let caller = &identified.caller;
        closing.record.caller = Some((caller.id, caller.tier, caller.origin));
        let planned = plan(admit(self, identified, closing).await?)?;
        check_texts(&planned)?;
        Ok(planned)
    }

    /// Records what is known when the answer starts, and builds the response notes.
    fn begin(
        &self,
        closing: &mut Closing<R>,
        planned: &PlannedRequest,
        rung: Rung,
        attempt: Option<&Attempt<R>>,
    ) -> Notes {
        let begun = attempt.and_then(Attempt::first_content);
        let record = &mut closing.record;
        record.rung = Some(rung);
        record.target = attempt.map(|attempt| Arc::clone(&attempt.target.name));
        record.first_content = begun.map(|first| first - planned.request.received.monotonic);
        closing.note_overhead(begun.unwrap_or_else(|| self.runtime.monotonic()));
        let mut notes = notes(closing);
        notes.max_tokens = attempt.and_then(Attempt::added_limit);
        notes.level = Some(planned.request.rules.posture.level);
        notes.tightest = closing.tightest.map(|view| (view, planned.request.rules.groups.name(view.limit)));
        notes.policy = Some(planned.request.rules.policy(planned.caller.tier));
        notes
    }

    fn stream(
        &self,
        closing: Closing<R>,
        planned: &PlannedRequest,
        begun: Begun,
        attempt: Box<Attempt<R>>,
        telling: Option<Box<Telling<R>>>,
    ) -> ReplyContent<R> {
        let request = &planned.request;
        let (received, deadline) = (request.received.monotonic, request.deadline);
        let gap = request.rules.time.stream_gap;
        // A target that may be silent this long before its first byte may also pause this long within the stream.
        let gap = if request.chat.is_none() { gap.max(planned.route.start_limit) } else { gap };
        let patience = Patience { received, deadline, gap };
        let stream = ReplyStream::new(&self.runtime, begun, attempt, patience, telling, closing);
        ReplyContent::Stream(Box::new(stream))
    }

    fn reply_chat(
        &self,
        mut closing: Closing<R>,
        planned: &PlannedRequest,
        said: Said<R>,
        is_stream: bool,
    ) -> Reply<R> {
        match said {
            Said::Begun(begun, attempt, telling) => {
                let notes = self.begin(&mut closing, planned, telling.reply.rung, Some(&attempt));
                let content = self.stream(closing, planned, *begun, attempt, Some(telling));
                Reply { content, notes }
            }
            Said::Whole(reply, usage) => {
                let mut notes = self.begin(&mut closing, planned, reply.rung, None);
                closing.record.verdict = Verdict::Answered;
                closing.record.usage = usage.unwrap_or_default();
                closing.record.target = reply.target.as_deref().map(Into::into);
                notes.target.clone_from(&closing.record.target);
                notes.cost = Some(closing.tally.cost());
                let content = if is_stream {
                    ReplyContent::Pieces(reply.events())
                } else {
                    ReplyContent::Whole(WholeAnswer::of_chat(reply.body()))
                };
                Reply { content, notes }
            }
        }
    }

    fn reply(&self, mut closing: Closing<R>, planned: &PlannedRequest, answered: Answered<R>) -> Reply<R> {
        let Answered { attempt, content, rung } = answered;
        let mut notes = self.begin(&mut closing, planned, rung, Some(&attempt));
        let content = match content {
            Content::Whole(answer) => {
                closing.record.verdict = Verdict::Answered;
                closing.record.usage = attempt.usage;
                notes.cost = Some(closing.tally.cost());
                ReplyContent::Whole(answer)
            }
            Content::Begun(begun) => self.stream(closing, planned, *begun, attempt, None),
        };
        Reply { content, notes }
    }
}

/// How a planned request ended.
enum Found<R: Runtime> {
    Said(Said<R>),
    Answered(Box<Answered<R>>),
    Nothing(Rejection),
}

fn notes<R: Runtime>(closing: &Closing<R>) -> Notes {
    let record = &closing.record;
    Notes {
        tier: record.caller.map(|(_, tier, _)| tier),
        rung: record.rung,
        target: record.target.clone(),
        attempts: closing.tally.attempts(),
        cost: None,
        max_tokens: None,
        overhead: record.overhead,
        level: None,
        tightest: None,
        policy: None,
        limit_resets: None,
        language: None,
    }
}

fn rejected<R: Runtime>(mut closing: Closing<R>, rejection: Rejection) -> Reply<R> {
    closing.record.verdict = Verdict::Rejected(rejection.label());
    closing.record.cause = rejection.cause();
    let mut notes = Notes { cost: Some(closing.tally.cost()), ..notes(&closing) };
    notes.language = closing.language;
    if let Rejection::Limited { limit, come_back } = &rejection {
        notes.tightest = closing.tightest.map(|view| (view, Arc::clone(&limit.name)));
        notes.policy = closing.policy.take();
        notes.limit_resets = Some(come_back.after);
    }
    Reply { content: ReplyContent::Rejected(rejection), notes }
}

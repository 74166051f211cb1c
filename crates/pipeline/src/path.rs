//! The whole way of a request.

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

/// What a path is made of.
pub struct PathOptions {
    /// What may change while requests are under way.
    pub rules: RuleOptions,
    /// Where limits are kept. It must have those of the rules.
    pub limits: Limits,
    /// The day's money.
    pub books: Books,
    /// Who is told of every request that is over.
    pub observer: Arc<dyn Observer>,
}

/// What all requests share on their way.
pub struct Path<R> {
    pub(crate) runtime: R,
    pub(crate) rules: ArcSwap<Rules>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) books: Books,
    /// Whether the books keep what requests take of limits and names.
    pub(crate) keeps_counts: bool,
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

    /// Other rules from now on. Requests under way end by the rules they came in under; what was counted stays counted.
    /// Refuses rules that make no sense, and changes nothing then. Returns what became of every limit's counts.
    pub fn change(&self, options: RuleOptions) -> Result<Vec<LimitChange>, SettingError> {
        options.check()?;
        let changes = self.limits.change(options.limits.groups(), self.runtime.now())?;
        self.rules.store(Arc::new(Rules::new(options, &self.limits)?));
        Ok(changes)
    }

    /// How large a request may be now, and how long it may take to arrive.
    #[must_use]
    pub fn arrival(&self) -> (usize, ArrivalLimits) {
        let rules = self.rules.load();
        (rules.request.body, rules.arrival)
    }

    /// What our own face speaks to who has not said anything yet; English where there is no such face.
    #[must_use]
    pub fn chat_language(&self) -> Language {
        self.rules.load().chat.as_ref().map_or(Language::English, |chat| chat.language)
    }

    /// Where limits are kept.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
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

    /// Notes a request that its face refuses before it is worth a way of its own.
    pub fn refuse(&self, id: u64, face: Face, rejection: Rejection) -> Reply<R> {
        let closing = Closing::new(&self.runtime, &self.observer, id, face.name());
        rejected(closing, rejection)
    }

    /// The whole way, from the bytes that came in to the reply. A stream's reply goes on settling itself when it is
    /// read to its end or dropped.
    pub async fn serve(&self, inbound: InboundRequest) -> Reply<R> {
        self.serve_until(inbound, pending()).await
    }

    /// The same, unless `cut` comes before the reply: then the work on it is dropped, which settles it, and its caller is
    /// told that the gateway is about to end.
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

    /// All that is waited for before a reply begins.
    async fn work(
        &self,
        inbound: InboundRequest,
        closing: &mut Closing<R>,
    ) -> Result<(PlannedRequest, Found<R>), Rejection> {
        let planned = self.planned(inbound, closing).await?;
        let chat = (&planned.request.chat, &planned.request.rules.chat);
        let found = if let (Some(question), Some(rules)) = chat {
            // Ways that most requests do not take lie elsewhere: what all of them carry along is copied more than once.
            Found::Said(Box::pin(answer_chat(self, &planned, question, rules, &closing.tally)).await)
        } else {
            match answer(self, &planned, &closing.tally).await {
                Ok(answered) => Found::Answered(Box::new(answered)),
                Err(rejection) => Found::Nothing(rejection),
            }
        };
        Ok((planned, found))
    }

    /// An apology where the route would rather have one than an error.
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

    /// What is known when an answer begins.
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
        let patience = Patience { received, deadline, gap: request.rules.time.stream_gap };
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

/// What became of a request that had a plan.
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

//! The pipeline: all stages of a request.

use crate::admit::admit;
use crate::answer::{AnswerFailure, AttemptContent, StartedAnswer, StartedStream, answer};
use crate::attempt::Attempt;
use crate::dialect::Face;
use crate::event::EventSinks;
use crate::guardrail::check_texts;
use crate::identify::identify;
use crate::plan::{PlannedRequest, plan};
use crate::prepared_reply::{may_replace, prepared_reply};
use crate::quota_store::QuotaStore;
use crate::receive::{InboundRequest, receive};
use crate::record::{RequestOutcome, RequestStage};
use crate::relay::{ReplyStream, StreamTimeouts};
use crate::reply::{Rejection, Reply, ReplyContent, ReplyMetadata};
use crate::rules::{CheckedRules, PipelineRules, ReceiveLimits};
use crate::settle::RequestCompletion;
use arc_swap::ArcSwap;
use seawall_core::budget::{BudgetAccount, BudgetLimits};
use seawall_core::evaluator::Posture;
use seawall_core::history::TokenLimits;
use seawall_core::quota::LimitChange;
use seawall_core::retry::RetryCounters;
use seawall_core::runtime::Runtime;
use seawall_core::vocabulary::Rung;
use seawall_store::NodeLedger;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Parts of a [`Pipeline`].
pub struct PipelineOptions {
    /// The configuration that can be reloaded while requests are in progress.
    pub rules: CheckedRules,
    /// The quota store by which the rules were checked.
    pub quotas: Arc<QuotaStore>,
    /// The ledger of the daily budgets.
    pub ledger: NodeLedger,
    /// Receive everything that happens to requests and targets.
    pub events: Arc<EventSinks>,
}

/// A request that is admitted and planned, and that no model was asked to answer yet. Dropping it settles it.
pub struct UnansweredRequest<R: Runtime> {
    completion: RequestCompletion<R>,
    planned: PlannedRequest,
}

/// The state that all requests share.
pub struct Pipeline<R> {
    pub(crate) runtime: R,
    pub(crate) rules: ArcSwap<PipelineRules>,
    pub(crate) posture: ArcSwap<Posture>,
    pub(crate) quotas: Arc<QuotaStore>,
    pub(crate) ledger: NodeLedger,
    /// Whether the ledger journals the counts of limits and idempotency keys.
    pub(crate) journals_admissions: bool,
    pub(crate) token_limits: TokenLimits,
    pub(crate) counters: RetryCounters,
    pub(crate) events: Arc<EventSinks>,
    /// Whether a route of the rules in force has an affinity.
    pub(crate) reads_sessions: AtomicBool,
}

impl<R: Runtime> Pipeline<R> {
    /// A pipeline under these rules.
    pub fn new(runtime: R, options: PipelineOptions) -> Self {
        let PipelineOptions { rules, quotas, ledger, events } = options;
        let (rules, _) = rules.install(&quotas, runtime.now());
        Self {
            runtime,
            reads_sessions: AtomicBool::new(rules.routes.has_affinity()),
            rules: ArcSwap::from_pointee(rules),
            posture: ArcSwap::default(),
            quotas,
            journals_admissions: ledger.journals_admissions(),
            ledger,
            token_limits: TokenLimits::UNLIMITED,
            counters: RetryCounters::new(),
            events,
        }
    }

    /// Puts rules in force that were checked with [this pipeline's quota store](Self::quotas). Requests in progress finish
    /// under the rules they started with, and counts are kept. Returns how each limit's counts were carried over.
    pub fn commit(&self, rules: CheckedRules) -> Vec<LimitChange> {
        let (rules, changes) = rules.install(&self.quotas, self.runtime.now());
        self.reads_sessions.store(rules.routes.has_affinity(), Ordering::Relaxed);
        self.rules.store(Arc::new(rules));
        changes
    }

    /// Replaces the posture. Requests in progress finish under the posture they started with.
    pub fn publish_posture(&self, posture: Posture) {
        self.posture.store(Arc::new(posture));
    }

    /// The current posture.
    #[must_use]
    pub fn posture(&self) -> Arc<Posture> {
        self.posture.load_full()
    }

    /// The current maximum body size, and the timeouts for receiving a request.
    #[must_use]
    pub fn receive_limits(&self) -> (usize, ReceiveLimits) {
        let rules = self.rules.load();
        (rules.request.max_body_size, rules.receive)
    }

    /// The quota store.
    #[must_use]
    pub fn quotas(&self) -> &QuotaStore {
        &self.quotas
    }

    /// Replaces the budget limits; the amounts spent are kept.
    pub fn set_budget(&self, limits: BudgetLimits) {
        self.ledger.set_limits(limits);
    }

    /// Today's account: posted spend and open holds.
    #[must_use]
    pub fn day(&self) -> BudgetAccount {
        self.ledger.day(self.runtime.now().utc.day())
    }

    /// Counters of attempts and retries.
    #[must_use]
    pub fn retry_counters(&self) -> &RetryCounters {
        &self.counters
    }

    /// Records a request that a face rejects before it enters the pipeline.
    pub fn reject(&self, id: u64, face: Face, rejection: Rejection) -> Reply<R> {
        let completion = RequestCompletion::new(&self.runtime, &self.events, id, face.name());
        reply_rejected(completion, rejection)
    }

    /// Runs all stages, from the received bytes to the reply. A streamed reply settles when it is read to its end or
    /// dropped.
    pub async fn serve(&self, inbound: InboundRequest) -> Reply<R> {
        self.serve_until(inbound, pending()).await
    }

    /// Like [`serve`](Self::serve), but `shutdown` may resolve before the reply is ready. The work is then
    /// dropped, which settles it, and the caller receives a rejection saying that the gateway is shutting down.
    pub async fn serve_until(&self, inbound: InboundRequest, shutdown: impl Future<Output = ()>) -> Reply<R> {
        let mut shutdown = pin!(shutdown);
        match self.plan_until(inbound, shutdown.as_mut()).await {
            Ok(request) => request.answer_until(self, shutdown).await,
            Err(reply) => *reply,
        }
    }

    /// Runs the stages up to the plan: everything that rejects a request without a model, and that takes no time to
    /// speak of. The reply is a rejection.
    pub async fn plan_until(
        &self,
        inbound: InboundRequest,
        shutdown: impl Future<Output = ()>,
    ) -> Result<UnansweredRequest<R>, Box<Reply<R>>> {
        let mut completion =
            RequestCompletion::new(&self.runtime, &self.events, inbound.id, inbound.operation.face().name());
        let planned = unless(shutdown, self.admit_and_plan(inbound, &mut completion)).await;
        match planned.unwrap_or(Err(Rejection::ShuttingDown)) {
            Ok(planned) => Ok(UnansweredRequest { completion, planned }),
            Err(rejection) => Err(Box::new(reply_rejected(completion, rejection))),
        }
    }

    /// Answers with a prepared text if the route prefers one over an error.
    fn reply_prepared(
        &self,
        mut completion: RequestCompletion<R>,
        planned: &PlannedRequest,
        rejection: Rejection,
    ) -> Reply<R> {
        let texts = &planned.route.fallback_texts;
        let index = usize::try_from(self.runtime.draw().below(texts.len() as u64)).unwrap_or_default();
        let Some(content) = texts.get(index).and_then(|text| prepared_reply(planned, text)) else {
            return reply_rejected(completion, rejection);
        };
        let mut metadata = self.start_reply(&mut completion, planned, Rung::Apology, None);
        completion.record.set_answered();
        metadata.cost = Some(completion.progress.cost());
        Reply { content, metadata }
    }

    async fn admit_and_plan(
        &self,
        inbound: InboundRequest,
        completion: &mut RequestCompletion<R>,
    ) -> Result<PlannedRequest, Rejection> {
        completion.record.credential = inbound.identity.credential();
        completion.record.trace.clone_from(&inbound.headers.trace);
        let received = receive(self, inbound)?;
        completion.end_stage(RequestStage::Receive, received.received.monotonic);
        let identified = identify(self, received, completion).await?;
        let caller = &identified.caller;
        completion.record.caller = Some((caller.id, caller.tier, caller.origin));
        completion.record.contract.clone_from(&caller.contract);
        let admitted = admit(self, identified, completion).await?;
        completion.end_stage(RequestStage::Admit, self.runtime.monotonic());
        let planned = plan(admitted, &mut completion.record)?;
        check_texts(&planned)?;
        completion.end_stage(RequestStage::Plan, self.runtime.monotonic());
        Ok(planned)
    }

    /// Records what is known when the answer starts, and builds the metadata of the reply.
    pub(crate) fn start_reply(
        &self,
        completion: &mut RequestCompletion<R>,
        planned: &PlannedRequest,
        rung: Rung,
        attempt: Option<&Attempt<R>>,
    ) -> ReplyMetadata {
        let started = attempt.and_then(Attempt::first_content);
        let record = &mut completion.record;
        record.rung = Some(rung);
        record.target = attempt.map(|attempt| Arc::clone(&attempt.target.name));
        record.model = attempt.map(|attempt| Arc::clone(&attempt.target.model));
        record.first_content = started.map(|first| first - planned.request.received.monotonic);
        completion.record_start(started.unwrap_or_else(|| self.runtime.monotonic()));
        let mut metadata = base_metadata(completion);
        metadata.max_tokens = attempt.and_then(Attempt::added_limit);
        metadata.level = Some(planned.request.posture.level);
        metadata.reported_limit =
            completion.reported_limit.map(|view| (view, planned.request.rules.groups.name(view.limit)));
        metadata.policy = planned.request.rules.policy(planned.caller.tier);
        metadata
    }

    pub(crate) fn start_stream(
        &self,
        completion: RequestCompletion<R>,
        planned: &PlannedRequest,
        started: StartedStream,
        attempt: Box<Attempt<R>>,
    ) -> Box<ReplyStream<R>> {
        let request = &planned.request;
        let (received, deadline) = (request.received.monotonic, request.deadline);
        let idle_timeout = request.rules.time.stream_idle;
        // A target that may be silent this long before its first byte may also pause this long within the stream.
        let idle_timeout = if request.has_lower_rungs {
            idle_timeout
        } else {
            idle_timeout.max(planned.route.start_timeout)
        };
        let timeouts = StreamTimeouts { received, deadline, idle_timeout };
        Box::new(ReplyStream::new(&self.runtime, started, attempt, timeouts, completion))
    }

    fn reply(
        &self,
        mut completion: RequestCompletion<R>,
        planned: &PlannedRequest,
        answered: StartedAnswer<R>,
    ) -> Reply<R> {
        let StartedAnswer { attempt, content, rung } = answered;
        let mut metadata = self.start_reply(&mut completion, planned, rung, Some(&attempt));
        let content = match content {
            AttemptContent::Unstreamed(answer) => {
                completion.record.set_answered();
                completion.record.usage = attempt.usage;
                metadata.cost = Some(completion.progress.cost());
                metadata.is_cost_unknown = completion.progress.is_cost_unknown();
                ReplyContent::Unstreamed(answer)
            }
            AttemptContent::Started(started) => {
                ReplyContent::Stream(self.start_stream(completion, planned, *started, attempt))
            }
        };
        Reply { content, metadata }
    }
}

impl<R: Runtime> UnansweredRequest<R> {
    /// Whether the caller asks for a streamed answer.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.planned.request.parsed.stream()
    }

    /// The model name that the caller used, and when the request was received, in seconds since 1970.
    #[must_use]
    pub fn identity(&self) -> (&str, u64) {
        let request = &self.planned.request;
        (request.parsed.model(), request.received.utc.as_nanos() / 1_000_000_000)
    }

    /// Runs the remaining stages on the pipeline that has planned it, up to the start of the reply or to `shutdown`.
    pub async fn answer_until(self, pipeline: &Pipeline<R>, shutdown: impl Future<Output = ()>) -> Reply<R> {
        let Self { mut completion, planned } = self;
        let answered = unless(shutdown, answer(pipeline, &planned, &completion.progress)).await;
        match answered {
            Some(Ok(answered)) => pipeline.reply(completion, &planned, answered),
            Some(Err(AnswerFailure { rejection, failed_targets })) => {
                completion.record.failed_targets = failed_targets;
                if may_replace(&rejection) {
                    pipeline.reply_prepared(completion, &planned, rejection)
                } else {
                    reply_rejected(completion, rejection)
                }
            }
            None => reply_rejected(completion, Rejection::ShuttingDown),
        }
    }
}

/// The output of `work`, or `None` if the shutdown comes first. Work that is ready by then counts.
async fn unless<T>(shutdown: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut shutdown, mut work) = (pin!(shutdown), pin!(work));
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => shutdown.as_mut().poll(context).map(|()| None),
    })
    .await
}

fn base_metadata<R: Runtime>(completion: &RequestCompletion<R>) -> ReplyMetadata {
    let record = &completion.record;
    ReplyMetadata {
        tier: record.caller.map(|(_, tier, _)| tier),
        rung: record.rung,
        target: record.target.clone(),
        attempts: completion.progress.attempts(),
        cost: None,
        is_cost_unknown: completion.progress.is_cost_unknown(),
        max_tokens: None,
        overhead: record.overhead,
        level: None,
        reported_limit: None,
        policy: None,
        retry_after: None,
        failed_targets: None,
    }
}

fn reply_rejected<R: Runtime>(completion: RequestCompletion<R>, rejection: Rejection) -> Reply<R> {
    let metadata = rejection_metadata(completion, &rejection);
    Reply { content: ReplyContent::Rejected(rejection), metadata }
}

/// Records a rejection.
pub(crate) fn rejection_metadata<R: Runtime>(
    mut completion: RequestCompletion<R>,
    rejection: &Rejection,
) -> ReplyMetadata {
    completion.record.outcome = RequestOutcome::Rejected(rejection.label());
    completion.record.cause = rejection.cause();
    completion.record.rejection = Some(Arc::new(rejection.clone()));
    let mut metadata = ReplyMetadata {
        cost: Some(completion.progress.cost()),
        failed_targets: completion.record.failed_targets.clone(),
        ..base_metadata(&completion)
    };
    if let Rejection::RateLimited { limit, retry_after } = rejection {
        metadata.reported_limit = completion.reported_limit.map(|view| (view, Arc::clone(&limit.name)));
        metadata.policy = completion.policy.take();
        metadata.retry_after = Some(retry_after.delay);
    }
    metadata
}

//! Questions of an assistant: the stages of a request, one call at a time.
//!
//! A request of a vendor's API passes all stages in [`Pipeline::serve`]. An assistant has other ways to answer than to
//! call a model, so it drives the stages itself: it [begins](Pipeline::begin) a request, has its question
//! [admitted](Pipeline::admit), makes a plan, and [asks](Pipeline::ask) models of one grade inside a deadline as often as
//! its plan says. The types keep the order: nothing is asked that is not admitted and planned.
//!
//! However it ends, the [`OpenRequest`] records it exactly once. An answer is given to the caller as a
//! [stream](Pipeline::stream), or [collected](Pipeline::collect) first, and then another may replace it if it breaks off.

use crate::admit::{AdmittedRequest, admit};
use crate::answer::{AttemptContent, CascadeFailure, CascadeState, StartedStream, TargetCascade, read_chunk};
use crate::attempt::Attempt;
use crate::balance::ordered_targets;
use crate::callers::Caller;
use crate::dialect::Face;
use crate::identify::identify;
use crate::pipeline::{Pipeline, rejection_metadata};
use crate::plan::{PlannedRequest, model_rung};
use crate::receive::{ModelQuestion, receive_question};
use crate::record::{PlanRecord, PlannedRungs, RequestStage};
use crate::relay::ReplyStream;
use crate::reply::{Rejection, ReplyMetadata};
use crate::rules::RulesSnapshot;
use crate::settle::{RequestCompletion, RequestProgress};
use seawall_core::deadline::Deadline;
use seawall_core::evaluator::{Evaluation, Plan, PlanPolicy, Posture};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::{Money, Usage};
use seawall_core::runtime::{Runtime, timeout_at, yield_now};
use seawall_core::time::Now;
use seawall_core::vocabulary::{Grade, Rung};
use seawall_wire::chat::{ChatEvent, FinishReason};
use seawall_wire::reply::ReplyEvent;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// A request in progress. It is recorded when it is rejected, completed or dropped, or when its stream ends.
pub struct OpenRequest<R: Runtime> {
    id: u64,
    completion: RequestCompletion<R>,
}

/// A question that passed every limit.
pub struct AdmittedQuestion {
    admitted: AdmittedRequest,
    progress: Arc<RequestProgress>,
}

/// A question with its plan, which may be asked.
pub struct PlannedQuestion {
    planned: PlannedRequest,
    progress: Arc<RequestProgress>,
    /// Set by the first call.
    state: Option<CascadeState>,
}

/// A model's answer that has begun.
pub struct ModelAnswer<R: Runtime> {
    attempt: Box<Attempt<R>>,
    started: Box<StartedStream>,
}

/// Why no model of a grade answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskFailure {
    /// The label in reasons and logs.
    pub label: &'static str,
    /// When another try may succeed, if known.
    pub retry_after: Option<Duration>,
    /// Whether a model or its vendor declined the question.
    pub is_filtered: bool,
}

/// A complete reply, as far as its record needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteReply<'a> {
    /// The rung that answered.
    pub rung: Rung,
    /// The target that answered, if a model did.
    pub target: Option<&'a str>,
    /// The usage of the attempt that answered.
    pub usage: Usage,
}

/// The end of an answer that was collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectedEnd {
    /// The usage of the attempt.
    pub usage: Usage,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
    /// Whether the gateway ended the answer because it exceeded its reservation.
    pub is_cut_at_limit: bool,
}

/// What to do with the rest of an answer that is being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectDecision {
    /// Read on.
    Continue,
    /// Stop: the text must not be delivered. The target is not at fault.
    Filter,
    /// Stop: the answer is unusable, and its target has failed.
    Fail,
}

/// Why an answer could not be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectError {
    /// The reader decided to filter it.
    Filtered,
    /// It broke off, took too long, or is unusable.
    Failed {
        /// The failure of the attempt.
        failure: Failure,
        /// How far it came.
        end: CollectedEnd,
    },
}

/// Number of immediately ready chunks to read before yielding to other tasks of the thread.
const MAX_READY_CHUNKS: u32 = 64;

impl<R: Runtime> Pipeline<R> {
    /// Begins a request that an assistant answers.
    #[must_use]
    pub fn begin(&self, id: u64, face: Face) -> OpenRequest<R> {
        OpenRequest { id, completion: RequestCompletion::new(&self.runtime, &self.events, id, face.name()) }
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> RulesSnapshot {
        RulesSnapshot(self.rules.load_full())
    }

    /// Identifies the caller and decides over every limit.
    pub async fn admit(
        &self,
        open: &mut OpenRequest<R>,
        question: ModelQuestion,
    ) -> Result<AdmittedQuestion, Rejection> {
        let completion = &mut open.completion;
        completion.record.credential = question.identity.credential();
        let received = receive_question(self, open.id, question);
        completion.end_stage(RequestStage::Receive, received.received.monotonic);
        let identified = identify(self, received, completion).await?;
        let caller = &identified.caller;
        completion.record.caller = Some((caller.id, caller.tier, caller.origin));
        completion.record.contract.clone_from(&caller.contract);
        let admitted = admit(self, identified, completion).await?;
        completion.end_stage(RequestStage::Admit, self.runtime.monotonic());
        Ok(AdmittedQuestion { admitted, progress: Arc::clone(&completion.progress) })
    }

    /// Takes the assistant's plan, and records it.
    #[must_use]
    pub fn take_plan(
        &self,
        open: &mut OpenRequest<R>,
        admitted: AdmittedQuestion,
        evaluation: Evaluation,
    ) -> PlannedQuestion {
        let record = &mut open.completion.record;
        record.plan = PlanRecord::of(&evaluation);
        let (targets, level) = (&admitted.admitted.route.targets, admitted.admitted.request.posture.level);
        let has_target = |rung| targets.iter().any(|target| model_rung(target.grade) == rung);
        record.planned = Some(PlannedRungs::of(&evaluation.plan, level, has_target));
        open.completion.end_stage(RequestStage::Plan, self.runtime.monotonic());
        let AdmittedQuestion { admitted, progress } = admitted;
        PlannedQuestion { planned: PlannedRequest::new(admitted, evaluation.plan), progress, state: None }
    }

    /// Asks the models of this grade until one begins to answer, which it must by this deadline.
    pub async fn ask(
        &self,
        question: &mut PlannedQuestion,
        grade: Grade,
        by: Deadline,
    ) -> Result<ModelAnswer<R>, AskFailure> {
        let PlannedQuestion { planned, progress, state } = question;
        let targets = ordered_targets(self, planned);
        let targets: Vec<_> = targets.iter().filter(|target| target.grade == grade).cloned().collect();
        let state = state.get_or_insert_with(|| CascadeState::new(self, planned));
        let mut cascade = TargetCascade::new(self, planned, progress, state);
        match cascade.try_targets(&targets, by, Duration::MAX).await {
            Ok((attempt, AttemptContent::Started(started))) => Ok(ModelAnswer { attempt, started }),
            // Unreachable: a question asks for a stream.
            Ok((_, AttemptContent::Unstreamed(_))) => Err(AskFailure::of(&CascadeFailure::default())),
            Err(failure) => Err(AskFailure::of(&failure)),
        }
    }

    /// Reads an answer to its end. `on_event` receives its events and decides whether to read on. Nothing was delivered
    /// yet, so that a failure may be replaced.
    pub async fn collect(
        &self,
        question: &PlannedQuestion,
        answer: ModelAnswer<R>,
        on_event: &mut (dyn FnMut(ChatEvent) -> CollectDecision + Send),
    ) -> Result<CollectedEnd, CollectError> {
        let ModelAnswer { mut attempt, mut started } = answer;
        let began = self.runtime.monotonic();
        let outcome = self.read_to_end(question, &mut attempt, &mut started, on_event).await;
        question.add_wait(self.runtime.monotonic() - began);
        let end = |attempt: &Attempt<R>| CollectedEnd {
            usage: attempt.usage,
            finish: started.stream.finish(),
            is_cut_at_limit: started.stream.is_cut_at_limit(),
        };
        match outcome {
            Ok(()) => Ok(end(&attempt)),
            Err(None) => {
                if !started.stream.is_finished() {
                    attempt.block();
                }
                Err(CollectError::Filtered)
            }
            Err(Some(failure)) => {
                attempt.fail(&failure);
                Err(CollectError::Failed { failure, end: end(&attempt) })
            }
        }
    }

    /// The error is `None` if the answer is filtered.
    async fn read_to_end(
        &self,
        question: &PlannedQuestion,
        attempt: &mut Attempt<R>,
        started: &mut StartedStream,
        on_event: &mut (dyn FnMut(ChatEvent) -> CollectDecision + Send),
    ) -> Result<(), Option<Failure>> {
        let request = &question.planned.request;
        let time = &request.rules.time;
        let deadline = request.deadline.within(attempt.started, time.attempt);
        let mut chunks_read = 0_u32;
        loop {
            for event in started.buffered.drain(..) {
                let ReplyEvent::Chat(event) = event else { continue };
                match on_event(event) {
                    CollectDecision::Continue => {}
                    CollectDecision::Filter => return Err(None),
                    CollectDecision::Fail => return Err(Some(Failure::of(FailureKind::Unrecognised))),
                }
            }
            if started.stream.is_finished() {
                return Ok(());
            }
            let now = self.runtime.monotonic();
            // Checked explicitly: while chunks are always ready, the timer is never polled.
            if deadline.has_passed(now) {
                return Err(Some(Failure::of(FailureKind::TimedOut)));
            }
            chunks_read = chunks_read.wrapping_add(1);
            if chunks_read.is_multiple_of(MAX_READY_CHUNKS) {
                yield_now().await;
            }
            let until = deadline.within(now, time.stream_idle);
            let chunks = &mut started.chunks;
            let next = timeout_at(&self.runtime, until, poll_fn(|context| chunks.poll_chunk(context))).await;
            let Some(next) = next else { return Err(Some(Failure::of(FailureKind::TimedOut))) };
            read_chunk(&mut started.stream, next, attempt, &mut started.buffered).map_err(Some)?;
        }
    }

    /// Gives an answer to the caller as it arrives. The stream records the end of the request.
    #[must_use]
    pub fn stream(
        &self,
        open: OpenRequest<R>,
        question: &PlannedQuestion,
        answer: ModelAnswer<R>,
        rung: Rung,
    ) -> (Box<ReplyStream<R>>, ReplyMetadata) {
        let OpenRequest { mut completion, .. } = open;
        let ModelAnswer { attempt, started } = answer;
        let metadata = self.start_reply(&mut completion, &question.planned, rung, Some(&attempt));
        (self.start_stream(completion, &question.planned, *started, attempt), metadata)
    }

    /// Completes a request that is answered as a whole.
    #[must_use]
    pub fn complete(
        &self,
        open: OpenRequest<R>,
        question: &PlannedQuestion,
        reply: &CompleteReply<'_>,
    ) -> ReplyMetadata {
        let OpenRequest { mut completion, .. } = open;
        let mut metadata = self.start_reply(&mut completion, &question.planned, reply.rung, None);
        completion.record.set_answered();
        completion.record.usage = reply.usage;
        completion.record.target = reply.target.map(Into::into);
        metadata.target.clone_from(&completion.record.target);
        metadata.cost = Some(question.cost());
        metadata
    }
}

impl<R: Runtime> OpenRequest<R> {
    /// The request ID.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Records why no better rung answered.
    pub fn set_rung_reasons(&mut self, reasons: &[String]) {
        let recorded = || reasons.iter().map(|reason| reason.as_str().into()).collect();
        self.completion.record.rung_reasons = (!reasons.is_empty()).then(recorded);
    }

    /// Rejects the request.
    #[must_use]
    pub fn reject(self, rejection: &Rejection) -> ReplyMetadata {
        rejection_metadata(self.completion, rejection)
    }
}

impl AdmittedQuestion {
    /// The caller.
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.admitted.caller
    }

    /// The posture that the plan is made under.
    #[must_use]
    pub fn posture(&self) -> &Posture {
        &self.admitted.request.posture
    }

    /// What the settings define for the plan.
    #[must_use]
    pub fn plan_policy(&self) -> &PlanPolicy {
        &self.admitted.request.rules.plan
    }

    /// When the request was received.
    #[must_use]
    pub fn received(&self) -> Now {
        self.admitted.request.received
    }
}

impl PlannedQuestion {
    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.planned.plan
    }

    /// The caller.
    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.planned.caller
    }

    /// When the request was received.
    #[must_use]
    pub fn received(&self) -> Now {
        self.planned.request.received
    }

    /// Whether the caller's daily budget does not cover a call, so that no model may be asked.
    #[must_use]
    pub const fn is_over_budget(&self) -> bool {
        self.planned.is_over_budget
    }

    /// Whether the route has a target of this grade.
    #[must_use]
    pub fn has_target(&self, grade: Grade) -> bool {
        self.planned.route.targets.iter().any(|target| target.grade == grade)
    }

    /// The cost of the request so far.
    #[must_use]
    pub fn cost(&self) -> Money {
        self.progress.cost()
    }

    /// Adds time that was spent waiting for others. It does not count as the gateway's overhead.
    pub fn add_wait(&self, wait: Duration) {
        self.progress.add_wait(wait);
    }
}

impl<R: Runtime> ModelAnswer<R> {
    /// The target that answers.
    #[must_use]
    pub fn target(&self) -> &Arc<str> {
        &self.attempt.target.name
    }

    /// The usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.attempt.usage
    }

    /// Whether the whole answer has arrived and is a refusal of the model or its vendor. Nothing was delivered yet.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        self.started.stream.is_finished() && self.started.stream.is_declined()
    }
}

impl AskFailure {
    fn of(failure: &CascadeFailure) -> Self {
        Self {
            label: failure.label(),
            retry_after: failure.retry_after(),
            is_filtered: failure.is_filtered(),
        }
    }
}

//! The fallback cascade of the chat face: tries the rungs of the plan until one answers. The last rung always does.
//!
//! Models are always asked for a stream, even if the caller wants none, so that a model that does not start in time is
//! detected in time. A caller that wants an unstreamed answer receives it when the stream has ended. Nothing was
//! delivered until then, so a stream that breaks off is replaced by the next rung.

use super::cascade::TargetCascade;
use super::cascade_failure::{CascadeFailure, soonest};
use super::try_once::{AttemptContent, StartedStream, read_chunk};
use crate::answer_cache::{CacheableQuestion, answer_end};
use crate::attempt::Attempt;
use crate::chat::{ChatFaceRequest, ChatFinish, ChatReply, ChatText, apology};
use crate::chat_rules::ChatRules;
use crate::guardrail::{GuardrailDecision, check_neighbours};
use crate::pipeline::Pipeline;
use crate::plan::PlannedRequest;
use crate::receive::format_request_id;
use crate::settle::RequestProgress;
use crate::single_flight::{FlightLeader, FlightRole};
use seawall_core::cache_policy::{AnswerEnd, CacheAgeDecision, CacheKey, CacheSituation, SingleFlightKey};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::money::{Money, Usage};
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::vocabulary::{Grade, Rung};
use seawall_wire::chat::Role;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The reason reported when a model or its vendor declined to answer.
const VENDOR_GUARDRAIL: &str = "guardrail:vendor";

/// A message at the chat face.
pub(crate) struct ChatQuestion {
    pub(crate) request: ChatFaceRequest,
    /// A digest of the conversation so far.
    pub(crate) history: String,
}

/// An answer of the chat face.
pub(crate) enum ChatOutcome<R: Runtime> {
    /// A complete answer, with the usage of the attempt that produced it, if any.
    Unstreamed(Box<ChatReply>, Option<Usage>),
    /// The start of a streamed answer.
    Streaming(Box<StartedStream>, Box<Attempt<R>>, Box<ChatFinalizer<R>>),
}

/// State to finish a model's answer with: the final event, the cache entry and the waiters of the flight.
pub(crate) struct ChatFinalizer<R: Runtime> {
    /// The reply without its text, usage and finish reason.
    pub(crate) reply: ChatReply,
    pub(crate) language: seawall_core::strategy::Language,
    text: String,
    /// Whether the text exceeded the maximum that is kept.
    is_too_long: bool,
    question: CacheableQuestion,
    rules: Arc<ChatRules>,
    grade: Grade,
    leader: Option<FlightLeader<R>>,
}

impl<R: Runtime> ChatFinalizer<R> {
    pub(crate) fn push_text(&mut self, text: &str) {
        if self.text.len().saturating_add(text.len()) > MAX_TEXT_BYTES {
            self.is_too_long = true;
            self.text = String::new();
            self.fail();
        }
        if !self.is_too_long {
            self.text.push_str(text);
        }
    }

    /// Finishes a complete answer: stores it in the cache, shares it with waiting requests and completes the reply.
    pub(crate) fn finish(
        &mut self,
        runtime: &R,
        (finish, is_cut_at_limit): (Option<seawall_wire::chat::FinishReason>, bool),
        usage: Usage,
        cost: Money,
    ) -> &ChatReply {
        let (text, end): (Arc<str>, _) = (self.text.as_str().into(), answer_end(finish));
        let key = self.question.key_for(&text).filter(|_| !self.is_too_long);
        // If the answer turned out to be private to its caller, it is not shared.
        let may_share = key.is_some() && key == self.question.key();
        if let Some(key) = key {
            self.rules.answer_cache.store(key, Arc::clone(&text), end, self.grade, runtime.now().utc);
        }
        if let Some(leader) = self.leader.take() {
            if may_share && end == AnswerEnd::Finished { leader.answered(&text) } else { leader.failed() }
        }
        (self.reply.usage, self.reply.cost) = (usage, cost);
        self.reply.finish = finish.map_or(ChatFinish::Finished, ChatFinish::of);
        if is_cut_at_limit {
            self.reply.finish = ChatFinish::Budget;
        }
        &self.reply
    }

    /// The model or its vendor declined. If nothing was sent yet, a prepared text is the answer.
    pub(crate) fn decline(&mut self) -> (&'static str, &ChatReply) {
        let text = ChatText::Redirect.in_language(self.language);
        (self.reply.rung, self.reply.target) = (Rung::Apology, None);
        self.reply.reasons.push(VENDOR_GUARDRAIL.to_owned());
        text.clone_into(&mut self.reply.answer);
        (text, &self.reply)
    }

    /// Ends the flight without an answer.
    pub(crate) fn fail(&mut self) {
        if let Some(leader) = self.leader.take() {
            leader.failed();
        }
    }
}

pub(crate) async fn answer_chat<R: Runtime>(
    pipeline: &Pipeline<R>,
    planned: &PlannedRequest,
    question: &ChatQuestion,
    rules: &Arc<ChatRules>,
    progress: &Arc<RequestProgress>,
) -> ChatOutcome<R> {
    let cacheable = CacheableQuestion::new(
        &question.request,
        question.history.clone(),
        planned.caller.id,
        rules.versions(),
    );
    let first_content = Deadline::after(planned.request.received.monotonic, rules.reserves.total());
    let mut cascade = ChatCascade {
        pipeline,
        planned,
        question,
        rules,
        progress,
        key: cacheable.key(),
        cacheable,
        first_content,
        targets: TargetCascade::new(pipeline, planned, progress),
        reasons: planned.plan.reasons.iter().map(ToString::to_string).collect(),
        retry_after: None,
    };
    if let GuardrailDecision::Block { rule } = check_conversation(&question.request, rules) {
        cascade.reasons.push(format!("guardrail:{rule}"));
        return cascade.redirect();
    }
    for rung in &planned.plan.rungs {
        let outcome = match rung {
            Rung::StrongModel | Rung::FastModel if planned.is_over_budget => {
                let grade = if *rung == Rung::StrongModel { Grade::Strong } else { Grade::Fast };
                cascade.reasons.push(format!("{grade}:budget_exhausted"));
                None
            }
            Rung::FreshCache => cascade.look_up_cache(true).await,
            Rung::StrongModel => cascade.try_models(Grade::Strong).await,
            Rung::FastModel => cascade.try_models(Grade::Fast).await,
            Rung::StaleCache => cascade.look_up_cache(false).await,
            // Prepared answers are not implemented yet.
            Rung::Template | Rung::Faq | Rung::Apology => None,
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    cascade.apology()
}

/// Checks the message and the conversation so far, which is also sent to the model. Consecutive turns of one side are
/// checked as one text.
fn check_conversation(request: &ChatFaceRequest, rules: &ChatRules) -> GuardrailDecision {
    if rules.guardrails.0.is_empty() {
        return GuardrailDecision::Pass;
    }
    let turns = request.history.iter().map(|turn| (turn.role, turn.text.as_str()));
    let turns: Vec<_> = turns.chain([(Role::User, request.message.as_str())]).collect();
    let runs = turns.chunk_by(|one, next| one.0 == next.0);
    let mut decisions = runs.map(|run| {
        let texts: Vec<&str> = run.iter().map(|(_, text)| *text).collect();
        check_neighbours(&texts, &rules.guardrails)
    });
    decisions.find(|decision| *decision != GuardrailDecision::Pass).unwrap_or(GuardrailDecision::Pass)
}

/// The state of one message in the fallback cascade.
struct ChatCascade<'a, R: Runtime> {
    pipeline: &'a Pipeline<R>,
    planned: &'a PlannedRequest,
    question: &'a ChatQuestion,
    rules: &'a Arc<ChatRules>,
    progress: &'a Arc<RequestProgress>,
    cacheable: CacheableQuestion,
    key: Option<CacheKey>,
    /// Deadline for the first text.
    first_content: Deadline,
    targets: TargetCascade<'a, R>,
    /// Why no better rung answered.
    reasons: Vec<String>,
    retry_after: Option<Duration>,
}

impl<R: Runtime> ChatCascade<'_, R> {
    fn reply(&self, rung: Rung, answer: String) -> ChatReply {
        let request_id = match &self.question.request.request_id {
            Some(name) => name.clone(),
            None => format_request_id(self.planned.request.id).to_string(),
        };
        ChatReply {
            answer,
            rung,
            reasons: self.reasons.clone(),
            request_id,
            session: self.question.request.session.clone(),
            usage: Usage::default(),
            cost: self.progress.cost(),
            target: None,
            finish: ChatFinish::Finished,
            retry_after: None,
        }
    }

    fn ready(reply: ChatReply) -> ChatOutcome<R> {
        ChatOutcome::Unstreamed(Box::new(reply), None)
    }

    /// A prepared text in place of an answer that a guardrail blocked.
    fn redirect(&self) -> ChatOutcome<R> {
        let text = ChatText::Redirect.in_language(self.question.request.language());
        let mut reply = self.reply(Rung::Apology, text.to_owned());
        reply.finish = ChatFinish::Blocked;
        Self::ready(reply)
    }

    /// The same for a model or vendor that declined. No other model is tried, because it might answer what was blocked.
    fn declined(&mut self, usage: Option<Usage>) -> ChatOutcome<R> {
        self.reasons.push(VENDOR_GUARDRAIL.to_owned());
        let text = ChatText::Redirect.in_language(self.question.request.language());
        let mut reply = self.reply(Rung::Apology, text.to_owned());
        reply.finish = ChatFinish::Refused;
        reply.usage = usage.unwrap_or_default();
        ChatOutcome::Unstreamed(Box::new(reply), usage)
    }

    fn apology(&self) -> ChatOutcome<R> {
        let text = apology(self.question.request.language(), self.pipeline.runtime.draw());
        let mut reply = self.reply(Rung::Apology, text.to_owned());
        reply.retry_after = self.retry_after;
        Self::ready(reply)
    }

    /// A cached answer: before models are called, or after they failed.
    async fn look_up_cache(&mut self, before_models: bool) -> Option<ChatOutcome<R>> {
        let key = self.key.as_ref()?;
        let now = self.pipeline.runtime.now();
        let limit = self.rules.reserves.at(1, self.first_content);
        // The lookup must leave enough time for an apology.
        let lookup = self.rules.answer_cache.load(key, now.utc);
        let stored = timeout_at(
            &self.pipeline.runtime,
            limit.max(Deadline::after(now.monotonic, MIN_LOOKUP_TIME)),
            lookup,
        )
        .await;
        self.progress.add_wait(self.pipeline.runtime.monotonic() - now.monotonic);
        let stored = stored.flatten()?;
        let situation = if before_models {
            CacheSituation::BeforeModels { ceiling: self.planned.plan.ceiling }
        } else {
            CacheSituation::ModelsFailed
        };
        let rung = match self.rules.ages.decide(&stored.kept, now.utc, situation) {
            CacheAgeDecision::Fresh => Rung::FreshCache,
            // A request that may call a model waits for its answer: refresh in the background is not implemented yet.
            CacheAgeDecision::StaleWhileRefreshing | CacheAgeDecision::Expired => return None,
            CacheAgeDecision::StaleWithoutRefresh | CacheAgeDecision::StaleIfModelsFail => Rung::StaleCache,
        };
        // The guardrails may have changed since the answer was stored.
        if self.rules.guardrails.check_answer(&stored.text) != GuardrailDecision::Pass {
            return None;
        }
        Some(Self::ready(self.reply(rung, stored.text.into())))
    }

    /// Calls models of this grade.
    async fn try_models(&mut self, grade: Grade) -> Option<ChatOutcome<R>> {
        let targets: Vec<_> =
            self.planned.route.targets.iter().filter(|target| target.grade == grade).cloned().collect();
        let now = self.pipeline.runtime.monotonic();
        let by = match grade {
            Grade::Strong => self.rules.reserves.first(self.first_content),
            Grade::Fast => self.rules.reserves.at(0, self.first_content),
        };
        if targets.is_empty() || by.has_passed(now) {
            return None;
        }
        let leader = match self.join(grade, by).await {
            FlightRole::Lead(leader) => Some(leader),
            FlightRole::Alone => None,
            FlightRole::Answer(text) => {
                return Some(Self::ready(self.reply(Rung::FreshCache, text.as_ref().to_owned())));
            }
            FlightRole::NextRung => {
                self.reasons.push(format!("{grade}:single_flight_no_answer"));
                return None;
            }
        };
        match self.targets.try_targets(&targets, by, Duration::MAX).await {
            Ok((attempt, AttemptContent::Started(started))) => {
                self.start(attempt, *started, grade, leader).await
            }
            // Unreachable: models are always asked for streams.
            Ok((_, AttemptContent::Unstreamed(_))) => None,
            Err(cascade_failure) => {
                if let Some(leader) = leader {
                    leader.failed();
                }
                if cascade_failure.is_filtered() {
                    return Some(self.declined(None));
                }
                self.record_failure(grade, &cascade_failure);
                None
            }
        }
    }

    async fn join(&self, grade: Grade, by: Deadline) -> FlightRole<R> {
        let Some(key) = self.key.clone() else { return FlightRole::Alone };
        let now = self.pipeline.runtime.monotonic();
        let joined =
            self.rules.single_flight.join(&self.pipeline.runtime, &SingleFlightKey { key, grade }, by).await;
        self.progress.add_wait(self.pipeline.runtime.monotonic() - now);
        joined
    }

    fn record_failure(&mut self, grade: Grade, cascade_failure: &CascadeFailure) {
        self.reasons.push(format!("{grade}:{}", cascade_failure.label()));
        self.retry_after = soonest(self.retry_after, cascade_failure.retry_after());
    }

    async fn start(
        &mut self,
        attempt: Box<Attempt<R>>,
        mut started: StartedStream,
        grade: Grade,
        leader: Option<FlightLeader<R>>,
    ) -> Option<ChatOutcome<R>> {
        let rung = match grade {
            Grade::Strong => Rung::StrongModel,
            Grade::Fast => Rung::FastModel,
        };
        let mut reply = self.reply(rung, String::new());
        reply.target = Some(attempt.target.name.as_ref().to_owned());
        let mut finalizer = ChatFinalizer {
            reply,
            language: self.question.request.language(),
            text: String::new(),
            is_too_long: false,
            question: self.cacheable.clone(),
            rules: Arc::clone(self.rules),
            grade,
            leader,
        };
        finalizer.push_text(&started.stream.take_text());
        if self.question.request.stream {
            // Nothing was sent yet, so a prepared text can replace the answer.
            if started.stream.is_finished() && started.stream.is_declined() {
                finalizer.fail();
                return Some(self.declined(Some(attempt.usage)));
            }
            return Some(ChatOutcome::Streaming(Box::new(started), attempt, Box::new(finalizer)));
        }
        self.collect(attempt, started, finalizer, grade).await
    }

    /// Reads a stream to its end, for a caller that wants an unstreamed answer.
    async fn collect(
        &mut self,
        mut attempt: Box<Attempt<R>>,
        mut started: StartedStream,
        mut finalizer: ChatFinalizer<R>,
        grade: Grade,
    ) -> Option<ChatOutcome<R>> {
        let (runtime, request) = (&self.pipeline.runtime, &self.planned.request);
        let began = runtime.monotonic();
        let mut chunks_read = 0_u32;
        let time = &request.rules.time;
        let deadline = request.deadline.within(attempt.started, time.attempt);
        let outcome = loop {
            finalizer.push_text(&started.stream.take_text());
            started.buffered.clear();
            if finalizer.is_too_long {
                break Err(Failure::of(FailureKind::Unrecognised));
            }
            if started.stream.is_finished() {
                break Ok(());
            }
            let now = runtime.monotonic();
            // Checked explicitly: while chunks are always ready, the timer is never polled.
            if deadline.has_passed(now) {
                break Err(Failure::of(FailureKind::TimedOut));
            }
            chunks_read = chunks_read.wrapping_add(1);
            if chunks_read.is_multiple_of(MAX_READY_CHUNKS) {
                yield_now().await;
            }
            let until = deadline.within(now, time.stream_idle);
            let chunks = &mut started.chunks;
            let next = timeout_at(runtime, until, poll_fn(|context| chunks.poll_chunk(context))).await;
            let Some(next) = next else { break Err(Failure::of(FailureKind::TimedOut)) };
            if let Err(failure) = read_chunk(&mut started.stream, next, &mut attempt, &mut started.buffered) {
                break Err(failure);
            }
        };
        self.progress.add_wait(runtime.monotonic() - began);
        match outcome {
            Ok(()) => {
                let usage = attempt.usage;
                let end = (started.stream.finish(), started.stream.is_cut_at_limit());
                finalizer.finish(runtime, end, usage, self.progress.cost());
                if started.stream.is_declined() {
                    return Some(self.declined(Some(usage)));
                }
                finalizer.reply.answer = std::mem::take(&mut finalizer.text);
                Some(ChatOutcome::Unstreamed(Box::new(finalizer.reply), Some(usage)))
            }
            Err(_) if started.stream.blocked_by().is_some() => {
                attempt.block();
                finalizer.fail();
                let rule = started.stream.blocked_by().unwrap_or_default();
                self.reasons.push(format!("guardrail:{rule}"));
                Some(self.redirect())
            }
            Err(failure) => {
                attempt.fail(&failure);
                finalizer.fail();
                // However the connection ended: another model might answer what was blocked.
                if started.stream.is_declined() {
                    return Some(self.declined(Some(attempt.usage)));
                }
                self.reasons.push(format!("{grade}:{}", failure.kind.label()));
                None
            }
        }
    }
}

/// Maximum bytes of text of an unstreamed answer. A longer answer is not cached, and is a failure if the caller wants
/// it unstreamed.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Number of immediately ready chunks to read before yielding to other tasks of the thread.
const MAX_READY_CHUNKS: u32 = 64;

async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Minimum time for a cache lookup, even if the deadline is exhausted.
const MIN_LOOKUP_TIME: Duration = Duration::from_millis(20);

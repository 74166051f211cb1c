//! The fallback cascade: tries the rungs of the plan until one answers. The last rung always does.
//!
//! Models are always asked for a stream, even if the caller wants none, so that a model that does not start in time is
//! detected in time. A caller that wants an unstreamed answer receives it when the stream has ended. Nothing was
//! delivered until then, so a stream that breaks off is replaced by the next rung.

use crate::answer_cache::CacheableQuestion;
use crate::finalizer::{ChatFinalizer, VENDOR_GUARDRAIL};
use crate::rules::ChatRules;
use crate::single_flight::{FlightLeader, FlightRole};
use crate::stream::ReleasedText;
use crate::texts::{ChatText, apology};
use seawall_core::cache_policy::{CacheAgeDecision, CacheKey, CacheSituation, SingleFlightKey};
use seawall_core::deadline::Deadline;
use seawall_core::money::Usage;
use seawall_core::runtime::{Runtime, timeout_at};
use seawall_core::vocabulary::{Grade, Rung};
use seawall_pipeline::guardrail::{Guardrail as _, GuardrailDecision, check_neighbours};
use seawall_pipeline::{
    CollectDecision, CollectError, ModelAnswer, Pipeline, PlannedQuestion, format_request_id,
};
use seawall_wire::chat::{ChatEvent, FinishReason, Role};
use seawall_wire::chat_face::{ChatFaceRequest, ChatFinish, ChatReply};
use std::sync::Arc;
use std::time::Duration;

/// A message of the chat.
pub(crate) struct ChatQuestion {
    pub(crate) request: ChatFaceRequest,
    /// A digest of the conversation so far.
    pub(crate) history: String,
}

/// How a message is answered.
pub(crate) enum ChatOutcome<R: Runtime> {
    /// A complete answer, with the usage of the attempt that produced it, if any.
    Complete(Box<ChatReply>, Option<Usage>),
    /// The start of a streamed answer.
    Streaming(ModelAnswer<R>, Box<ChatFinalizer<R>>),
}

pub(crate) async fn answer<R: Runtime>(
    pipeline: &Pipeline<R>,
    runtime: &R,
    planned: &mut PlannedQuestion,
    question: &ChatQuestion,
    rules: &Arc<ChatRules>,
    id: u64,
) -> ChatOutcome<R> {
    let cacheable = CacheableQuestion::new(
        &question.request,
        question.history.clone(),
        planned.caller().id,
        rules.versions(),
    );
    let plan = planned.plan().clone();
    let mut cascade = ChatCascade {
        pipeline,
        runtime,
        question,
        rules,
        id,
        key: cacheable.key(),
        cacheable,
        first_content: Deadline::after(planned.received().monotonic, rules.reserves.total()),
        reasons: plan.reasons.iter().map(ToString::to_string).collect(),
        retry_after: None,
        planned,
    };
    if let GuardrailDecision::Block { rule } = check_conversation(&question.request, rules) {
        cascade.reasons.push(format!("guardrail:{rule}"));
        return cascade.redirect();
    }
    for rung in &plan.rungs {
        let outcome = match rung {
            Rung::StrongModel | Rung::FastModel if cascade.planned.is_over_budget() => {
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
    runtime: &'a R,
    planned: &'a mut PlannedQuestion,
    question: &'a ChatQuestion,
    rules: &'a Arc<ChatRules>,
    /// The gateway's request ID.
    id: u64,
    cacheable: CacheableQuestion,
    key: Option<CacheKey>,
    /// Deadline for the first text.
    first_content: Deadline,
    /// Why no better rung answered.
    reasons: Vec<String>,
    retry_after: Option<Duration>,
}

impl<R: Runtime> ChatCascade<'_, R> {
    fn reply(&self, rung: Rung, answer: String) -> ChatReply {
        let request_id = match &self.question.request.request_id {
            Some(name) => name.clone(),
            None => format_request_id(self.id).to_string(),
        };
        ChatReply {
            answer,
            rung,
            reasons: self.reasons.clone(),
            request_id,
            session: self.question.request.session.clone(),
            usage: Usage::default(),
            cost: self.planned.cost(),
            target: None,
            finish: ChatFinish::Finished,
            retry_after: None,
        }
    }

    fn ready(reply: ChatReply) -> ChatOutcome<R> {
        ChatOutcome::Complete(Box::new(reply), None)
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
        ChatOutcome::Complete(Box::new(reply), usage)
    }

    fn apology(&self) -> ChatOutcome<R> {
        let text = apology(self.question.request.language(), self.runtime.draw());
        let mut reply = self.reply(Rung::Apology, text.to_owned());
        reply.retry_after = self.retry_after;
        Self::ready(reply)
    }

    /// A cached answer: before models are called, or after they failed.
    async fn look_up_cache(&mut self, before_models: bool) -> Option<ChatOutcome<R>> {
        let key = self.key.as_ref()?;
        let now = self.runtime.now();
        let limit = self.rules.reserves.at(1, self.first_content);
        // The lookup must leave enough time for an apology.
        let lookup = self.rules.answer_cache.load(key, now.utc);
        let stored =
            timeout_at(self.runtime, limit.max(Deadline::after(now.monotonic, MIN_LOOKUP_TIME)), lookup)
                .await;
        self.planned.add_wait(self.runtime.monotonic() - now.monotonic);
        let stored = stored.flatten()?;
        let situation = if before_models {
            CacheSituation::BeforeModels { ceiling: self.planned.plan().ceiling }
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
        let by = match grade {
            Grade::Strong => self.rules.reserves.first(self.first_content),
            Grade::Fast => self.rules.reserves.at(0, self.first_content),
        };
        if !self.planned.has_target(grade) || by.has_passed(self.runtime.monotonic()) {
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
        match self.pipeline.ask(self.planned, grade, by).await {
            Ok(answer) => self.start(answer, grade, leader).await,
            Err(failure) => {
                if let Some(leader) = leader {
                    leader.failed();
                }
                if failure.is_filtered {
                    return Some(self.declined(None));
                }
                self.reasons.push(format!("{grade}:{}", failure.label));
                self.retry_after = soonest(self.retry_after, failure.retry_after);
                None
            }
        }
    }

    async fn join(&self, grade: Grade, by: Deadline) -> FlightRole<R> {
        let Some(key) = self.key.clone() else { return FlightRole::Alone };
        let began = self.runtime.monotonic();
        let joined = self.rules.single_flight.join(self.runtime, &SingleFlightKey { key, grade }, by).await;
        self.planned.add_wait(self.runtime.monotonic() - began);
        joined
    }

    async fn start(
        &mut self,
        answer: ModelAnswer<R>,
        grade: Grade,
        leader: Option<FlightLeader<R>>,
    ) -> Option<ChatOutcome<R>> {
        let rung = match grade {
            Grade::Strong => Rung::StrongModel,
            Grade::Fast => Rung::FastModel,
        };
        let mut reply = self.reply(rung, String::new());
        reply.target = Some(answer.target().as_ref().to_owned());
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
        if !self.question.request.stream {
            return self.collect(answer, finalizer, grade).await;
        }
        // Nothing was sent yet, so a prepared text can replace the answer.
        if answer.is_declined() {
            finalizer.fail();
            return Some(self.declined(Some(answer.usage())));
        }
        Some(ChatOutcome::Streaming(answer, Box::new(finalizer)))
    }

    /// Reads an answer to its end, for a caller that wants it as a whole.
    async fn collect(
        &mut self,
        answer: ModelAnswer<R>,
        mut finalizer: ChatFinalizer<R>,
        grade: Grade,
    ) -> Option<ChatOutcome<R>> {
        let mut text = ReleasedText::new(self.rules.guardrails.inspect_answer());
        let collected = {
            let (text, finalizer) = (&mut text, &mut finalizer);
            let mut on_event = |event: ChatEvent| {
                let ChatEvent::Text(piece) = event else { return CollectDecision::Continue };
                finalizer.push_text(&text.push(&piece));
                match text.blocked_by() {
                    Some(_) => CollectDecision::Filter,
                    None if finalizer.is_too_long => CollectDecision::Fail,
                    None => CollectDecision::Continue,
                }
            };
            self.pipeline.collect(self.planned, answer, &mut on_event).await
        };
        let end = match collected {
            Ok(end) => {
                finalizer.push_text(&text.end());
                end
            }
            Err(CollectError::Filtered) => return Some(self.blocked(&text, &mut finalizer)),
            Err(CollectError::Failed { failure, end }) => {
                finalizer.fail();
                // However the connection ended: another model might answer what was blocked.
                if end.finish == Some(FinishReason::Refusal) {
                    return Some(self.declined(Some(end.usage)));
                }
                self.reasons.push(format!("{grade}:{}", failure.kind.label()));
                return None;
            }
        };
        if text.blocked_by().is_some() {
            return Some(self.blocked(&text, &mut finalizer));
        }
        finalizer.finish(self.runtime, (end.finish, end.is_cut_at_limit), end.usage, self.planned.cost());
        if end.finish == Some(FinishReason::Refusal) {
            return Some(self.declined(Some(end.usage)));
        }
        finalizer.reply.answer = std::mem::take(&mut finalizer.text);
        Some(ChatOutcome::Complete(Box::new(finalizer.reply), Some(end.usage)))
    }

    /// A prepared text in place of an answer that the guardrail blocked.
    fn blocked(&mut self, text: &ReleasedText, finalizer: &mut ChatFinalizer<R>) -> ChatOutcome<R> {
        finalizer.fail();
        self.reasons.push(format!("guardrail:{}", text.blocked_by().unwrap_or_default()));
        self.redirect()
    }
}

/// The earlier of two waits, as far as known.
fn soonest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// Minimum time for a cache lookup, even if the deadline is exhausted.
const MIN_LOOKUP_TIME: Duration = Duration::from_millis(20);

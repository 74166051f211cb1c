//! The fallback cascade of the chat face: tries the rungs of the plan until one answers. The last rung always does.
//!
//! Models are always asked for a stream, even if the caller wants none, so that a model that does not start in time is
//! detected in time. A caller that wants a non-streamed answer receives it when the stream has ended. Nothing was
//! delivered until then, so a stream that breaks off is replaced by the next rung.

use super::try_once::{Begun, Content, read_frame};
use super::unanswered::{Unanswered, soonest};
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::chat::{ChatAsk, ChatFinish, ChatReply, ChatText, apology};
use crate::chat_rules::ChatRules;
use crate::flight::{Joined, Lead};
use crate::guardrail::{GuardrailDecision, check_neighbours};
use crate::path::Path;
use crate::plan::PlannedRequest;
use crate::receive::request_name;
use crate::settle::Tally;
use crate::shelf::{KeptQuestion, end_of};
use seawall_core::cache_policy::{AnswerEnd, CacheAgeDecision, CacheKey, CacheSituation, FlightKey};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::{Runtime, within};
use seawall_core::money::{Money, Usage};
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
    pub(crate) ask: ChatAsk,
    /// A digest of the conversation so far.
    pub(crate) history: String,
}

/// An answer of the chat face.
pub(crate) enum Said<R: Runtime> {
    /// A complete answer, with the usage of the attempt that produced it, if any.
    Whole(Box<ChatReply>, Option<Usage>),
    /// The start of a streamed answer.
    Begun(Box<Begun>, Box<Attempt<R>>, Box<Telling<R>>),
}

/// State to finish a model's answer with: the final event, the cache entry and the waiters of the flight.
pub(crate) struct Telling<R: Runtime> {
    /// The reply without its text, usage and finish reason.
    pub(crate) reply: ChatReply,
    pub(crate) ask_language: seawall_core::strategy::Language,
    text: String,
    /// Whether the text exceeded the maximum that is kept.
    is_too_long: bool,
    question: KeptQuestion,
    rules: Arc<ChatRules>,
    grade: Grade,
    lead: Option<Lead<R>>,
}

impl<R: Runtime> Telling<R> {
    pub(crate) fn add(&mut self, text: &str) {
        if self.text.len().saturating_add(text.len()) > MOST_TEXT {
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
        (finish, is_stopped): (Option<seawall_wire::chat::FinishReason>, bool),
        usage: Usage,
        cost: Money,
    ) -> &ChatReply {
        let (text, end): (Arc<str>, _) = (self.text.as_str().into(), end_of(finish));
        let key = self.question.key_for(&text).filter(|_| !self.is_too_long);
        // If the answer turned out to be private to its caller, it is not shared.
        let may_share = key.is_some() && key == self.question.key();
        if let Some(key) = key {
            self.rules.shelf.keep(key, Arc::clone(&text), end, self.grade, runtime.now().utc);
        }
        if let Some(lead) = self.lead.take() {
            if may_share && end == AnswerEnd::Finished { lead.answered(&text) } else { lead.failed() }
        }
        (self.reply.usage, self.reply.cost) = (usage, cost);
        self.reply.finish = finish.map_or(ChatFinish::Finished, ChatFinish::of);
        if is_stopped {
            self.reply.finish = ChatFinish::Budget;
        }
        &self.reply
    }

    /// The model or its vendor declined. If nothing was sent yet, a prepared text is the answer.
    pub(crate) fn decline(&mut self) -> (&'static str, &ChatReply) {
        let words = ChatText::Redirect.words(self.ask_language);
        (self.reply.rung, self.reply.target) = (Rung::Apology, None);
        self.reply.reasons.push(VENDOR_GUARDRAIL.to_owned());
        words.clone_into(&mut self.reply.answer);
        (words, &self.reply)
    }

    /// Ends the flight without an answer.
    pub(crate) fn fail(&mut self) {
        if let Some(lead) = self.lead.take() {
            lead.failed();
        }
    }
}

pub(crate) async fn answer_chat<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    question: &ChatQuestion,
    rules: &Arc<ChatRules>,
    tally: &Arc<Tally>,
) -> Said<R> {
    let kept =
        KeptQuestion::new(&question.ask, question.history.clone(), planned.caller.id, rules.versions());
    let first_text = Deadline::after(planned.request.received.monotonic, rules.reserves.total());
    let mut talk = Talk {
        path,
        planned,
        question,
        rules,
        tally,
        key: kept.key(),
        kept,
        first_text,
        walk: Walk::new(path, planned, tally),
        reasons: planned.plan.reasons.iter().map(ToString::to_string).collect(),
        retry_after: None,
    };
    if let GuardrailDecision::Block { rule } = check_talk(&question.ask, rules) {
        talk.reasons.push(format!("guardrail:{rule}"));
        return talk.redirect();
    }
    for rung in &planned.plan.rungs {
        let said = match rung {
            Rung::StrongModel | Rung::FastModel if planned.is_day_spent => {
                let grade = if *rung == Rung::StrongModel { Grade::Strong } else { Grade::Fast };
                talk.reasons.push(format!("{grade}:budget_spent"));
                None
            }
            Rung::FreshCache => talk.look_at_shelf(true).await,
            Rung::StrongModel => talk.ask_models(Grade::Strong).await,
            Rung::FastModel => talk.ask_models(Grade::Fast).await,
            Rung::StaleCache => talk.look_at_shelf(false).await,
            // Prepared answers are not implemented yet.
            Rung::Template | Rung::Faq | Rung::Apology => None,
        };
        if let Some(said) = said {
            return said;
        }
    }
    talk.apology()
}

/// Checks the message and the conversation so far, which is also sent to the model. Consecutive turns of one side are
/// checked as one text.
fn check_talk(ask: &ChatAsk, rules: &ChatRules) -> GuardrailDecision {
    if rules.guardrails.0.is_empty() {
        return GuardrailDecision::Pass;
    }
    let turns = ask.history.iter().map(|turn| (turn.role, turn.text.as_str()));
    let turns: Vec<_> = turns.chain([(Role::User, ask.message.as_str())]).collect();
    let sides = turns.chunk_by(|one, next| one.0 == next.0);
    let mut decisions = sides.map(|side| {
        let texts: Vec<&str> = side.iter().map(|(_, text)| *text).collect();
        check_neighbours(&texts, &rules.guardrails)
    });
    decisions.find(|decision| *decision != GuardrailDecision::Pass).unwrap_or(GuardrailDecision::Pass)
}

/// The state of one message in the fallback cascade.
struct Talk<'a, R: Runtime> {
    path: &'a Path<R>,
    planned: &'a PlannedRequest,
    question: &'a ChatQuestion,
    rules: &'a Arc<ChatRules>,
    tally: &'a Arc<Tally>,
    kept: KeptQuestion,
    key: Option<CacheKey>,
    /// Deadline for the first text.
    first_text: Deadline,
    walk: Walk<'a, R>,
    /// Why no better rung answered.
    reasons: Vec<String>,
    retry_after: Option<Duration>,
}

impl<R: Runtime> Talk<'_, R> {
    fn reply(&self, rung: Rung, answer: String) -> ChatReply {
        let request_id = match &self.question.ask.request_id {
            Some(name) => name.clone(),
            None => request_name(self.planned.request.id).to_string(),
        };
        ChatReply {
            answer,
            rung,
            reasons: self.reasons.clone(),
            request_id,
            session: self.question.ask.session.clone(),
            usage: Usage::default(),
            cost: self.tally.cost(),
            target: None,
            finish: ChatFinish::Finished,
            retry_after: None,
        }
    }

    fn ready(reply: ChatReply) -> Said<R> {
        Said::Whole(Box::new(reply), None)
    }

    /// A prepared text in place of an answer that a guardrail blocked.
    fn redirect(&self) -> Said<R> {
        let words = ChatText::Redirect.words(self.question.ask.language());
        let mut reply = self.reply(Rung::Apology, words.to_owned());
        reply.finish = ChatFinish::Blocked;
        Self::ready(reply)
    }

    /// The same for a model or vendor that declined. No other model is tried, because it might answer what was blocked.
    fn declined(&mut self, usage: Option<Usage>) -> Said<R> {
        self.reasons.push(VENDOR_GUARDRAIL.to_owned());
        let words = ChatText::Redirect.words(self.question.ask.language());
        let mut reply = self.reply(Rung::Apology, words.to_owned());
        reply.finish = ChatFinish::Refused;
        reply.usage = usage.unwrap_or_default();
        Said::Whole(Box::new(reply), usage)
    }

    fn apology(&self) -> Said<R> {
        let words = apology(self.question.ask.language(), self.path.runtime.draw());
        let mut reply = self.reply(Rung::Apology, words.to_owned());
        reply.retry_after = self.retry_after;
        Self::ready(reply)
    }

    /// A cached answer: before models are called, or after they failed.
    async fn look_at_shelf(&mut self, before_models: bool) -> Option<Said<R>> {
        let key = self.key.as_ref()?;
        let now = self.path.runtime.now();
        let limit = self.rules.reserves.at(1, self.first_text);
        // The lookup must leave enough time for an apology.
        let look = self.rules.shelf.load(key, now.utc);
        let stored = within(&self.path.runtime, limit.max(Deadline::after(now.monotonic, LOOK)), look).await;
        self.tally.add_wait(self.path.runtime.monotonic() - now.monotonic);
        let stored = stored.flatten()?;
        let situation = if before_models {
            CacheSituation::BeforeModels { may_ask: self.planned.plan.ceiling }
        } else {
            CacheSituation::ModelsFailed
        };
        let rung = match self.rules.ages.decide(&stored.kept, now.utc, situation) {
            CacheAgeDecision::Fresh => Rung::FreshCache,
            // A request that may call a model waits for its answer: refresh in the background is not implemented yet.
            CacheAgeDecision::StaleWhileRefreshing | CacheAgeDecision::Gone => return None,
            CacheAgeDecision::StaleWithoutRefresh | CacheAgeDecision::StaleIfModelsFail => Rung::StaleCache,
        };
        // The guardrails may have changed since the answer was stored.
        if self.rules.guardrails.check_answer(&stored.text) != GuardrailDecision::Pass {
            return None;
        }
        Some(Self::ready(self.reply(rung, stored.text.into())))
    }

    /// Calls models of this grade.
    async fn ask_models(&mut self, grade: Grade) -> Option<Said<R>> {
        let targets: Vec<_> =
            self.planned.route.targets.iter().filter(|target| target.grade == grade).cloned().collect();
        let now = self.path.runtime.monotonic();
        let by = match grade {
            Grade::Strong => self.rules.reserves.first(self.first_text),
            Grade::Fast => self.rules.reserves.at(0, self.first_text),
        };
        if targets.is_empty() || by.has_passed(now) {
            return None;
        }
        let lead = match self.join(grade, by).await {
            Joined::Lead(lead) => Some(lead),
            Joined::Alone => None,
            Joined::Answer(text) => {
                return Some(Self::ready(self.reply(Rung::FreshCache, text.as_ref().to_owned())));
            }
            Joined::NextRung => {
                self.reasons.push(format!("{grade}:others_ask"));
                return None;
            }
        };
        match self.walk.ask(&targets, by, Duration::MAX).await {
            Ok((attempt, Content::Begun(begun))) => self.begun(attempt, *begun, grade, lead).await,
            // Unreachable: models are always asked for streams.
            Ok((_, Content::Whole(_))) => None,
            Err(unanswered) => {
                if let Some(lead) = lead {
                    lead.failed();
                }
                if unanswered.is_filtered() {
                    return Some(self.declined(None));
                }
                self.note(grade, &unanswered);
                None
            }
        }
    }

    async fn join(&self, grade: Grade, by: Deadline) -> Joined<R> {
        let Some(key) = self.key.clone() else { return Joined::Alone };
        let now = self.path.runtime.monotonic();
        let joined = self.rules.flights.join(&self.path.runtime, &FlightKey { key, grade }, by).await;
        self.tally.add_wait(self.path.runtime.monotonic() - now);
        joined
    }

    fn note(&mut self, grade: Grade, unanswered: &Unanswered) {
        self.reasons.push(format!("{grade}:{}", unanswered.label()));
        self.retry_after = soonest(self.retry_after, unanswered.retry_after());
    }

    async fn begun(
        &mut self,
        attempt: Box<Attempt<R>>,
        mut begun: Begun,
        grade: Grade,
        lead: Option<Lead<R>>,
    ) -> Option<Said<R>> {
        let rung = match grade {
            Grade::Strong => Rung::StrongModel,
            Grade::Fast => Rung::FastModel,
        };
        let mut reply = self.reply(rung, String::new());
        reply.target = Some(attempt.target.name.as_ref().to_owned());
        let mut telling = Telling {
            reply,
            ask_language: self.question.ask.language(),
            text: String::new(),
            is_too_long: false,
            question: self.kept.clone(),
            rules: Arc::clone(self.rules),
            grade,
            lead,
        };
        telling.add(&begun.stream.take_text());
        if self.question.ask.stream {
            // Nothing was sent yet, so a prepared text can replace the answer.
            if begun.stream.is_finished() && begun.stream.is_declined() {
                telling.fail();
                return Some(self.declined(Some(attempt.usage)));
            }
            return Some(Said::Begun(Box::new(begun), attempt, Box::new(telling)));
        }
        self.collected(attempt, begun, telling, grade).await
    }

    /// Reads a stream to its end, for a caller that wants a non-streamed answer.
    async fn collected(
        &mut self,
        mut attempt: Box<Attempt<R>>,
        mut begun: Begun,
        mut telling: Telling<R>,
        grade: Grade,
    ) -> Option<Said<R>> {
        let (runtime, request) = (&self.path.runtime, &self.planned.request);
        let began = runtime.monotonic();
        let mut turns = 0_u32;
        let time = &request.rules.time;
        let deadline = request.deadline.within(attempt.started, time.attempt);
        let outcome = loop {
            telling.add(&begun.stream.take_text());
            begun.held.clear();
            if telling.is_too_long {
                break Err(Failure::of(FailureKind::Unrecognised));
            }
            if begun.stream.is_finished() {
                break Ok(());
            }
            let now = runtime.monotonic();
            // Checked explicitly: while frames are always ready, the timer is never polled.
            if deadline.has_passed(now) {
                break Err(Failure::of(FailureKind::TimedOut));
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(MOST_AT_ONCE) {
                let_others_go().await;
            }
            let until = deadline.within(now, time.stream_gap);
            let frames = &mut begun.frames;
            let next = within(runtime, until, poll_fn(|context| frames.poll_frame(context))).await;
            let Some(next) = next else { break Err(Failure::of(FailureKind::TimedOut)) };
            if let Err(failure) = read_frame(&mut begun.stream, next, &mut attempt, &mut begun.held) {
                break Err(failure);
            }
        };
        self.tally.add_wait(runtime.monotonic() - began);
        match outcome {
            Ok(()) => {
                let usage = attempt.usage;
                let end = (begun.stream.finish(), begun.stream.is_stopped());
                telling.finish(runtime, end, usage, self.tally.cost());
                if begun.stream.is_declined() {
                    return Some(self.declined(Some(usage)));
                }
                telling.reply.answer = std::mem::take(&mut telling.text);
                Some(Said::Whole(Box::new(telling.reply), Some(usage)))
            }
            Err(_) if begun.stream.blocked_by().is_some() => {
                attempt.block();
                telling.fail();
                let rule = begun.stream.blocked_by().unwrap_or_default();
                self.reasons.push(format!("guardrail:{rule}"));
                Some(self.redirect())
            }
            Err(failure) => {
                attempt.fail(&failure);
                telling.fail();
                // However the connection ended: another model might answer what was blocked.
                if begun.stream.is_declined() {
                    return Some(self.declined(Some(attempt.usage)));
                }
                self.reasons.push(format!("{grade}:{}", failure.kind.label()));
                None
            }
        }
    }
}

/// Maximum bytes of text of a non-streamed answer. A longer answer is not cached, and is a failure if the caller wants
/// it non-streamed.
const MOST_TEXT: usize = 1 << 20;

/// Number of immediately ready frames to read before yielding to other tasks of the thread.
const MOST_AT_ONCE: u32 = 64;

async fn let_others_go() {
    let mut has_gone = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_gone, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Minimum time for a cache lookup, even if the deadline is exhausted.
const LOOK: Duration = Duration::from_millis(20);

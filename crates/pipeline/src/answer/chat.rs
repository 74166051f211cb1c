//! How our own face answers: down the rungs of the plan, until one has an answer. The last always has.
//!
//! Models are always asked for a stream, whatever the caller wants: a model that does not begin in time is found out in time.
//! Who wants the answer in one piece gets it when the stream has ended; until then nothing was delivered, so that a stream
//! which breaks off is replaced by the next rung.

use super::try_once::{Begun, Content, read_frame};
use super::unanswered::{Unanswered, soonest};
use super::walk::Walk;
use crate::attempt::Attempt;
use crate::chat::{ChatAsk, ChatFinish, ChatReply, ChatText, apology};
use crate::chat_rules::ChatRules;
use crate::flight::{Joined, Lead};
use crate::guardrail::{Guardrail as _, GuardrailDecision};
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
use seawall_wire::chat::FinishReason;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A question of our own face.
pub(crate) struct ChatQuestion {
    pub(crate) ask: ChatAsk,
    /// A digest of what was said before.
    pub(crate) history: String,
}

/// An answer of our own face.
pub(crate) enum Said<R: Runtime> {
    /// All of it, with the attempt that it came from, if one did.
    Whole(Box<ChatReply>, Option<Usage>),
    /// Its beginning.
    Begun(Box<Begun>, Box<Attempt<R>>, Box<Telling<R>>),
}

/// What is still to be said and done when a model's answer has ended.
pub(crate) struct Telling<R: Runtime> {
    /// All but its text, its use and its end.
    pub(crate) reply: ChatReply,
    pub(crate) ask_language: seawall_core::strategy::Language,
    text: String,
    /// Whether there was more text than anybody is told in one piece.
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

    /// The answer is whole: it is kept, shared with who waits for it, and told how it came about.
    pub(crate) fn finish(
        &mut self,
        runtime: &R,
        (finish, is_stopped): (Option<seawall_wire::chat::FinishReason>, bool),
        usage: Usage,
        cost: Money,
    ) -> &ChatReply {
        let (text, end): (Arc<str>, _) = (self.text.as_str().into(), end_of(finish));
        let key = self.question.key_for(&text).filter(|_| !self.is_too_long);
        // What turns out to be its caller's own business is nobody else's.
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

    /// There will be no whole answer.
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
    // What was said before is part of what a model is asked.
    let texts = question.ask.history.iter().map(|turn| &turn.text).chain([&question.ask.message]);
    let mut decisions = texts.map(|text| rules.guardrails.check_question(text));
    if let Some(GuardrailDecision::Block { rule }) = decisions.find(|it| *it != GuardrailDecision::Pass) {
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
            // Nobody has prepared any yet.
            Rung::Template | Rung::Faq | Rung::Apology => None,
        };
        if let Some(said) = said {
            return said;
        }
    }
    talk.apology()
}

/// One question on its way down the rungs.
struct Talk<'a, R: Runtime> {
    path: &'a Path<R>,
    planned: &'a PlannedRequest,
    question: &'a ChatQuestion,
    rules: &'a Arc<ChatRules>,
    tally: &'a Arc<Tally>,
    kept: KeptQuestion,
    key: Option<CacheKey>,
    /// By when there must be something to read.
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

    /// Our own words in place of an answer that must not be given.
    fn redirect(&self) -> Said<R> {
        let words = ChatText::Redirect.words(self.question.ask.language());
        let mut reply = self.reply(Rung::Apology, words.to_owned());
        reply.finish = ChatFinish::Blocked;
        Self::ready(reply)
    }

    /// The same for a model, or its vendor, that declined. No other model is asked: it would answer what was blocked.
    fn declined(&mut self, usage: Option<Usage>) -> Said<R> {
        self.reasons.push("guardrail:vendor".to_owned());
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

    /// An answer that was kept: before models are asked, or in their place.
    async fn look_at_shelf(&mut self, before_models: bool) -> Option<Said<R>> {
        let key = self.key.as_ref()?;
        let now = self.path.runtime.now();
        let limit = self.rules.reserves.at(1, self.first_text);
        // Looking must not take the time in which one could still apologise.
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
            // Who may ask a model waits for its answer: refreshing behind somebody's back is a later stage's work.
            CacheAgeDecision::StaleWhileRefreshing | CacheAgeDecision::Gone => return None,
            CacheAgeDecision::StaleWithoutRefresh | CacheAgeDecision::StaleIfModelsFail => Rung::StaleCache,
        };
        // What may not be said any more is not said again.
        if self.rules.guardrails.check_answer(&stored.text) != GuardrailDecision::Pass {
            return None;
        }
        Some(Self::ready(self.reply(rung, stored.text.into())))
    }

    /// An answer of a model of this grade.
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
            // Models are asked for streams.
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
            // Nothing was said yet, so that our own words can take its place.
            if is_declined(&begun) && telling.text.is_empty() {
                telling.fail();
                return Some(self.declined(Some(attempt.usage)));
            }
            return Some(Said::Begun(Box::new(begun), attempt, Box::new(telling)));
        }
        self.collected(attempt, begun, telling, grade).await
    }

    /// The whole of a stream, for who wants it in one piece.
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
            // Frames that are always ready leave no moment for an alarm to ring.
            if request.deadline.has_passed(now) {
                break Err(Failure::of(FailureKind::TimedOut));
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(MOST_AT_ONCE) {
                let_others_go().await;
            }
            let until = request.deadline.within(now, request.rules.time.stream_gap);
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
                if is_declined(&begun) {
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
                self.reasons.push(format!("{grade}:{}", failure.kind.label()));
                None
            }
        }
    }
}

/// Whether a stream has ended with the vendor's, or the model's own, refusal.
fn is_declined(begun: &Begun) -> bool {
    begun.stream.is_finished() && begun.stream.finish() == Some(FinishReason::Refusal)
}

/// An answer in one piece has at most so many bytes of text. More is kept for nobody, and is no answer to who wants it whole.
const MOST_TEXT: usize = 1 << 20;

/// So many frames that are ready are read before others on the same thread have a turn.
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

/// A look at the shelf may take so long even if everything else has taken its time.
const LOOK: Duration = Duration::from_millis(20);

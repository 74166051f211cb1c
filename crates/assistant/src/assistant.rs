//! One message, from its bytes to its reply.

use crate::cascade::{ChatOutcome, ChatQuestion, answer};
use crate::plan::MessageSituation;
use crate::prompt::PreparedChat;
use crate::rules::ChatRules;
use crate::stream::ChatStream;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use seawall_core::runtime::Runtime;
use seawall_core::strategy::Language;
use seawall_core::tokens::Calibration;
use seawall_pipeline::callers::{Caller, CallerIdentity};
use seawall_pipeline::dialect::Face;
use seawall_pipeline::guardrail::Guardrail as _;
use seawall_pipeline::{
    CompleteReply, ModelQuestion, OpenRequest, Pipeline, PlannedQuestion, Rejection, ReplyMetadata,
    RulesSnapshot,
};
use seawall_wire::ApiErrorKind;
use seawall_wire::chat_face::{ChatError, ChatFaceRequest, ChatReply};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Bytes that a dialect adds around the text of a turn.
const TURN_MARKUP_BYTES: usize = 64;

/// Answers chat messages.
pub struct Assistant<R: Runtime> {
    runtime: R,
    pipeline: Arc<Pipeline<R>>,
    /// `None` if no route serves the chat.
    rules: ArcSwapOption<Snapshot>,
}

/// The assistant's rules, and the pipeline's that they were made with.
struct Snapshot {
    chat: Arc<ChatRules>,
    pipeline: RulesSnapshot,
}

/// A message as a face passes it on.
#[derive(Clone, Debug)]
pub struct ChatInbound {
    /// The request ID in responses and logs.
    pub id: u64,
    /// The request body.
    pub body: Bytes,
    /// Whether the headers ask for a stream, which applies if the body does not say.
    pub accepts_stream: bool,
    /// The identity of the caller, as far as the face determined it.
    pub identity: CallerIdentity,
    /// The caller, if the face has just looked it up.
    pub caller: Option<Caller>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<Box<str>>,
}

/// The reply that a face encodes.
pub struct AssistantReply<R: Runtime> {
    /// The answer or rejection.
    pub content: AssistantContent<R>,
    /// How it was produced.
    pub metadata: ReplyMetadata,
    /// The caller's language, if the message could be read.
    pub language: Option<Language>,
}

/// The outcome of a message.
pub enum AssistantContent<R: Runtime> {
    /// A complete answer, for a caller that wants it as a whole.
    Whole(Box<ChatReply>),
    /// A complete answer, for a caller that reads a stream.
    CompleteStream(Box<ChatReply>),
    /// A streamed answer.
    Stream(Box<ChatStream<R>>),
    /// The message was rejected: its caller has to fix it, or to slow down.
    Rejected(Rejection),
}

impl<R: Runtime> Assistant<R> {
    /// An assistant that is not configured yet.
    #[must_use]
    pub fn new(runtime: R, pipeline: Arc<Pipeline<R>>) -> Self {
        Self { runtime, pipeline, rules: ArcSwapOption::empty() }
    }

    /// Replaces the rules; `None` if no route serves the chat. Messages in progress finish under the rules they started
    /// with. The pipeline must already have the rules that these were made with.
    pub fn set_rules(&self, rules: Option<Arc<ChatRules>>) {
        let snapshot = rules.map(|chat| Arc::new(Snapshot { chat, pipeline: self.pipeline.rules() }));
        self.rules.store(snapshot);
    }

    /// The language of replies to callers whose language is not known; English if the chat is not configured.
    #[must_use]
    pub fn default_language(&self) -> Language {
        self.rules.load().as_ref().map_or(Language::English, |rules| rules.chat.language)
    }

    /// Answers a message.
    pub async fn serve(&self, inbound: ChatInbound) -> AssistantReply<R> {
        self.serve_until(inbound, pending()).await
    }

    /// Like [`serve`](Self::serve), but `shutdown` may resolve before the reply is ready. The work is then dropped, which
    /// settles it, and the caller receives a rejection saying that the gateway is shutting down.
    pub async fn serve_until(
        &self,
        inbound: ChatInbound,
        shutdown: impl Future<Output = ()>,
    ) -> AssistantReply<R> {
        let mut open = self.pipeline.begin(inbound.id, Face::Chat);
        let mut language = None;
        let processed = {
            // Boxed: a large future would be copied more than once.
            let mut process = Box::pin(self.process(inbound, &mut open, &mut language));
            let mut shutdown = pin!(shutdown);
            poll_fn(|context| match process.as_mut().poll(context) {
                Poll::Ready(processed) => Poll::Ready(processed),
                Poll::Pending => shutdown.as_mut().poll(context).map(|()| Err(Rejection::ShuttingDown)),
            })
            .await
        };
        let (content, metadata) = match processed {
            Ok(answered) => self.reply(open, answered),
            Err(rejection) => {
                let metadata = open.reject(&rejection);
                (AssistantContent::Rejected(rejection), metadata)
            }
        };
        AssistantReply { content, metadata, language }
    }

    async fn process(
        &self,
        inbound: ChatInbound,
        open: &mut OpenRequest<R>,
        language: &mut Option<Language>,
    ) -> Result<AnsweredMessage<R>, Rejection> {
        let Some(snapshot) = self.rules.load_full() else { return Err(Rejection::ChatNotConfigured) };
        let (question, asked) = read_message(inbound, &snapshot)?;
        *language = Some(question.request.language());
        let admitted = self.pipeline.admit(open, asked).await?;
        let caller = admitted.caller();
        let message = MessageSituation {
            is_suspended: caller.is_suspended,
            ..MessageSituation::of(caller.id, caller.tier)
        };
        let (policy, posture) = (admitted.plan_policy(), admitted.posture());
        let evaluation = snapshot.chat.router.plan(policy, posture, &message, admitted.received().utc);
        let mut planned = self.pipeline.take_plan(open, admitted, evaluation);
        let id = open.id();
        let outcome =
            answer(&self.pipeline, &self.runtime, &mut planned, &question, &snapshot.chat, id).await;
        Ok(AnsweredMessage { question, rules: Arc::clone(&snapshot.chat), planned, outcome })
    }

    fn reply(
        &self,
        mut open: OpenRequest<R>,
        answered: AnsweredMessage<R>,
    ) -> (AssistantContent<R>, ReplyMetadata) {
        let AnsweredMessage { question, rules, planned, outcome } = answered;
        open.set_rung_reasons(match &outcome {
            ChatOutcome::Streaming(_, finalizer) => &finalizer.reply.reasons,
            ChatOutcome::Complete(reply, _) => &reply.reasons,
        });
        match outcome {
            ChatOutcome::Streaming(answer, finalizer) => {
                let (stream, metadata) = self.pipeline.stream(open, &planned, answer, finalizer.reply.rung);
                let inspector = rules.guardrails.inspect_answer();
                let stream = ChatStream::new(&self.runtime, stream, inspector, finalizer);
                (AssistantContent::Stream(Box::new(stream)), metadata)
            }
            ChatOutcome::Complete(reply, usage) => {
                let complete = CompleteReply {
                    rung: reply.rung,
                    target: reply.target.as_deref(),
                    usage: usage.unwrap_or_default(),
                };
                let metadata = self.pipeline.complete(open, &planned, &complete);
                let content = if question.request.stream {
                    AssistantContent::CompleteStream(reply)
                } else {
                    AssistantContent::Whole(reply)
                };
                (content, metadata)
            }
        }
    }
}

/// A message whose answer has begun.
struct AnsweredMessage<R: Runtime> {
    question: ChatQuestion,
    rules: Arc<ChatRules>,
    planned: PlannedQuestion,
    outcome: ChatOutcome<R>,
}

/// Parses a message, and makes the question for models from it.
fn read_message(
    inbound: ChatInbound,
    snapshot: &Snapshot,
) -> Result<(ChatQuestion, ModelQuestion), Rejection> {
    let ChatInbound { id: _, body, accepts_stream, identity, caller, idempotency_key } = inbound;
    let Snapshot { chat, pipeline } = snapshot;
    let rejected = |error: ChatError| rejection(&error);
    let message =
        ChatFaceRequest::read(&body, accepts_stream, pipeline.request_limits()).map_err(rejected)?;
    let calibration = Calibration::default();
    let prepared = chat.prompt.prepare(&message, &chat.prompt_model(&calibration)).map_err(rejected)?;
    let PreparedChat { mut request, history, .. } = prepared;
    request.model.clone_from(&chat.route);
    // The model is always asked for a stream, even if the caller wants none, so that one that does not start is
    // detected in time.
    request.stream = true;
    // A tokenizer produces at most one token per byte, and the markup around each turn is shorter than this allowance.
    let instructions = request.system.iter().map(String::len).sum::<usize>();
    let input_bytes = instructions + body.len() + TURN_MARKUP_BYTES * (request.turns.len() + 1);
    let idempotency_key = idempotency_key.or_else(|| message.request_id.as_deref().map(Into::into));
    let asked = ModelQuestion {
        chat: request,
        received: body,
        input_bytes: input_bytes as u64,
        is_streamed: message.stream,
        identity,
        caller,
        idempotency_key,
        rules: pipeline.clone(),
    };
    Ok((ChatQuestion { request: message, history }, asked))
}

fn rejection(error: &ChatError) -> Rejection {
    match error.api_error_kind() {
        ApiErrorKind::TooLarge => Rejection::TooLarge(error.to_string()),
        _ => Rejection::Malformed(error.to_string()),
    }
}

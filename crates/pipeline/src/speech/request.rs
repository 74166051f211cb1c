//! A request in the caller's words, and in those of each target that is tried.

use super::{Arrival, Face};
use bytes::{Bytes, BytesMut};
use seawall_core::vocabulary::OutputLimitField;
use seawall_provider::TargetDialect;
use seawall_wire::anthropic::{self, USUAL_MAX_OUTPUT};
use seawall_wire::bedrock::{self, BedrockCall, BedrockOperation, ConverseHead, InvokeHead};
use seawall_wire::chat::{ChatRequest, Part};
use seawall_wire::{RequestError, RequestFeatures, RequestLimits, may_have_features, openai, read_features};
use std::sync::OnceLock;

/// Stands in for the model while a request is read whose model is not in its body; each target gets its own name.
const ANY_MODEL: &str = "any";

/// A request of which only the head was read. The rest is read when a target needs it in another dialect, and then kept.
#[derive(Debug)]
pub struct SpokenRequest {
    body: Bytes,
    limits: RequestLimits,
    head: Head,
    /// The features in trial that the caller asks for in a header.
    betas: Vec<String>,
    /// What its bytes do not bound, and what changes its price; most requests have nothing of the sort.
    features: Option<Box<RequestFeatures>>,
    /// The request as all dialects understand it, once somebody has needed it.
    chat: OnceLock<Result<ChatRequest, RequestError>>,
}

#[derive(Debug)]
enum Head {
    Messages(anthropic::RequestHead),
    Completions(openai::RequestHead),
    Invoke { head: InvokeHead, model: String, stream: bool },
    Converse { head: ConverseHead, model: String, stream: bool },
    Chat(ChatRequest),
}

fn read_features_of(
    body: &[u8],
    limits: &RequestLimits,
) -> Result<Option<Box<RequestFeatures>>, RequestError> {
    if !may_have_features(body) {
        return Ok(None);
    }
    let features = read_features(body, limits)?;
    Ok(Some(features).filter(|features| *features != RequestFeatures::default()).map(Box::new))
}

impl SpokenRequest {
    /// Reads a request as far as decisions need it.
    pub fn read(arrival: &Arrival<'_>, body: Bytes, limits: &RequestLimits) -> Result<Self, RequestError> {
        let head = match *arrival {
            Arrival::Messages => Head::Messages(anthropic::read_request(&body, limits)?),
            Arrival::Completions => Head::Completions(openai::read_request(&body, limits)?),
            Arrival::Invoke { model, stream } => {
                let head = bedrock::read_invoke_request(&body, limits)?;
                Head::Invoke { head, model: model.to_owned(), stream }
            }
            Arrival::Converse { model, stream } => {
                let head = bedrock::read_converse_request(&body, limits)?;
                Head::Converse { head, model: model.to_owned(), stream }
            }
        };
        let features = read_features_of(&body, limits)?;
        Ok(Self { body, limits: *limits, head, betas: Vec::new(), features, chat: OnceLock::new() })
    }

    /// A question of our own face, whose answer is wanted as a stream or not.
    #[must_use]
    pub fn of_chat(chat: ChatRequest, stream: bool) -> Self {
        let head = Head::Chat(ChatRequest { stream, stream_usage: stream, ..chat });
        let limits = RequestLimits::default();
        Self { body: Bytes::new(), limits, head, betas: Vec::new(), features: None, chat: OnceLock::new() }
    }

    /// The same request, whose caller named these features in trial in a header, as Anthropic Messages does.
    #[must_use]
    pub fn with_betas(mut self, betas: Vec<String>) -> Self {
        self.betas = betas;
        self
    }

    /// What the caller speaks.
    #[must_use]
    pub const fn face(&self) -> Face {
        match self.head {
            Head::Messages(_) => Face::AnthropicMessages,
            Head::Completions(_) => Face::OpenAiChat,
            Head::Invoke { .. } => Face::BedrockInvoke,
            Head::Converse { .. } => Face::BedrockConverse,
            Head::Chat(_) => Face::Chat,
        }
    }

    /// The model, by the name the caller used.
    #[must_use]
    pub fn model(&self) -> &str {
        match &self.head {
            Head::Messages(head) => &head.model,
            Head::Completions(head) => &head.model,
            Head::Invoke { model, .. } | Head::Converse { model, .. } => model,
            Head::Chat(chat) => &chat.model,
        }
    }

    /// Whether the answer is wanted as a stream.
    #[must_use]
    pub const fn stream(&self) -> bool {
        match &self.head {
            Head::Messages(head) => head.stream,
            Head::Completions(head) => head.stream,
            Head::Invoke { stream, .. } | Head::Converse { stream, .. } => *stream,
            Head::Chat(chat) => chat.stream,
        }
    }

    /// The most tokens that all of the answer can have: what the request allows, for each of the answers it wants, or
    /// [`USUAL_MAX_OUTPUT`] where it says nothing. Every body that is written for a target has this limit in it.
    #[must_use]
    pub fn max_output(&self) -> u64 {
        let choices = match &self.head {
            Head::Completions(head) => head.choices,
            Head::Messages(_) | Head::Invoke { .. } | Head::Converse { .. } | Head::Chat(_) => 1,
        };
        u64::from(self.limit()).saturating_mul(choices.into())
    }

    /// The most tokens that one answer can have.
    fn limit(&self) -> u32 {
        match &self.head {
            Head::Messages(head) => head.max_output,
            Head::Invoke { head, .. } => head.max_output,
            Head::Completions(head) => head.max_output.unwrap_or(USUAL_MAX_OUTPUT),
            Head::Converse { head, .. } => head.max_output.unwrap_or(USUAL_MAX_OUTPUT),
            Head::Chat(chat) => chat.max_output.unwrap_or(USUAL_MAX_OUTPUT),
        }
    }

    /// Whether the caller wants to be told the usage of a stream. Only one dialect leaves that open.
    #[must_use]
    pub const fn wants_usage(&self) -> bool {
        match &self.head {
            Head::Completions(head) => head.include_usage,
            Head::Messages(_) | Head::Invoke { .. } | Head::Converse { .. } | Head::Chat(_) => true,
        }
    }

    /// The features in trial that the caller asks for. A target of Anthropic Messages takes them in a header.
    #[must_use]
    pub fn betas(&self) -> &[String] {
        match &self.head {
            Head::Invoke { head, .. } => &head.betas,
            Head::Messages(_) | Head::Completions(_) | Head::Converse { .. } | Head::Chat(_) => &self.betas,
        }
    }

    /// What its bytes do not bound, and what changes its price, where there is something of the sort.
    #[must_use]
    pub fn features(&self) -> Option<&RequestFeatures> {
        self.features.as_deref()
    }

    /// Whether a target of this dialect gets the fields of the request as they came. In another dialect only what both have
    /// a word for arrives, and nothing of that changes the price.
    #[must_use]
    pub const fn passes_to(&self, target: TargetDialect) -> bool {
        match self.head {
            Head::Messages(_) | Head::Invoke { .. } => {
                matches!(target, TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke)
            }
            Head::Completions(_) => matches!(target, TargetDialect::OpenAiChat),
            Head::Converse { .. } => matches!(target, TargetDialect::BedrockConverse),
            Head::Chat(_) => false,
        }
    }

    /// The bytes as they came; none of a question of our own face.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body for a target that knows the model by this name and takes the limit of output as OpenAI does. An error names
    /// what the target cannot be told.
    pub fn body_for(&self, target: TargetDialect, model: &str) -> Result<Bytes, RequestError> {
        self.body_limited_in(OutputLimitField::MaxCompletionTokens, target, model)
    }

    /// The same for a target that takes the limit of output in this field, where its dialect has several.
    ///
    /// In the same dialect everything else stays as the caller wrote it, but for the limit of output where there was none
    /// or more than one, and the wish for the usage of a stream.
    pub fn body_limited_in(
        &self,
        field: OutputLimitField,
        target: TargetDialect,
        model: &str,
    ) -> Result<Bytes, RequestError> {
        match (&self.head, target) {
            (Head::Messages(head), TargetDialect::AnthropicMessages) => {
                Ok(anthropic::with_model(&self.body, head, model))
            }
            (Head::Completions(head), TargetDialect::OpenAiChat) => {
                openai::for_upstream_within(&self.body, head, model, self.limit(), field)
            }
            // These two name the model in their path.
            (Head::Invoke { .. }, TargetDialect::BedrockInvoke) => Ok(self.body.clone()),
            (Head::Converse { head, .. }, TargetDialect::BedrockConverse) => {
                bedrock::converse_within(&self.body, head, self.limit())
            }
            (Head::Messages(_), TargetDialect::BedrockInvoke) => self.framed(&self.body),
            (Head::Invoke { stream, .. }, TargetDialect::AnthropicMessages) => {
                bedrock::invoke_to_messages(&self.body, &self.limits, model, *stream).map(Bytes::from)
            }
            _ => self.translated(target, model, field),
        }
    }

    fn framed(&self, messages: &[u8]) -> Result<Bytes, RequestError> {
        let betas: Vec<&str> = self.betas.iter().map(String::as_str).collect();
        bedrock::messages_to_invoke(messages, &self.limits, &betas).map(Bytes::from)
    }

    fn translated(
        &self,
        target: TargetDialect,
        model: &str,
        field: OutputLimitField,
    ) -> Result<Bytes, RequestError> {
        let chat = self.chat.get_or_init(|| self.read_chat()).as_ref().map_err(Clone::clone)?;
        let mut out = BytesMut::new();
        match target {
            TargetDialect::AnthropicMessages => anthropic::write_chat_request_for(&mut out, chat, model)?,
            TargetDialect::OpenAiChat => openai::write_chat_request_for(&mut out, chat, model, field)?,
            TargetDialect::BedrockConverse => return bedrock::write_chat_request(chat),
            TargetDialect::BedrockInvoke => {
                anthropic::write_chat_request_for(&mut out, chat, model)?;
                return self.framed(&out);
            }
        }
        Ok(out.freeze())
    }

    fn read_chat(&self) -> Result<ChatRequest, RequestError> {
        let limits = &self.limits;
        let chat = match &self.head {
            Head::Messages(_) => anthropic::read_chat_request(&self.body, limits)?,
            Head::Completions(_) => openai::read_chat_request(&self.body, limits)?,
            Head::Invoke { stream, .. } => {
                let body = bedrock::invoke_to_messages(&self.body, limits, ANY_MODEL, *stream)?;
                anthropic::read_chat_request(body.as_bytes(), limits)?
            }
            Head::Converse { stream, .. } => {
                let operation =
                    if *stream { BedrockOperation::ConverseStream } else { BedrockOperation::Converse };
                let call = BedrockCall { operation, model: ANY_MODEL.to_owned() };
                bedrock::read_chat_request(&call, &self.body, limits)?
            }
            Head::Chat(chat) => chat.clone(),
        };
        // A turn without words is left out of other dialects, and a request without turns asks nothing.
        let has_words = |part: &Part| !matches!(part, Part::Text(text) if text.is_empty());
        if !chat.turns.iter().any(|turn| turn.parts.iter().any(has_words)) {
            return Err(RequestError::Wrong { field: "messages".to_owned(), problem: "must not be empty" });
        }
        // Whoever answers is told the limit that money is reserved for.
        Ok(ChatRequest { max_output: Some(self.limit()), ..chat })
    }
}

//! Requests: parsed in the caller's dialect, written in each target's.

use super::{ApiOperationRef, Face};
use bytes::{Bytes, BytesMut};
use seawall_core::vocabulary::OutputLimitField;
use seawall_provider::{Call, Target, TargetDialect};
use seawall_wire::anthropic;
use seawall_wire::bedrock::{
    self, BedrockCall, BedrockOperation, ConverseHead, InvokeBody, InvokeHead, InvokeHeader, OpaqueHead,
};
use seawall_wire::chat::{ChatRequest, RequestPart};
use seawall_wire::{RequestError, RequestFeatures, RequestLimits, may_have_features, openai, read_features};
use std::sync::OnceLock;

/// Placeholder while parsing a request whose body does not name the model; each target gets its own name.
const ANY_MODEL: &str = "any";

/// A request of which only the head was parsed. The rest is parsed when a target needs another dialect, and then
/// cached.
#[derive(Debug)]
pub struct DialectRequest {
    body: Bytes,
    limits: RequestLimits,
    head: Head,
    headers: DialectHeaders,
    /// Features whose input is not bounded by the body's size, or that change the price. Most requests have none.
    features: Option<Box<RequestFeatures>>,
    /// The request in the common representation, once it was needed.
    chat: OnceLock<Result<ChatRequest, RequestError>>,
}

/// Headers that carry request parameters, like fields of the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialectHeaders {
    /// Beta features that the caller requests, as in Anthropic Messages.
    pub betas: Vec<String>,
    /// The version of Anthropic's API, if it is not the default.
    pub anthropic_version: Option<Box<str>>,
    /// Headers of InvokeModel: guardrail, service tier and so on.
    pub invoke: Vec<InvokeHeader>,
}

#[derive(Debug)]
enum Head {
    Messages(anthropic::MessagesHead),
    Completions(openai::ChatCompletionHead),
    Invoke {
        head: InvokeHead,
        model: String,
        stream: bool,
    },
    /// The body of a model whose format is not known to the gateway.
    Opaque {
        head: OpaqueHead,
        model: String,
        stream: bool,
    },
    Converse {
        head: ConverseHead,
        model: String,
        stream: bool,
    },
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

impl DialectRequest {
    /// Parses as much of a request as decisions need.
    pub fn read(
        operation: &ApiOperationRef<'_>,
        body: Bytes,
        limits: &RequestLimits,
    ) -> Result<Self, RequestError> {
        let head = match *operation {
            ApiOperationRef::Messages => Head::Messages(anthropic::read_request(&body, limits)?),
            ApiOperationRef::Completions => Head::Completions(openai::read_request(&body, limits)?),
            ApiOperationRef::Invoke { model, stream } => {
                let model = model.to_owned();
                match bedrock::read_invoke_body(&body, limits)? {
                    InvokeBody::Anthropic(head) => Head::Invoke { head, model, stream },
                    InvokeBody::Opaque(head) => Head::Opaque { head, model, stream },
                }
            }
            ApiOperationRef::Converse { model, stream } => {
                let head = bedrock::read_converse_request(&body, limits)?;
                Head::Converse { head, model: model.to_owned(), stream }
            }
        };
        let features = read_features_of(&body, limits)?;
        let headers = DialectHeaders::default();
        Ok(Self { body, limits: *limits, head, headers, features, chat: OnceLock::new() })
    }

    /// A request of the chat face, with a streamed or unstreamed answer.
    #[must_use]
    pub fn of_chat(chat: ChatRequest, stream: bool) -> Self {
        let head = Head::Chat(ChatRequest { stream, stream_usage: stream, ..chat });
        let (limits, headers) = (RequestLimits::default(), DialectHeaders::default());
        Self { body: Bytes::new(), limits, head, headers, features: None, chat: OnceLock::new() }
    }

    /// Adds the caller's headers. The error means that they contradict the body.
    pub fn with_headers(mut self, headers: DialectHeaders) -> Result<Self, RequestError> {
        for header in &headers.invoke {
            let mut features = self.features.take().unwrap_or_default();
            header.add_to(&mut features)?;
            self.features = Some(features).filter(|features| **features != RequestFeatures::default());
        }
        self.headers = headers;
        Ok(self)
    }

    /// The protocol that the caller speaks.
    #[must_use]
    pub const fn face(&self) -> Face {
        match self.head {
            Head::Messages(_) => Face::AnthropicMessages,
            Head::Completions(_) => Face::OpenAiChat,
            Head::Invoke { .. } | Head::Opaque { .. } => Face::BedrockInvoke,
            Head::Converse { .. } => Face::BedrockConverse,
            Head::Chat(_) => Face::Chat,
        }
    }

    /// The model name that the caller used.
    #[must_use]
    pub fn model(&self) -> &str {
        match &self.head {
            Head::Messages(head) => &head.model,
            Head::Completions(head) => &head.model,
            Head::Invoke { model, .. } | Head::Opaque { model, .. } | Head::Converse { model, .. } => model,
            Head::Chat(chat) => &chat.model,
        }
    }

    /// Whether a streamed answer is requested.
    #[must_use]
    pub const fn stream(&self) -> bool {
        match &self.head {
            Head::Messages(head) => head.stream,
            Head::Completions(head) => head.stream,
            Head::Invoke { stream, .. } | Head::Opaque { stream, .. } | Head::Converse { stream, .. } => {
                *stream
            }
            Head::Chat(chat) => chat.stream,
        }
    }

    /// The number of answers requested.
    #[must_use]
    pub const fn choices(&self) -> u32 {
        match &self.head {
            Head::Completions(head) => head.choices,
            Head::Opaque { head, .. } => head.answers,
            Head::Messages(_) | Head::Invoke { .. } | Head::Converse { .. } | Head::Chat(_) => 1,
        }
    }

    /// The maximum output tokens per answer, if the request sets them. Every body written for a target contains this
    /// limit.
    #[must_use]
    pub const fn max_output(&self) -> Option<u32> {
        match &self.head {
            Head::Messages(head) => Some(head.max_output),
            Head::Invoke { head, .. } => Some(head.max_output),
            Head::Completions(head) => head.max_output,
            Head::Converse { head, .. } => head.max_output,
            Head::Chat(chat) => chat.max_output,
            // Only the target can parse it.
            Head::Opaque { .. } => None,
        }
    }

    /// Whether the caller wants the usage of a stream. Optional in one dialect only.
    #[must_use]
    pub const fn wants_usage(&self) -> bool {
        match &self.head {
            Head::Completions(head) => head.include_usage,
            Head::Messages(_)
            | Head::Invoke { .. }
            | Head::Opaque { .. }
            | Head::Converse { .. }
            | Head::Chat(_) => true,
        }
    }

    /// The beta features that the caller requests. A target that speaks Anthropic Messages takes them in a header.
    #[must_use]
    pub fn betas(&self) -> &[String] {
        match &self.head {
            Head::Invoke { head, .. } => &head.betas,
            Head::Messages(_)
            | Head::Completions(_)
            | Head::Opaque { .. }
            | Head::Converse { .. }
            | Head::Chat(_) => &self.headers.betas,
        }
    }

    /// Features whose input is not bounded by the body's size, or that change the price, if any.
    #[must_use]
    pub fn features(&self) -> Option<&RequestFeatures> {
        self.features.as_deref()
    }

    /// Whether the request enables thinking, which is billed as output but not always sent.
    #[must_use]
    pub const fn enables_thinking(&self) -> bool {
        match &self.head {
            Head::Messages(head) => head.enables_thinking,
            Head::Completions(head) => head.enables_thinking,
            Head::Invoke { head, .. } => head.enables_thinking,
            Head::Converse { head, .. } => head.enables_thinking,
            // Unknown; some of these models think without being asked.
            Head::Opaque { .. } => true,
            Head::Chat(_) => false,
        }
    }

    /// The number of answers requested from a model of unknown format; `None` if the format is known. Such a body
    /// passes through to models at Bedrock, and its answer is not parsed.
    #[must_use]
    pub const fn opaque_answers(&self) -> Option<u32> {
        match &self.head {
            Head::Opaque { head, .. } => Some(head.answers),
            _ => None,
        }
    }

    /// The dialect to call this target in: the caller's own if the target accepts it, so that nothing is translated;
    /// otherwise the target's default.
    #[must_use]
    pub fn dialect_at(&self, target: &dyn Target) -> TargetDialect {
        let own = match self.head {
            Head::Converse { .. } => TargetDialect::BedrockConverse,
            Head::Opaque { .. } => TargetDialect::BedrockInvoke,
            // InvokeModel with Anthropic's body is for Anthropic's models, whose targets accept it by default.
            Head::Messages(_) | Head::Completions(_) | Head::Invoke { .. } | Head::Chat(_) => {
                return target.dialect();
            }
        };
        if target.accepts(own) { own } else { target.dialect() }
    }

    /// The call for a target with this dialect and model name. `limit` is added as output limit if the request sets
    /// none. The error names what the target does not support.
    pub fn call_for(
        &self,
        limit: Option<u32>,
        field: OutputLimitField,
        dialect: TargetDialect,
        model: &str,
    ) -> Result<Call, RequestError> {
        let takes_headers = dialect == TargetDialect::BedrockInvoke;
        if let Some(header) = self.headers.invoke.iter().find(|header| header.is_binding() && !takes_headers)
        {
            return Err(header.unsupported());
        }
        let mut call = Call::new(self.body_with_limit(limit, field, dialect, model)?, self.stream());
        call.betas = self.betas().to_vec();
        call.dialect = Some(dialect);
        call.anthropic_version.clone_from(&self.headers.anthropic_version);
        if takes_headers {
            call.headers =
                self.headers.invoke.iter().map(|header| (header.name, header.value.clone())).collect();
        }
        Ok(call)
    }

    /// Whether a target of this dialect receives the request's fields unchanged. In another dialect only the common
    /// fields remain, and none of those changes the price.
    #[must_use]
    pub const fn passes_to(&self, target: TargetDialect) -> bool {
        match self.head {
            Head::Messages(_) | Head::Invoke { .. } => {
                matches!(target, TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke)
            }
            Head::Completions(_) => matches!(target, TargetDialect::OpenAiChat),
            Head::Converse { .. } => matches!(target, TargetDialect::BedrockConverse),
            Head::Opaque { .. } => matches!(target, TargetDialect::BedrockInvoke),
            Head::Chat(_) => false,
        }
    }

    /// The received bytes; empty for requests of the chat face.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body for a target with this model name that takes the output limit in OpenAI's current field. The error
    /// names what the target does not support.
    pub fn body_for(&self, target: TargetDialect, model: &str) -> Result<Bytes, RequestError> {
        self.body_with_limit(None, OutputLimitField::MaxCompletionTokens, target, model)
    }

    /// The same with an output limit, which is added if the request sets none, in this field where the dialect has
    /// several.
    ///
    /// In the same dialect everything else stays as the caller wrote it, except for a duplicate output limit and the
    /// option to report the usage of a stream.
    pub fn body_with_limit(
        &self,
        limit: Option<u32>,
        field: OutputLimitField,
        target: TargetDialect,
        model: &str,
    ) -> Result<Bytes, RequestError> {
        match (&self.head, target) {
            (Head::Messages(head), TargetDialect::AnthropicMessages) => {
                Ok(anthropic::with_model(&self.body, head, model))
            }
            (Head::Completions(head), TargetDialect::OpenAiChat) => {
                openai::for_upstream_with_limit(&self.body, head, model, limit, field)
            }
            // These two name the model in the URL.
            (Head::Invoke { .. } | Head::Opaque { .. }, TargetDialect::BedrockInvoke) => {
                Ok(self.body.clone())
            }
            (Head::Converse { head, .. }, TargetDialect::BedrockConverse) => {
                bedrock::converse_with_limit(&self.body, head, limit)
            }
            (Head::Messages(_), TargetDialect::BedrockInvoke) => self.framed(&self.body),
            (Head::Invoke { stream, .. }, TargetDialect::AnthropicMessages) => {
                bedrock::invoke_to_messages(&self.body, &self.limits, model, *stream).map(Bytes::from)
            }
            _ => self.translated(limit, target, model, field),
        }
    }

    fn framed(&self, messages: &[u8]) -> Result<Bytes, RequestError> {
        let betas: Vec<&str> = self.headers.betas.iter().map(String::as_str).collect();
        bedrock::messages_to_invoke(messages, &self.limits, &betas).map(Bytes::from)
    }

    fn translated(
        &self,
        limit: Option<u32>,
        target: TargetDialect,
        model: &str,
        field: OutputLimitField,
    ) -> Result<Bytes, RequestError> {
        let chat = self.chat.get_or_init(|| self.read_chat()).as_ref().map_err(Clone::clone)?;
        let limited;
        let chat = if chat.max_output.is_none() && limit.is_some() {
            limited = ChatRequest { max_output: limit, ..chat.clone() };
            &limited
        } else {
            chat
        };
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
            Head::Opaque { .. } => return Err(bedrock::opaque_unsupported()),
            Head::Chat(chat) => chat.clone(),
        };
        // Other dialects drop empty turns, and a request without turns asks nothing.
        let has_text = |part: &RequestPart| !matches!(part, RequestPart::Text(text) if text.is_empty());
        if !chat.turns.iter().any(|turn| turn.parts.iter().any(has_text)) {
            return Err(RequestError::Invalid {
                field: "messages".to_owned(),
                problem: "at least one message is required",
            });
        }
        // Of several limits the smallest applies, as everywhere.
        Ok(ChatRequest { max_output: self.max_output(), ..chat })
    }
}

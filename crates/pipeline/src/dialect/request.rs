//! Requests: parsed in the caller's dialect, written in each target's.

use super::{DialectId, Face};
use bytes::Bytes;
use seawall_core::vocabulary::OutputLimitField;
use seawall_provider::{Call, Target, TraceHeaders};
use seawall_wire::bedrock::InvokeHeader;
use seawall_wire::chat::{ChatRequest, RequestPart, Usage};
use seawall_wire::dialect::{ModelOperation, OperationAnswer, RequestHead, RequestOptions, UrlParameters};
use seawall_wire::{
    AnswerError, RequestError, RequestFeatures, RequestLimits, may_have_features, prompt_hash,
    prompt_prefix_hash, read_features,
};
use std::sync::{Arc, OnceLock};

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
    /// The request in the common representation, once it was needed; boxed, because most requests never need it.
    chat: OnceLock<Box<Result<ChatRequest, RequestError>>>,
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
    /// The caller's trace, which every target receives.
    pub trace: Option<Arc<TraceHeaders>>,
    /// A hash of the session that the caller names, for routes with an affinity.
    pub session: Option<u64>,
}

#[derive(Debug)]
enum Head {
    Vendor(DialectId, Box<dyn RequestHead>),
    Neutral(Box<ChatRequest>),
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
        dialect: DialectId,
        url: &UrlParameters,
        body: Bytes,
        limits: &RequestLimits,
    ) -> Result<Self, RequestError> {
        let head = Head::Vendor(dialect, dialect.read_head(url, &body, limits)?);
        let features = read_features_of(&body, limits)?;
        let headers = DialectHeaders::default();
        Ok(Self { body, limits: *limits, head, headers, features, chat: OnceLock::new() })
    }

    /// A request without a dialect, whose answer is read as events. `received` are the bytes that it was made from.
    #[must_use]
    pub fn neutral(chat: ChatRequest, received: Bytes) -> Self {
        let head = Head::Neutral(Box::new(ChatRequest { stream_usage: chat.stream, ..chat }));
        let (limits, headers) = (RequestLimits::default(), DialectHeaders::default());
        Self { body: received, limits, head, headers, features: None, chat: OnceLock::new() }
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
            Head::Vendor(dialect, _) => Face::Vendor(dialect),
            Head::Neutral(_) => Face::Chat,
        }
    }

    /// The model name that the caller used.
    #[must_use]
    pub fn model(&self) -> &str {
        match &self.head {
            Head::Vendor(_, head) => head.model(),
            Head::Neutral(chat) => &chat.model,
        }
    }

    /// Whether a streamed answer is requested.
    #[must_use]
    pub fn stream(&self) -> bool {
        match &self.head {
            Head::Vendor(_, head) => head.stream(),
            Head::Neutral(chat) => chat.stream,
        }
    }

    /// What the request asks for.
    #[must_use]
    pub fn operation(&self) -> ModelOperation {
        self.vendor_head().map(RequestHead::operation).unwrap_or_default()
    }

    /// A target's answer to an operation other than generating; `None` if this request generates.
    pub(super) fn read_operation_answer(
        &self,
        target: DialectId,
        body: &Bytes,
        header_usage: Option<Usage>,
    ) -> Option<Result<OperationAnswer, AnswerError>> {
        self.vendor_head()?.read_operation_answer(target, body, header_usage)
    }

    /// The number of answers requested.
    #[must_use]
    pub fn choices(&self) -> u32 {
        self.vendor_head().map_or(1, RequestHead::choices)
    }

    /// The maximum output tokens per answer, if the request sets them. Every body written for a target contains this
    /// limit.
    #[must_use]
    pub fn max_output(&self) -> Option<u32> {
        match &self.head {
            Head::Vendor(_, head) => head.max_output(),
            Head::Neutral(chat) => chat.max_output,
        }
    }

    /// Whether the caller wants the usage of a stream.
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        self.vendor_head().is_none_or(RequestHead::wants_usage)
    }

    /// The beta features that the caller requests. A target that speaks Anthropic Messages takes them in a header.
    #[must_use]
    pub fn betas(&self) -> &[String] {
        self.vendor_head().and_then(RequestHead::betas).unwrap_or(&self.headers.betas)
    }

    fn vendor_head(&self) -> Option<&dyn RequestHead> {
        match &self.head {
            Head::Vendor(_, head) => Some(&**head),
            Head::Neutral(_) => None,
        }
    }

    /// Features whose input is not bounded by the body's size, or that change the price, if any.
    #[must_use]
    pub fn features(&self) -> Option<&RequestFeatures> {
        self.features.as_deref()
    }

    /// Whether the request enables thinking, which is billed as output but not always sent.
    #[must_use]
    pub fn enables_thinking(&self) -> bool {
        self.vendor_head().is_some_and(RequestHead::enables_thinking)
    }

    /// The number of answers requested from a model of unknown format; `None` if the format is known. Such a body
    /// passes through unparsed, and so does its answer.
    #[must_use]
    pub fn opaque_answers(&self) -> Option<u32> {
        self.vendor_head().and_then(RequestHead::opaque_answers)
    }

    /// The dialect to call this target in: the caller's own if the request prefers it and the target accepts it, so that
    /// nothing is translated; otherwise the target's default.
    #[must_use]
    pub fn dialect_at(&self, target: &dyn Target) -> DialectId {
        if self.operation() != ModelOperation::Generate {
            // A target without the operation is skipped, because the request cannot be written for it.
            return target.operation_dialect(self.operation()).unwrap_or(target.dialect());
        }
        match &self.head {
            Head::Vendor(own, head) if head.prefers_own_dialect() && target.accepts(*own) => *own,
            Head::Vendor(..) | Head::Neutral(_) => target.dialect(),
        }
    }

    /// The call for a target with this dialect and model name. `limit` is added as output limit if the request sets
    /// none. The error names what the target does not support.
    pub fn call_for(
        &self,
        limit: Option<u32>,
        field: OutputLimitField,
        dialect: DialectId,
        model: &str,
    ) -> Result<Call, RequestError> {
        let takes_headers = dialect.takes_invoke_headers();
        if let Some(header) = self.headers.invoke.iter().find(|header| header.is_binding() && !takes_headers)
        {
            return Err(header.unsupported());
        }
        let mut call = Call::new(self.body_with_limit(limit, field, dialect, model)?, self.stream());
        call.betas = self.betas().to_vec();
        call.dialect = Some(dialect);
        call.operation = self.operation();
        call.anthropic_version.clone_from(&self.headers.anthropic_version);
        call.trace.clone_from(&self.headers.trace);
        if takes_headers {
            call.headers =
                self.headers.invoke.iter().map(|header| (header.name, header.value.clone())).collect();
        }
        Ok(call)
    }

    /// Whether a target of this dialect receives the request's fields unchanged. In another dialect only the common
    /// fields remain, and none of those changes the price.
    #[must_use]
    pub fn passes_to(&self, target: DialectId) -> bool {
        match &self.head {
            Head::Vendor(own, head) if head.opaque_answers().is_some() => *own == target,
            Head::Vendor(_, head) if head.operation() == ModelOperation::Embed => true,
            Head::Vendor(own, _) => own.body_format() == target.body_format(),
            Head::Neutral(_) => false,
        }
    }

    /// Identifies the session that the caller names; otherwise the beginning of the prompt.
    #[must_use]
    pub fn affinity_key(&self) -> u64 {
        match (self.headers.session, &self.head) {
            (Some(session), _) => session,
            (None, Head::Vendor(..)) => prompt_prefix_hash(&self.body),
            (None, Head::Neutral(chat)) => {
                let parts = chat.turns.first().map(|turn| &*turn.parts).unwrap_or_default();
                let first = parts.iter().find_map(|part| match part {
                    RequestPart::Text(text) => Some(text.as_str()),
                    _ => None,
                });
                prompt_hash(&chat.system, first.unwrap_or_default())
            }
        }
    }

    /// The received bytes.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body for a target with this model name that takes the output limit in OpenAI's current field. The error
    /// names what the target does not support.
    pub fn body_for(&self, target: DialectId, model: &str) -> Result<Bytes, RequestError> {
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
        target: DialectId,
        model: &str,
    ) -> Result<Bytes, RequestError> {
        let options =
            RequestOptions { model, limit, limit_field: field, betas: self.betas(), limits: &self.limits };
        let passed = self.vendor_head().and_then(|head| head.pass_through(&self.body, target, &options));
        passed.unwrap_or_else(|| self.translated(target, &options))
    }

    fn translated(&self, target: DialectId, options: &RequestOptions<'_>) -> Result<Bytes, RequestError> {
        let chat = self.chat.get_or_init(|| Box::new(self.read_chat()));
        let chat = (**chat).as_ref().map_err(Clone::clone)?;
        let written = if chat.max_output.is_none() && options.limit.is_some() {
            target.write_request(&ChatRequest { max_output: options.limit, ..chat.clone() }, options)
        } else {
            target.write_request(chat, options)
        };
        written.map_err(|error| match self.face().dialect() {
            // Callers know the fields of their own dialect.
            Some(own) => error.in_dialect(own.feature_column()),
            None => error,
        })
    }

    /// The tools with free text, if the request was translated.
    pub(super) fn custom_tools(&self) -> &[String] {
        match self.chat.get().map(|chat| &**chat) {
            Some(Ok(chat)) => &chat.settings.custom_tools,
            _ => &[],
        }
    }

    fn read_chat(&self) -> Result<ChatRequest, RequestError> {
        let chat = match &self.head {
            Head::Vendor(_, head) => {
                let chat = head.read_chat(&self.body, &self.limits)?;
                head.check_translatable(&self.body, &self.limits)?;
                chat
            }
            Head::Neutral(chat) => (**chat).clone(),
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

//! First stage: parses and validates the request, and sets its deadline.

use crate::callers::{Caller, CallerIdentity};
use crate::dialect::{DialectHeaders, DialectId, DialectRequest, Face};
use crate::pipeline::Pipeline;
use crate::reply::Rejection;
use crate::rules::{PipelineRules, RulesSnapshot};
use arrayvec::ArrayString;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::evaluator::Posture;
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use seawall_wire::chat::ChatRequest;
use seawall_wire::dialect::UrlParameters;
use seawall_wire::{ApiErrorKind, RequestError};
use std::sync::Arc;

/// The API through which a request arrived, with the parameters from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiOperation {
    /// The dialect.
    pub dialect: DialectId,
    /// The parameters in the URL.
    pub url: UrlParameters,
}

impl ApiOperation {
    /// An operation of a dialect that has all parameters in the body.
    #[must_use]
    pub fn of(dialect: DialectId) -> Self {
        Self { dialect, url: UrlParameters::default() }
    }

    /// The protocol that the caller speaks.
    #[must_use]
    pub const fn face(&self) -> Face {
        Face::Vendor(self.dialect)
    }
}

/// A request as a face passes it to the pipeline.
#[derive(Clone, Debug)]
pub struct InboundRequest {
    /// The request ID in responses and logs.
    pub id: u64,
    /// The API through which it arrived.
    pub operation: ApiOperation,
    /// The identity of the caller, as far as the face determined it.
    pub identity: CallerIdentity,
    /// The caller, if the face has just looked it up ([`Pipeline::find_caller`](crate::Pipeline::find_caller)).
    pub caller: Option<Caller>,
    /// The request body.
    pub body: Bytes,
    /// Headers that carry request parameters, like fields of the body.
    pub headers: DialectHeaders,
    /// The caller's idempotency key, which prevents the request from being executed twice.
    pub idempotency_key: Option<Box<str>>,
}

/// A request that an assistant makes on behalf of a caller. Its answer is read as events.
#[derive(Debug)]
pub struct ModelQuestion {
    /// What the model is asked. It must ask for a stream, and its `model` is the name of a route.
    pub chat: ChatRequest,
    /// The bytes that the caller sent.
    pub received: Bytes,
    /// Upper bound of the input in bytes, and so of the number of its tokens.
    pub input_bytes: u64,
    /// Whether the caller reads the answer as a stream.
    pub is_streamed: bool,
    /// The identity of the caller, as far as the face determined it.
    pub identity: CallerIdentity,
    /// The caller, if the face has just looked it up.
    pub caller: Option<Caller>,
    /// The caller's idempotency key.
    pub idempotency_key: Option<Box<str>>,
    /// The rules that the question was made under.
    pub rules: RulesSnapshot,
}

/// The request ID as written in responses and logs.
#[must_use]
pub fn format_request_id(id: u64) -> ArrayString<20> {
    let mut text = ArrayString::new();
    // Four characters and sixteen digits fit into twenty.
    text.push_str("req_");
    text.push_str(&hex(id));
    text
}

/// A number as sixteen hex digits. It is part of every response and appears twice in every log line, so that it is
/// written without the formatting machinery, which takes ten times as long.
#[must_use]
pub fn hex(number: u64) -> ArrayString<16> {
    let mut digits = [0; 16];
    // Eight bytes fill the buffer, and hex digits are valid UTF-8.
    let _ = hex::encode_to_slice(number.to_be_bytes(), &mut digits);
    ArrayString::from_byte_string(&digits).unwrap_or_default()
}

/// A validated request.
pub(crate) struct ReceivedRequest {
    pub(crate) id: u64,
    pub(crate) identity: CallerIdentity,
    pub(crate) caller: Option<Caller>,
    pub(crate) parsed: DialectRequest,
    /// Whether the asker can answer in other ways if no model does.
    pub(crate) has_lower_rungs: bool,
    /// Size of the input in bytes: an upper bound of the number of its tokens.
    pub(crate) input_bytes: u64,
    pub(crate) idempotency_key: Option<Box<str>>,
    pub(crate) received: Now,
    /// The request must be completely answered by then.
    pub(crate) deadline: Deadline,
    /// The rules in force when the request arrived.
    pub(crate) rules: Arc<PipelineRules>,
    /// The posture in force when the request arrived.
    pub(crate) posture: Arc<Posture>,
}

/// Parses a request of a vendor's dialect.
pub(crate) fn receive<R: Runtime>(
    pipeline: &Pipeline<R>,
    inbound: InboundRequest,
) -> Result<Box<ReceivedRequest>, Rejection> {
    let InboundRequest { id, operation, identity, caller, body, headers, idempotency_key } = inbound;
    let (rules, posture) = (pipeline.rules.load_full(), pipeline.posture.load_full());
    let ApiOperation { dialect, url } = operation;
    let input_bytes = body.len() as u64;
    let parsed = DialectRequest::read(dialect, &url, body, &rules.request);
    let parsed = parsed.and_then(|parsed| parsed.with_headers(headers)).map_err(|error| rejection(&error))?;
    let received = pipeline.runtime.now();
    // Boxed, because it is moved through all stages.
    Ok(Box::new(ReceivedRequest {
        id,
        identity,
        caller,
        parsed,
        has_lower_rungs: false,
        input_bytes,
        idempotency_key,
        received,
        deadline: Deadline::after(received.monotonic, rules.time.api),
        rules,
        posture,
    }))
}

/// Takes a question of an assistant.
pub(crate) fn receive_question<R: Runtime>(
    pipeline: &Pipeline<R>,
    id: u64,
    question: ModelQuestion,
) -> Box<ReceivedRequest> {
    let ModelQuestion { chat, received, input_bytes, is_streamed, identity, caller, idempotency_key, rules } =
        question;
    let RulesSnapshot(rules) = rules;
    let timeout = if is_streamed { rules.time.stream } else { rules.time.request };
    let parsed = DialectRequest::neutral(chat, received);
    let received = pipeline.runtime.now();
    Box::new(ReceivedRequest {
        id,
        identity,
        caller,
        parsed,
        has_lower_rungs: true,
        input_bytes,
        idempotency_key,
        received,
        deadline: Deadline::after(received.monotonic, timeout),
        rules,
        posture: pipeline.posture.load_full(),
    })
}

fn rejection(error: &RequestError) -> Rejection {
    match error.api_error_kind() {
        ApiErrorKind::TooLarge => Rejection::TooLarge(error.to_string()),
        _ => Rejection::Malformed(error.to_string()),
    }
}

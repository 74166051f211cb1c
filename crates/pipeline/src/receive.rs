//! First stage: parses and validates the request, and sets its deadline.

use crate::answer::ChatQuestion;
use crate::callers::{Caller, CallerIdentity};
use crate::chat::{ChatError, ChatFaceRequest, PreparedChat};
use crate::dialect::{DialectHeaders, DialectId, DialectRequest, Face};
use crate::pipeline::Pipeline;
use crate::reply::Rejection;
use crate::rules::PipelineRules;
use arrayvec::ArrayString;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::evaluator::Posture;
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use seawall_core::tokens::Calibration;
use seawall_wire::ApiErrorKind;
use seawall_wire::dialect::UrlParameters;
use std::sync::Arc;

/// The API through which a request arrived, with the parameters from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiOperation {
    /// A vendor's dialect.
    Vendor {
        /// The dialect.
        dialect: DialectId,
        /// The parameters in the URL.
        url: UrlParameters,
    },
    /// The chat face.
    Chat {
        /// Whether the headers ask for a stream, which applies if the body does not say.
        accepts_stream: bool,
    },
}

impl ApiOperation {
    /// An operation of a dialect that has all parameters in the body.
    #[must_use]
    pub fn of(dialect: DialectId) -> Self {
        Self::Vendor { dialect, url: UrlParameters::default() }
    }

    /// The protocol that the caller speaks.
    #[must_use]
    pub const fn face(&self) -> Face {
        match self {
            Self::Vendor { dialect, .. } => Face::Vendor(*dialect),
            Self::Chat { .. } => Face::Chat,
        }
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

/// Bytes that a dialect adds around the text of a turn.
const TURN_MARKUP_BYTES: usize = 64;

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
    /// The chat message, if the request arrived at the chat face.
    pub(crate) chat: Option<Box<ChatQuestion>>,
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

pub(crate) fn receive<R: Runtime>(
    pipeline: &Pipeline<R>,
    inbound: InboundRequest,
) -> Result<Box<ReceivedRequest>, Rejection> {
    let InboundRequest { id, operation, identity, caller, body, headers, idempotency_key } = inbound;
    let (rules, posture) = (pipeline.rules.load_full(), pipeline.posture.load_full());
    let body = match &operation {
        ApiOperation::Chat { accepts_stream } => {
            parse_chat_request(&body, *accepts_stream, idempotency_key, &rules)?
        }
        ApiOperation::Vendor { dialect, url } => {
            parse_vendor_request(*dialect, url, body, idempotency_key, headers, &rules)?
        }
    };
    let ParsedBody { parsed, chat, is_stream, input_bytes, idempotency_key } = body;
    let received = pipeline.runtime.now();
    let timeout = match &chat {
        None => rules.time.api,
        Some(_) if is_stream => rules.time.stream,
        Some(_) => rules.time.request,
    };
    let deadline = Deadline::after(received.monotonic, timeout);
    // Boxed, because it is moved through all stages.
    Ok(Box::new(ReceivedRequest {
        id,
        identity,
        caller,
        parsed,
        chat,
        input_bytes,
        idempotency_key,
        received,
        deadline,
        rules,
        posture,
    }))
}

struct ParsedBody {
    parsed: DialectRequest,
    chat: Option<Box<ChatQuestion>>,
    is_stream: bool,
    input_bytes: u64,
    idempotency_key: Option<Box<str>>,
}

fn parse_vendor_request(
    dialect: DialectId,
    url: &UrlParameters,
    body: Bytes,
    idempotency_key: Option<Box<str>>,
    headers: DialectHeaders,
    rules: &PipelineRules,
) -> Result<ParsedBody, Rejection> {
    let input_bytes = body.len() as u64;
    let parsed = DialectRequest::read(dialect, url, body, &rules.request);
    let parsed = parsed.and_then(|parsed| parsed.with_headers(headers));
    let parsed = parsed.map_err(|error| rejection(&error.into()))?;
    let is_stream = parsed.stream();
    Ok(ParsedBody { parsed, chat: None, is_stream, input_bytes, idempotency_key })
}

fn parse_chat_request(
    body: &[u8],
    accepts_stream: bool,
    idempotency_key: Option<Box<str>>,
    rules: &PipelineRules,
) -> Result<ParsedBody, Rejection> {
    let Some(chat) = &rules.chat else { return Err(Rejection::ChatNotConfigured) };
    let message =
        ChatFaceRequest::read(body, accepts_stream, &rules.request).map_err(|error| rejection(&error))?;
    let calibration = Calibration::default();
    let prepared =
        chat.prompt.prepare(&message, &chat.prompt_model(&calibration)).map_err(|error| rejection(&error))?;
    let PreparedChat { mut request, history, .. } = prepared;
    request.model.clone_from(&chat.route);
    // A tokenizer produces at most one token per byte, and the markup around each turn is shorter than this allowance.
    let instructions = request.system.iter().map(String::len).sum::<usize>();
    let input_bytes = instructions + body.len() + TURN_MARKUP_BYTES * (request.turns.len() + 1);
    let idempotency_key = idempotency_key.or_else(|| message.request_id.as_deref().map(Into::into));
    // The model is always asked for a stream, even if the caller wants none, so that one that does not start is
    // detected in time.
    let (is_stream, parsed) = (message.stream, DialectRequest::of_chat(request, true));
    let chat = Some(Box::new(ChatQuestion { request: message, history }));
    Ok(ParsedBody { parsed, chat, is_stream, input_bytes: input_bytes as u64, idempotency_key })
}

fn rejection(error: &ChatError) -> Rejection {
    match error.api_error_kind() {
        ApiErrorKind::TooLarge => Rejection::TooLarge(error.to_string()),
        _ => Rejection::Malformed(error.to_string()),
    }
}

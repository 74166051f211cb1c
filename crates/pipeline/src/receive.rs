//! First stage: parses and validates the request, and sets its deadline.

use crate::answer::ChatQuestion;
use crate::callers::{Caller, Proven};
use crate::chat::{ChatAsk, ChatError, PreparedChat};
use crate::path::Path;
use crate::reply::Rejection;
use crate::rules::Rules;
use crate::speech::{Arrival, Face, SpokenHeaders, SpokenRequest};
use arrayvec::ArrayString;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use seawall_core::tokens::Calibration;
use seawall_wire::Refusal;
use std::sync::Arc;

/// The API through which a request arrived, with the parameters from its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arriving {
    /// Anthropic Messages.
    Messages,
    /// OpenAI chat completions.
    Completions,
    /// Bedrock's InvokeModel.
    Invoke {
        /// The requested model.
        model: String,
        /// Whether a streamed answer is requested.
        stream: bool,
    },
    /// Bedrock's Converse.
    Converse {
        /// The requested model.
        model: String,
        /// Whether a streamed answer is requested.
        stream: bool,
    },
    /// The chat face.
    Chat {
        /// Whether the headers ask for a stream, which applies if the body does not say.
        accepts_stream: bool,
    },
}

impl Arriving {
    /// The protocol that the caller speaks.
    #[must_use]
    pub fn face(&self) -> Face {
        self.arrival().map_or(Face::Chat, |arrival| arrival.face())
    }

    /// The arrival at a vendor's face; `None` for the chat face.
    fn arrival(&self) -> Option<Arrival<'_>> {
        Some(match self {
            Self::Messages => Arrival::Messages,
            Self::Completions => Arrival::Completions,
            Self::Invoke { model, stream } => Arrival::Invoke { model, stream: *stream },
            Self::Converse { model, stream } => Arrival::Converse { model, stream: *stream },
            Self::Chat { .. } => return None,
        })
    }
}

/// A request as a face passes it to the pipeline.
#[derive(Clone, Debug)]
pub struct InboundRequest {
    /// The request ID in responses and logs.
    pub id: u64,
    /// The API through which it arrived.
    pub arriving: Arriving,
    /// The verified identity of the caller.
    pub proven: Proven,
    /// The caller, if the face has just looked it up ([`Path::find_caller`](crate::Path::find_caller)).
    pub caller: Option<Caller>,
    /// The request body.
    pub body: Bytes,
    /// Headers that carry request parameters, like fields of the body.
    pub headers: SpokenHeaders,
    /// The caller's idempotency key, which prevents the request from being executed twice.
    pub name: Option<Box<str>>,
}

/// Bytes that a dialect adds around the text of a turn.
const AROUND_A_TURN: usize = 64;

/// The request ID as written in responses and logs.
#[must_use]
pub fn request_name(id: u64) -> ArrayString<20> {
    let mut name = ArrayString::new();
    // Four characters and sixteen digits fit into twenty.
    name.push_str("req_");
    name.push_str(&hex(id));
    name
}

/// A number as sixteen hex digits. Hand-written, because it is part of every response and appears twice in every log
/// line; it takes a tenth of the time of the formatting machinery.
#[must_use]
pub fn hex(number: u64) -> ArrayString<16> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = ArrayString::new();
    for byte in number.to_be_bytes() {
        digits.push(char::from(DIGITS[usize::from(byte >> 4)]));
        digits.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    digits
}

/// A validated request.
pub(crate) struct ReceivedRequest {
    pub(crate) id: u64,
    pub(crate) proven: Proven,
    pub(crate) caller: Option<Caller>,
    pub(crate) spoken: SpokenRequest,
    /// The chat message, if the request arrived at the chat face.
    pub(crate) chat: Option<Box<ChatQuestion>>,
    /// Upper bound of the number of input tokens.
    pub(crate) input_bytes: u64,
    pub(crate) name: Option<Box<str>>,
    pub(crate) received: Now,
    /// The request must be completely answered by then.
    pub(crate) deadline: Deadline,
    /// The rules in force when the request arrived.
    pub(crate) rules: Arc<Rules>,
}

pub(crate) fn receive<R: Runtime>(
    path: &Path<R>,
    inbound: InboundRequest,
) -> Result<Box<ReceivedRequest>, Rejection> {
    let InboundRequest { id, arriving, proven, caller, body, headers, name } = inbound;
    let rules = path.rules.load_full();
    let read = match &arriving {
        Arriving::Chat { accepts_stream } => read_chat(&body, *accepts_stream, name, &rules)?,
        _ => read_spoken(&arriving, body, name, headers, &rules)?,
    };
    let Read { spoken, chat, is_stream, input_bytes, name } = read;
    let received = path.runtime.now();
    let whole = match &chat {
        None => rules.time.api,
        Some(_) if is_stream => rules.time.stream,
        Some(_) => rules.time.request,
    };
    let deadline = Deadline::after(received.monotonic, whole);
    // Boxed, because it is moved through all stages.
    Ok(Box::new(ReceivedRequest {
        id,
        proven,
        caller,
        spoken,
        chat,
        input_bytes,
        name,
        received,
        deadline,
        rules,
    }))
}

struct Read {
    spoken: SpokenRequest,
    chat: Option<Box<ChatQuestion>>,
    is_stream: bool,
    input_bytes: u64,
    name: Option<Box<str>>,
}

fn read_spoken(
    arriving: &Arriving,
    body: Bytes,
    name: Option<Box<str>>,
    headers: SpokenHeaders,
    rules: &Rules,
) -> Result<Read, Rejection> {
    let Some(arrival) = arriving.arrival() else { return Err(Rejection::NoChat) };
    let input_bytes = body.len() as u64;
    let spoken = SpokenRequest::read(&arrival, body, &rules.request);
    let spoken = spoken.and_then(|spoken| spoken.with_headers(headers));
    let spoken = spoken.map_err(|error| refused(&error.into()))?;
    let is_stream = spoken.stream();
    Ok(Read { spoken, chat: None, is_stream, input_bytes, name })
}

fn read_chat(
    body: &[u8],
    accepts_stream: bool,
    name: Option<Box<str>>,
    rules: &Rules,
) -> Result<Read, Rejection> {
    let Some(chat) = &rules.chat else { return Err(Rejection::NoChat) };
    let ask = ChatAsk::read(body, accepts_stream, &rules.request).map_err(|error| refused(&error))?;
    let calibration = Calibration::default();
    let prepared =
        chat.prompt.prepare(&ask, &chat.occasion(&calibration)).map_err(|error| refused(&error))?;
    let PreparedChat { mut request, history, .. } = prepared;
    request.model.clone_from(&chat.route);
    // A tokenizer produces at most one token per byte, and the markup around each turn is shorter than this allowance.
    let instructions = request.system.iter().map(String::len).sum::<usize>();
    let input_bytes = instructions + body.len() + AROUND_A_TURN * (request.turns.len() + 1);
    let name = name.or_else(|| ask.request_id.as_deref().map(Into::into));
    // The model is always asked for a stream, even if the caller wants none, so that one that does not start is
    // detected in time.
    let (is_stream, spoken) = (ask.stream, SpokenRequest::of_chat(request, true));
    let chat = Some(Box::new(ChatQuestion { ask, history }));
    Ok(Read { spoken, chat, is_stream, input_bytes: input_bytes as u64, name })
}

fn refused(error: &ChatError) -> Rejection {
    match error.refusal() {
        Refusal::TooLarge => Rejection::TooLarge(error.to_string()),
        _ => Rejection::Malformed(error.to_string()),
    }
}

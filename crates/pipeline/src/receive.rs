//! The first stage: what came in, checked for shape, with the one deadline it has.

use crate::answer::ChatQuestion;
use crate::callers::{Caller, Proven};
use crate::chat::{ChatAsk, ChatError, PreparedChat};
use crate::path::Path;
use crate::reply::Rejection;
use crate::rules::Rules;
use crate::speech::{Arrival, Face, SpokenRequest};
use arrayvec::ArrayString;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use seawall_core::tokens::Calibration;
use seawall_wire::Refusal;
use std::sync::Arc;

/// How a request came in, with what its path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arriving {
    /// As Anthropic Messages.
    Messages,
    /// As OpenAI chat completions.
    Completions,
    /// As Bedrock's InvokeModel.
    Invoke {
        /// The model that is asked for.
        model: String,
        /// Whether the answer is wanted as a stream.
        stream: bool,
    },
    /// As Bedrock's Converse.
    Converse {
        /// The model that is asked for.
        model: String,
        /// Whether the answer is wanted as a stream.
        stream: bool,
    },
    /// At our own face.
    Chat {
        /// Whether headers ask for a stream, where the body says nothing.
        accepts_stream: bool,
    },
}

impl Arriving {
    /// What the caller speaks.
    #[must_use]
    pub fn face(&self) -> Face {
        self.arrival().map_or(Face::Chat, |arrival| arrival.face())
    }

    /// How it came in at a vendor's face; nothing where that is our own.
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

/// A request as a face hands it over.
#[derive(Clone, Debug)]
pub struct InboundRequest {
    /// Our own name for it, in answers and logs.
    pub id: u64,
    /// How it came in.
    pub arriving: Arriving,
    /// Who asks.
    pub proven: Proven,
    /// What that caller is entitled to, where its face has looked it up ([`Path::find_caller`](crate::Path::find_caller))
    /// only a moment ago.
    pub caller: Option<Caller>,
    /// Its body.
    pub body: Bytes,
    /// Features in trial that it asks for in a header.
    pub betas: Vec<String>,
    /// What its caller calls it, so that it is not done twice.
    pub name: Option<Box<str>>,
}

/// Bytes that a dialect puts around the text of a turn.
const AROUND_A_TURN: usize = 64;

/// What a request is called in answers and logs.
#[must_use]
pub fn request_name(id: u64) -> ArrayString<20> {
    let mut name = ArrayString::new();
    // Four characters and sixteen digits: there is room for them.
    name.push_str("req_");
    name.push_str(&hex(id));
    name
}

/// All sixteen digits of a number. By hand: it is in every answer and twice in every line of the log, and this is a tenth of
/// what formatting takes.
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

/// A request whose shape is right.
pub(crate) struct ReceivedRequest {
    pub(crate) id: u64,
    pub(crate) proven: Proven,
    pub(crate) caller: Option<Caller>,
    pub(crate) spoken: SpokenRequest,
    /// The question itself, where it came in at our own face.
    pub(crate) chat: Option<Box<ChatQuestion>>,
    /// What it has at least as many of as tokens.
    pub(crate) input_bytes: u64,
    pub(crate) name: Option<Box<str>>,
    pub(crate) received: Now,
    /// By when all of it must have been answered.
    pub(crate) deadline: Deadline,
    /// The rules that held when it came in.
    pub(crate) rules: Arc<Rules>,
}

pub(crate) fn receive<R: Runtime>(
    path: &Path<R>,
    inbound: InboundRequest,
) -> Result<Box<ReceivedRequest>, Rejection> {
    let InboundRequest { id, arriving, proven, caller, body, betas, name } = inbound;
    let rules = path.rules.load_full();
    let read = match &arriving {
        Arriving::Chat { accepts_stream } => read_chat(&body, *accepts_stream, name, &rules)?,
        _ => read_spoken(&arriving, body, name, betas, &rules)?,
    };
    let Read { spoken, chat, is_stream, input_bytes, name } = read;
    let received = path.runtime.now();
    let whole = if is_stream { rules.time.stream } else { rules.time.request };
    let deadline = Deadline::after(received.monotonic, whole);
    // It goes through many hands.
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
    betas: Vec<String>,
    rules: &Rules,
) -> Result<Read, Rejection> {
    let Some(arrival) = arriving.arrival() else { return Err(Rejection::NoChat) };
    let input_bytes = body.len() as u64;
    let spoken =
        SpokenRequest::read(&arrival, body, &rules.request).map_err(|error| refused(&error.into()))?;
    let is_stream = spoken.stream();
    Ok(Read { spoken: spoken.with_betas(betas), chat: None, is_stream, input_bytes, name })
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
    // No tokenizer makes more tokens than bytes, and what is written around the text is shorter than this for each turn.
    let instructions = request.system.iter().map(String::len).sum::<usize>();
    let input_bytes = instructions + body.len() + AROUND_A_TURN * (request.turns.len() + 1);
    let name = name.or_else(|| ask.request_id.as_deref().map(Into::into));
    // Models are asked for streams, whatever the caller wants: so one that does not begin is found out in time.
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

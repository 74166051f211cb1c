//! The first stage: what came in, checked for shape, with the one deadline it has.

use crate::callers::Proven;
use crate::path::Path;
use crate::reply::Rejection;
use crate::rules::Rules;
use crate::speech::{Arrival, Face, SpokenRequest};
use arrayvec::ArrayString;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use std::fmt::Write as _;
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
}

impl Arriving {
    /// What the caller speaks.
    #[must_use]
    pub fn face(&self) -> Face {
        self.arrival().face()
    }

    fn arrival(&self) -> Arrival<'_> {
        match self {
            Self::Messages => Arrival::Messages,
            Self::Completions => Arrival::Completions,
            Self::Invoke { model, stream } => Arrival::Invoke { model, stream: *stream },
            Self::Converse { model, stream } => Arrival::Converse { model, stream: *stream },
        }
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
    /// Its body.
    pub body: Bytes,
    /// Features in trial that it asks for in a header.
    pub betas: Vec<String>,
    /// What its caller calls it, so that it is not done twice.
    pub name: Option<Box<str>>,
}

/// What a request is called in answers and logs.
#[must_use]
pub fn request_name(id: u64) -> ArrayString<20> {
    let mut name = ArrayString::new();
    // Four characters and sixteen digits: there is room for them.
    let _ = write!(name, "req_{id:016x}");
    name
}

/// A request whose shape is right.
pub(crate) struct ReceivedRequest {
    pub(crate) id: u64,
    pub(crate) proven: Proven,
    pub(crate) spoken: SpokenRequest,
    pub(crate) name: Option<Box<str>>,
    pub(crate) received: Now,
    /// By when all of it must have been answered.
    pub(crate) deadline: Deadline,
    /// The rules that held when it came in.
    pub(crate) rules: Arc<Rules>,
}

impl ReceivedRequest {
    pub(crate) fn input_bytes(&self) -> u64 {
        self.spoken.body().len() as u64
    }
}

pub(crate) fn receive<R: Runtime>(
    path: &Path<R>,
    inbound: InboundRequest,
) -> Result<ReceivedRequest, Rejection> {
    let InboundRequest { id, arriving, proven, body, betas, name } = inbound;
    let rules = path.rules.load_full();
    let spoken = SpokenRequest::read(&arriving.arrival(), body, &rules.request)
        .map_err(|error| Rejection::Malformed(error.to_string()))?
        .with_betas(betas);
    let received = path.runtime.now();
    let whole = if spoken.stream() { rules.time.stream } else { rules.time.request };
    let deadline = Deadline::after(received.monotonic, whole);
    Ok(ReceivedRequest { id, proven, spoken, name, received, deadline, rules })
}

//! The first stage: what came in, checked for shape, with the one deadline it has.

use crate::path::Path;
use crate::reply::Rejection;
use crate::rules::Rules;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use seawall_wire::anthropic::{RequestHead, read_request};
use std::sync::Arc;

/// A request as a face hands it over.
#[derive(Clone, Debug)]
pub struct InboundRequest {
    /// Our own name for it, in answers and logs.
    pub id: u64,
    /// The key it came with, if any.
    pub api_key: Option<String>,
    /// Its body.
    pub body: Bytes,
}

/// A request whose shape is right.
pub(crate) struct ReceivedRequest {
    pub(crate) id: u64,
    pub(crate) api_key: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) head: RequestHead,
    pub(crate) received: Now,
    /// By when all of it must have been answered.
    pub(crate) deadline: Deadline,
    /// The rules that held when it came in.
    pub(crate) rules: Arc<Rules>,
}

pub(crate) fn receive<R: Runtime>(
    path: &Path<R>,
    inbound: InboundRequest,
) -> Result<ReceivedRequest, Rejection> {
    let InboundRequest { id, api_key, body } = inbound;
    let rules = path.rules.load_full();
    let head =
        read_request(&body, &rules.request).map_err(|error| Rejection::Malformed(error.to_string()))?;
    let received = path.runtime.now();
    let whole = if head.stream { rules.time.stream } else { rules.time.request };
    let deadline = Deadline::after(received.monotonic, whole);
    Ok(ReceivedRequest { id, api_key, body, head, received, deadline, rules })
}

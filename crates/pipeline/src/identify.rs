//! The second stage: who asks, by our own books. What tier a caller has is never read from the request.

use crate::callers::{Caller, NotKnown};
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use seawall_core::handle::Runtime;
use std::time::Duration;

/// When to come back if nobody can say who asks.
const DIRECTORY_AWAY: Duration = Duration::from_secs(1);

/// A request whose caller is known.
pub(crate) struct IdentifiedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
}

pub(crate) async fn identify<R: Runtime>(
    path: &Path<R>,
    request: Box<ReceivedRequest>,
) -> Result<IdentifiedRequest, Rejection> {
    let callers = &request.rules.callers;
    let found = match callers.known(&request.proven, request.received.monotonic) {
        Some(found) => found,
        None => Box::pin(callers.find(&path.runtime, &request.proven)).await,
    };
    match found {
        Ok(caller) => Ok(IdentifiedRequest { request, caller }),
        Err(NotKnown::Unknown) => Err(Rejection::UnknownCaller),
        Err(NotKnown::Revoked) => Err(Rejection::Revoked),
        Err(NotKnown::Unreachable) => {
            Err(Rejection::unavailable(Some(DIRECTORY_AWAY), &request.rules.come_back))
        }
    }
}

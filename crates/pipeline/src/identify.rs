//! The second stage: who asks, by our own books. What tier a caller has is never read from the request.

use crate::callers::{Caller, NotKnown, Proven};
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use crate::rules::Rules;
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
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
    mut request: Box<ReceivedRequest>,
) -> Result<IdentifiedRequest, Rejection> {
    let caller = match request.caller.take() {
        Some(caller) => caller,
        None => find(path, &request.rules, &request.proven, request.received.monotonic).await?,
    };
    Ok(IdentifiedRequest { request, caller })
}

impl<R: Runtime> Path<R> {
    /// Who asks, for a face that wants to know before it reads a body. Refuses whoever is not known.
    pub async fn find_caller(&self, proven: &Proven) -> Result<Caller, Rejection> {
        let now = self.runtime.monotonic();
        // Listed keys, guests and who asked a moment ago are found without a copy of the rules.
        let rules = {
            let rules = self.rules.load();
            if let Some(found) = rules.callers.known(proven, now) {
                return found.map_err(|not_known| refused(not_known, &rules));
            }
            Arc::clone(&rules)
        };
        find(self, &rules, proven, now).await
    }
}

async fn find<R: Runtime>(
    path: &Path<R>,
    rules: &Rules,
    proven: &Proven,
    now: Timestamp,
) -> Result<Caller, Rejection> {
    let found = match rules.callers.known(proven, now) {
        Some(found) => found,
        None => Box::pin(rules.callers.find(&path.runtime, proven)).await,
    };
    found.map_err(|not_known| refused(not_known, rules))
}

fn refused(not_known: NotKnown, rules: &Rules) -> Rejection {
    match not_known {
        NotKnown::Unknown => Rejection::UnknownCaller,
        NotKnown::Revoked => Rejection::Revoked,
        NotKnown::Unreachable => Rejection::unavailable(Some(DIRECTORY_AWAY), &rules.come_back),
    }
}

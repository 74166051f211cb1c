//! Second stage: identifies the caller from the gateway's own records. The tier is never read from the request.

use crate::callers::{Caller, NotKnown, Proven};
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use crate::rules::Rules;
use seawall_core::handle::Runtime;
use seawall_core::time::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Retry hint while the directory is unavailable.
const DIRECTORY_AWAY: Duration = Duration::from_secs(1);

/// A request with its identified caller.
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
    /// Identifies the caller for a face that needs it before reading the body. Rejects unknown callers.
    pub async fn find_caller(&self, proven: &Proven) -> Result<Caller, Rejection> {
        let now = self.runtime.monotonic();
        // Listed keys, guests and cached callers are resolved without cloning the rules.
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
        NotKnown::Unreachable => {
            Rejection::unavailable(Some(DIRECTORY_AWAY), &rules.come_back, "directory_away")
        }
    }
}

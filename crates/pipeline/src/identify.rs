//! Second stage: identifies the caller from the gateway's own records. The tier is never read from the request.
//!
//! Usually the face has already identified the caller, before it read the body. A lookup is repeated if reading the body
//! took time, because a key may have been revoked meanwhile.

use crate::callers::{Caller, CallerIdentity, IdentifyError};
use crate::pipeline::Pipeline;
use crate::receive::ReceivedRequest;
use crate::record::RequestStage;
use crate::reply::{CALLER_DIRECTORY_UNAVAILABLE, Rejection};
use crate::rules::PipelineRules;
use crate::settle::RequestCompletion;
use seawall_core::runtime::Runtime;
use seawall_core::time::{Now, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Retry-After while the caller directory is unavailable.
const DIRECTORY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request with its identified caller.
pub(crate) struct IdentifiedRequest {
    pub(crate) request: Box<ReceivedRequest>,
    pub(crate) caller: Caller,
}

pub(crate) async fn identify<R: Runtime>(
    pipeline: &Pipeline<R>,
    mut request: Box<ReceivedRequest>,
    completion: &mut RequestCompletion<R>,
) -> Result<IdentifiedRequest, Rejection> {
    let (caller, now) = match request.caller.take() {
        // Nothing was looked up, so there is no time to measure.
        Some(caller) => (caller, completion.stage_began()),
        None => {
            let now = request.received.monotonic;
            let caller = find(pipeline, &request.rules, &request.identity, now).await?;
            let caller = caller.check_expiry(request.received.utc);
            let caller = caller.map_err(|error| rejection(error, &request.rules))?;
            (caller, pipeline.runtime.monotonic())
        }
    };
    completion.end_stage(RequestStage::Identify, now);
    Ok(IdentifiedRequest { request, caller })
}

impl<R: Runtime> Pipeline<R> {
    /// Identifies the caller for a face that needs it before reading the body. Rejects unknown callers.
    pub async fn find_caller(&self, identity: &CallerIdentity) -> Result<Caller, Rejection> {
        let Now { monotonic: now, utc } = self.runtime.now();
        // Listed keys, guests and cached callers are resolved without cloning the rules.
        let rules = {
            let rules = self.rules.load();
            if let Some(found) = rules.callers.find_cached(identity, now) {
                let found = found.and_then(|caller| caller.check_expiry(utc));
                return found.map_err(|error| rejection(error, &rules));
            }
            Arc::clone(&rules)
        };
        let found = find(self, &rules, identity, now).await?;
        found.check_expiry(utc).map_err(|error| rejection(error, &rules))
    }
}

async fn find<R: Runtime>(
    pipeline: &Pipeline<R>,
    rules: &PipelineRules,
    identity: &CallerIdentity,
    now: Timestamp,
) -> Result<Caller, Rejection> {
    let found = match rules.callers.find_cached(identity, now) {
        Some(found) => found,
        None => Box::pin(rules.callers.find(&pipeline.runtime, identity)).await,
    };
    found.map_err(|error| rejection(error, rules))
}

fn rejection(error: IdentifyError, rules: &PipelineRules) -> Rejection {
    match error {
        IdentifyError::Unknown => Rejection::UnknownCaller,
        IdentifyError::Revoked => Rejection::Revoked,
        IdentifyError::Expired => Rejection::Expired,
        IdentifyError::DirectoryUnavailable => Rejection::unavailable(
            Some(DIRECTORY_RETRY_AFTER),
            &rules.retry_after,
            CALLER_DIRECTORY_UNAVAILABLE,
        ),
    }
}

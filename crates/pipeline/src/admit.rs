//! The third stage: one all-or-nothing decision over every limit of the caller.

use crate::identify::{Caller, IdentifiedRequest};
use crate::path::Path;
use crate::receive::ReceivedRequest;
use crate::reply::Rejection;
use seawall_core::handle::Runtime;
use seawall_core::quota::{Cost, QuotaDecision, QuotaKey, Scope};

/// A request that every limit has let through. What it took of request limits stays taken.
pub(crate) struct AdmittedRequest {
    pub(crate) request: ReceivedRequest,
    pub(crate) caller: Caller,
}

pub(crate) fn admit<R: Runtime>(
    path: &Path<R>,
    identified: IdentifiedRequest,
) -> Result<AdmittedRequest, Rejection> {
    let IdentifiedRequest { request, caller } = identified;
    let scopes = [
        Scope { group: request.rules.groups.of(caller.tier), key: QuotaKey(caller.id) },
        Scope { group: request.rules.groups.everybody, key: QuotaKey(0) },
    ];
    match path.book.reserve(&scopes, Cost::REQUEST, request.received) {
        Ok(QuotaDecision::Granted { .. }) => Ok(AdmittedRequest { request, caller }),
        Ok(QuotaDecision::RetryAfter(refusal)) => {
            let quota = path.book.quota(refusal.binding.limit);
            let limit = quota.as_ref().map_or("limit", |quota| quota.name());
            Err(Rejection::Limited {
                limit: limit.into(),
                come_back: request.rules.come_back.hint(refusal.wait, path.runtime.draw()),
            })
        }
        // Of one request and these scopes neither can be; refusing is the careful answer.
        Ok(QuotaDecision::TooLarge { .. }) | Err(_) => Err(Rejection::Unavailable { retry_after: None }),
    }
}

//! Fifth stage: obtains an answer from the first target that gives one.
//!
//! | module | what it does |
//! | --- | --- |
//! | `cascade` | fallback cascade over targets, with retries |
//! | `try_once` | one attempt, up to a complete answer or a stream's first content |
//! | `readiness` | whether a target is ready, and how long to wait for one that throttles or does not start |
//! | `reservation` | what an attempt reserves in the ledger, and why that may be refused |
//! | `rotation` | another attempt with another key of the same target |
//! | `last_resort` | tries skipped targets when all others have failed |
//! | `cascade_failure` | why the cascade got no answer, and the resulting rejection |
//! | `target_causes` | why each target did not answer, in words |
//! | `hedge` | a second attempt in parallel to one that is slow to start |

mod cascade;
mod cascade_failure;
mod hedge;
mod last_resort;
mod readiness;
mod reservation;
mod rotation;
mod target_causes;
mod try_once;

pub(crate) use cascade::{CascadeState, TargetCascade};
pub(crate) use cascade_failure::CascadeFailure;
pub(crate) use readiness::caller_key;
pub(crate) use try_once::{AttemptContent, StartedStream, read_chunk};

use crate::attempt::Attempt;
use crate::balance::ordered_targets;
use crate::pipeline::Pipeline;
use crate::plan::{PlannedRequest, model_rung};
use crate::reply::Rejection;
use crate::settle::RequestProgress;
use seawall_core::failure::FailureKind;
use seawall_core::runtime::Runtime;
use seawall_core::vocabulary::Rung;
use std::sync::Arc;

/// An answer that has started.
pub(crate) struct StartedAnswer<R: Runtime> {
    pub(crate) attempt: Box<Attempt<R>>,
    pub(crate) content: AttemptContent,
    pub(crate) rung: Rung,
}

/// A request that no target answered.
pub(crate) struct AnswerFailure {
    pub(crate) rejection: Rejection,
    /// Why each target did not answer, where the rejection does not say so.
    pub(crate) failed_targets: Option<Arc<str>>,
}

pub(crate) async fn answer<R: Runtime>(
    pipeline: &Pipeline<R>,
    planned: &PlannedRequest,
    progress: &Arc<RequestProgress>,
) -> Result<StartedAnswer<R>, AnswerFailure> {
    let mut state = CascadeState::new(pipeline, planned);
    let mut cascade = TargetCascade::new(pipeline, planned, progress, &mut state);
    let deadline = planned.request.deadline;
    let targets = ordered_targets(pipeline, planned);
    match cascade.try_targets(&targets, deadline, planned.route.start_timeout).await {
        Ok((attempt, content)) => {
            let rung = model_rung(attempt.target.grade);
            Ok(StartedAnswer { attempt, content, rung })
        }
        Err(cascade_failure) => {
            let (policy, draw) = (&planned.request.rules.retry_after, pipeline.runtime.draw());
            let failed_targets = cascade_failure.describe_targets(&planned.route.targets);
            let rejection =
                match cascade_failure.into_rejection(progress.attempts(), &planned.caller, policy, draw) {
                    // The caller chose the name, so its absence is the caller's mistake and not the operator's.
                    Rejection::UpstreamFailed { failure, .. }
                        if failure.kind == FailureKind::NotFound && planned.route.passes_names_on() =>
                    {
                        Rejection::UnknownModel(planned.request.parsed.model().to_owned())
                    }
                    rejection => rejection,
                };
            Err(AnswerFailure { rejection, failed_targets })
        }
    }
}

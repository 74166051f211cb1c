//! Fifth stage: obtains an answer from the first rung or target that gives one.
//!
//! | module | what it does |
//! | --- | --- |
//! | `walk` | fallback cascade over targets, with retries |
//! | `try_once` | one attempt, up to a complete answer or a stream's first content |
//! | `chat` | fallback cascade over the rungs, for the chat face |
//! | `turn` | how long to wait for a target that throttles or does not start |
//! | `last_resort` | tries skipped targets when all others have failed |
//! | `unanswered` | why no target answered, and the resulting rejection |
//! | `hedge` | a second attempt in parallel to one that is slow to start |

mod chat;
mod hedge;
mod last_resort;
mod try_once;
mod turn;
mod unanswered;
mod walk;

pub(crate) use chat::{ChatQuestion, Said, Telling, answer_chat};
pub(crate) use try_once::{Begun, Content, read_frame};

use crate::attempt::Attempt;
use crate::path::Path;
use crate::plan::PlannedRequest;
use crate::reply::Rejection;
use crate::settle::Tally;
use seawall_core::handle::Runtime;
use seawall_core::vocabulary::{Grade, Rung};
use std::sync::Arc;
use walk::Walk;

/// An answer that has started.
pub(crate) struct Answered<R: Runtime> {
    pub(crate) attempt: Box<Attempt<R>>,
    pub(crate) content: Content,
    pub(crate) rung: Rung,
}

pub(crate) async fn answer<R: Runtime>(
    path: &Path<R>,
    planned: &PlannedRequest,
    tally: &Arc<Tally>,
) -> Result<Answered<R>, Rejection> {
    let mut walk = Walk::new(path, planned, tally);
    let deadline = planned.request.deadline;
    match walk.ask(&planned.route.targets, deadline, planned.route.start_limit).await {
        Ok((attempt, content)) => {
            let rung = match attempt.target.grade {
                Grade::Strong => Rung::StrongModel,
                Grade::Fast => Rung::FastModel,
            };
            Ok(Answered { attempt, content, rung })
        }
        Err(unanswered) => {
            let (rule, draw) = (&planned.request.rules.come_back, path.runtime.draw());
            Err(unanswered.into_rejection(tally.attempts(), rule, draw))
        }
    }
}

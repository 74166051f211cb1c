//! Plays a script.
//!
//! Each step becomes ready when it is due on the model's clock, and is billed at that moment and not before: a caller
//! that disconnects has been charged for what was delivered. A play spawns no task and does not hold steps back;
//! dropping it ends it.

use crate::engine::{Profile, Script, ScriptAction, ScriptEnding, ScriptHead, ScriptStep};
use crate::shared::OpenCall;
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec::IntoIter;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A script in progress; see the module documentation.
pub struct Playback<T> {
    timer: T,
    /// The arrival time of the request.
    started_at: Timestamp,
    steps: IntoIter<ScriptStep>,
    ending: ScriptEnding,
    call: OpenCall,
    /// The model that charges for it; `None` if the response is not an answer.
    profile: Option<&'static Profile>,
    /// The step to repeat, for a stream that never ends.
    repeated_step: Option<ScriptStep>,
    /// The timer until the next step is due.
    sleep: Option<Sleep>,
    has_ended: bool,
}

impl<T: Timer> Playback<T> {
    pub(crate) fn new(timer: T, started_at: Timestamp, script: Script, call: OpenCall) -> Self {
        let profile = script.profile.filter(|_| script.status() == Some(200));
        let (steps, ending) = (script.steps.into_iter(), script.ending);
        Self {
            timer,
            started_at,
            steps,
            ending,
            call,
            profile,
            repeated_step: None,
            sleep: None,
            has_ended: false,
        }
    }

    /// Waits for the head of the response. Returns `None` if the model breaks the connection instead. Never resolves if
    /// the model hangs without sending anything.
    pub async fn head(&mut self) -> Option<ScriptHead> {
        loop {
            match poll_fn(|context| self.poll_action(context)).await {
                Some(ScriptAction::Head(head)) => return Some(head),
                Some(ScriptAction::Body(_)) => {}
                None => return None,
            }
        }
    }

    /// The next chunk of the body: `None` at a clean end, an error if the connection breaks.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            match ready!(self.poll_action(context)) {
                Some(ScriptAction::Body(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(ScriptAction::Head(_)) => {}
                None if matches!(self.ending, ScriptEnding::Close | ScriptEnding::Reset) => {
                    return Poll::Ready(Some(Err(Failure::of(FailureKind::StreamInterrupted))));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    /// The next action, once it is due; `None` after the last one, when the ending applies.
    pub(crate) fn poll_action(&mut self, context: &mut Context<'_>) -> Poll<Option<ScriptAction>> {
        let Some(at) = self.next_at() else {
            self.end();
            return match self.ending {
                ScriptEnding::Hang | ScriptEnding::Repeat(_) => Poll::Pending,
                ScriptEnding::Complete | ScriptEnding::Early | ScriptEnding::Close | ScriptEnding::Reset => {
                    Poll::Ready(None)
                }
            };
        };
        ready!(self.poll_due(at, context));
        let Some(step) = self.steps.next().or_else(|| self.repeated_step.take()) else {
            return Poll::Ready(None);
        };
        if let Some(profile) = self.profile {
            self.call.deliver(profile, step.charge);
        }
        if self.steps.len() == 0 {
            match self.ending {
                ScriptEnding::Repeat(every) => {
                    self.repeated_step = Some(ScriptStep { at: at.saturating_add(every), ..step.clone() });
                }
                // The end is recorded with the last chunk, because the consumer need not poll again.
                _ => self.end(),
            }
        }
        Poll::Ready(Some(step.action))
    }

    /// What happens after the last step.
    #[cfg(feature = "server")]
    pub(crate) const fn ending(&self) -> ScriptEnding {
        self.ending
    }

    /// Whether nothing more will be sent and the body ends cleanly.
    #[cfg(feature = "server")]
    pub(crate) fn is_at_end(&self) -> bool {
        self.steps.len() == 0 && matches!(self.ending, ScriptEnding::Complete | ScriptEnding::Early)
    }

    fn next_at(&self) -> Option<Duration> {
        self.steps.as_slice().first().or(self.repeated_step.as_ref()).map(|step| step.at)
    }

    fn poll_due(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<()> {
        // A step at time 0 needs no timer; at the instant pace all steps are at time 0.
        if at.is_zero() {
            return Poll::Ready(());
        }
        let (timer, due) = (&self.timer, self.started_at + at);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(timer.sleep_until(due)));
        ready!(sleep.as_mut().poll(context));
        self.sleep = None;
        Poll::Ready(())
    }

    /// Records the end once; polling again after the end counts nothing.
    fn end(&mut self) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        match self.ending {
            ScriptEnding::Complete => self.call.complete(self.profile),
            ScriptEnding::Early | ScriptEnding::Close | ScriptEnding::Reset => self.call.abort(),
            ScriptEnding::Hang | ScriptEnding::Repeat(_) => {}
        }
    }
}

//! A script that is being played.
//!
//! Each step is there when it is due on the model's clock, and is billed then and not before: who goes away has paid for
//! what was delivered. It starts no task and keeps no step back; dropped, it is over.

use crate::engine::{Act, Ending, Head, Profile, Script, Step};
use crate::shared::OpenCall;
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec::IntoIter;

type Alarm = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub struct Play<T> {
    timer: T,
    /// When the request came.
    began: Timestamp,
    steps: IntoIter<Step>,
    ending: Ending,
    call: OpenCall,
    /// Who bills it; nobody when it is no answer.
    profile: Option<&'static Profile>,
    /// What is sent again where it never ends.
    again: Option<Step>,
    /// Runs until the next step is due.
    alarm: Option<Alarm>,
    is_over: bool,
}

impl<T: Timer> Play<T> {
    pub(crate) fn new(timer: T, began: Timestamp, script: Script, call: OpenCall) -> Self {
        let profile = script.profile.filter(|_| script.status() == Some(200));
        let (steps, ending) = (script.steps.into_iter(), script.ending);
        Self { timer, began, steps, ending, call, profile, again: None, alarm: None, is_over: false }
    }

    /// The head of the response; nothing where the model breaks the connection instead. Never there where it says nothing
    /// at all.
    pub async fn head(&mut self) -> Option<Head> {
        loop {
            match poll_fn(|context| self.poll_act(context)).await {
                Some(Act::Head(head)) => return Some(head),
                Some(Act::Body(_)) => {}
                None => return None,
            }
        }
    }

    /// The next piece of the body: nothing at an end in good order, and a failure where the connection breaks.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            match ready!(self.poll_act(context)) {
                Some(Act::Body(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(Act::Head(_)) => {}
                None if matches!(self.ending, Ending::Close | Ending::Reset) => {
                    return Poll::Ready(Some(Err(Failure::of(FailureKind::BrokeMidStream))));
                }
                None => return Poll::Ready(None),
            }
        }
    }

    /// The next thing that is sent, when it is due; nothing once all is, and then the ending comes.
    pub(crate) fn poll_act(&mut self, context: &mut Context<'_>) -> Poll<Option<Act>> {
        let Some(at) = self.next_at() else {
            self.end();
            return match self.ending {
                Ending::Hang | Ending::Repeat(_) => Poll::Pending,
                Ending::Complete | Ending::Early | Ending::Close | Ending::Reset => Poll::Ready(None),
            };
        };
        ready!(self.poll_due(at, context));
        let Some(step) = self.steps.next().or_else(|| self.again.take()) else {
            return Poll::Ready(None);
        };
        if let Some(profile) = self.profile {
            self.call.deliver(profile, step.charge);
        }
        if self.steps.len() == 0 {
            match self.ending {
                Ending::Repeat(every) => {
                    self.again = Some(Step { at: at.saturating_add(every), ..step.clone() });
                }
                // Whoever has the last piece need not ask for the end.
                _ => self.end(),
            }
        }
        Poll::Ready(Some(step.act))
    }

    /// What happens behind the last step.
    #[cfg(feature = "server")]
    pub(crate) const fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether nothing more comes, and the body ends in good order.
    #[cfg(feature = "server")]
    pub(crate) fn is_at_end(&self) -> bool {
        self.steps.len() == 0 && matches!(self.ending, Ending::Complete | Ending::Early)
    }

    fn next_at(&self) -> Option<Duration> {
        self.steps.as_slice().first().or(self.again.as_ref()).map(|step| step.at)
    }

    fn poll_due(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<()> {
        // What is due at once needs no timer, and at an instant pace there is none.
        if at.is_zero() {
            return Poll::Ready(());
        }
        let (timer, due) = (&self.timer, self.began + at);
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(timer.sleep_until(due)));
        ready!(alarm.as_mut().poll(context));
        self.alarm = None;
        Poll::Ready(())
    }

    /// Once: asked again at its end, a play has nothing more to count.
    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        match self.ending {
            Ending::Complete => self.call.complete(self.profile),
            Ending::Early | Ending::Close | Ending::Reset => self.call.broken(),
            Ending::Hang | Ending::Repeat(_) => {}
        }
    }
}

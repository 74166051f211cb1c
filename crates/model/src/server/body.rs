//! A response body that plays the rest of a script.

use super::service::Broken;
use super::{OpenCall, clock};
use crate::engine::{Act, Ending, Profile, Step};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::vec::IntoIter;
use tokio::time::{Instant, Sleep};

/// Sends each step when it is due and bills it then.
pub(super) struct ScriptBody {
    steps: IntoIter<Step>,
    ending: Ending,
    /// When the request came.
    began: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
    /// The call that it answers; none when nobody asked a model.
    call: Option<OpenCall>,
    /// Who bills it; nobody when it is no answer.
    profile: Option<&'static Profile>,
    /// What is sent again where it never ends, and when next.
    again: Option<(Step, Duration)>,
    is_flushed: bool,
}

impl ScriptBody {
    pub(super) fn new(
        steps: IntoIter<Step>,
        ending: Ending,
        began: Instant,
        call: Option<OpenCall>,
        profile: Option<&'static Profile>,
    ) -> Self {
        Self { steps, ending, began, alarm: None, call, profile, again: None, is_flushed: false }
    }

    /// A body that is there at once and costs nothing.
    pub(super) fn of(bytes: Bytes, began: Instant) -> Self {
        let step = Step { at: Duration::ZERO, act: Act::Body(bytes), charge: Default::default() };
        Self::new(vec![step].into_iter(), Ending::Complete, began, None, None)
    }

    fn poll_due(&mut self, at: Duration, context: &mut Context<'_>) -> Poll<()> {
        // What is due at once needs no timer, and at an instant pace there is none.
        if at.is_zero() {
            return Poll::Ready(());
        }
        let due = self.began + at;
        let alarm = self.alarm.get_or_insert_with(|| clock::alarm(due));
        if alarm.deadline() != due {
            alarm.as_mut().reset(due);
        }
        alarm.as_mut().poll(context)
    }

    fn bill(&mut self, step: &Step) {
        let Some(call) = &self.call else { return };
        if let Some(profile) = self.profile {
            call.deliver(profile, step.charge);
        }
        if self.steps.len() > 0 {
            return;
        }
        match self.ending {
            Ending::Complete => call.complete(self.profile),
            Ending::Early | Ending::Close | Ending::Reset => call.broken(),
            Ending::Hang => {}
            Ending::Repeat(every) => self.again = Some((step.clone(), step.at.saturating_add(every))),
        }
    }

    fn poll_ending(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.ending {
            Ending::Complete | Ending::Early => Poll::Ready(None),
            Ending::Hang => Poll::Pending,
            Ending::Repeat(every) => {
                let Some((step, at)) = self.again.take() else { return Poll::Ready(None) };
                if self.poll_due(at, context).is_pending() {
                    self.again = Some((step, at));
                    return Poll::Pending;
                }
                let bytes = if let Act::Body(bytes) = &step.act { bytes.clone() } else { Bytes::new() };
                if let (Some(call), Some(profile)) = (&self.call, self.profile) {
                    call.deliver(profile, step.charge);
                }
                self.again = Some((step, at.saturating_add(every)));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Ending::Close | Ending::Reset => {
                if !self.is_flushed {
                    // An error throws away what is still buffered; a turn of waiting sends it first.
                    self.is_flushed = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(Some(Err(Broken)))
            }
        }
    }
}

impl Body for ScriptBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        loop {
            let Some(at) = this.steps.as_slice().first().map(|step| step.at) else {
                return this.poll_ending(context);
            };
            ready!(this.poll_due(at, context));
            let Some(step) = this.steps.next() else { continue };
            this.bill(&step);
            if let Act::Body(bytes) = step.act {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.len() == 0 && matches!(self.ending, Ending::Complete | Ending::Early)
    }
}

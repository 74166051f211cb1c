//! A response body that plays the rest of a script.

use super::service::Broken;
use super::{Model, clock};
use crate::engine::{Act, Ending, Profile, Step};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::sync::Arc;
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
    /// Who bills it; nobody when it is no answer.
    account: Option<Account>,
    is_flushed: bool,
}

/// Whose bill the steps go on.
pub(super) struct Account {
    pub(super) model: Arc<Model>,
    pub(super) profile: &'static Profile,
}

impl ScriptBody {
    pub(super) fn new(
        steps: IntoIter<Step>,
        ending: Ending,
        began: Instant,
        account: Option<Account>,
    ) -> Self {
        Self { steps, ending, began, alarm: None, account, is_flushed: false }
    }

    /// A body that is there at once and costs nothing.
    pub(super) fn of(bytes: Bytes, began: Instant) -> Self {
        let step = Step { at: Duration::ZERO, act: Act::Body(bytes), charge: Default::default() };
        Self::new(vec![step].into_iter(), Ending::Complete, began, None)
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

    fn bill(&self, step: &Step) {
        let Some(Account { model, profile }) = &self.account else { return };
        let is_last = self.steps.len() == 0 && self.ending == Ending::Complete;
        model.with_bill(|bill| {
            bill.deliver(profile, step.charge);
            if is_last {
                bill.complete(profile);
            }
        });
    }

    fn poll_ending(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.ending {
            Ending::Complete | Ending::Early => Poll::Ready(None),
            Ending::Hang => Poll::Pending,
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

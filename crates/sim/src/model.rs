//! The simulated model as a target, on the virtual clock.

use crate::world::{Sleep, World};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::time::Timestamp;
use seawall_model::bill::Bill;
use seawall_model::engine::{Act, Ask, Ending, Engine, Head, ModelCall, Profile, Script, Step};
use seawall_provider::{Answer, Call, Calling, Frames, Target, TargetDialect};
use seawall_wire::anthropic::read_error;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Plays the scripts of an [`Engine`] without a socket, and keeps its bill. Clones share both.
#[derive(Clone)]
pub struct ModelTarget {
    world: World,
    engine: Arc<Engine>,
    meter: Arc<Mutex<Meter>>,
}

#[derive(Default)]
struct Meter {
    requests: u64,
    in_flight: u64,
    /// The minute in which somebody asked last, and how often.
    minute: (u64, u64),
    bill: Bill,
}

impl ModelTarget {
    /// A model in this world. Faults are timed from the world's beginning.
    #[must_use]
    pub fn new(world: &World, engine: Engine) -> Self {
        Self { world: world.clone(), engine: Arc::new(engine), meter: Arc::default() }
    }

    /// What the model would charge so far.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).bill.clone()
    }

    fn play(&self, body: &[u8]) -> Play {
        let now = self.world.now();
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let at = now - Timestamp::ZERO;
        let minute = at.as_secs() / 60;
        meter.minute = if meter.minute.0 == minute { (minute, meter.minute.1 + 1) } else { (minute, 1) };
        meter.in_flight += 1;
        let ask = Ask {
            number: meter.requests,
            place: meter.requests,
            at,
            in_flight: meter.in_flight,
            this_minute: meter.minute.1,
            call: &ModelCall::Messages,
            body,
        };
        meter.requests += 1;
        let Script { profile, steps, ending, .. } = self.engine.script(&ask);
        if let Some(profile) = profile {
            meter.bill.ask(profile);
        }
        let (world, meter) = (self.world.clone(), Arc::clone(&self.meter));
        Play { world, meter, began: now, profile, steps: steps.into(), ending, again: None, wait: None }
    }
}

impl Target for ModelTarget {
    fn dialect(&self) -> TargetDialect {
        TargetDialect::AnthropicMessages
    }

    fn call(&self, call: Call) -> Calling<'_> {
        let mut play = self.play(&call.body);
        Box::pin(async move {
            let head = match play.next().await {
                Ok(Some(Act::Head(head))) => head,
                // Closed or reset before anything was said.
                Ok(_) | Err(_) => return Err(Failure::of(FailureKind::Unreachable).into()),
            };
            if head.status == 200 && call.stream {
                return Ok(Answer::Stream(Box::new(play)));
            }
            let mut body = BytesMut::new();
            while let Some(act) = play.next().await? {
                if let Act::Body(bytes) = act {
                    body.extend_from_slice(&bytes);
                }
            }
            if head.status == 200 {
                Ok(Answer::Whole { body: body.freeze(), told: None })
            } else {
                Err(refused(&head, &body).into())
            }
        })
    }
}

fn refused(head: &Head, body: &[u8]) -> Failure {
    let retry_after = head.retry_after.map(|wait| wait.as_secs().to_string());
    let header = |name: &str| if name == "retry-after" { retry_after.as_deref() } else { None };
    read_error(head.status, header, body)
}

/// A script that is being played.
struct Play {
    world: World,
    meter: Arc<Mutex<Meter>>,
    began: Timestamp,
    profile: Option<&'static Profile>,
    steps: VecDeque<Step>,
    ending: Ending,
    /// What is sent again where it never ends.
    again: Option<Step>,
    wait: Option<Sleep>,
}

impl Drop for Play {
    fn drop(&mut self) {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).in_flight -= 1;
    }
}

impl Play {
    /// The next thing that is sent; nothing at an end in good order.
    async fn next(&mut self) -> Result<Option<Act>, Failure> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Act>, Failure>> {
        if let (Ending::Repeat(every), true, Some(step)) = (self.ending, self.steps.is_empty(), &self.again) {
            let next = Step { at: step.at + every, ..step.clone() };
            self.steps.push_back(next);
        }
        let Some(step) = self.steps.front() else {
            return match self.ending {
                Ending::Complete => {
                    self.finish();
                    Poll::Ready(Ok(None))
                }
                Ending::Early => Poll::Ready(Ok(None)),
                Ending::Close | Ending::Reset => Poll::Ready(Err(Failure::of(FailureKind::BrokeMidStream))),
                Ending::Hang | Ending::Repeat(_) => Poll::Pending,
            };
        };
        let (world, moment) = (&self.world, self.began + step.at);
        let wait = self.wait.get_or_insert_with(|| world.sleep_until(moment));
        if Pin::new(wait).poll(context).is_pending() {
            return Poll::Pending;
        }
        self.wait = None;
        let Some(step) = self.steps.pop_front() else { return Poll::Ready(Ok(None)) };
        if matches!(self.ending, Ending::Repeat(_)) {
            self.again = Some(step.clone());
        }
        let Step { act, charge, .. } = step;
        if let Some(profile) = self.profile {
            self.meter.lock().unwrap_or_else(PoisonError::into_inner).bill.deliver(profile, charge);
        }
        Poll::Ready(Ok(Some(act)))
    }

    fn finish(&mut self) {
        // Once: asked again at its end, a play has nothing more to count.
        if let Some(profile) = self.profile.take() {
            self.meter.lock().unwrap_or_else(PoisonError::into_inner).bill.complete(profile);
        }
    }
}

impl Frames for Play {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        loop {
            match self.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(None)) => return Poll::Ready(None),
                Poll::Ready(Ok(Some(Act::Body(bytes)))) => return Poll::Ready(Some(Ok(bytes))),
                Poll::Ready(Ok(Some(Act::Head(_)))) => {}
                Poll::Ready(Err(failure)) => return Poll::Ready(Some(Err(failure))),
            }
        }
    }
}

//! Response bodies over an HTTP/2 stream.

use super::failure::read_body_failure;
use super::pool::Lease;
use crate::http1::BodyFailure;
use crate::http1::alarm::{Alarm, moment_after};
use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a response. Dropping it before its end resets its stream and leaves the connection open.
#[must_use = "dropping a body before its end resets the stream"]
pub struct Body<T: Timer> {
    /// `None` once the body has ended or failed.
    arriving: Option<(Incoming, Lease<T>)>,
    timer: T,
    alarm: Alarm,
    gap: Duration,
    /// When to stop waiting for the next frame; set when the wait begins.
    waits_until: Option<Timestamp>,
    bytes_left: u64,
}

impl<T: Timer> Body<T> {
    pub(super) fn new(incoming: Incoming, lease: Lease<T>, (gap, bytes_left): (Duration, u64)) -> Self {
        let timer = lease.timer.clone();
        let arriving = Some((incoming, lease));
        Self { arriving, timer, alarm: Alarm::default(), gap, waits_until: None, bytes_left }
    }

    /// The next frame; `None` at the end and after a failure. A frame is never empty.
    pub fn poll_frame(&mut self, wake: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        loop {
            let Some((incoming, _)) = &mut self.arriving else { return Poll::Ready(None) };
            if incoming.size_hint().lower() > self.bytes_left {
                return Poll::Ready(self.fail(BodyFailure::TooLarge));
            }
            match Pin::new(incoming).poll_frame(wake) {
                Poll::Ready(None) => {
                    if let Some((_, mut lease)) = self.arriving.take() {
                        lease.ended();
                    }
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(self.fail(read_body_failure(&error))),
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers and empty frames carry no content.
                    let content = frame.into_data().ok().filter(|content| !content.is_empty());
                    if let Some(content) = content {
                        return Poll::Ready(self.deliver(content));
                    }
                }
                Poll::Pending => {
                    let timer = &self.timer;
                    let until = *self.waits_until.get_or_insert_with(|| moment_after(timer, self.gap));
                    let late = self.alarm.poll(wake, timer, until);
                    return late.map(|()| self.fail(BodyFailure::TimedOut));
                }
            }
        }
    }

    fn deliver(&mut self, content: Bytes) -> Option<Result<Bytes, BodyFailure>> {
        let Some(left) = self.bytes_left.checked_sub(content.len() as u64) else {
            return self.fail(BodyFailure::TooLarge);
        };
        self.bytes_left = left;
        self.waits_until = None;
        Some(Ok(content))
    }

    fn fail(&mut self, failure: BodyFailure) -> Option<Result<Bytes, BodyFailure>> {
        self.arriving.take().map(|_| Err(failure))
    }
}

//! Response bodies over an HTTP/2 stream.

use super::failure::classify_body_error;
use super::pool::StreamLease;
use crate::http1::BodyFailure;
use crate::http1::reusable_timer::{ReusableTimer, deadline_after};
use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of a response. Dropping it before its end resets its stream and leaves the connection open.
#[must_use = "dropping a body before its end resets the stream"]
pub struct Http2Body<T: Timer> {
    /// `None` once the body has ended or failed.
    incoming_stream: Option<(Incoming, StreamLease<T>)>,
    timer: T,
    timeout_timer: ReusableTimer,
    idle_timeout: Duration,
    /// When to stop waiting for the next chunk; set when the wait begins.
    deadline: Option<Timestamp>,
    bytes_left: u64,
}

impl<T: Timer> Http2Body<T> {
    pub(super) fn new(
        incoming: Incoming,
        lease: StreamLease<T>,
        (idle_timeout, bytes_left): (Duration, u64),
    ) -> Self {
        let timer = lease.timer.clone();
        let incoming_stream = Some((incoming, lease));
        Self {
            incoming_stream,
            timer,
            timeout_timer: ReusableTimer::default(),
            idle_timeout,
            deadline: None,
            bytes_left,
        }
    }

    /// The next chunk; `None` at the end and after a failure. A chunk is never empty.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        loop {
            let Some((incoming, _)) = &mut self.incoming_stream else { return Poll::Ready(None) };
            if incoming.size_hint().lower() > self.bytes_left {
                return Poll::Ready(self.fail(BodyFailure::TooLarge));
            }
            match Pin::new(incoming).poll_frame(context) {
                Poll::Ready(None) => {
                    if let Some((_, mut lease)) = self.incoming_stream.take() {
                        lease.mark_ended();
                    }
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(self.fail(classify_body_error(&error))),
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers and empty frames carry no content.
                    let content = frame.into_data().ok().filter(|content| !content.is_empty());
                    if let Some(content) = content {
                        return Poll::Ready(self.deliver(content));
                    }
                }
                Poll::Pending => {
                    let timer = &self.timer;
                    let until =
                        *self.deadline.get_or_insert_with(|| deadline_after(timer, self.idle_timeout));
                    let timed_out = self.timeout_timer.poll(context, timer, until);
                    return timed_out.map(|()| self.fail(BodyFailure::TimedOut));
                }
            }
        }
    }

    fn deliver(&mut self, content: Bytes) -> Option<Result<Bytes, BodyFailure>> {
        let Some(left) = self.bytes_left.checked_sub(content.len() as u64) else {
            return self.fail(BodyFailure::TooLarge);
        };
        self.bytes_left = left;
        self.deadline = None;
        Some(Ok(content))
    }

    fn fail(&mut self, failure: BodyFailure) -> Option<Result<Bytes, BodyFailure>> {
        self.incoming_stream.take().map(|_| Err(failure))
    }
}

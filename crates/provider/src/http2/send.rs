//! Sends a request over a stream and receives the response head.

use super::body::Body;
use super::failure::{NoAnswer, read_no_answer};
use super::outgoing::Outgoing;
use super::pool::Lease;
use crate::http1::alarm::Alarm;
use crate::http1::{Endpoint, Limits, Request, STALE_WITHIN, SendFailure};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use seawall_core::handle::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A response whose head has arrived.
pub(crate) struct Response<T: Timer> {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body<T>,
}

/// Sends a checked request over a stream and waits for the response head. `is_kept` means that the connection was not
/// opened for this request, so that [`SendFailure::StaleConnection`] is possible.
pub(crate) async fn send<T: Timer + Unpin, Text: AsRef<str>>(
    endpoint: &Endpoint,
    request: &Request<'_, Text>,
    limits: &Limits,
    mut lease: Lease<T>,
    is_kept: bool,
) -> Result<Response<T>, SendFailure> {
    let kept_at = (is_kept && lease.has_answered()).then(|| lease.timer.monotonic());
    let outgoing = Outgoing::new(request.body.clone(), lease.timer.clone());
    let progress = outgoing.progress();
    let message = message(endpoint, request, outgoing)?;
    let began = lease.timer.monotonic();
    let mut alarm = Alarm::default();
    let mut answering = pin!(lease.sender.try_send_request(message));
    let answer = poll_fn(|wake| {
        if let Poll::Ready(answer) = answering.as_mut().poll(wake) {
            let answer = answer.map_err(|mut error| {
                let was_given_back = error.take_message().is_some();
                no_answer(read_no_answer(error.into_error(), was_given_back), kept_at, &lease.timer)
            });
            return Poll::Ready(answer);
        }
        let taken = progress.poll_taken(wake);
        let until = taken.map_or(began + limits.write, |taken| taken + limits.head);
        alarm.poll(wake, &lease.timer, until).map(|()| {
            Err(match taken {
                Some(_) => SendFailure::HeadTimedOut { response_began: false },
                None => SendFailure::WriteTimedOut { began: true },
            })
        })
    })
    .await?;
    Ok(respond(answer, lease, limits))
}

fn respond<T: Timer>(answer: http::Response<Incoming>, lease: Lease<T>, limits: &Limits) -> Response<T> {
    lease.answered();
    let (head, incoming) = answer.into_parts();
    let body = Body::new(incoming, lease, (limits.gap, limits.body_bytes));
    Response { status: head.status.as_u16(), headers: head.headers, body }
}

/// The same rule as over HTTP/1.1: a connection that had responded before and ends within a second of sending was
/// closed while idle.
fn no_answer(cause: NoAnswer, kept_at: Option<Timestamp>, timer: &impl Timer) -> SendFailure {
    match cause {
        NoAnswer::Untouched => SendFailure::StaleConnection,
        NoAnswer::Plain(failure) => failure,
        NoAnswer::Ended(_) if kept_at.is_some_and(|sent| timer.monotonic() - sent <= STALE_WITHIN) => {
            SendFailure::StaleConnection
        }
        NoAnswer::Ended(source) => {
            SendFailure::ClosedBeforeHead { response_began: false, source: Some(source) }
        }
    }
}

fn message<T: Timer, Text: AsRef<str>>(
    endpoint: &Endpoint,
    request: &Request<'_, Text>,
    outgoing: Outgoing<T>,
) -> Result<http::Request<Outgoing<T>>, SendFailure> {
    let unsendable = |_| SendFailure::Unsendable("the request cannot be written as HTTP/2");
    let address = format!("{}://{}{}", endpoint.scheme().name(), endpoint.authority(), request.path);
    let mut message = http::Request::new(outgoing);
    *message.method_mut() = request.method.parse().map_err(|_| unsendable(()))?;
    *message.uri_mut() = address.parse().map_err(|_| unsendable(()))?;
    for (name, value) in request.headers() {
        // In lower case, as HTTP/2 requires.
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(()))?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unsendable(()))?;
        message.headers_mut().append(name, value);
    }
    message.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    Ok(message)
}

//! Sends a request over a stream and receives the response head.

use super::body::Http2Body;
use super::failure::{NoResponse, classify_send_error};
use super::outgoing::OutgoingBody;
use super::pool::StreamLease;
use crate::http1::reusable_timer::ReusableTimer;
use crate::http1::{Endpoint, HttpLimits, HttpRequest, STALE_WITHIN, SendFailure};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// A response whose head has arrived.
pub(crate) struct Http2Response<T: Timer> {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Http2Body<T>,
}

/// Sends a checked request over a stream and waits for the response head. `is_pooled` means that the connection was not
/// opened for this request, so that [`SendFailure::StaleConnection`] is possible.
pub(crate) async fn send<T: Timer + Unpin, Text: AsRef<str>>(
    endpoint: &Endpoint,
    request: &HttpRequest<'_, Text>,
    limits: &HttpLimits,
    mut lease: StreamLease<T>,
    is_pooled: bool,
) -> Result<Http2Response<T>, SendFailure> {
    let pooled_sent_at = (is_pooled && lease.has_responded()).then(|| lease.timer.monotonic());
    let outgoing = OutgoingBody::new(request.body.clone(), lease.timer.clone());
    let progress = outgoing.progress();
    let message = build_request(endpoint, request, outgoing)?;
    let began = lease.timer.monotonic();
    let mut timeout_timer = ReusableTimer::default();
    let mut responding = pin!(lease.sender.try_send_request(message));
    let response = poll_fn(|context| {
        if let Poll::Ready(response) = responding.as_mut().poll(context) {
            let response = response.map_err(|mut error| {
                let was_not_sent = error.take_message().is_some();
                into_send_failure(
                    classify_send_error(error.into_error(), was_not_sent),
                    pooled_sent_at,
                    &lease.timer,
                )
            });
            return Poll::Ready(response);
        }
        let sent_at = progress.poll_sent(context);
        let until = sent_at.map_or(began + limits.write_timeout, |sent_at| sent_at + limits.head_timeout);
        timeout_timer.poll(context, &lease.timer, until).map(|()| {
            Err(match sent_at {
                Some(_) => SendFailure::HeadTimedOut { response_began: false },
                None => SendFailure::WriteTimedOut { began: true },
            })
        })
    })
    .await?;
    Ok(into_response(response, lease, limits))
}

fn into_response<T: Timer>(
    response: http::Response<Incoming>,
    lease: StreamLease<T>,
    limits: &HttpLimits,
) -> Http2Response<T> {
    lease.mark_responded();
    let (head, incoming) = response.into_parts();
    let body = Http2Body::new(incoming, lease, (limits.idle_timeout, limits.max_body_bytes));
    Http2Response { status: head.status.as_u16(), headers: head.headers, body }
}

/// The same rule as over HTTP/1.1: a connection that had responded before and ends within a second of sending was
/// closed while idle.
fn into_send_failure(
    cause: NoResponse,
    pooled_sent_at: Option<Timestamp>,
    timer: &impl Timer,
) -> SendFailure {
    match cause {
        NoResponse::NotProcessed => SendFailure::StaleConnection,
        NoResponse::Failed(failure) => failure,
        NoResponse::Closed(_)
            if pooled_sent_at.is_some_and(|sent| timer.monotonic() - sent <= STALE_WITHIN) =>
        {
            SendFailure::StaleConnection
        }
        NoResponse::Closed(source) => {
            SendFailure::ClosedBeforeHead { response_began: false, source: Some(source) }
        }
    }
}

fn build_request<T: Timer, Text: AsRef<str>>(
    endpoint: &Endpoint,
    request: &HttpRequest<'_, Text>,
    outgoing: OutgoingBody<T>,
) -> Result<http::Request<OutgoingBody<T>>, SendFailure> {
    let unsendable = |_| SendFailure::InvalidRequest("the request is not valid HTTP/2");
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

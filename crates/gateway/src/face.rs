//! The HTTP face.

use crate::body::ReplyBody;
use crate::log::Counters;
use crate::runtime::TokioRuntime;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use seawall_pipeline::{InboundRequest, Path, Rejection, Reply, Runtime as _, Timer as _};
use seawall_wire::anthropic::{ErrorReply, status_of, write_error};
use seawall_wire::{Dialect, Refusal, RetryAdvice};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// What every connection shares.
pub(crate) struct Face {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) counters: Arc<Counters>,
    pub(crate) draining: AtomicBool,
}

impl Face {
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let response = match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/messages") => self.messages(request).await,
            (&Method::GET, "/livez") => plain(StatusCode::OK, "ok\n".into()),
            (&Method::GET, "/readyz") if self.draining.load(Ordering::Relaxed) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n".into())
            }
            (&Method::GET, "/readyz") => plain(StatusCode::OK, "ready\n".into()),
            (&Method::GET, "/metrics") => plain(StatusCode::OK, self.metrics()),
            _ => refuse(Refusal::NotFound, "there is nothing at this path", self.id()),
        };
        Ok(response)
    }

    /// The counters, and what the day's books say.
    fn metrics(&self) -> String {
        let mut text = self.counters.text();
        let day = self.path.day();
        for (name, help, money) in [
            ("seawall_budget_posted_nanodollars", "What the day's calls have cost.", day.posted),
            ("seawall_budget_held_nanodollars", "What calls under way may still cost.", day.held),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {}", money.as_nanos());
        }
        text
    }

    /// A name for a request that nobody can foresee and that seldom comes twice.
    fn id(&self) -> u64 {
        self.runtime.draw().below(u64::MAX)
    }

    async fn messages(&self, request: Request<Incoming>) -> Response<ReplyBody> {
        let id = self.id();
        let (head, body) = request.into_parts();
        let api_key = api_key(&head.headers).map(str::to_owned);
        // Who sends a byte now and then must not hold a connection for ever.
        let (most_bytes, limits) = self.path.arrival();
        let late = self.runtime.monotonic() + limits.body;
        let body = tokio::select! {
            biased;
            body = Limited::new(body, most_bytes).collect() => body,
            () = self.runtime.sleep_until(late) => {
                let message = format!("the body took longer than {:?} to arrive", limits.body);
                return refuse(Refusal::Malformed, &message, id);
            }
        };
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let message = format!("the body is larger than {most_bytes} bytes");
                return refuse(Refusal::TooLarge, &message, id);
            }
            Err(_) => return refuse(Refusal::Malformed, "the body did not arrive whole", id),
        };
        match self.path.serve(InboundRequest { id, api_key, body }).await {
            Reply::Whole(body) => respond(StatusCode::OK, JSON, ReplyBody::Whole(Some(body)), id),
            Reply::Stream(stream) => respond(StatusCode::OK, EVENTS, ReplyBody::Stream(stream), id),
            Reply::Rejected(rejection) => reject(&rejection, id),
        }
    }
}

/// The key, from either of the headers that clients send it in. Of two values of one header nobody can say which was
/// meant, and what stands in front of us may have looked at the other: that is no key.
fn api_key(headers: &HeaderMap) -> Option<&str> {
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    };
    if headers.contains_key("x-api-key") {
        return only("x-api-key");
    }
    only("authorization")?.strip_prefix("Bearer ")
}

fn plain(status: StatusCode, text: String) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn respond(status: StatusCode, content_type: HeaderValue, body: ReplyBody, id: u64) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    if let Ok(name) = HeaderValue::from_str(&request_name(id)) {
        headers.insert(REQUEST_ID, name);
    }
    response
}

fn request_name(id: u64) -> String {
    format!("req_{id:016x}")
}

fn refuse(refusal: Refusal, message: &str, id: u64) -> Response<ReplyBody> {
    let name = request_name(id);
    let mut body = BytesMut::new();
    write_error(&mut body, &ErrorReply::new(refusal, message, Some(&name)));
    let status = StatusCode::from_u16(status_of(refusal)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    respond(status, JSON, ReplyBody::Whole(Some(body.freeze())), id)
}

/// A refusal in the caller's dialect, with what its SDK reads about coming back.
fn reject(rejection: &Rejection, id: u64) -> Response<ReplyBody> {
    match rejection {
        Rejection::Malformed(problem) => refuse(Refusal::Malformed, problem, id),
        Rejection::UnknownKey => {
            refuse(Refusal::Unauthenticated, "the API key is missing or not known here", id)
        }
        Rejection::UnknownModel(model) => {
            refuse(Refusal::NotFound, &format!("no route is named {}", quoted(model)), id)
        }
        Rejection::Limited { limit, come_back } => {
            let message = format!("the limit of requests a {limit} is reached");
            let mut response = refuse(Refusal::Throttled, &message, id);
            tell_when(&mut response, Some(come_back.after), come_back.worth_waiting);
            response
        }
        Rejection::BudgetSpent => {
            let mut response =
                refuse(Refusal::OutOfBudget, "the day's budget is spent; it is renewed at midnight UTC", id);
            tell_when(&mut response, None, false);
            response
        }
        Rejection::Unavailable { retry_after } => {
            let mut response = refuse(Refusal::Overloaded, "no model can answer at the moment", id);
            tell_when(&mut response, *retry_after, true);
            response
        }
        // Our own tries are spent; a client that tries again would multiply them.
        Rejection::Exhausted { failure, attempts } => {
            let refusal = Refusal::of_failure(failure.kind);
            let message = format!("no model answered in {attempts} attempts: {}", failure.kind.label());
            let mut response = refuse(refusal, &message, id);
            tell_when(&mut response, failure.retry_after, false);
            response
        }
    }
}

/// Clients sleep as long as they are told, so a long wait is not told as one to sleep through.
fn tell_when(response: &mut Response<ReplyBody>, wait: Option<Duration>, worth_waiting: bool) {
    let advice = RetryAdvice { wait, should_retry: if worth_waiting { None } else { Some(false) } };
    for (name, value) in advice.headers(Dialect::Anthropic) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
}

/// What a caller wrote, safe to show: shortened, and with nothing in it that steers a terminal.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(100).filter(|character| !character.is_control()).collect();
    format!("\"{shown}\"")
}

/// Kept apart so that the compiler checks it: bodies must be able to leave the thread that made them.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<ReplyBody>();
    is_send::<Bytes>();
};

#[cfg(test)]
mod tests {
    use super::{api_key, quoted, reject};
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_core::quota::ComeBack;
    use seawall_pipeline::Rejection;
    use std::time::Duration;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn a_key_comes_in_either_header_and_only_once() {
        for (pairs, key) in [
            (&[("x-api-key", "a")][..], Some("a")),
            (&[("authorization", "Bearer b")], Some("b")),
            (&[("x-api-key", "a"), ("authorization", "Bearer b")], Some("a")),
            (&[("x-api-key", "a"), ("x-api-key", "b")], None),
            (&[("authorization", "Bearer a"), ("authorization", "Bearer b")], None),
            (&[("authorization", "Basic b")], None),
            (&[], None),
        ] {
            assert_eq!(api_key(&headers(pairs)), key, "{pairs:?}");
        }
    }

    #[test]
    fn each_rejection_has_its_status_and_says_whether_to_come_back() {
        let limited = |after: u64, worth_waiting| Rejection::Limited {
            limit: "minute".to_owned(),
            come_back: ComeBack { after: Duration::from_millis(after), worth_waiting },
        };
        let exhausted = |kind| Rejection::Exhausted { failure: Failure::of(kind), attempts: 2 };
        let retry_after = Some(Duration::from_secs(7));
        for (rejection, status, after, should_retry) in [
            (Rejection::Malformed("model: is missing".to_owned()), 400, None, None),
            (Rejection::UnknownKey, 401, None, None),
            (Rejection::UnknownModel("x".to_owned()), 404, None, None),
            (limited(1_200, true), 429, Some("2"), None),
            (limited(90_000, false), 429, Some("90"), Some("false")),
            (Rejection::BudgetSpent, 429, None, Some("false")),
            (Rejection::Unavailable { retry_after }, 529, Some("7"), None),
            (exhausted(FailureKind::Throttled), 429, None, Some("false")),
            (exhausted(FailureKind::NotStarted), 504, None, Some("false")),
            (exhausted(FailureKind::ServerFault), 500, None, Some("false")),
            (exhausted(FailureKind::Overloaded), 529, None, Some("false")),
            (exhausted(FailureKind::BadRequest), 400, None, Some("false")),
            (exhausted(FailureKind::TooLong), 413, None, Some("false")),
        ] {
            let response = reject(&rejection, 7);
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            assert_eq!(response.status(), status, "{rejection:?}");
            assert_eq!(
                (header("retry-after"), header("x-should-retry")),
                (after, should_retry),
                "{rejection:?}"
            );
            assert_eq!(header("request-id"), Some("req_0000000000000007"));
        }
    }

    #[test]
    fn what_a_caller_wrote_is_shown_short_and_tame() {
        assert_eq!(quoted("a\r\n\u{1b}[31mb"), "\"a[31mb\"");
        assert_eq!(quoted(&"漫".repeat(200)).chars().count(), 102);
    }
}

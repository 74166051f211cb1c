//! From a request to the head of its response.

use super::body::{Account, ScriptBody};
use super::line::Line;
use super::{Model, clock};
use crate::engine::{Act, Ending, Head, Script, Step};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use seawall_wire::anthropic::{ErrorReply, status_of, write_error};
use seawall_wire::{Refusal, RequestLimits};
use serde_json::json;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A connection that ends here on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the simulated model broke the connection")]
pub(super) struct Broken;

/// Answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) model: Arc<Model>,
    pub(super) line: Arc<Line>,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<ScriptBody>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl Service {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<ScriptBody>, Broken> {
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/v1/messages") => self.message(request).await,
            (&Method::GET, "/livez") => Ok(json_response(StatusCode::OK, &json!({"live": true}))),
            (&Method::GET, "/bill") => {
                let bill = self.model.with_bill(|bill| bill.clone());
                let total = bill.nano_dollars();
                let mut body = json!(bill);
                body["nano_dollars"] = json!(total);
                Ok(json_response(StatusCode::OK, &body))
            }
            (method, path) => Ok(refused(Refusal::NotFound, &format!("there is no {method} {path}"))),
        }
    }

    async fn message(self, request: Request<Incoming>) -> Result<Response<ScriptBody>, Broken> {
        if !has_key(request.headers()) {
            let message = "a key is needed in x-api-key or as authorization: Bearer; any will do";
            return Ok(refused(Refusal::Unauthenticated, message));
        }
        let most = RequestLimits::default().body;
        let body = match Limited::new(request.into_body(), most).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Ok(refused(Refusal::TooLarge, &format!("at most {most} bytes are taken")));
            }
            Err(_) => return Err(Broken),
        };
        let began = clock::now();
        let script = self.model.script(&body, began);
        self.play(script, began).await
    }

    async fn play(self, script: Script, began: Instant) -> Result<Response<ScriptBody>, Broken> {
        let mut steps = script.steps.into_iter();
        let Some(Step { at, act: Act::Head(head), .. }) = steps.next() else {
            return self.break_off(script.ending).await;
        };
        if !at.is_zero() {
            clock::sleep_until(began + at).await;
        }
        let profile = script.profile.filter(|_| head.status == 200);
        let account = profile.map(|profile| Account { model: self.model, profile });
        Ok(response(&head, ScriptBody::new(steps, script.ending, began, account)))
    }

    async fn break_off(&self, ending: Ending) -> Result<Response<ScriptBody>, Broken> {
        match ending {
            Ending::Hang => future::pending().await,
            Ending::Reset => self.line.reset_when_closed(),
            Ending::Complete | Ending::Early | Ending::Close => {}
        }
        Err(Broken)
    }
}

fn has_key(headers: &HeaderMap) -> bool {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let plain = headers.get("x-api-key").map(hyper::header::HeaderValue::as_bytes);
    bearer.or(plain).is_some_and(|key| !key.trim_ascii().is_empty())
}

fn refused(refusal: Refusal, message: &str) -> Response<ScriptBody> {
    let mut body = BytesMut::new();
    write_error(&mut body, &ErrorReply::new(refusal, message, None));
    let status = StatusCode::from_u16(status_of(refusal)).unwrap_or_default();
    whole(status, body.freeze())
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response<ScriptBody> {
    whole(status, body.to_string().into())
}

fn whole(status: StatusCode, body: Bytes) -> Response<ScriptBody> {
    let length = body.len();
    let mut response = Response::new(ScriptBody::of(body, clock::now()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

fn response(head: &Head, body: ScriptBody) -> Response<ScriptBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(head.content_type));
    if let Ok(request_id) = head.request_id.parse() {
        headers.insert("request-id", request_id);
    }
    if let Some(length) = head.length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    if let Some(wait) = head.retry_after {
        headers.insert(RETRY_AFTER, whole_seconds(wait).into());
        if let Ok(millis) = u64::try_from(wait.as_millis()) {
            headers.insert("retry-after-ms", millis.into());
        }
    }
    response
}

/// Rounded up: who comes early is refused again.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

//! Handles a request up to the head of its response.

use super::body::ScriptBody;
use super::line::Line;
use super::{admin, guard};
use crate::engine::{Ending, Head, ModelCall, Profile, count_tokens};
use crate::shared::SharedModel;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use seawall_core::handle::Timer;
use seawall_wire::{Dialect, Refusal, RequestLimits, anthropic, bedrock, openai};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NO_KEY: &str = "a key is needed in x-api-key or authorization; any will do";

/// The connection is broken on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the simulated model broke the connection")]
pub(super) struct Broken;

/// Handles the requests of one connection.
#[derive(Clone)]
pub(super) struct Service<T> {
    pub(super) model: SharedModel<T>,
    /// Number of requests refused before they reached the model.
    pub(super) refused: Arc<AtomicU64>,
    pub(super) line: Arc<Line>,
    /// The address that was connected to.
    pub(super) here: SocketAddr,
}

impl<T: Timer> hyper::service::Service<Request<Incoming>> for Service<T> {
    type Response = Response<ScriptBody<T>>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl<T: Timer> Service<T> {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<ScriptBody<T>>, Broken> {
        let path = request.uri().path();
        if *request.method() == Method::POST
            && let Some(call) = ModelCall::of_path(path)
        {
            let dialect = dialect_of(path);
            return match call {
                Ok(call) => self.ask(call, request).await,
                Err((refusal, message)) => Ok(self.refused(dialect, refusal, &message)),
            };
        }
        if path.starts_with("/admin/")
            && let Some(words) = guard::refusal(&request, self.here)
        {
            return Ok(self.refused(Dialect::Anthropic, Refusal::Forbidden, words));
        }
        match (request.method(), path) {
            (&Method::POST, "/v1/messages/count_tokens") => self.count(request).await,
            (&Method::GET, "/v1/models") => Ok(models(request.headers())),
            (&Method::GET, "/livez") => Ok(json_response(&json!({"live": true}))),
            (&Method::GET, "/admin/bill") => Ok(json_response(&admin::bill(self.model.meter()))),
            (&Method::GET, "/admin/calls") => Ok(json_response(&admin::calls(self.model.meter()))),
            (&Method::POST, "/admin/reset") => Ok(json_response(&admin::reset(self.model.meter()))),
            (&Method::POST, "/admin/faults") => match self.body_of(request, Dialect::Anthropic).await? {
                Ok(body) => Ok(match admin::set_faults(&self.model, &body) {
                    Ok(told) => json_response(&told),
                    Err(error) => self.refused(Dialect::Anthropic, Refusal::Malformed, &error.to_string()),
                }),
                Err(refusal) => Ok(refusal),
            },
            (method, path) => Ok(self.refused(
                dialect_of(path),
                Refusal::UnknownPath,
                &format!("there is no {method} {path}"),
            )),
        }
    }

    async fn ask(
        self,
        call: ModelCall,
        request: Request<Incoming>,
    ) -> Result<Response<ScriptBody<T>>, Broken> {
        let dialect = call.dialect();
        if !has_key(request.headers()) {
            return Ok(self.refused(dialect, Refusal::Unauthenticated, NO_KEY));
        }
        let body = match self.body_of(request, dialect).await? {
            Ok(body) => body,
            Err(refusal) => return Ok(refusal),
        };
        let mut play = self.model.ask(&call, &body);
        match play.head().await {
            Some(head) => Ok(response(&head, ScriptBody::new(play))),
            None => {
                if play.ending() == Ending::Reset {
                    self.line.reset_when_closed();
                }
                Err(Broken)
            }
        }
    }

    /// The token-counting endpoint of Anthropic Messages.
    async fn count(self, request: Request<Incoming>) -> Result<Response<ScriptBody<T>>, Broken> {
        if !has_key(request.headers()) {
            return Ok(self.refused(Dialect::Anthropic, Refusal::Unauthenticated, NO_KEY));
        }
        let body = match self.body_of(request, Dialect::Anthropic).await? {
            Ok(body) => body,
            Err(refusal) => return Ok(refusal),
        };
        let limits = RequestLimits::default();
        let counted = anthropic::read_count_request(&body, &limits)
            .map_err(|error| (error.refusal(), error.to_string()))
            .and_then(|head| match Profile::named(&head.model) {
                Some(_) => anthropic::read_text(&body)
                    .map(|text| text.all().map(count_tokens).sum())
                    .map_err(|error| (error.refusal(), error.to_string())),
                None => Err((Refusal::NotFound, format!("model: {} is not simulated here", head.model))),
            });
        Ok(match counted {
            Ok(tokens) => {
                let mut out = BytesMut::new();
                anthropic::write_count_answer(&mut out, tokens);
                whole(StatusCode::OK, out.freeze())
            }
            Err((refusal, message)) => self.refused(Dialect::Anthropic, refusal, &message),
        })
    }

    /// Reads the whole body, or returns the refusal of one that is too large.
    async fn body_of(
        &self,
        request: Request<Incoming>,
        dialect: Dialect,
    ) -> Result<Result<Bytes, Response<ScriptBody<T>>>, Broken> {
        let most = RequestLimits::default().body;
        match Limited::new(request.into_body(), most).collect().await {
            Ok(body) => Ok(Ok(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Ok(Err(self.refused(dialect, Refusal::TooLarge, &format!("at most {most} bytes are taken"))))
            }
            Err(_) => Err(Broken),
        }
    }

    fn refused(&self, dialect: Dialect, refusal: Refusal, message: &str) -> Response<ScriptBody<T>> {
        // The request did not reach the model, so the id can only be derived from a counter.
        let number = self.refused.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("req_refused_{number}");
        let mut body = BytesMut::new();
        let (status, more) = match dialect {
            Dialect::Anthropic => {
                anthropic::write_error(
                    &mut body,
                    &anthropic::ErrorReply::new(refusal, message, Some(&request_id)),
                );
                (anthropic::status_of(refusal), Vec::new())
            }
            Dialect::OpenAi => {
                openai::write_error(&mut body, &openai::ErrorReply::new(refusal, message));
                (openai::status_of(refusal), Vec::new())
            }
            Dialect::Bedrock => {
                bedrock::write_error(&mut body, message);
                (bedrock::refusal_status(refusal), bedrock::refusal_headers(refusal, &request_id, None))
            }
        };
        let mut response = whole(StatusCode::from_u16(status).unwrap_or_default(), body.freeze());
        put_headers(response.headers_mut(), more);
        put_headers(response.headers_mut(), [(dialect.request_id_header(), request_id)]);
        response
    }
}

fn dialect_of(path: &str) -> Dialect {
    if path.starts_with("/model/") {
        Dialect::Bedrock
    } else if path.starts_with("/v1/chat") {
        Dialect::OpenAi
    } else {
        Dialect::Anthropic
    }
}

/// Clients send a key in plain form, as a bearer token, or as a signature made with it.
fn has_key(headers: &HeaderMap) -> bool {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let signed = authorization.strip_prefix(b"AWS4-HMAC-SHA256 ");
    let bearer = authorization.strip_prefix(b"Bearer ");
    let plain = headers.get("x-api-key").map(HeaderValue::as_bytes);
    bearer.or(signed).or(plain).is_some_and(|key| !key.trim_ascii().is_empty())
}

/// The model list, in the dialect that the request headers indicate.
fn models<T>(headers: &HeaderMap) -> Response<ScriptBody<T>> {
    let names = || Profile::all().iter().flat_map(|profile| [&[profile.name][..], profile.aliases].concat());
    let mut out = BytesMut::new();
    if headers.contains_key("anthropic-version") {
        let entries: Vec<_> = names()
            .map(|id| anthropic::ModelEntry { id, display_name: id, created_at: "2023-11-14T22:13:20Z" })
            .collect();
        anthropic::write_models(&mut out, &entries);
    } else {
        let entries: Vec<_> = names()
            .map(|id| openai::ModelEntry { id, created: 1_700_000_000, owned_by: "simulator" })
            .collect();
        openai::write_models(&mut out, &entries);
    }
    whole(StatusCode::OK, out.freeze())
}

fn json_response<T>(body: &Value) -> Response<ScriptBody<T>> {
    whole(StatusCode::OK, body.to_string().into())
}

fn whole<T>(status: StatusCode, body: Bytes) -> Response<ScriptBody<T>> {
    let length = body.len();
    let mut response = Response::new(ScriptBody::AtOnce(Some(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

fn response<T>(head: &Head, body: ScriptBody<T>) -> Response<ScriptBody<T>> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    put_headers(headers, head.headers());
    if let Some(length) = head.length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    response
}

fn put_headers(headers: &mut HeaderMap, more: impl IntoIterator<Item = (&'static str, String)>) {
    for (name, value) in more {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value.parse::<HeaderValue>())
        {
            headers.insert(name, value);
        }
    }
}

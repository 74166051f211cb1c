//! Handles a request up to the head of its response.

use super::body::ScriptBody;
use super::socket::ResettableSocket;
use super::{admin, guard};
use crate::engine::{ModelCall, Profile, ScriptEnding, ScriptHead, count_tokens};
use crate::shared::SharedModel;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use seawall_core::runtime::Timer;
use seawall_wire::dialect::{DialectId, route};
use seawall_wire::gemini::is_vendor_path;
use seawall_wire::{ApiErrorKind, RequestLimits, RetryAdvice, anthropic, openai};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NO_KEY: &str =
    "missing API key: send x-api-key, x-goog-api-key or authorization; any value is accepted";

/// The connection is broken on purpose.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the simulated model broke the connection")]
pub(super) struct ConnectionBroken;

/// Handles the requests of one connection.
#[derive(Clone)]
pub(super) struct ModelService<T> {
    pub(super) model: SharedModel<T>,
    /// Number of requests refused before they reached the model.
    pub(super) refused_requests: Arc<AtomicU64>,
    pub(super) socket: Arc<ResettableSocket>,
    /// The address that was connected to.
    pub(super) local_address: SocketAddr,
}

impl<T: Timer> hyper::service::Service<Request<Incoming>> for ModelService<T> {
    type Response = Response<ScriptBody<T>>;
    type Error = ConnectionBroken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectionBroken>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}

impl<T: Timer> ModelService<T> {
    async fn respond(self, request: Request<Incoming>) -> Result<Response<ScriptBody<T>>, ConnectionBroken> {
        let path = request.uri().path();
        if *request.method() == Method::POST
            && let Some(call) = ModelCall::of_path(path)
        {
            let query = request.uri().query().unwrap_or_default();
            return match call {
                Ok(call) => match call.dialect.check_query(&call.url, query) {
                    Ok(()) => self.call_model(call, request).await,
                    Err(problem) => Ok(self.refused(call.dialect, ApiErrorKind::Malformed, problem)),
                },
                Err(error_kind) => Ok(self.refused(dialect_of(path), error_kind, "the path is not valid")),
            };
        }
        if path.starts_with("/admin/")
            && let Some(reason) = guard::refusal(&request, self.local_address)
        {
            return Ok(self.refused(DialectId::ANTHROPIC_MESSAGES, ApiErrorKind::Forbidden, reason));
        }
        match (request.method(), path) {
            (&Method::POST, "/v1/messages/count_tokens") => self.count_tokens(request).await,
            (&Method::GET, "/v1/models") => Ok(models(request.headers())),
            (&Method::GET, "/livez") => Ok(json_response(&json!({"live": true}))),
            (&Method::GET, "/admin/bill") => Ok(json_response(&admin::bill(self.model.meter()))),
            (&Method::GET, "/admin/calls") => Ok(json_response(&admin::calls(self.model.meter()))),
            (&Method::POST, "/admin/reset") => Ok(json_response(&admin::reset(self.model.meter()))),
            (&Method::POST, "/admin/faults") => {
                match self.read_body(request, DialectId::ANTHROPIC_MESSAGES).await? {
                    Ok(body) => Ok(match admin::set_faults(&self.model, &body) {
                        Ok(body) => json_response(&body),
                        Err(error) => self.refused(
                            DialectId::ANTHROPIC_MESSAGES,
                            ApiErrorKind::Malformed,
                            &error.to_string(),
                        ),
                    }),
                    Err(response) => Ok(response),
                }
            }
            (method, path) => Ok(self.refused(
                dialect_of(path),
                ApiErrorKind::UnknownPath,
                &format!("no such endpoint: {method} {path}"),
            )),
        }
    }

    async fn call_model(
        self,
        call: ModelCall,
        request: Request<Incoming>,
    ) -> Result<Response<ScriptBody<T>>, ConnectionBroken> {
        let dialect = call.dialect;
        if !has_key(request.headers()) {
            return Ok(self.refused(dialect, ApiErrorKind::Unauthenticated, NO_KEY));
        }
        let body = match self.read_body(request, dialect).await? {
            Ok(body) => body,
            Err(response) => return Ok(response),
        };
        let mut play = self.model.call(&call, &body);
        match play.head().await {
            Some(head) => Ok(response(&head, ScriptBody::new(play))),
            None => {
                if play.ending() == ScriptEnding::Reset {
                    self.socket.reset_when_closed();
                }
                Err(ConnectionBroken)
            }
        }
    }

    /// The token-counting endpoint of Anthropic Messages.
    async fn count_tokens(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<ScriptBody<T>>, ConnectionBroken> {
        if !has_key(request.headers()) {
            return Ok(self.refused(DialectId::ANTHROPIC_MESSAGES, ApiErrorKind::Unauthenticated, NO_KEY));
        }
        let body = match self.read_body(request, DialectId::ANTHROPIC_MESSAGES).await? {
            Ok(body) => body,
            Err(response) => return Ok(response),
        };
        let limits = RequestLimits::default();
        let counted = anthropic::read_count_request(&body, &limits)
            .map_err(|error| (error.api_error_kind(), error.to_string()))
            .and_then(|head| match Profile::named(&head.model) {
                Some(_) => anthropic::read_text(&body)
                    .map(|text| text.all().map(count_tokens).sum())
                    .map_err(|error| (error.api_error_kind(), error.to_string())),
                None => {
                    Err((ApiErrorKind::NotFound, format!("unknown model: {} is not simulated", head.model)))
                }
            });
        Ok(match counted {
            Ok(tokens) => {
                let mut out = BytesMut::new();
                anthropic::write_count_answer(&mut out, tokens);
                buffered(StatusCode::OK, out.freeze())
            }
            Err((error_kind, message)) => self.refused(DialectId::ANTHROPIC_MESSAGES, error_kind, &message),
        })
    }

    /// Reads the whole body, or returns the error response for one that is too large.
    async fn read_body(
        &self,
        request: Request<Incoming>,
        dialect: DialectId,
    ) -> Result<Result<Bytes, Response<ScriptBody<T>>>, ConnectionBroken> {
        let max = RequestLimits::default().max_body_size;
        match Limited::new(request.into_body(), max).collect().await {
            Ok(body) => Ok(Ok(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Ok(Err(self.refused(
                dialect,
                ApiErrorKind::TooLarge,
                &format!("request body too large: the limit is {max} bytes"),
            ))),
            Err(_) => Err(ConnectionBroken),
        }
    }

    fn refused(
        &self,
        dialect: DialectId,
        error_kind: ApiErrorKind,
        message: &str,
    ) -> Response<ScriptBody<T>> {
        // The request did not reach the model, so the id can only be derived from a counter.
        let number = self.refused_requests.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("req_refused_{number}");
        let error = dialect.write_error(error_kind, message, &request_id, RetryAdvice::default());
        let mut response = buffered(StatusCode::from_u16(error.status).unwrap_or_default(), error.body);
        put_headers(response.headers_mut(), error.headers);
        response
    }
}

/// The dialect of clients that use such a path.
fn dialect_of(path: &str) -> DialectId {
    let is_openai =
        ["/v1/chat", "/v1/responses", "/v1/embeddings"].iter().any(|start| path.starts_with(start));
    let unknown = match path {
        _ if is_vendor_path(path) => DialectId::GEMINI,
        _ if is_openai => DialectId::OPENAI_CHAT,
        _ => DialectId::ANTHROPIC_MESSAGES,
    };
    route(path).map_or(unknown, |(dialect, _)| dialect)
}

/// Clients send a key in plain form, as a bearer token, or as a signature made with it.
fn has_key(headers: &HeaderMap) -> bool {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let signed = authorization.strip_prefix(b"AWS4-HMAC-SHA256 ");
    let bearer = authorization.strip_prefix(b"Bearer ");
    let plain = headers.get("x-api-key").or_else(|| headers.get("x-goog-api-key")).map(HeaderValue::as_bytes);
    bearer.or(signed).or(plain).is_some_and(|key| !key.trim_ascii().is_empty())
}

/// The model list, in the dialect that the request headers indicate.
fn models<T>(headers: &HeaderMap) -> Response<ScriptBody<T>> {
    let names = || Profile::all().iter().flat_map(|profile| [&[profile.name][..], profile.aliases].concat());
    let mut out = BytesMut::new();
    if headers.contains_key("anthropic-version") {
        let entries: Vec<_> = names()
            .map(|id| anthropic::AnthropicModelEntry {
                id,
                display_name: id,
                created_at: "2023-11-14T22:13:20Z",
            })
            .collect();
        anthropic::write_models(&mut out, &entries);
    } else {
        let entries: Vec<_> = names()
            .map(|id| openai::OpenAiModelEntry { id, created: 1_700_000_000, owned_by: "simulator" })
            .collect();
        openai::write_models(&mut out, &entries);
    }
    buffered(StatusCode::OK, out.freeze())
}

fn json_response<T>(body: &Value) -> Response<ScriptBody<T>> {
    buffered(StatusCode::OK, body.to_string().into())
}

fn buffered<T>(status: StatusCode, body: Bytes) -> Response<ScriptBody<T>> {
    let length = body.len();
    let mut response = Response::new(ScriptBody::Buffered(Some(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length.into());
    response
}

fn response<T>(head: &ScriptHead, body: ScriptBody<T>) -> Response<ScriptBody<T>> {
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

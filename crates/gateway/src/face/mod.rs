//! The HTTP faces: routing of callers' requests, and their responses.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `endpoint` | routing by method and path |
//! | `model_request` | model requests, in every vendor's dialect |
//! | `chat` | messages to the assistant |
//! | `request_body` | authentication, and then the body of the request |
//! | `models` | the model list, and token counting |
//! | `response_headers` | response headers that describe how an answer was produced |
//! | `error_response` | rejections as error responses, in each dialect |
//! | `explanation` | rejections of requests that no target answered |
//! | `accepted_form` | rejections as streams, for callers that accept nothing else |

mod accepted_form;
mod chat;
mod endpoint;
mod error_response;
mod explanation;
mod model_request;
mod models;
mod request_body;
mod response_headers;

use crate::body::ReplyBody;
use crate::core_registry::CoreRegistry;
use crate::edge::framing_problem;
use crate::head_limit::is_too_large;
use crate::identity::Authenticator;
use crate::metrics;
use crate::openapi::served_openapi;
use crate::runtime::TokioRuntime;
use crate::status_view::StatusView;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, UPGRADE};
use hyper::{Request, Response, StatusCode};
use seawall_assistant::Assistant;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{Pipeline, Runtime as _};
use seawall_wire::ApiErrorKind;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

#[cfg(test)]
pub(crate) use accepted_form::AcceptedForm;
#[cfg(test)]
pub(crate) use chat::respond as respond_to_chat;
pub(crate) use endpoint::CallerEndpoint;
pub(crate) use explanation::{describe_rejection, error_in_stream};
#[cfg(test)]
pub(crate) use model_request::respond;
use models::CountFormat;

/// The state that all connections share.
pub(crate) struct GatewayState {
    pub(crate) pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) assistant: Arc<Assistant<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) authenticator: Arc<ArcSwap<Authenticator>>,
    pub(crate) status: Arc<StatusView>,
}

impl GatewayState {
    /// Serves one request. `core` signals when the drain timeout has expired.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        core: CoreRegistry,
    ) -> Result<Response<ReplyBody>, Infallible> {
        if is_too_large(&request) {
            return Ok(head_too_large());
        }
        let uri = request.uri();
        let endpoint = match CallerEndpoint::route(request.method(), uri.path()).for_query(uri.query()) {
            CallerEndpoint::Metrics if !self.status.metrics_listeners.callers() => {
                CallerEndpoint::unknown_path()
            }
            endpoint => endpoint,
        };
        let face = endpoint.face();
        if face == Face::RESPONSES && wants_websocket(request.headers()) {
            return Ok(websocket_unsupported(face, self.new_request_id()));
        }
        if let Some(problem) = framing_problem(&request) {
            let mut response =
                error_response::plain_error(face, ApiErrorKind::Malformed, problem, self.new_request_id());
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            let (head, body) = request.into_parts();
            request_body::linger(&head, body, self.runtime);
            return Ok(response);
        }
        // Pinned here and borrowed: the future is large, and moving it would copy it.
        let answering = pin!(self.dispatch(endpoint, request, peer, core));
        let response = match catch_panic(answering).await {
            Some(response) => response,
            None => error_response::plain_error(
                face,
                ApiErrorKind::Internal,
                "internal error of the gateway",
                self.new_request_id(),
            ),
        };
        Ok(response)
    }

    async fn dispatch(
        &self,
        endpoint: CallerEndpoint,
        request: Request<Incoming>,
        peer: IpAddr,
        core: CoreRegistry,
    ) -> Response<ReplyBody> {
        match endpoint {
            CallerEndpoint::ModelRequest(operation) => {
                self.serve_model_request(request, operation, peer, core).await
            }
            CallerEndpoint::Chat => self.serve_chat(request, peer, core).await,
            CallerEndpoint::Models => self.models(request, peer, None).await,
            CallerEndpoint::Model(name) => self.models(request, peer, Some(name)).await,
            CallerEndpoint::CountTokens => self.count_tokens(request, peer, CountFormat::Anthropic).await,
            CallerEndpoint::BedrockCountTokens(model) => {
                self.count_tokens(request, peer, CountFormat::Bedrock { model }).await
            }
            CallerEndpoint::GeminiCountTokens(model) => {
                self.count_tokens(request, peer, CountFormat::Gemini { model }).await
            }
            CallerEndpoint::Liveness => plain_text(StatusCode::OK, "ok\n".into()),
            CallerEndpoint::Readiness => {
                let (is_ready, body) = self.status.readiness();
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                plain_text(status, body)
            }
            CallerEndpoint::OpenApi => text_response("application/json", served_openapi()),
            CallerEndpoint::Metrics => text_response(metrics::CONTENT_TYPE, self.status.metrics()),
            CallerEndpoint::Invalid { face, problem, allow: Some(allow), .. } => {
                wrong_method(face, problem, allow, self.new_request_id())
            }
            CallerEndpoint::Invalid { face, problem, error_kind, allow: None } => {
                error_response::plain_error(face, error_kind, problem, self.new_request_id())
            }
        }
    }

    /// A random request id: unpredictable, and practically unique. Only model requests are logged under their id.
    fn new_request_id(&self) -> u64 {
        self.runtime.draw().below(u64::MAX)
    }
}

/// Whether the client asks for a WebSocket instead of a response.
fn wants_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// OpenAI also serves Responses over a WebSocket. Clients that try that first, such as Codex, send the request by POST
/// at once if they receive this status; any other one they take for a failure of the connection, and try again.
fn websocket_unsupported(face: Face, id: u64) -> Response<ReplyBody> {
    let message = "WebSocket is not supported here: send the request by POST";
    let mut response = error_response::plain_error(face, ApiErrorKind::UnknownPath, message, id);
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    response
}

/// A 405 in the face's error format, with the method that the path has.
fn wrong_method(face: Face, problem: &str, allow: &'static str, id: u64) -> Response<ReplyBody> {
    let mut response = error_response::wrong_method(face, problem, id);
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// The output of `work`, or `None` if it panics. What it held has been settled by then, and other requests of the
/// connection continue.
async fn catch_panic<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| {
        // The future is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// A 431 in plain text: the dialect of such a request is not worth finding out.
fn head_too_large() -> Response<ReplyBody> {
    let message = "request headers too large: the limit is 64 KiB for the request line and all headers\n";
    let mut response = plain_text(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message.to_owned());
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain_text(status: StatusCode, message: String) -> Response<ReplyBody> {
    let mut response = text_response("text/plain; charset=utf-8", message);
    *response.status_mut() = status;
    response
}

fn text_response(content_type: &'static str, text: impl Into<Bytes>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Full(Some(text.into())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::catch_panic;
    use std::future::{Future, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_panic_yields_none_and_drops_what_was_held() {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let mistake = async move {
            let _held = holds;
            ready(()).await;
            panic!("a mistake");
        };
        let mut context = Context::from_waker(Waker::noop());
        let outcome = pin!(catch_panic::<()>(pin!(mistake))).poll(&mut context);
        assert_eq!((outcome, Arc::strong_count(&held)), (Poll::Ready(None), 1));
        assert_eq!(pin!(catch_panic(pin!(ready(7)))).poll(&mut context), Poll::Ready(Some(7)));
    }
}

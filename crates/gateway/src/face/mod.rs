//! The HTTP faces: routing of callers' requests, and their responses.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `wanted` | routing by method and path |
//! | `ask` | model requests, in every dialect |
//! | `request_body` | authentication, and then the body of the request |
//! | `list` | the model list, and token counting |
//! | `told` | response headers that describe how an answer was produced |
//! | `refusal` | rejections in each dialect |

mod ask;
mod list;
mod refusal;
mod request_body;
mod told;
mod wanted;

use crate::body::ReplyBody;
use crate::edge::framing_problem;
use crate::head_limit::is_too_large;
use crate::identity::Gate;
use crate::metrics;
use crate::openapi::served_openapi;
use crate::runtime::TokioRuntime;
use crate::sight::Sight;
use crate::stopping::Cut;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use seawall_pipeline::{Path, Runtime as _};
use seawall_wire::Refusal;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

#[cfg(test)]
pub(crate) use ask::respond;
pub(crate) use wanted::Wanted;

/// The state that all connections share.
pub(crate) struct Face {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) gate: Arc<ArcSwap<Gate>>,
    pub(crate) sight: Arc<Sight>,
}

impl Face {
    /// Serves one request. `cut` signals the end of the drain timeout.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        cut: Cut,
    ) -> Result<Response<ReplyBody>, Infallible> {
        if is_too_large(&request) {
            return Ok(too_large());
        }
        let wanted = match Wanted::of(request.method(), request.uri().path()) {
            Wanted::Metrics if !self.sight.serves_metrics.callers() => Wanted::nothing_here(),
            wanted => wanted,
        };
        let face = wanted.face();
        if let Some(problem) = framing_problem(&request) {
            let mut response = refusal::refuse(face, Refusal::Malformed, problem, self.id());
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            let (head, body) = request.into_parts();
            request_body::linger(&head, body, self.runtime);
            return Ok(response);
        }
        // Pinned here and borrowed: the future is large, and moving it would copy it.
        let answering = pin!(self.answered(wanted, request, peer, cut));
        let response = match unless_it_panics(answering).await {
            Some(response) => response,
            None => refusal::refuse(face, Refusal::Internal, "the gateway has made a mistake", self.id()),
        };
        Ok(response)
    }

    async fn answered(
        &self,
        wanted: Wanted,
        request: Request<Incoming>,
        peer: IpAddr,
        cut: Cut,
    ) -> Response<ReplyBody> {
        match wanted {
            Wanted::Ask(arriving) => self.ask(request, arriving, peer, cut).await,
            Wanted::Models => self.models(request, peer, None).await,
            Wanted::Model(name) => self.models(request, peer, Some(name)).await,
            Wanted::CountTokens => self.count_tokens(request, peer, None).await,
            Wanted::BedrockCountTokens(model) => self.count_tokens(request, peer, Some(model)).await,
            Wanted::Alive => plain(StatusCode::OK, "ok\n".into()),
            Wanted::Ready => {
                let (is_ready, body) = self.sight.readiness();
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                plain(status, body)
            }
            Wanted::OpenApi => text("application/json", served_openapi()),
            Wanted::Metrics => text(metrics::CONTENT_TYPE, self.sight.metrics()),
            Wanted::Nothing { face, problem, refusal: Refusal::NotFound } => {
                refusal::refuse_path(face, problem, self.id())
            }
            Wanted::Nothing { face, problem, refusal } => refusal::refuse(face, refusal, problem, self.id()),
        }
    }

    /// A random request id: unpredictable, and practically unique.
    fn id(&self) -> u64 {
        self.runtime.draw().below(u64::MAX)
    }
}

/// The output of `work`, or `None` if it panics. What it held has been settled by then, and other requests of the
/// connection continue.
async fn unless_it_panics<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
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
fn too_large() -> Response<ReplyBody> {
    let words = "the request line and headers have more than 64 KiB; send fewer or shorter headers\n";
    let mut response = plain(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, words.to_owned());
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn plain(status: StatusCode, words: String) -> Response<ReplyBody> {
    let mut response = text("text/plain; charset=utf-8", words);
    *response.status_mut() = status;
    response
}

fn text(content_type: &'static str, text: impl Into<Bytes>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(text.into())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::unless_it_panics;
    use std::future::{Future, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn a_panic_is_no_answer_and_lets_go_of_what_was_held() {
        let held = Arc::new(());
        let holds = Arc::clone(&held);
        let mistake = async move {
            let _held = holds;
            ready(()).await;
            panic!("a mistake");
        };
        let mut context = Context::from_waker(Waker::noop());
        let outcome = pin!(unless_it_panics::<()>(pin!(mistake))).poll(&mut context);
        assert_eq!((outcome, Arc::strong_count(&held)), (Poll::Ready(None), 1));
        assert_eq!(pin!(unless_it_panics(pin!(ready(7)))).poll(&mut context), Poll::Ready(Some(7)));
    }
}

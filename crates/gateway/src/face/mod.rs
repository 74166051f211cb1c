//! The HTTP faces: what comes in at which path, and what goes out.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `wanted` | from method and path to what is wanted |
//! | `ask` | questions to models, in every dialect |
//! | `request_body` | who asks, and then the body of the request |
//! | `list` | which models there are, and how many tokens a request has |
//! | `told` | what an answer's headers say of how it came about |
//! | `refusal` | refusals in the words of each dialect |

mod ask;
mod list;
mod refusal;
mod request_body;
mod told;
mod wanted;

use crate::body::ReplyBody;
use crate::identity::Gate;
use crate::metrics;
use crate::openapi::served_openapi;
use crate::runtime::TokioRuntime;
use crate::sight::Sight;
use crate::stopping::Cut;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
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

/// What every connection shares.
pub(crate) struct Face {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) gate: Arc<ArcSwap<Gate>>,
    pub(crate) sight: Arc<Sight>,
}

impl Face {
    /// Answers one request. `cut` tells when the time to finish is over.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        cut: Cut,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let wanted = match Wanted::of(request.method(), request.uri().path()) {
            Wanted::Metrics if !self.sight.serves_metrics.callers() => Wanted::nothing_here(),
            wanted => wanted,
        };
        let face = wanted.face();
        // Pinned here and lent: it is large, and would be copied.
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
            Wanted::CountTokens => self.count_tokens(request, peer).await,
            Wanted::Alive => plain(StatusCode::OK, "ok\n".into()),
            Wanted::Ready => {
                let (is_ready, body) = self.sight.readiness();
                let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                plain(status, body)
            }
            Wanted::OpenApi => text("application/json", served_openapi()),
            Wanted::Metrics => text(metrics::CONTENT_TYPE, self.sight.metrics()),
            Wanted::Nothing { face, problem, refusal } => refusal::refuse(face, refusal, problem, self.id()),
        }
    }

    /// A name for a request that nobody can foresee and that seldom comes twice.
    fn id(&self) -> u64 {
        self.runtime.draw().below(u64::MAX)
    }
}

/// The outcome of `work`; nothing if it panics. What it held is settled by then, and other requests of the connection go on.
async fn unless_it_panics<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| {
        // It is not looked at again after a panic.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
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

//! The HTTP faces: what comes in at which path, and what goes out.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `wanted` | from method and path to what is wanted |
//! | `ask` | questions to models, in every dialect |
//! | `list` | which models there are, and how many tokens a request has |
//! | `told` | what an answer's headers say of how it came about |
//! | `refusal` | refusals in the words of each dialect |

mod ask;
mod list;
mod refusal;
mod told;
mod wanted;

use crate::body::ReplyBody;
use crate::identity::Gate;
use crate::log::Counters;
use crate::runtime::TokioRuntime;
use crate::shared::SharedStatus;
use crate::stopping::Cut;
use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use seawall_pipeline::{Path, Runtime as _};
use seawall_store::Standing;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wanted::Wanted;

/// What every connection shares.
pub(crate) struct Face {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) counters: Arc<Counters>,
    pub(crate) gate: Arc<ArcSwap<Gate>>,
    pub(crate) draining: AtomicBool,
    /// How the store stands that a fleet shares, where there is one.
    pub(crate) shared: Option<SharedStatus>,
}

impl Face {
    /// Answers one request. `cut` tells when the time to finish is over.
    pub(crate) async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: IpAddr,
        cut: Cut,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let response = match Wanted::of(request.method(), request.uri().path()) {
            Wanted::Ask(arriving) => self.ask(request, arriving, peer, cut).await,
            Wanted::Models => self.models(request, peer).await,
            Wanted::CountTokens => self.count_tokens(request, peer).await,
            Wanted::Alive => plain(StatusCode::OK, "ok\n".into()),
            Wanted::Ready if self.draining.load(Ordering::Relaxed) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n".into())
            }
            Wanted::Ready => plain(StatusCode::OK, "ready\n".into()),
            Wanted::Metrics => plain(StatusCode::OK, self.metrics()),
            Wanted::Nothing { face, problem, refusal } => refusal::refuse(face, refusal, problem, self.id()),
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
        if let Some(shared) = &self.shared {
            let (standing, counts, dropped) = shared.read();
            for (name, help, kind, value) in [
                (
                    "seawall_shared_store_here",
                    "Whether the store that a fleet shares decides.",
                    "gauge",
                    u64::from(standing != Standing::Away),
                ),
                (
                    "seawall_shared_store_decided_alone_total",
                    "Requests that this node decided without it.",
                    "counter",
                    counts.decided_alone,
                ),
                (
                    "seawall_shared_store_unsettled_total",
                    "Settlements that did not reach it.",
                    "counter",
                    counts.unsettled.saturating_add(dropped),
                ),
            ] {
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
            }
        }
        text
    }

    /// A name for a request that nobody can foresee and that seldom comes twice.
    fn id(&self) -> u64 {
        self.runtime.draw().below(u64::MAX)
    }
}

fn plain(status: StatusCode, text: String) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

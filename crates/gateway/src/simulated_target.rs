//! Serves the simulated model as a target, in this process and in real time.

use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_model::engine::ModelCall;
use seawall_model::playback::Playback;
use seawall_model::shared::SharedModel;
use seawall_provider::http1::TokioTimer;
use seawall_provider::{ChunkStream, LocalResponse, LocalTarget};
use seawall_wire::dialect::DialectId;
use std::task::{Context, Poll};

/// The simulated model that a gateway calls. Clones share one model, and its server reports the requests made here.
pub type SimulatedModel = SharedModel<TokioTimer>;

/// A connector to the model of this name, without a socket.
pub(crate) fn simulated_target(model: &SimulatedModel, dialect: DialectId, name: &str) -> LocalTarget {
    let model = model.clone();
    LocalTarget::new(dialect, name, move |path, body| {
        let playback = ModelCall::of_path(path).and_then(Result::ok).map(|call| model.call(&call, &body));
        Box::pin(respond(playback))
    })
}

async fn respond(playback: Option<Playback<TokioTimer>>) -> Result<LocalResponse, Failure> {
    let mut playback = playback.ok_or(Failure::of(FailureKind::NotFound))?;
    // The simulated connection was closed or reset before the response began.
    let head = playback.head().await.ok_or(Failure::of(FailureKind::Unreachable))?;
    let headers = head.headers().collect();
    Ok(LocalResponse { status: head.status, headers, chunks: Box::new(PlayChunks(playback)) })
}

struct PlayChunks(Playback<TokioTimer>);

impl ChunkStream for PlayChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.0.poll_chunk(context)
    }
}

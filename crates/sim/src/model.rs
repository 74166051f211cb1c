//! The simulated model as a target, on the virtual clock.

use crate::world::World;
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_model::bill::Bill;
use seawall_model::engine::{Engine, ModelCall};
use seawall_model::playback::Playback;
use seawall_model::shared::SharedModel;
use seawall_provider::{Call, CallFuture, ChunkStream, LocalResponse, LocalTarget, Target};
use seawall_wire::dialect::{DialectId, ModelOperation};
use std::sync::Arc;
use std::task::{Context, Poll};

/// A simulated model without a socket, and its bill. Clones share both.
#[derive(Clone)]
pub struct ModelTarget {
    model: SharedModel<World>,
    target: Arc<LocalTarget>,
}

impl ModelTarget {
    /// A model in this world that is called in the Anthropic dialect. The schedule of faults starts now.
    #[must_use]
    pub fn new(world: &World, engine: Engine) -> Self {
        let model = SharedModel::new(engine, world.clone());
        Self::sharing(model, DialectId::ANTHROPIC_MESSAGES, "")
    }

    /// A model that other targets share, called in this dialect and, where the dialect puts the model's name outside
    /// the request body, by this name.
    #[must_use]
    pub fn sharing(model: SharedModel<World>, dialect: DialectId, name: &str) -> Self {
        let called = model.clone();
        let target = LocalTarget::new(dialect, name, move |path, body| {
            let playback =
                ModelCall::of_path(path).and_then(Result::ok).map(|call| called.call(&call, &body));
            Box::pin(respond(playback))
        });
        Self { model, target: Arc::new(target) }
    }

    /// What the vendor has billed so far.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.model.meter().bill()
    }
}

async fn respond(playback: Option<Playback<World>>) -> Result<LocalResponse, Failure> {
    let mut playback = playback.ok_or(Failure::of(FailureKind::NotFound))?;
    // The connection was closed or reset before the response began.
    let head = playback.head().await.ok_or(Failure::of(FailureKind::Unreachable))?;
    let headers = head.headers().collect();
    Ok(LocalResponse { status: head.status, headers, chunks: Box::new(PlaybackChunks(playback)) })
}

struct PlaybackChunks(Playback<World>);

impl ChunkStream for PlaybackChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.0.poll_chunk(context)
    }
}

impl Target for ModelTarget {
    fn dialect(&self) -> DialectId {
        self.target.dialect()
    }

    fn operation_dialect(&self, operation: ModelOperation) -> Option<DialectId> {
        self.target.operation_dialect(operation)
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        self.target.call(call)
    }
}

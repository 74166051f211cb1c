//! Calls a server in this process without a socket.
//!
//! The server receives the path and body that a client would send, and its response is processed like any other:
//! status, headers, errors and messages. It receives no credential, no signature and no other header, because there is
//! no network in between. It has no timeouts: those belong to the pipeline.

use crate::response::{RawResponse, ReadHeader, read_response};
use crate::target::{Call, CallError, CallFuture, ChunkStream, Target, UpstreamResponse};
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_wire::dialect::{DialectId, ModelOperation};
use std::future::Future;
use std::pin::Pin;

/// The response of a server in this process, once its head is available.
pub struct LocalResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers, with lowercase names.
    pub headers: Vec<(&'static str, String)>,
    /// The body as it is produced. Dropping it cancels the response.
    pub chunks: Box<dyn ChunkStream>,
}

/// A pending response. Dropping it cancels the request.
pub type LocalResponseFuture = Pin<Box<dyn Future<Output = Result<LocalResponse, Failure>> + Send>>;

type LocalServer = dyn Fn(&str, Bytes) -> LocalResponseFuture + Send + Sync;

/// A model behind a server in this process.
pub struct LocalTarget {
    dialect: DialectId,
    unstreamed: String,
    stream: String,
    server: Box<LocalServer>,
}

impl LocalTarget {
    /// A target for this model and dialect; `server` receives the path and the body.
    #[must_use]
    pub fn new(
        dialect: DialectId,
        model: &str,
        server: impl Fn(&str, Bytes) -> LocalResponseFuture + Send + Sync + 'static,
    ) -> Self {
        let (unstreamed, stream) = (dialect.path(model, false), dialect.path(model, true));
        Self { dialect, unstreamed, stream, server: Box::new(server) }
    }

    async fn respond(&self, call: Call) -> Result<UpstreamResponse, CallError> {
        let own = || (self.dialect, if call.stream { &*self.stream } else { &*self.unstreamed });
        let (dialect, path) = operation_path(call.operation).unwrap_or_else(own);
        let LocalResponse { status, headers, chunks } = (self.server)(path, call.body).await?;
        read_response(RawResponse { status, headers, body: chunks }, call.stream, dialect).await
    }
}

/// The dialect and path of an operation that only one dialect has. The server has every dialect.
fn operation_path(operation: ModelOperation) -> Option<(DialectId, &'static str)> {
    DialectId::ALL.into_iter().find_map(|dialect| Some((dialect, dialect.operation_path(operation)?)))
}

impl Target for LocalTarget {
    fn dialect(&self) -> DialectId {
        self.dialect
    }

    fn operation_dialect(&self, operation: ModelOperation) -> Option<DialectId> {
        Some(operation_path(operation).map_or(self.dialect, |(dialect, _)| dialect))
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(self.respond(call))
    }
}

impl ReadHeader for Vec<(&'static str, String)> {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
    }
}

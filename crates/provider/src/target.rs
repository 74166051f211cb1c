//! The interface of a target: one model at one vendor.

use crate::trace::TraceHeaders;
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_wire::dialect::{DialectId, ModelOperation, ResponseReport};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A call to a target.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request in the target's dialect.
    pub body: Bytes,
    /// Whether a streamed answer is requested.
    pub stream: bool,
    /// Beta features that the caller requests, for targets that take them in a header.
    pub betas: Vec<String>,
    /// The operation. See [`Target::operation_dialect`].
    pub operation: ModelOperation,
    /// The dialect of the body; the target's default if `None`. See [`Target::accepts`].
    pub dialect: Option<DialectId>,
    /// The version of Anthropic's API that the caller set, if it is not the default.
    pub anthropic_version: Option<Box<str>>,
    /// Headers of the caller that carry request parameters, with lowercase names. Only InvokeModel has such headers;
    /// they are signed.
    pub headers: Vec<(&'static str, Box<str>)>,
    /// The caller's trace headers, which are passed on and not signed.
    pub trace: Option<Arc<TraceHeaders>>,
}

impl Call {
    /// A call in the target's default dialect, without additional headers.
    #[must_use]
    pub const fn new(body: Bytes, stream: bool) -> Self {
        Self {
            body,
            stream,
            betas: Vec::new(),
            operation: ModelOperation::Generate,
            dialect: None,
            anthropic_version: None,
            headers: Vec::new(),
            trace: None,
        }
    }
}

/// A successful response.
pub enum UpstreamResponse {
    /// A complete answer that is not streamed.
    Unstreamed {
        /// The body.
        body: Bytes,
        /// Usage and service tier from the response headers, if any.
        report: Option<ResponseReport>,
    },
    /// A streamed answer.
    Stream(Box<dyn ChunkStream>),
}

/// The chunks of a streamed answer: the bytes of each read, which need not end where an event does. Dropping it cancels
/// the response and closes the connection or stream.
pub trait ChunkStream: Send {
    /// The next chunk; `None` once the vendor has ended the response, in whatever way.
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>>;

    /// Usage and service tier from the response headers, if any.
    fn report(&self) -> Option<&ResponseReport> {
        None
    }
}

impl<Chunks: ChunkStream + ?Sized> ChunkStream for Box<Chunks> {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        (**self).poll_chunk(context)
    }

    fn report(&self) -> Option<&ResponseReport> {
        (**self).report()
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The failure.
    pub failure: Failure,
    /// The vendor's message, if the caller's request is at fault: truncated and safe to display.
    pub message: Option<Box<str>>,
    /// The vendor's message in any other case, for operators only: truncated, and without credentials.
    pub detail: Option<Box<str>>,
    /// The HTTP status of the vendor's error response, if there was one.
    pub status: Option<u16>,
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        Self { failure, message: None, detail: None, status: None }
    }
}

/// A pending attempt. Dropping it cancels the attempt.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<UpstreamResponse, CallError>> + Send + 'a>>;

/// A target. It makes exactly one attempt per call and never retries.
pub trait Target: Send + Sync {
    /// The default dialect. The pipeline translates to it.
    fn dialect(&self) -> DialectId;

    /// Whether it also accepts calls in this dialect, and answers in it, if [`Call::dialect`] is set. Bedrock accepts
    /// both of its own, so a request in either need not be translated.
    fn accepts(&self, dialect: DialectId) -> bool {
        dialect == self.dialect()
    }

    /// The dialect to call an operation in; `None` if the target does not have that operation.
    fn operation_dialect(&self, operation: ModelOperation) -> Option<DialectId> {
        (operation == ModelOperation::Generate).then(|| self.dialect())
    }

    /// The same target for another model, over the same connections, if the model is part of its URL. `None` if requests
    /// carry the model, so that one target serves all of them.
    fn for_model(&self, model: &str) -> Option<Arc<dyn Target>> {
        let _ = model;
        None
    }

    /// Starts an attempt.
    fn call(&self, call: Call) -> CallFuture<'_>;
}

//! One model at one vendor, as the request path sees it.

use bytes::Bytes;
use seawall_core::failure::Failure;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What is asked of a target.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request in the target's own dialect.
    pub body: Bytes,
    /// Whether the answer is to come in pieces.
    pub stream: bool,
}

/// What a target brings back once it has said yes.
pub enum Answer {
    /// All of it.
    Whole(Bytes),
    /// Pieces, as they arrive.
    Stream(Box<dyn Frames>),
}

/// The pieces of an answer. Dropped, it is no longer wanted, and the way to the vendor is closed.
pub trait Frames: Send {
    /// The next piece; nothing once the vendor has ended the answer, however it ended it.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>>;
}

/// The attempt under way. Dropped, it is no longer wanted.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + 'a>>;

/// A target: makes one attempt per call, and never a second one by itself.
pub trait Target: Send + Sync {
    /// Starts an attempt.
    fn call(&self, call: Call) -> Calling<'_>;
}

//! Tracks when data was last received on a connection.
//!
//! Many requests share a connection, and cancelling a request only closes its own stream. To distinguish a dead
//! connection from a model that takes long to respond, the pool checks whether any data was received at all.

use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// When data was last received. Clones share the value.
#[derive(Clone, Debug)]
pub(super) struct LastReceived(Arc<AtomicU64>);

impl LastReceived {
    pub(super) fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_nanos())))
    }

    pub(super) fn get(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

pub(super) struct ReceiveTracker<S, T> {
    pub(super) stream: S,
    pub(super) timer: T,
    pub(super) last_received: LastReceived,
}

impl<S: AsyncRead + Unpin, T: Timer + Unpin> AsyncRead for ReceiveTracker<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.last_received.0.store(self.timer.monotonic().as_nanos(), Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin, T: Timer + Unpin> AsyncWrite for ReceiveTracker<S, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

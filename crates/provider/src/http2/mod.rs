//! HTTP/2 client, for servers that negotiated it.
//!
//! The protocol itself is implemented by hyper. This module adds connection selection (`pool.rs`), timeouts per phase,
//! and the classification of failures. Limits and failures are those of [`http1`](crate::http1), so users need not
//! distinguish the two.
//!
//! **When it acts.** A request takes the first connection with a free stream, within the limits of both sides. A
//! connection gets no further requests if the peer is closing it, if it was idle too long, or if nothing was received
//! on it for two seconds when a request was cancelled, because it may be dead. A request that the peer has certainly
//! not processed is sent once more, as over HTTP/1.1.
//!
//! **What it does not do.** It sends no pings, accepts no server push and sets no stream priorities. Each connection
//! has one driver task, on the core that opened it.

mod body;
mod failure;
mod last_received;
mod outgoing;
mod pool;
mod send;
#[cfg(test)]
mod tests;

pub use body::Http2Body;
pub(crate) use pool::{Http2Pool, StreamLease};
pub(crate) use send::{Http2Response, send};

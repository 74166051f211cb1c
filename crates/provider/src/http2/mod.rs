//! HTTP/2 to a model, where both sides agreed on it.
//!
//! The protocol itself is hyper's. Here is what it leaves open: which connection carries the next request (`pool.rs`), how
//! long each phase may take, and what a failure means; limits and failures are those of [`http1`](crate::http1), so that
//! whoever asked cannot tell the difference.
//!
//! **When it acts.** A request takes the first connection with a free stream, as many as we and the peer allow. One that
//! the peer is closing gets no further request, and neither does one that was idle too long, or over which nothing came
//! for two seconds when a request was given up: it may have died. A request that the peer has certainly not looked at is sent once more, as over HTTP/1.1.
//!
//! **What it will not do.** It sends no pings, takes no pushed responses and gives streams no priorities. Each connection
//! has one task, its driver, on the core that opened it.

mod body;
mod failure;
mod heard;
mod outgoing;
mod pool;
mod send;
#[cfg(test)]
mod tests;

pub use body::Body;
pub(crate) use pool::{Lease, Pool};
pub(crate) use send::{Response, send};

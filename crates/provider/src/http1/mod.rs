//! A minimal HTTP/1.1 client.
//!
//! [`send()`] takes a [`HttpRequest`] and a connection from a [`Http1Pool`], or opens a new one, and returns a [`Http1Response`] as
//! soon as its head has arrived; [`Http1Body::chunk`] then returns the bytes of each read. Reads and writes happen in the
//! task that calls it: there is no task per connection and no channel, so a burst of events costs one read and one
//! chunk. A plain request over a pooled connection is one write and one read.
//!
//! **Why not hyper's client?** In the minimal hop of `cargo xtask bench proxy` it takes 1.07 to 1.15 times the CPU of this one
//! for a plain request (four runs on 18 November 2026).
//!
//! **When it acts.** Each phase has its own timeout: connecting, writing, the head, each wait within the body. A
//! timeout is checked only when there is something to wait for, and its timer outlives the wait (see `reusable_timer.rs`).
//! Failures name the phase and what the peer may know of the request ([`SendFailure::request_began`]).
//!
//! **What it does not do.** It does not retry, except for the one case in [`send()`]; follows no redirects; decompresses
//! nothing; stores no cookies; does not speak HTTP/2 or pipeline requests; does not resolve names. It has no rate
//! limits or budgets. TLS is added by another [`Connect`].
//!
//! ```no_run
//! use bytes::Bytes;
//! use seawall_provider::http1::{
//!     Endpoint, Http1Pool, HttpLimits, HttpRequest, PoolOptions, Scheme, TcpConnect, TokioTimer, send,
//! };
//! use std::time::Duration;
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::new(Scheme::Http, "localhost", 8080)?;
//! let connect = TcpConnect(([127, 0, 0, 1], 8080).into());
//! let pool = Http1Pool::new(endpoint, connect, TokioTimer::new(), PoolOptions::default());
//! let limits = HttpLimits {
//!     connect_timeout: Duration::from_secs(2),
//!     write_timeout: Duration::from_secs(5),
//!     head_timeout: Duration::from_secs(25),
//!     idle_timeout: Duration::from_secs(10),
//!     max_body_bytes: 16 << 20,
//! };
//! let request = HttpRequest {
//!     method: "POST",
//!     path: "/v1/messages",
//!     headers: &[("content-type", "application/json")],
//!     body: Bytes::from_static(b"{}"),
//!     resend_on_stale: true,
//! };
//! let mut response = send(&pool, request, &limits).await?;
//! while let Some(chunk) = response.body.chunk().await {
//!     println!("{} bytes", chunk?.len());
//! }
//! # Ok(())
//! # }
//! ```

mod body;
mod chunked;
pub(crate) mod connection;
mod endpoint;
mod failure;
mod head;
mod pool;
mod request;
pub(crate) mod reusable_timer;
mod send;
#[cfg(test)]
pub(crate) mod tests;
mod timer;

pub use body::Http1Body;
pub use endpoint::{Connect, Endpoint, Scheme, TcpConnect};
pub use failure::{BodyFailure, SendFailure};
pub use head::{HEAD_LIMIT, HEADER_LIMIT, HeadError, Http1Headers};
pub use pool::{Http1Pool, PoolOptions};
pub use request::HttpRequest;
pub(crate) use request::is_token_byte;
pub use seawall_core::runtime::Timer;
pub use send::{Http1Response, HttpLimits, send};
pub(crate) use send::{PooledSendDecision, STALE_WITHIN, connect, send_on, send_pooled};
pub use timer::TokioTimer;

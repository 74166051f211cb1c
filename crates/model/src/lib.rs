//! A simulated model with the behaviour of a real one, and with faults on demand.
//!
//! [`engine`] is pure: it maps a request and a point in time to a [`Script`](engine::Script), which defines what is
//! sent, when, and how it ends. The same seed and the same requests give the same scripts, so a day of outages can be
//! replayed live or on a virtual clock. [`bill`] counts what was delivered, in whole nano-dollars, to compare with what
//! a gateway believes it spent, and [`call_log`] is the log of requests. [`shared`] is one model for concurrent
//! callers, [`playback`] plays its scripts on any clock, and `server` does so over real sockets.
//!
//! It speaks Anthropic Messages, OpenAI chat completions and the Amazon Bedrock runtime. It does not understand its
//! input, and its answers say so.

pub mod bill;
pub mod call_log;
pub mod engine;
pub mod playback;
pub mod prompt_cache;
#[cfg(feature = "server")]
pub mod server;
pub mod shared;

#[cfg(test)]
mod tests;

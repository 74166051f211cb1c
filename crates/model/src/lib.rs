//! A simulated model that behaves like a real one, badly on demand.
//!
//! [`engine`] is pure: a request and a moment go in, a [`Script`](engine::Script) comes out that says what is sent
//! when, and how it ends. The same seed and the same requests give the same scripts, so a day of outages can be
//! replayed live or on a virtual clock. [`bill`] counts what was delivered, in whole nano-dollars, to hold against
//! what a gateway believes it spent, and [`calls`] lists who asked for what. [`shared`] is
//! one model for all who ask, [`play`] plays its scripts on any clock, and `server` does so over real sockets.
//!
//! It speaks Anthropic Messages, OpenAI chat completions and the Amazon Bedrock runtime. It does not understand what it is
//! told, and says so.

pub mod bill;
pub mod calls;
pub mod engine;
pub mod play;
#[cfg(feature = "server")]
pub mod server;
pub mod shared;

#[cfg(test)]
mod tests;

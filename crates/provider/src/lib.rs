//! Carrying one attempt to one vendor, and bringing the answer back as it arrives.
//!
//! A [`Target`] makes one attempt and says how it went; [`AnthropicTarget`] makes it over [`http1`], the HTTP/1.1 client
//! that every attempt over a socket goes through. Nothing here retries, and limits, budgets and breakers are not known:
//! who asked for the attempt decides what a failure leads to.

mod anthropic;
pub mod http1;
mod target;

pub use anthropic::{AnthropicTarget, enter_core};
pub use target::{Answer, Call, Calling, Frames, Target};

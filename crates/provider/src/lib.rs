//! Carrying one attempt to one vendor, and bringing the answer back as it arrives.
//!
//! A [`Target`] makes one attempt and says how it went. It does not retry, and knows no limits, budgets or breakers:
//! who asked for the attempt decides what a failure leads to.

mod target;

pub use target::{Answer, Call, Calling, Frames, Target};

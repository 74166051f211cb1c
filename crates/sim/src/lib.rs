//! Runs Seawall on a virtual clock (deterministic simulation).
//!
//! [`World`] is an executor without threads, sockets or a real clock. Tasks are ordinary `Send` futures that wait
//! through the world's timer; when all of them are waiting, the clock jumps to the next timer. Which of several
//! runnable tasks is polled first is drawn from a seed. The same seed always gives the same order of events, and
//! another seed gives another order, so that races are explored systematically.

mod model;
mod runtime;
mod world;

pub use model::ModelTarget;
pub use world::{Sleep, World};

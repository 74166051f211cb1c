//! Runs Seawall on a virtual clock.
//!
//! [`World`] is an executor without threads, sockets or a real clock. Tasks are ordinary `Send` futures that wait
//! through the world's timer; when all of them wait, the clock jumps to the next moment somebody waits for. Which of
//! several ready tasks goes first is drawn from a seed, so that one seed is one order of events, always the same, and
//! another seed is another order: races are explored instead of hoped for.

mod model;
mod runtime;
mod world;

pub use model::ModelTarget;
pub use world::{Sleep, World};

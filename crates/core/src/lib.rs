//! The resilience machines of Seawall.
//!
//! Everything here decides and nothing here acts. A machine is state plus a pure step: what happened and what
//! time it is go in, a decision comes out. There is no clock, no random source, no task and no socket in this
//! crate, so each machine can be used alone, tested exhaustively, and replayed on a virtual clock.

pub mod breaker;
pub mod chance;
pub mod credit;
pub mod deadline;
pub mod failure;
pub mod histogram;
pub mod in_flight;
pub mod invariant;
pub mod pressure;
pub mod quota;
pub mod retry;
pub mod sender;
pub mod setting;
pub mod time;
pub mod waiting;

mod sync;

//! The resilience machines of Seawall.
//!
//! Everything here decides and nothing here acts. A machine is state plus a pure step: what happened and what
//! time it is go in, a decision comes out. There is no clock, no random source, no task and no socket in this
//! crate, so each machine can be used alone, tested exhaustively, and replayed on a virtual clock.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`failure`] | what went wrong, whose fault it is, where trying again can help |
//! | [`retry`] | the same target again, another, or give up; how long to wait; hedge or not |
//! | [`credit`] | whether the node can afford one more attempt |
//! | [`breaker`] | whether this target may be called |
//! | [`pressure`] | how gently to try again |
//! | [`quota`] | whether everybody has room for this request, and if not, when |
//! | [`waiting`] | when it is this caller's turn |
//! | [`sender`] | how fast to send to who throttles us |
//! | [`in_flight`] | whether there is a place for one more call |
//! | [`deadline`] | how much time is left, and for whom |
//! | [`tokens`] | how many tokens a text has |
//! | [`history`] | which turns of a conversation go to the model |
//! | [`money`] | what tokens cost, to the nano-dollar |
//! | [`vocabulary`] | what the words mean that several of these share |
//! | [`invariant`] | whether the laws of all these hold |
//!
//! Settings are plain `…Options` that anybody can write; a constructor that refuses nonsense by name turns them
//! into what a machine works with. Permits, reservations and credits are values: dropped, they settle themselves.

pub mod breaker;
pub mod chance;
pub mod credit;
pub mod deadline;
pub mod failure;
pub mod histogram;
pub mod history;
pub mod in_flight;
pub mod invariant;
pub mod money;
pub mod pressure;
pub mod quota;
pub mod retry;
pub mod sender;
pub mod setting;
pub mod time;
pub mod tokens;
pub mod vocabulary;
pub mod waiting;

mod sync;

/// The examples of the README are compiled and run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

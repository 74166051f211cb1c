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
//! | [`queue`] | who of those that wait gets the next place, and who should not wait at all |
//! | [`baseline`] | what is usual for a target, over the last hour |
//! | [`ladder`] | how far to step down, from what is measured |
//! | [`sender`] | how fast to send to who throttles us |
//! | [`in_flight`] | whether there is a place for one more call |
//! | [`body_memory`] | whether there is memory for one more piece of a body |
//! | [`deadline`] | how much time is left, and for whom |
//! | [`budget`] | whether there is money for this request, and how the day stands |
//! | [`framing`] | what to send a client now of what a model has said, and how it ends |
//! | [`router`] | what a request is worth: its priority, its models, whether a prepared answer comes first |
//! | [`hours`] | whether it is that time of day, and when that changes |
//! | [`strategy`] | how often a failure is worth trying again, and what to answer with instead |
//! | [`cache_policy`] | who may see a kept answer, for how long, and who asks when many want the same |
//! | [`tokens`] | how many tokens a text has |
//! | [`history`] | which turns of a conversation go to the model |
//! | [`money`] | what tokens cost, to the nano-dollar |
//! | [`media`] | how many tokens a picture comes to |
//! | [`untracked`] | how many tokens of input a call may be billed for |
//! | [`evaluator`] | what may be done for this request, and why no more |
//! | [`rollout`] | how far a protection has been brought in, and for whom |
//! | [`handle`] | nothing: it is the clock, the chance and the timer that callers hand in |
//! | [`vocabulary`] | what the words mean that several of these share |
//! | [`invariant`] | whether the laws of all these hold |
//!
//! Settings are plain `…Options` that anybody can write; a constructor that refuses nonsense by name turns them
//! into what a machine works with. Permits, reservations and credits are values: dropped, they settle themselves.

pub mod baseline;
pub mod body_memory;
pub mod breaker;
pub mod budget;
pub mod cache_policy;
pub mod chance;
pub mod credit;
pub mod deadline;
pub mod evaluator;
pub mod failure;
pub mod framing;
pub mod handle;
pub mod histogram;
pub mod history;
pub mod hours;
pub mod in_flight;
pub mod invariant;
pub mod ladder;
pub mod media;
pub mod money;
pub mod pressure;
pub mod queue;
pub mod quota;
pub mod retry;
pub mod rollout;
pub mod router;
pub mod sender;
pub mod setting;
pub mod strategy;
pub mod time;
pub mod tokens;
pub mod untracked;
pub mod vocabulary;
pub mod waiting;

mod sync;

/// The examples of the README are compiled and run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

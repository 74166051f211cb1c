//! The resilience state machines of Seawall: admission, retries, circuit breaking, quotas, budgets, fallback.
//!
//! Everything here decides and nothing here acts. Each machine is sans-I/O: state plus a pure step that takes an event
//! and the current time and returns a decision. The crate reads no clock, has no random source, spawns no task and
//! opens no socket, so each machine can be used alone, tested exhaustively, and replayed on a virtual clock.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`failure`] | what kind of failure was it, who caused it, and can a retry or failover help |
//! | [`retry`] | retry on the same target, fail over, or give up; how long to back off; whether to hedge |
//! | [`credit`] | does the node's retry budget allow one more attempt |
//! | [`breaker`] | may this target be called |
//! | [`pressure`] | how far to slow down retries against a struggling target |
//! | [`quota`] | does every rate limit have room for this request, and if not, when to retry |
//! | [`waiting`] | when is it this caller's turn |
//! | [`queue`] | which waiting request gets the next concurrency slot, and which should be shed at once |
//! | [`health`] | what is wrong with a target, since when, and what an operator should do |
//! | [`key_pool`] | which of a target's keys a call uses, and which are set aside |
//! | [`balance`] | in which order targets of one model are tried |
//! | [`baseline`] | what is usual for a target, over the last hour |
//! | [`ladder`] | which degradation level the measurements call for |
//! | [`sender`] | how fast to send to an upstream that throttles us |
//! | [`in_flight`] | does the concurrency limit allow one more call |
//! | [`body_memory`] | is there memory for one more chunk of a request body |
//! | [`deadline`] | how much time is left, and for which step |
//! | [`budget`] | is there money for this request, and how much of the day's budget is used |
//! | [`framing`] | what part of a model's output to send to the client now, and how the stream ends |
//! | [`hours`] | is it that time of day, and when does that change |
//! | [`strategy`] | how often a failure is worth a retry, and what to answer with instead |
//! | [`cache_policy`] | who may see a cached answer, for how long, and which of many equal requests calls the model |
//! | [`tokens`] | how many tokens a text has |
//! | [`history`] | which turns of a conversation go to the model |
//! | [`money`] | what tokens cost, to the nano-dollar |
//! | [`media`] | how many tokens an image counts as |
//! | [`untracked`] | how many input tokens a call may be billed for |
//! | [`evaluator`] | what this request may use, and why no more |
//! | [`rollout`] | how far a protection has been rolled out, and to which callers |
//! | [`runtime`] | none: the clock, random source and timer that callers pass in |
//! | [`vocabulary`] | what the terms mean that several of these modules share |
//! | [`invariant`] | do the invariants of all these machines hold |
//!
//! Settings are plain `...Options` structs with public fields; their constructor validates them, names the setting that
//! is wrong, and returns what the machine works with. Permits, reservations and credits are RAII values: dropping one
//! settles it.

pub mod balance;
pub mod baseline;
pub mod body_memory;
pub mod breaker;
pub mod budget;
pub mod cache_policy;
pub mod credit;
pub mod deadline;
pub mod evaluator;
pub mod failure;
pub mod framing;
pub mod health;
pub mod histogram;
pub mod history;
pub mod hours;
pub mod in_flight;
pub mod invariant;
pub mod key_pool;
pub mod ladder;
pub mod manual_clock;
pub mod media;
pub mod money;
pub mod pressure;
pub mod queue;
pub mod quota;
pub mod random;
pub mod retry;
pub mod rollout;
pub mod runtime;
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

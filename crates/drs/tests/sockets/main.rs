//! The client with the vendor's SDK against the fake, over real sockets, with signatures.

mod bad_input;
#[path = "../support/clock.rs"]
mod clock;
mod cloud;
mod first;
mod jobs;
mod limits;
mod other_service;
mod real_time;
mod sinks;
mod storm;

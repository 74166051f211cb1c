//! The client with the vendor's SDK against the fake, over real sockets, with signatures.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
#[path = "../support/clock.rs"]
mod clock;
#[cfg(test)]
mod cloud;
#[cfg(test)]
mod first;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod other_service;
#[cfg(test)]
mod real_time;
#[cfg(test)]
mod sinks;
#[cfg(test)]
mod storm;

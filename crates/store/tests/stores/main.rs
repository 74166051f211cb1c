//! One suite for every store: what one of them promises, all of them do.
//!
//! [`conformance`] judges; the other modules bring stores before it, and among them some that are broken on purpose.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod conformance;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(test)]
mod memory;
#[cfg(test)]
#[cfg(feature = "redis")]
mod redis;

//! The twelve properties of rate-limit handling, each on at least 100 random cases. Property 7 needs the client and is
//! among the tests with sockets.

#[cfg(test)]
mod bucket;
#[cfg(test)]
#[path = "../support/clock.rs"]
mod clock;
#[cfg(test)]
mod outbox;
#[cfg(test)]
mod report;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod throttler;
#[cfg(test)]
mod vendor;

#[cfg(test)]
use vendor::{EventRecorder, FINAL, RETRYABLE, Script, TestGuard, VendorError};

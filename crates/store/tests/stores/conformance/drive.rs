//! Blocking on futures.

use seawall_testkit::block_on;
use std::future::Future;

/// Blocks this thread on a future. A store that needs a runtime brings its own.
pub(crate) trait Drive: Sync {
    /// Returns the output of the future.
    fn drive<T>(&self, work: impl Future<Output = T>) -> T;
}

/// For stores that need no runtime: the thread parks until it is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked;

impl Drive for Parked {
    fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        block_on(work)
    }
}

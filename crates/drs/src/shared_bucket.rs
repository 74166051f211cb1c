//! A bucket that several processes share.
//!
//! Why? A quota belongs to an account, not to a process: ten functions with a local bucket each would send ten times
//! the rate.

use crate::bucket::BucketKey;
use seawall_core::waiting::WaitingSettings;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The answer of a shared bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedBucketDecision {
    /// The token is reserved; use it after this wait.
    Granted {
        /// Zero if the token is free now.
        wait: Duration,
    },
    /// The turn would come too late. Nothing was taken.
    Refused {
        /// The wait that would have been needed.
        would_wait: Duration,
    },
}

/// The shared bucket cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("the shared rate bucket cannot be reached: {0}")]
pub struct SharedBucketError(pub String);

/// The future of [`SharedBucket::reserve`].
pub type SharedBucketFuture<'a> =
    Pin<Box<dyn Future<Output = Result<SharedBucketDecision, SharedBucketError>> + Send + 'a>>;

/// A token bucket kept outside this process.
pub trait SharedBucket: Send + Sync {
    /// Reserves the next token of `key`, if its turn comes within `max_wait`. Reservations are granted in the order of
    /// arrival; one that is not used is lost, which is the safe side.
    fn reserve<'a>(
        &'a self,
        key: &'a BucketKey,
        settings: WaitingSettings,
        max_wait: Duration,
    ) -> SharedBucketFuture<'a>;
}

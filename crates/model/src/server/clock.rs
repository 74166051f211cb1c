//! The one place of this crate that reads the clock and waits.
#![expect(
    clippy::disallowed_methods,
    reason = "a server at a real socket lives in real time; scripts are made of offsets"
)]

use std::pin::Pin;
use tokio::time::{Instant, Sleep};

pub(super) fn now() -> Instant {
    Instant::now()
}

pub(super) async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment).await;
}

/// A wait that can be set anew.
pub(super) fn alarm(moment: Instant) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep_until(moment))
}

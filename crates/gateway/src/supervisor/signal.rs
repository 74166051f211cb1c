//! The signal that asks a background thread to stop.

use std::time::Duration;
use tokio::sync::watch;

/// A request to stop, with the time that requests in flight have to finish. The only way in which a thread is stopped.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<Option<Duration>>);

impl StopSignal {
    pub(super) fn new() -> (watch::Sender<Option<Duration>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Completes when the thread must stop, at once if it must already. Returns the drain timeout. It may be dropped and
    /// called again.
    pub(crate) async fn requested(&mut self) -> Duration {
        // An error means that the supervisor is gone, which also ends its threads.
        self.0.wait_for(Option::is_some).await.ok().and_then(|timeout| *timeout).unwrap_or_default()
    }

    /// Whether the thread must stop.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }
}

//! Adaptive pacing: a client that was throttled sends more slowly for a while, whatever its bucket allows.
//!
//! The quota of an account is also used by others. [`seawall_core::sender`] lowers the rate on a throttle and raises it
//! again along a cubic curve.

use seawall_core::runtime::Runtime;
use seawall_core::sender::{SendDecision, SenderRate};
use seawall_core::time::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub(crate) struct AdaptivePacer<R> {
    runtime: R,
    rate: Arc<Mutex<SenderRate>>,
}

impl<R: Runtime> AdaptivePacer<R> {
    pub(crate) fn new(runtime: R) -> Self {
        let rate = SenderRate::new(runtime.monotonic());
        Self { runtime, rate: Arc::new(Mutex::new(rate)) }
    }

    /// Waits until the rate allows a send, at most until `give_up_at`: the bucket then decides alone.
    pub(crate) async fn pace(&self, give_up_at: Timestamp) {
        loop {
            let now = self.runtime.monotonic();
            let decision = self.rate.lock().unwrap_or_else(PoisonError::into_inner).acquire(now);
            let SendDecision::Wait(wait) = decision else { return };
            if now + wait > give_up_at {
                return;
            }
            self.runtime.sleep_until(now + wait).await;
        }
    }

    pub(crate) fn report(&self, throttled: bool) {
        let now = self.runtime.monotonic();
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).report(now, throttled);
    }
}

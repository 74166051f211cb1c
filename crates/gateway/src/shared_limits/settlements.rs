//! The queue of settlements on their way to the shared store.

use crate::runtime::TokioRuntime;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::timeout_at;
use seawall_core::time::Now;
use seawall_pipeline::{SettlementQueue, Timer as _};
use seawall_store::{QuotaReceipt, Quotas, Settlement};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc;

/// Settlements sent to the store concurrently. One after the other, a store that is a millisecond away would take only
/// a thousand a second.
pub(super) const SETTLE_CONCURRENCY: usize = 64;

/// One settlement.
pub(super) struct QueuedSettlement {
    receipt: QuotaReceipt,
    spent: Settlement,
    now: Now,
}

/// The sending end of the queue.
pub(super) struct QueuedSettlements {
    pub(super) sender: mpsc::Sender<QueuedSettlement>,
    /// Settlements that did not fit.
    pub(super) dropped: Arc<AtomicU64>,
}

impl SettlementQueue for QueuedSettlements {
    fn push(&self, receipt: QuotaReceipt, spent: Settlement, now: Now) {
        if self.sender.try_send(QueuedSettlement { receipt, spent, now }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Settles these concurrently.
pub(super) async fn settle<Q: Quotas + ?Sized>(quotas: &Q, batch: Vec<QueuedSettlement>) {
    // A failed settlement is counted by the store client and stays charged.
    let each =
        batch.into_iter().map(|QueuedSettlement { receipt, spent, now }| quotas.settle(receipt, spent, now));
    let mut under_way: Vec<_> = each.collect();
    poll_fn(|context| {
        under_way.retain_mut(|settling| std::pin::Pin::new(settling).poll(context).is_pending());
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Closes the queue and settles what is in it, for at most this long. Returns the number left over.
pub(super) async fn drain<T, Settling: Future<Output = ()>>(
    settlements: &mut mpsc::Receiver<T>,
    runtime: TokioRuntime,
    limit: Duration,
    settle: impl Fn(Vec<T>) -> Settling,
) -> u64 {
    settlements.close();
    let end = Deadline::after(runtime.monotonic(), limit);
    let mut batch = Vec::new();
    loop {
        let count = settlements.recv_many(&mut batch, SETTLE_CONCURRENCY).await;
        if count == 0 {
            return 0;
        }
        if timeout_at(&runtime, end, settle(std::mem::take(&mut batch))).await.is_none() {
            return (count + settlements.len()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SETTLE_CONCURRENCY, drain};
    use crate::runtime::TokioRuntime;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::mpsc;

    fn settlements(waiting: usize) -> mpsc::Receiver<usize> {
        let (sender, receiver) = mpsc::channel(1_000);
        (0..waiting).for_each(|number| sender.try_send(number).unwrap());
        receiver
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn shutdown_settles_everything_queued() {
        let settled = AtomicUsize::new(0);
        let left = run(async {
            let settle = |batch: Vec<usize>| {
                assert!(batch.len() <= SETTLE_CONCURRENCY);
                settled.fetch_add(batch.len(), Ordering::Relaxed);
                async {}
            };
            drain(
                &mut settlements(3 * SETTLE_CONCURRENCY + 1),
                TokioRuntime::new(),
                Duration::from_secs(60),
                settle,
            )
            .await
        });
        assert_eq!((left, settled.into_inner()), (0, 3 * SETTLE_CONCURRENCY + 1));
    }

    #[test]
    fn an_unresponsive_store_does_not_block_shutdown() {
        let waiting = 3 * SETTLE_CONCURRENCY + 1;
        let never = |_: Vec<usize>| std::future::pending::<()>();
        let left = run(async {
            drain(&mut settlements(waiting), TokioRuntime::new(), Duration::from_millis(20), never).await
        });
        assert_eq!(left, waiting as u64);
    }
}

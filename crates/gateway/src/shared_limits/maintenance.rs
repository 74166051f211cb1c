//! The upkeep of shared limits: settlements, heartbeats and probes.

use super::settlements::{QueuedSettlement, SETTLE_CONCURRENCY, drain, settle};
use crate::fleet_memory::FleetMemory;
use crate::runtime::TokioRuntime;
use crate::supervisor::StopSignal;
use seawall_core::breaker::NodeId;
use seawall_pipeline::{Runtime as _, Timer as _};
use seawall_store::{FleetStores, NodeView};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long shutdown may take to settle what is queued.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between two probes of a store that did not answer.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// A node without a heartbeat for this long is not counted.
const HEARTBEAT_TTL: Duration = Duration::from_secs(5);

/// The upkeep task of shared limits. It must run until the gateway ends.
pub(super) struct SharedLimitsMaintenance {
    pub(super) stores: FleetStores,
    pub(super) node: NodeId,
    pub(super) runtime: TokioRuntime,
    pub(super) settlements: mpsc::Receiver<QueuedSettlement>,
    pub(super) dropped: Arc<AtomicU64>,
    pub(super) fleet: FleetMemory,
    /// Numbers heartbeats.
    pub(super) sequence: u64,
}

impl SharedLimitsMaintenance {
    /// Settles, sends heartbeats and probes, until the shutdown. Then settles what is queued, as far as the store
    /// takes it in time, and removes this node from the fleet.
    pub(super) async fn run(&mut self, shutdown: &mut StopSignal) {
        let mut due = self.runtime.monotonic();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = shutdown.requested() => break,
                () = self.runtime.sleep_until(due) => {
                    self.sequence += 1;
                    let wait = if self.send_heartbeat().await { HEARTBEAT_INTERVAL } else { PROBE_INTERVAL };
                    due = self.runtime.monotonic() + wait;
                }
                1.. = self.settlements.recv_many(&mut batch, SETTLE_CONCURRENCY) => {
                    settle(&*self.stores.quotas, std::mem::take(&mut batch)).await;
                }
            }
        }
        let quotas = &*self.stores.quotas;
        let left =
            drain(&mut self.settlements, self.runtime, DRAIN_TIMEOUT, |batch| settle(quotas, batch)).await;
        self.dropped.fetch_add(left, Ordering::Relaxed);
        let now = self.runtime.now();
        // What a node cannot give back drops out of its window, and a node that cannot sign off is dropped when its
        // heartbeat expires.
        let _ = quotas.close(now).await;
        let _ = self.stores.board.leave(self.node, now).await;
    }

    /// Sends a heartbeat. Returns whether the store answered.
    async fn send_heartbeat(&mut self) -> bool {
        let now = self.runtime.now();
        if !matches!(self.stores.quotas.maintain(now).await, Ok(true)) {
            return false;
        }
        let view = NodeView { sequence: self.sequence, ..NodeView::default() };
        if self.stores.board.publish(self.node, &view, HEARTBEAT_TTL, now).await.is_ok()
            && let Ok(fleet) = self.stores.board.read(now).await
        {
            let nodes = u32::try_from(fleet.len()).unwrap_or(u32::MAX);
            self.stores.quotas.set_nodes(self.fleet.record_count(nodes, now.monotonic));
        }
        true
    }
}

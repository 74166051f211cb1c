//! Status view of a gateway. The faces update it and report readiness from it; the admin API reads it.

use crate::connection_limiter::{ConnectionEnd, ConnectionLimiter};
use crate::diagnostics::Diagnostics;
use crate::identity::Authenticator;
use crate::log::RecentRequests;
use crate::metrics::{GatewayGauges, Metrics};
use crate::runtime::TokioRuntime;
use crate::shared_limits::SharedStoreProbe;
use crate::store_maintenance::{StorageReport, store_problem};
use crate::supervisor::Supervisor;
use arc_swap::{ArcSwap, ArcSwapOption};
use seawall_config::{LoadedInput, TelemetrySettings};
use seawall_core::body_memory::BodyMemory;
use seawall_core::time::Timestamp;
use seawall_pipeline::{CredentialStatus, Pipeline, Timer as _};
use seawall_store::{DurableStore, Ledger};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) struct StatusView {
    pub(crate) pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) started: Timestamp,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Arc<RecentRequests>,
    pub(crate) storage: StorageReport,
    /// The memory limit for buffered request bodies.
    pub(crate) body_memory: BodyMemory,
    pub(crate) connections: Arc<ConnectionLimiter>,
    /// Whether shutdown has begun, so that no new work is accepted.
    pub(crate) is_draining: AtomicBool,
    pub(crate) metrics_listeners: MetricsListeners,
    /// The settings in force, with the source of each.
    pub(crate) settings: ArcSwapOption<LoadedInput>,
    /// Authenticates callers.
    pub(crate) authenticator: Arc<ArcSwap<Authenticator>>,
    /// The durable state of this node, if there is any.
    pub(crate) store: Option<Arc<dyn DurableStore>>,
    /// All calls of this node.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The state of the store that a fleet shares, if there is one.
    pub(crate) shared: Option<SharedStoreProbe>,
    pub(crate) supervisor: Supervisor,
    /// The diagnostics of this process, if they are installed.
    pub(crate) diagnostics: Option<Diagnostics>,
    /// The bound address of the callers' listener.
    pub(crate) address: SocketAddr,
}

/// Which listeners serve the metrics page. None, before there are settings.
#[derive(Default)]
pub(crate) struct MetricsListeners {
    admin: AtomicBool,
    callers: AtomicBool,
}

impl MetricsListeners {
    pub(crate) fn set(&self, telemetry: &TelemetrySettings) {
        self.admin.store(telemetry.metrics, Ordering::Relaxed);
        self.callers.store(telemetry.metrics && telemetry.public_metrics, Ordering::Relaxed);
    }

    pub(crate) fn admin(&self) -> bool {
        self.admin.load(Ordering::Relaxed)
    }

    pub(crate) fn callers(&self) -> bool {
        self.callers.load(Ordering::Relaxed)
    }
}

impl StatusView {
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.runtime.monotonic() - self.started
    }

    /// Whether this node is ready, and a text that describes any problem to the operator.
    pub(crate) fn readiness(&self) -> (bool, String) {
        if self.is_draining() {
            return (false, "draining\n".to_owned());
        }
        if let Some(error) = self.pipeline.journal_error() {
            // Without a journal nothing can be reserved, so no model is called.
            return (false, format!("journal unavailable: {}\n", error.reason()));
        }
        // Other store problems do not affect readiness: requests are served as long as the journal can be written.
        let problem = self.store.as_deref().and_then(store_problem);
        let problem = problem.map(|problem| problem + "\n").unwrap_or_default();
        (true, "ready\n".to_owned() + &problem + &self.rejected_credentials())
    }

    /// One line per target whose vendor rejects our key. All nodes have the same key, so this makes no single node
    /// unready.
    fn rejected_credentials(&self) -> String {
        let targets = self.pipeline.targets();
        let rejected = targets.iter().filter(|target| target.credential == CredentialStatus::Rejected);
        rejected.map(|target| format!("target {}: the provider rejects our API key\n", target.name)).collect()
    }

    /// The Prometheus metrics page.
    pub(crate) fn metrics(&self) -> String {
        let shared = self.shared.as_ref().map(SharedStoreProbe::read);
        let gauges = GatewayGauges {
            uptime: self.uptime(),
            is_draining: self.is_draining(),
            shared,
            connections: self.connections.open(),
            ended: ConnectionEnd::ALL.map(|reason| (reason.name(), self.connections.ended(reason))),
            body_memory: (self.body_memory.held(), self.body_memory.capacity()),
            diagnostics_dropped: self.diagnostics.as_ref().map_or(0, Diagnostics::dropped),
            panics: self.supervisor.panics(),
        };
        self.metrics.text(&self.pipeline, &gauges)
    }
}

//! Status view of a gateway. The faces update it and report readiness from it; the admin API reads it.

use crate::connection_limiter::{ConnectionEnd, ConnectionLimiter};
use crate::diagnostics::Diagnostics;
use crate::identity::Authenticator;
use crate::log::RecentRequests;
use crate::metrics::{GatewayGauges, Metrics};
use crate::records::DecisionRecords;
use crate::runtime::TokioRuntime;
use crate::shared_limits::SharedStoreProbe;
use crate::store_maintenance::{StorageReport, store_problem};
use crate::supervisor::Supervisor;
use crate::target_problem::{key_problems, problem_text};
use arc_swap::{ArcSwap, ArcSwapOption};
use seawall_config::{LoadedInput, TelemetrySettings};
use seawall_core::body_memory::BodyMemory;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_pipeline::{Pipeline, Runtime as _, Timer as _};
use seawall_store::{DurableStore, Ledger};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) struct StatusView {
    pub(crate) pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    pub(crate) started: Timestamp,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Arc<RecentRequests>,
    /// Why each request was answered, degraded or rejected.
    pub(crate) records: Arc<DecisionRecords>,
    pub(crate) storage: StorageReport,
    /// The memory limit for buffered request bodies.
    pub(crate) body_memory: BodyMemory,
    pub(crate) connections: Arc<ConnectionLimiter>,
    /// Whether shutdown has begun, so that no new work is accepted.
    pub(crate) is_draining: AtomicBool,
    pub(crate) metrics_listeners: MetricsListeners,
    /// When they were applied, in nanoseconds since 1970; 0 before the first were published.
    pub(crate) settings_applied: AtomicU64,
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
        (true, "ready\n".to_owned() + &problem + &self.target_problems())
    }

    /// One line per target with a problem, and per key that its vendor rejects. All nodes have the same targets and keys,
    /// so this makes no single node unready.
    fn target_problems(&self) -> String {
        let mut lines = String::new();
        for target in self.pipeline.targets() {
            let keys: Vec<_> = target.keys.iter().map(|key| key.condition).collect();
            for text in [problem_text(&target.model, target.health.condition)]
                .into_iter()
                .flatten()
                .chain(key_problems(&keys))
            {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "target {}: {text}", target.name);
            }
        }
        lines
    }

    /// The Prometheus metrics page.
    pub(crate) fn metrics(&self) -> String {
        let shared = self.shared.as_ref().map(SharedStoreProbe::read);
        let (now, applied) = (self.runtime.now().utc, self.settings_applied.load(Ordering::Relaxed));
        let since_epoch = Duration::from_nanos(now.as_nanos()).saturating_sub(self.uptime());
        let started = UtcTime::from_nanos(0) + since_epoch;
        let gauges = GatewayGauges {
            uptime: self.uptime(),
            started,
            settings_applied: if applied > 0 { UtcTime::from_nanos(applied) } else { started },
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

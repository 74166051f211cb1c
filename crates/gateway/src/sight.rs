//! What there is to see of a gateway: shared by the faces, which count and tell that they are ready, and by operators, who
//! look.

use crate::connections::{ConnectionEnd, Connections};
use crate::identity::Gate;
use crate::keeper::Kept;
use crate::log::Recent;
use crate::metrics::{Metrics, Standing};
use crate::runtime::TokioRuntime;
use crate::shared::SharedStatus;
use arc_swap::{ArcSwap, ArcSwapOption};
use seawall_config::{TelemetrySettings, Written};
use seawall_core::body_memory::BodyMemory;
use seawall_core::time::Timestamp;
use seawall_pipeline::{CredentialStatus, Path, Timer as _};
use seawall_store::embedded::EmbeddedStore;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) struct Sight {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
    /// When the gateway was made.
    pub(crate) started: Timestamp,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) kept: Kept,
    /// How much of request bodies may be in memory.
    pub(crate) body_memory: BodyMemory,
    /// The connections of callers.
    pub(crate) connections: Arc<Connections>,
    /// Whether it takes no new work because it is about to end.
    pub(crate) is_draining: AtomicBool,
    pub(crate) serves_metrics: MetricsListeners,
    /// The settings that hold, as they were written.
    pub(crate) written: ArcSwapOption<Written>,
    /// Who proves callers.
    pub(crate) gate: Arc<ArcSwap<Gate>>,
    /// The folder of the state, where there is one.
    pub(crate) store: Option<Arc<EmbeddedStore>>,
    /// How the store stands that a fleet shares, where there is one.
    pub(crate) shared: Option<SharedStatus>,
    /// Where callers are answered, once they are.
    pub(crate) address: OnceLock<SocketAddr>,
}

/// Which listeners serve the page of metrics.
pub(crate) struct MetricsListeners {
    admin: AtomicBool,
    callers: AtomicBool,
}

impl MetricsListeners {
    pub(crate) fn new(telemetry: &TelemetrySettings) -> Self {
        let listeners = Self { admin: AtomicBool::new(false), callers: AtomicBool::new(false) };
        listeners.set(telemetry);
        listeners
    }

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

impl Sight {
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.runtime.monotonic() - self.started
    }

    /// Whether this node can answer, and what an operator should know of its state.
    pub(crate) fn readiness(&self) -> (bool, String) {
        if self.is_draining() {
            return (false, "draining\n".to_owned());
        }
        if let Some(error) = self.path.journal_error() {
            // Without a journal nothing is reserved, so that no model is asked.
            return (false, format!("journal unavailable: {error}\n"));
        }
        let untaken = self.store.as_ref().map_or(0, |store| store.untaken_segments());
        if untaken > 0 {
            let problem = "journal segments could not be taken into the books; check the disk and restart";
            return (true, format!("ready\n{untaken} {problem}\n"));
        }
        (true, "ready\n".to_owned() + &self.rejected_keys())
    }

    /// A line for each target whose vendor rejects our key. That is the same on every node, so it makes none unready.
    fn rejected_keys(&self) -> String {
        let targets = self.path.targets();
        let rejected = targets.iter().filter(|target| target.credential == CredentialStatus::Rejected);
        rejected.map(|target| format!("target {}: the vendor rejects its key\n", target.name)).collect()
    }

    /// The page of metrics.
    pub(crate) fn metrics(&self) -> String {
        let shared = self.shared.as_ref().map(SharedStatus::read);
        let standing = Standing {
            uptime: self.uptime(),
            is_draining: self.is_draining(),
            shared,
            connections: self.connections.open(),
            ended: ConnectionEnd::ALL.map(|reason| (reason.name(), self.connections.ended(reason))),
            body_memory: (self.body_memory.held(), self.body_memory.capacity()),
        };
        self.metrics.text(&self.path, standing)
    }
}

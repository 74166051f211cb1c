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
use seawall_pipeline::{Path, Timer as _};
use seawall_store::embedded::EmbeddedStore;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) struct Sight {
    pub(crate) path: Arc<Path<TokioRuntime>>,
    pub(crate) runtime: TokioRuntime,
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
        // Its clock began to count when the gateway was made.
        Duration::from_nanos(self.runtime.monotonic().as_nanos())
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

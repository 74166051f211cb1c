//! Puts settings in force. Nothing here can fail.

use super::build::{BuildBase, BuildInputs, NextState, build};
use super::derive::DerivedState;
use super::error::ServeError;
use super::rules::body_memory;
use super::stores::GatewayStores;
use crate::admin::AdminGuard;
use crate::connection_limiter::ConnectionLimiter;
use crate::diagnostics::Diagnostics;
use crate::identity::Authenticator;
use crate::log::TelemetryObserver;
use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use crate::status_view::{MetricsListeners, StatusView};
use crate::supervisor::Supervisor;
use crate::tls::ReloadableTls;
use arc_swap::ArcSwap;
use seawall_config::Settings;
use seawall_core::body_memory::BodyMemory;
use seawall_core::quota::LimitChange;
use seawall_core::time::Timestamp;
use seawall_pipeline::{CallerResolver, Pipeline, PipelineOptions, Timer as _};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a start opens beside the stores, and what stays the same until the gateway ends.
pub(super) struct StartParts {
    pub(super) inputs: BuildInputs,
    pub(super) started: Timestamp,
    pub(super) metrics: Arc<Metrics>,
    pub(super) observer: Arc<TelemetryObserver>,
    /// Holds the authenticator of the first settings.
    pub(super) authenticator: Arc<ArcSwap<Authenticator>>,
    pub(super) supervisor: Supervisor,
    pub(super) diagnostics: Option<Diagnostics>,
    /// The bound address of the callers' listener.
    pub(super) address: SocketAddr,
    /// The bound address of the admin listener.
    pub(super) admin_address: SocketAddr,
}

/// The parts of a running gateway that settings change.
pub(crate) struct RunningState {
    inputs: BuildInputs,
    pub(super) stores: GatewayStores,
    pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) status: Arc<StatusView>,
    pub(crate) authenticator: Arc<ArcSwap<Authenticator>>,
    /// The TLS configuration for new connections.
    pub(crate) tls: Arc<ReloadableTls>,
    /// The access check of the admin listener.
    pub(crate) guard: Arc<AdminGuard>,
    /// What is derived from the settings in force. Locked for the whole of a reload, so that there is one at a time.
    current: Mutex<CurrentState>,
}

/// What is derived from the settings in force.
pub(super) struct CurrentState {
    pub(super) derived: DerivedState,
    pub(super) callers: Arc<CallerResolver>,
}

impl RunningState {
    /// The state of a gateway that starts with these settings.
    pub(super) fn start(parts: StartParts, next: NextState<'_>) -> Self {
        let StartParts { inputs, started, metrics, observer, authenticator, .. } = parts;
        let NextState { settings, stores, authenticator: first, rules, current } = next;
        let (runtime, recent) = (inputs.environment.runtime, observer.recent());
        let options = PipelineOptions {
            rules,
            quotas: Arc::clone(&stores.quotas),
            ledger: stores.ledger.clone(),
            observer,
        };
        let pipeline = Arc::new(Pipeline::new(runtime, options));
        let status = Arc::new(StatusView {
            pipeline: Arc::clone(&pipeline),
            runtime,
            started,
            metrics,
            recent,
            storage: stores.report.clone(),
            body_memory: BodyMemory::new(body_memory(settings)),
            connections: Arc::<ConnectionLimiter>::default(),
            is_draining: AtomicBool::new(false),
            metrics_listeners: MetricsListeners::default(),
            settings: Default::default(),
            authenticator: Arc::clone(&authenticator),
            store: stores.durable.clone(),
            shared: stores.shared.clone(),
            supervisor: parts.supervisor,
            diagnostics: parts.diagnostics,
            address: parts.address,
        });
        let guard = Arc::new(AdminGuard::new(parts.admin_address, current.derived.credential));
        let state = Self {
            inputs,
            stores,
            pipeline,
            status,
            authenticator,
            tls: Arc::default(),
            guard,
            current: Mutex::new(current),
        };
        state.apply(settings, first, &state.current().derived);
        state
    }

    /// Changes to new settings, all or nothing. Returns what happened to the counts of every limit.
    pub(crate) fn apply_settings(&self, settings: &Settings) -> Result<Vec<LimitChange>, ServeError> {
        let mut current = self.current();
        let next = build(settings, &self.inputs, &BuildBase::Running(self, &current))?;
        Ok(self.commit(next, &mut current))
    }

    /// Puts the next state in force.
    fn commit(&self, next: NextState<'_>, current: &mut CurrentState) -> Vec<LimitChange> {
        let NextState { settings, stores: _, authenticator, rules, current: next } = next;
        // Before the first request that may use a new name.
        self.status.metrics.register_names(settings.routes.keys(), settings.targets.keys());
        let changes = self.pipeline.commit(rules);
        self.apply(settings, authenticator, &next.derived);
        *current = next;
        changes
    }

    /// Applies everything but the rules of the pipeline. Used by a start, too, so that there is no setting that only one of
    /// the two applies.
    fn apply(&self, settings: &Settings, authenticator: Arc<Authenticator>, derived: &DerivedState) {
        self.status.metrics.register_names(settings.routes.keys(), settings.targets.keys());
        if let Some(store) = &self.stores.durable {
            store.set_groups(super::rules::limit_rules(settings).groups());
        }
        authenticator.activate();
        self.authenticator.store(authenticator);
        derived.targets.apply_settings(self.inputs.environment.runtime.monotonic());
        self.tls.set(derived.tls.as_ref());
        self.guard.set_credential(derived.credential);
        self.pipeline.set_budget(settings.budget.limits.clone());
        self.status.body_memory.set_limits(body_memory(settings));
        self.status.connections.apply_settings(settings);
        self.status.metrics_listeners.set(&settings.telemetry);
    }

    fn current(&self) -> MutexGuard<'_, CurrentState> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current drain timeout.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.current().derived.drain_timeout
    }
}

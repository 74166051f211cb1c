//! Puts settings in force. Nothing here can fail.

use super::build::{BuildBase, BuildInputs, NextState, build};
use super::derive::DerivedState;
use super::error::ServeError;
use super::rules::{KeyLimitSets, MAX_KEY_LIMIT_SETS, body_memory, limit_rules};
use super::stores::GatewayStores;
use super::telemetry::GatewayTelemetry;
use crate::admin::AdminGuard;
use crate::connection_limiter::ConnectionLimiter;
use crate::diagnostics::Diagnostics;
use crate::identity::Authenticator;
use crate::runtime::TokioRuntime;
use crate::status_view::{MetricsListeners, StatusView};
use crate::supervisor::Supervisor;
use crate::tls::ReloadableTls;
use seawall_assistant::Assistant;
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
    pub(crate) telemetry: GatewayTelemetry,
    pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) assistant: Arc<Assistant<TokioRuntime>>,
    pub(crate) status: Arc<StatusView>,
    /// The TLS configuration for new connections.
    pub(crate) tls: Arc<ReloadableTls>,
    /// The access check of the admin listener.
    pub(crate) guard: Arc<AdminGuard>,
    /// What is derived from the settings in force. Locked for the whole of a reload, so that there is one at a time.
    current: Mutex<CurrentState>,
}

/// Why an API key cannot have these rate limits.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyLimitError {
    /// There are too many different lists of limits.
    #[error("more than {MAX_KEY_LIMIT_SETS} different lists of rate limits: use the limits of another key")]
    TooMany,
    /// The rules could not be built.
    #[error("{0}")]
    Failed(String),
}

/// What is derived from the settings in force.
pub(super) struct CurrentState {
    pub(super) derived: DerivedState,
    pub(super) callers: Arc<CallerResolver>,
    pub(super) key_limits: KeyLimitSets,
    pub(super) settings: Arc<Settings>,
}

impl RunningState {
    /// The state of a gateway that starts with these settings.
    pub(super) fn start(parts: StartParts, next: NextState<'_>) -> Self {
        let StartParts { inputs, started, .. } = parts;
        let NextState { settings, stores, telemetry, authenticator, rules, chat_rules, current } = next;
        let runtime = inputs.environment.runtime;
        let options = PipelineOptions {
            rules,
            quotas: Arc::clone(&stores.quotas),
            ledger: stores.ledger.clone(),
            events: Arc::clone(&telemetry.events),
        };
        let pipeline = Arc::new(Pipeline::new(runtime, options));
        let assistant = Arc::new(Assistant::new(runtime, Arc::clone(&pipeline)));
        assistant.set_rules(chat_rules);
        let status = Arc::new(StatusView {
            pipeline: Arc::clone(&pipeline),
            runtime,
            started,
            metrics: Arc::clone(&telemetry.metrics),
            recent: Arc::clone(&telemetry.recent),
            records: Arc::clone(&telemetry.records),
            storage: stores.report.clone(),
            body_memory: BodyMemory::new(body_memory(settings)),
            connections: Arc::<ConnectionLimiter>::default(),
            is_draining: AtomicBool::new(false),
            metrics_listeners: MetricsListeners::default(),
            settings: Default::default(),
            settings_applied: Default::default(),
            authenticator: Arc::clone(&telemetry.authenticator),
            store: stores.durable.clone(),
            ledger: Arc::clone(&stores.calls),
            shared: stores.shared.clone(),
            supervisor: parts.supervisor,
            diagnostics: parts.diagnostics,
            address: parts.address,
        });
        let guard = Arc::new(AdminGuard::new(parts.admin_address, current.derived.credential));
        let state = Self {
            inputs,
            stores,
            telemetry,
            pipeline,
            assistant,
            status,
            tls: Arc::default(),
            guard,
            current: Mutex::new(current),
        };
        {
            let current = state.current();
            state.apply(settings, authenticator, &current.derived, &current.key_limits);
        }
        state
    }

    /// Changes to new settings, all or nothing. Returns what happened to the counts of every limit.
    pub(crate) fn apply_settings(&self, settings: &Settings) -> Result<Vec<LimitChange>, ServeError> {
        let mut current = self.current();
        let next = build(settings, &self.inputs, &BuildBase::Running(self, &current, None))?;
        Ok(self.commit(next, &mut current))
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.current().settings)
    }

    /// Prepares the rules for an API key with these rate limits, before the key exists. Limits that no other key has are
    /// a group of their own, which is put in force as by a reload.
    pub(crate) fn prepare_key_limits(&self, limits: &[Box<str>]) -> Result<(), KeyLimitError> {
        let mut current = self.current();
        let mut key_limits = current.key_limits.clone();
        if !key_limits.add(limits) {
            return Ok(());
        }
        if key_limits.len() > MAX_KEY_LIMIT_SETS {
            return Err(KeyLimitError::TooMany);
        }
        let settings = Arc::clone(&current.settings);
        let base = BuildBase::Running(self, &current, Some(&key_limits));
        let next = build(&settings, &self.inputs, &base)
            .map_err(|error| KeyLimitError::Failed(error.to_string()))?;
        self.commit(next, &mut current);
        Ok(())
    }

    /// Puts the next state in force.
    fn commit(&self, next: NextState<'_>, current: &mut CurrentState) -> Vec<LimitChange> {
        let NextState { settings, stores: _, telemetry: _, authenticator, rules, chat_rules, current: next } =
            next;
        // Before the first request that may use a new name.
        self.status.metrics.register_names(settings.routes.keys(), settings.targets.keys());
        let changes = self.pipeline.commit(rules);
        self.assistant.set_rules(chat_rules);
        self.apply(settings, authenticator, &next.derived, &next.key_limits);
        *current = next;
        changes
    }

    /// Applies everything but the rules of the pipeline. Used by a start, too, so that there is no setting that only one of
    /// the two applies.
    fn apply(
        &self,
        settings: &Settings,
        authenticator: Arc<Authenticator>,
        derived: &DerivedState,
        key_limits: &KeyLimitSets,
    ) {
        self.status.metrics.register_names(settings.routes.keys(), settings.targets.keys());
        if let Some(store) = &self.stores.durable {
            store.set_groups(limit_rules(settings, key_limits).groups());
        }
        authenticator.activate();
        self.telemetry.authenticator.store(authenticator);
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

    /// The authenticator in force.
    pub(super) fn authenticator(&self) -> Arc<Authenticator> {
        self.telemetry.authenticator.load_full()
    }

    /// The current drain delay.
    pub(crate) fn drain_delay(&self) -> Duration {
        self.current().derived.drain_delay
    }

    /// The current drain timeout.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.current().derived.drain_timeout
    }
}

//! Builds a running gateway from settings, and applies changed settings to a gateway that is already running.

mod error;

pub use error::ServeError;

use crate::admin::{AdminCredential, AdminGuard};
use crate::chat::{ChatState, fallback_texts, guardrails};
use crate::connection_limiter::{ConnectionLimiter, raise_file_limit};
use crate::deferred_caller_directory::DeferredCallerDirectory;
use crate::diagnostics::{DiagnosticSink, Diagnostics};
use crate::identity::{Authenticator, caller_options};
use crate::listen::{GatewayParts, RunningGateway, ThreadLayout};
use crate::log::RequestLog;
use crate::memory_limit::memory_limit;
use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use crate::secret::fetch_text;
use crate::shared_limits::{self, SharedStoreSetup};
use crate::simulated_target::SimulatedModel;
use crate::status_view::{MetricsListeners, StatusView};
use crate::store_maintenance::{self, MaintainedStore, StorageReport};
use crate::supervisor::{GatewayThreads, Supervisor};
use crate::target::{TargetEnvironment, Targets};
use crate::tls::{ReloadableTls, ServerTls};
use arc_swap::ArcSwap;
use seawall_assistant::{Assistant, ChatRules};
use seawall_config::{CoreCount, FaceName, LogDestination, RouteSettings, RuntimeLayout, Settings};
use seawall_core::body_memory::{BodyMemory, BodyMemoryOptions};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::evaluator::PlanPolicy;
use seawall_core::quota::LimitChange;
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_pipeline::callers::CallerDirectory;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::event::EventSinks;
use seawall_pipeline::{
    CallerResolver, Faces, LimitRules, Pipeline, PipelineOptions, QuotaStore, ReceiveLimits, Route,
    RouteOptions, RuleOptions, Tier, Timer as _,
};
use seawall_store::{Directory, MemoryAnswers};
use seawall_wire::RequestLimits;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Everything that [`serve`] needs to start a gateway.
pub struct ServeOptions {
    /// The validated settings.
    pub settings: Arc<Settings>,
    /// The simulated model, if any target uses it.
    pub simulated: Option<SimulatedModel>,
    /// API keys that are valid for this run only; they are not stored.
    pub keys: Vec<(Tier, String)>,
    /// Starts and stops the threads of this gateway, and of no other.
    pub supervisor: Supervisor,
    /// The diagnostics of this process, if they are installed: the metrics show how many were dropped.
    pub diagnostics: Option<Diagnostics>,
}

/// The parts of a running gateway that a settings reload replaces.
pub(crate) struct ReloadableState {
    pipeline: Arc<Pipeline<TokioRuntime>>,
    pub(crate) assistant: Arc<Assistant<TokioRuntime>>,
    runtime: TokioRuntime,
    status: Arc<StatusView>,
    environment: TargetEnvironment,
    keys: Vec<(Tier, String)>,
    pub(crate) storage: StorageReport,
    tls: Arc<ReloadableTls>,
    pub(crate) authenticator: Arc<ArcSwap<Authenticator>>,
    /// The values derived from the settings in force.
    current: Mutex<DerivedState>,
}

/// The values derived from one version of the settings.
struct DerivedState {
    /// Drain timeout: how long in-flight requests may take to finish at shutdown.
    drain_timeout: Duration,
    targets: Targets,
    tls: Option<ServerTls>,
    /// The credential that the admin API requires.
    credential: Option<AdminCredential>,
    retry_budget: (RetryBudgetOptions, Arc<RetryBudget>),
    hedge: (HedgeOptions, Arc<HedgePolicy>),
    chat: ChatState,
    chat_rules: Option<Arc<ChatRules>>,
    callers: Arc<CallerResolver>,
    caller_directory: Arc<DeferredCallerDirectory>,
}

/// Starts a gateway. It accepts requests when this returns.
pub fn serve(options: ServeOptions) -> Result<RunningGateway, ServeError> {
    let ServeOptions { settings, simulated, keys, supervisor, diagnostics } = options;
    raise_file_limit();
    // A start that fails stops the threads that run by then.
    let threads = GatewayThreads(supervisor);
    let supervisor = &threads.0;
    let cores = match settings.server.cores {
        CoreCount::Fixed(cores) => usize::try_from(cores).unwrap_or(usize::MAX),
        CoreCount::All => std::thread::available_parallelism().map_or(1, Into::into),
    };
    let layout = match settings.server.runtime {
        RuntimeLayout::PerCore => ThreadLayout::PerCore(cores),
        RuntimeLayout::Shared => ThreadLayout::Shared(cores),
    };
    let pool_count = if matches!(layout, ThreadLayout::PerCore(_)) { cores } else { 1 };
    let runtime = TokioRuntime::new();
    let started = runtime.monotonic();
    let environment = TargetEnvironment { cores: pool_count, runtime, simulated };
    let caller_directory = Arc::<DeferredCallerDirectory>::default();
    let initial = DerivedState::initial(&settings, &keys, Arc::clone(&caller_directory))?;
    let (current, rules) = initial.rebuild(&settings, &keys, &environment)?;
    let authenticator = Authenticator::new(&settings, runtime, supervisor)?;
    authenticator.activate();
    let authenticator = Arc::new(ArcSwap::from_pointee(authenticator));
    let metrics = Arc::new(Metrics::default());
    metrics.register_names(settings.routes.keys(), settings.targets.keys());
    let log = open_access_log(&settings.telemetry.access_log)?;
    let current_authenticator = Arc::clone(&authenticator);
    let pseudonym = move |caller| current_authenticator.load().pseudonyms().encode(caller);
    let log = RequestLog::new(runtime, log, pseudonym, supervisor).map_err(ServeError::LogThread)?;
    let recent = log.recent();
    let events = Arc::new(EventSinks::new(vec![
        Arc::<Metrics>::clone(&metrics),
        Arc::new(log),
        Arc::new(DiagnosticSink),
    ]));
    let (setup, shared) = SharedStoreSetup::new(&settings.store, runtime, &events)?.unzip();
    let open = || store_maintenance::open(&settings, &rules.limits, shared, runtime, &events, supervisor);
    let opened = match &setup {
        Some(setup) => setup.enter(open),
        None => open(),
    };
    let MaintainedStore { ledger, report: storage, swept_pipeline, quotas, fleet, store } = opened?;
    if let Some(store) = &store {
        caller_directory.set_store(Arc::clone(store) as Arc<dyn Directory>);
    }
    let (quotas, shared) = match setup.zip(fleet) {
        Some((setup, fleet)) => {
            let (settlements, probe) = setup.start(fleet, runtime, supervisor)?;
            (QuotaStore::remote(quotas, settlements), Some(probe))
        }
        None => (QuotaStore::in_process(quotas), None),
    };
    let pipeline = Arc::new(Pipeline::new(runtime, PipelineOptions { rules, quotas, ledger, events })?);
    // Set only here.
    let _ = swept_pipeline.set(Arc::downgrade(&pipeline));
    let assistant = Arc::new(Assistant::new(runtime, Arc::clone(&pipeline)));
    assistant.set_rules(current.chat_rules.clone());
    let tls = Arc::<ReloadableTls>::default();
    tls.set(current.tls.as_ref());
    let status = Arc::new(StatusView {
        pipeline: Arc::clone(&pipeline),
        runtime,
        started,
        metrics,
        recent,
        storage: storage.clone(),
        body_memory: BodyMemory::new(body_memory(&settings))?,
        connections: ConnectionLimiter::new(&settings),
        is_draining: AtomicBool::new(false),
        metrics_listeners: MetricsListeners::new(&settings.telemetry),
        settings: Default::default(),
        authenticator: Arc::clone(&authenticator),
        store,
        shared,
        supervisor: supervisor.clone(),
        diagnostics,
        address: OnceLock::new(),
    });
    let reloadable = ReloadableState {
        pipeline,
        assistant,
        runtime,
        status: Arc::clone(&status),
        environment,
        keys,
        storage,
        tls,
        authenticator,
        current: Mutex::new(current),
    };
    let (address, admin) = (settings.server.listen, settings.admin.listen);
    Ok(GatewayParts { address, layout, admin, status, reloadable, threads }.start()?)
}

/// Checks whether a gateway with these settings would start. Reads every secret and file that the settings name, and
/// builds every part that needs no listening socket, no lasting thread and no access to the data directory.
pub fn preflight(options: ServeOptions) -> Result<(), ServeError> {
    let ServeOptions { settings, simulated, keys, supervisor: _, diagnostics: _ } = options;
    let runtime = TokioRuntime::new();
    let environment = TargetEnvironment { cores: 1, runtime, simulated };
    let initial = DerivedState::initial(&settings, &keys, Arc::default())?;
    let mut problems = Vec::new();
    match initial.rebuild(&settings, &keys, &environment) {
        Ok((_, rules)) => {
            let limits = QuotaStore::local(rules.limits.groups(), 0).map_err(ServeError::from);
            problems.extend(limits.err());
            problems.extend(rules.check().map_err(ServeError::from).err());
        }
        Err(ServeError::Multiple(errors)) => problems.extend(errors),
        Err(problem) => problems.push(problem),
    }
    problems.extend(Authenticator::preflight(&settings, runtime).map_err(ServeError::from).err());
    problems.extend(shared_limits::check(&settings.store, runtime).map_err(ServeError::from).err());
    ServeError::combine(problems)
}

impl ReloadableState {
    /// The current drain timeout.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).drain_timeout
    }

    /// The TLS configuration for new connections.
    pub(crate) fn tls(&self) -> Arc<ReloadableTls> {
        Arc::clone(&self.tls)
    }

    /// The access check for an admin listener on this address.
    pub(crate) fn guard(&self, address: SocketAddr) -> AdminGuard {
        AdminGuard::new(address, self.current.lock().unwrap_or_else(PoisonError::into_inner).credential)
    }

    /// Applies new settings, all or nothing: everything is built and validated before the first part is replaced. Returns
    /// what happened to the counts of every limit.
    pub(crate) fn apply_settings(
        &self,
        settings: &Settings,
        guard: &AdminGuard,
    ) -> Result<Vec<LimitChange>, ServeError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, rules) = current.rebuild(settings, &self.keys, &self.environment)?;
        let authenticator = self.authenticator.load_full().rebuild(settings)?;
        let body_limits = body_memory(settings).check()?;
        // The admin address does not change until the next start, whatever the new settings say.
        if next.credential.is_none() && !guard.may_omit_credential() {
            return Err(ServeError::InsecureAdmin("listen is not a loopback address: set admin.credential"));
        }
        // Before the first request that may use a new name.
        self.status.metrics.register_names(settings.routes.keys(), settings.targets.keys());
        let groups = rules.limits.groups();
        let changes = self.pipeline.reload(rules)?;
        self.assistant.set_rules(next.chat_rules.clone());
        if let Some(store) = &self.status.store {
            store.set_groups(groups);
        }
        authenticator.activate();
        self.authenticator.store(Arc::new(authenticator));
        // This cannot fail: `rebuild` has validated the same values.
        next.targets.apply_settings(self.runtime.monotonic())?;
        self.tls.set(next.tls.as_ref());
        guard.set_credential(next.credential);
        *current = next;
        self.pipeline.set_budget(settings.budget.limits.clone());
        self.status.body_memory.set_limits(body_limits);
        self.status.connections.apply_settings(settings);
        self.status.metrics_listeners.set(&settings.telemetry);
        Ok(changes)
    }
}

impl DerivedState {
    /// The state before any settings are applied.
    fn initial(
        settings: &Settings,
        keys: &[(Tier, String)],
        caller_directory: Arc<DeferredCallerDirectory>,
    ) -> Result<Self, ServeError> {
        let retry_budget = settings.retry.budget.clone();
        let answer_cache = MemoryAnswers::with_rule(
            settings.cache.ages,
            settings.cache.storage,
            crate::chat::CACHE_CAPACITY,
        );
        Ok(Self {
            drain_timeout: Duration::ZERO,
            targets: Targets::default(),
            tls: None,
            credential: None,
            retry_budget: (retry_budget.clone(), Arc::new(RetryBudget::new(retry_budget)?)),
            hedge: (settings.retry.hedge, Arc::new(HedgePolicy::new(settings.retry.hedge)?)),
            chat: ChatState::new(settings, Arc::new(answer_cache))?,
            chat_rules: None,
            callers: Arc::new(CallerResolver::new(caller_options(settings, keys, None))),
            caller_directory,
        })
    }

    /// Derives the rules from these settings. Reuses as much as possible of what exists already.
    fn rebuild(
        &self,
        settings: &Settings,
        keys: &[(Tier, String)],
        environment: &TargetEnvironment,
    ) -> Result<(Self, RuleOptions), ServeError> {
        // Collect all problems, so that they can be fixed in one go.
        let mut problems = Vec::new();
        if !can_authenticate_callers(settings, keys) {
            problems.push(ServeError::NoCredentials);
        }
        let has_data_dir = settings.store.directory().is_some();
        let lookup_directory: Option<Arc<dyn CallerDirectory>> =
            has_data_dir.then(|| Arc::<DeferredCallerDirectory>::clone(&self.caller_directory) as Arc<_>);
        let callers = Arc::new(self.callers.rebuild(caller_options(settings, keys, lookup_directory)));
        let (targets, target_errors) = self.targets.rebuild(settings, environment);
        problems.extend(target_errors.into_iter().map(|(name, error)| ServeError::Target(name, error)));
        let tls = ServerTls::load(settings.server.tls.as_ref(), self.tls.as_ref());
        let tls = tls.map_err(|error| problems.push(error.into())).unwrap_or_default();
        let credential =
            admin_credential(settings, keys).map_err(|problem| problems.push(problem)).unwrap_or_default();
        ServeError::combine(problems)?;
        let retry_budget = if self.retry_budget.0 == settings.retry.budget {
            self.retry_budget.clone()
        } else {
            let options = settings.retry.budget.clone();
            (options.clone(), Arc::new(RetryBudget::new(options)?))
        };
        let hedge = if self.hedge.0 == settings.retry.hedge {
            self.hedge.clone()
        } else {
            (settings.retry.hedge, Arc::new(HedgePolicy::new(settings.retry.hedge)?))
        };
        let chat = self.chat.rebuild(settings)?;
        let route = |(name, route): (&String, &RouteSettings)| {
            Route::new(RouteOptions {
                alias: name.clone(),
                faces: face_set(&route.faces),
                guest_faces: face_set(&route.guest_faces),
                start_timeout: route.start_timeout,
                token_limit: route.tokens.map(|rate| u64::from(rate.limit)),
                fallback_texts: fallback_texts(settings, route.fallback),
                guardrails: guardrails(settings, name)?,
                targets: route.targets.iter().filter_map(|name| targets.get(name)).collect(),
            })
        };
        let routes = settings.routes.iter().map(route).collect::<Result<_, _>>()?;
        let server = &settings.server;
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rules = RuleOptions {
            callers: Arc::clone(&callers),
            limits: limit_rules(settings),
            routes,
            retry: settings.retry.interactive,
            retry_budget: Arc::clone(&retry_budget.1),
            hedge: Arc::clone(&hedge.1),
            time: settings.deadlines.limits.clone(),
            request: RequestLimits {
                max_body_size: size(server.max_body_size),
                max_depth: size(server.max_depth),
                max_fields: size(server.max_fields),
                max_items: size(server.max_items),
            },
            receive: ReceiveLimits {
                header_timeout: server.header_timeout,
                body_timeout: server.body_timeout,
                idle_timeout: server.idle_timeout,
                send_timeout: server.send_timeout,
                max_guest_body_size: size(server.max_guest_body_size),
            },
            plan: PlanPolicy {
                protections: settings.protections,
                off_peak: Some(settings.hours.off_peak.clone()),
                guest_lite: settings.rollout.guest_lite,
            },
            shared_caller_budget: settings.store.shared().map(|_| settings.budget.limits.caller_cap()),
        };
        let chat_rules = chat.rules(settings)?;
        let drain_timeout = server.drain_timeout;
        let caller_directory = Arc::clone(&self.caller_directory);
        Ok((
            Self {
                drain_timeout,
                targets,
                tls,
                credential,
                retry_budget,
                hedge,
                chat,
                chat_rules,
                callers,
                caller_directory,
            },
            rules,
        ))
    }
}

/// Whether callers can authenticate at all, or need not. A data directory may hold keys now or later.
fn can_authenticate_callers(settings: &Settings, keys: &[(Tier, String)]) -> bool {
    let callers = &settings.callers;
    callers.guests
        || !callers.keys.is_empty()
        || !callers.issuers.is_empty()
        || !keys.is_empty()
        || settings.store.directory().is_some()
}

/// The credential of the admin API. It must differ from every caller's key, because callers know their keys.
fn admin_credential(
    settings: &Settings,
    keys: &[(Tier, String)],
) -> Result<Option<AdminCredential>, ServeError> {
    let Some(reference) = &settings.admin.credential else {
        // The settings check rejects this too; this covers settings that were built in another way.
        let is_loopback = settings.admin.listen.ip().to_canonical().is_loopback();
        let problem = "listen is not a loopback address: set admin.credential";
        return if is_loopback { Ok(None) } else { Err(ServeError::InsecureAdmin(problem)) };
    };
    let credential = AdminCredential::new(&fetch_text(reference)?);
    let run_keys = keys.iter().map(|(_, key)| crate::identity::hash_api_key(key));
    if settings
        .callers
        .keys
        .values()
        .map(|key| key.hash)
        .chain(run_keys)
        .any(|hash| credential.matches_hash(&hash))
    {
        return Err(ServeError::InsecureAdmin(
            "the credential is also a caller's key: use a separate secret",
        ));
    }
    Ok(Some(credential))
}

fn face_set(names: &[FaceName]) -> Faces {
    Faces::of(names.iter().flat_map(|name| {
        match name {
            FaceName::Anthropic => &[Face::ANTHROPIC_MESSAGES][..],
            FaceName::OpenAi => &[Face::OPENAI_CHAT, Face::RESPONSES],
            FaceName::Bedrock => &[Face::BEDROCK_INVOKE, Face::BEDROCK_CONVERSE],
            FaceName::Gemini => &[Face::GEMINI],
            FaceName::Chat => &[Face::Chat],
        }
        .iter()
        .copied()
    }))
}

/// The memory limit for buffered request bodies.
fn body_memory(settings: &Settings) -> BodyMemoryOptions {
    let server = &settings.server;
    BodyMemoryOptions {
        capacity: server.body_memory.unwrap_or_else(|| memory_limit() / 4),
        caller_share: server.body_memory_per_caller,
        address_share: server.body_memory_per_address,
    }
}

fn limit_rules(settings: &Settings) -> LimitRules {
    let limits = &settings.limits;
    let route_quotas = |(name, route): (&String, &RouteSettings)| Some((name.clone(), route.quotas.clone()?));
    LimitRules {
        tiers: limits.tiers.clone(),
        global: limits.global.clone(),
        by_address: Some(limits.guests_by_address.clone()),
        routes: settings.routes.iter().filter_map(route_quotas).collect(),
        retry_after: limits.retry_after,
    }
}

fn open_access_log(destination: &LogDestination) -> Result<Option<Box<dyn Write + Send>>, ServeError> {
    Ok(match destination {
        LogDestination::None => None,
        LogDestination::Stdout => Some(Box::new(std::io::stdout())),
        LogDestination::File(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            Some(Box::new(file.map_err(|error| ServeError::LogFile(path.clone(), error))?))
        }
    })
}

#[cfg(test)]
mod tests;

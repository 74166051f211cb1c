//! Builds a running gateway from settings, and applies changed settings to a gateway that is already running.

mod error;

pub use error::ServeError;

use crate::admin::{Credential, Guard};
use crate::chat::{ChatState, guardrails_of};
use crate::connections::{Connections, raise_file_limit};
use crate::identity::{Gate, caller_options};
use crate::keeper::{self, Keeper, Keeping, Kept};
use crate::late_directory::LateDirectory;
use crate::listen::{Gateway, Listening, Shape};
use crate::log::AccessLog;
use crate::memory_limit::memory_limit;
use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use crate::secret::fetch_text;
use crate::shared::{self, SharedThread};
use crate::sight::{MetricsListeners, Sight};
use crate::simulated::SimulatedModel;
use crate::target::{Surroundings, Targets};
use crate::tls::{Door, Encryption};
use arc_swap::ArcSwap;
use seawall_config::{
    CoresValue, FaceName, LogPlaceValue, RouteSettings, Runtime as RuntimeName, Settings, StoreKind,
};
use seawall_core::body_memory::{BodyMemory, BodyMemoryOptions};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::evaluator::Posture;
use seawall_core::quota::LimitChange;
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_pipeline::callers::CallerDirectory;
use seawall_pipeline::speech::Face;
use seawall_pipeline::{
    ArrivalLimits, Callers, Faces, LimitRules, Limits, Path, PathOptions, Route, RouteOptions, RuleOptions,
    Runtime as _, Tier, Timer as _,
};
use seawall_store::MemoryAnswers;
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
    /// Whether state changes of breakers and credentials are written to standard error. A program that draws on the
    /// terminal turns this off.
    pub diagnostics: bool,
}

/// The parts of a running gateway that a settings reload replaces.
pub(crate) struct Live {
    path: Arc<Path<TokioRuntime>>,
    runtime: TokioRuntime,
    sight: Arc<Sight>,
    around: Surroundings,
    keys: Vec<(Tier, String)>,
    pub(crate) kept: Kept,
    door: Arc<Door>,
    pub(crate) gate: Arc<ArcSwap<Gate>>,
    /// The values derived from the settings in force.
    made: Mutex<Made>,
    /// Dropped last, after the last settlement and the last post to the ledger.
    _shared: Option<SharedThread>,
    _keeper: Keeper,
}

struct Made {
    /// Drain timeout: how long in-flight requests may take to finish at shutdown.
    grace: Duration,
    targets: Targets,
    encryption: Option<Encryption>,
    /// The credential that the admin API requires.
    credential: Option<Credential>,
    retry_budget: (RetryBudgetOptions, Arc<RetryBudget>),
    hedge: (HedgeOptions, Arc<HedgePolicy>),
    chat: ChatState,
    callers: Arc<Callers>,
    directory: Arc<LateDirectory>,
}

/// Starts a gateway. It accepts requests when this returns.
pub fn serve(options: ServeOptions) -> Result<Listening, ServeError> {
    let ServeOptions { settings, simulated, keys, diagnostics } = options;
    raise_file_limit();
    let cores = match settings.server.cores {
        CoresValue::Some(cores) => usize::try_from(cores).unwrap_or(usize::MAX),
        CoresValue::All => std::thread::available_parallelism().map_or(1, Into::into),
    };
    let shape = match settings.server.runtime {
        RuntimeName::PerCore => Shape::PerCore(cores),
        RuntimeName::Shared => Shape::Shared(cores),
    };
    let pools = if matches!(shape, Shape::PerCore(_)) { cores } else { 1 };
    let runtime = TokioRuntime::new();
    let started = runtime.monotonic();
    let around = Surroundings { cores: pools, runtime, simulated };
    let directory = Arc::<LateDirectory>::default();
    let nothing = Made::nothing(&settings, &keys, Arc::clone(&directory))?;
    let (made, rules) = nothing.renewed(&settings, &keys, &around)?;
    let Keeping { books, kept, keeper, quotas, store } =
        keeper::open(&settings, rules.limits.groups(), runtime)?;
    if let Some(store) = &store {
        directory.found(Arc::clone(store));
    }
    let gate = Gate::new(&settings, runtime)?;
    gate.take_effect();
    let gate = Arc::new(ArcSwap::from_pointee(gate));
    let metrics = Arc::new(Metrics::default());
    metrics.know(settings.routes.keys(), settings.targets.keys());
    let log = log(&settings.telemetry.access_log)?;
    let names = Arc::clone(&gate);
    let pseudonym = move |caller| names.load().pseudonyms().shown(caller);
    let observer = AccessLog::new(Arc::clone(&metrics), runtime, log, pseudonym).map_err(ServeError::Log)?;
    let observer = if diagnostics { observer } else { observer.without_diagnostics() };
    let (recent, observer) = (observer.recent(), Arc::new(observer));
    let (limits, shared) = match (&settings.store.redis, settings.store.kind) {
        (Some(redis), StoreKind::Redis) => {
            let (limits, thread) = shared::start(redis, &settings.store.folder, &rules.limits, runtime)?;
            (Limits::Shared(Box::new(limits)), Some(thread))
        }
        _ => match quotas {
            Some(quotas) => (Limits::Local(Box::new(quotas)), None),
            None => (Limits::local(rules.limits.groups(), runtime.draw().below(u64::MAX))?, None),
        },
    };
    let path = Arc::new(Path::new(runtime, PathOptions { rules, limits, books, observer })?);
    keeper.sweep(&path);
    let door = Arc::<Door>::default();
    door.set(made.encryption.as_ref());
    let sight = Arc::new(Sight {
        path: Arc::clone(&path),
        runtime,
        started,
        metrics,
        recent,
        kept: kept.clone(),
        body_memory: BodyMemory::new(body_memory(&settings))?,
        connections: Connections::new(&settings),
        is_draining: AtomicBool::new(false),
        serves_metrics: MetricsListeners::new(&settings.telemetry),
        written: Default::default(),
        gate: Arc::clone(&gate),
        store,
        shared: shared.as_ref().map(|thread| thread.status.clone()),
        address: OnceLock::new(),
    });
    let live = Live {
        path,
        runtime,
        sight: Arc::clone(&sight),
        around,
        keys,
        kept,
        door,
        gate,
        made: Mutex::new(made),
        _shared: shared,
        _keeper: keeper,
    };
    let (address, admin) = (settings.server.listen, settings.admin.listen);
    Ok(Gateway { address, shape, admin, sight, live }.start()?)
}

/// Checks whether a gateway with these settings would start. Reads every secret and file that the settings name, and
/// builds every part that needs no listening socket, no lasting thread and no access to the state directory.
pub fn preflight(options: ServeOptions) -> Result<(), ServeError> {
    let ServeOptions { settings, simulated, keys, diagnostics: _ } = options;
    let runtime = TokioRuntime::new();
    let around = Surroundings { cores: 1, runtime, simulated };
    let nothing = Made::nothing(&settings, &keys, Arc::default())?;
    let mut problems = Vec::new();
    match nothing.renewed(&settings, &keys, &around) {
        Ok((_, rules)) => {
            let limits = Limits::local(rules.limits.groups(), 0).map_err(ServeError::from);
            problems.extend(limits.err());
            problems.extend(rules.check().map_err(ServeError::from).err());
        }
        Err(ServeError::Several(several)) => problems.extend(several),
        Err(problem) => problems.push(problem),
    }
    problems.extend(Gate::preflight(&settings, runtime).map_err(ServeError::from).err());
    if let (Some(redis), StoreKind::Redis) = (&settings.store.redis, settings.store.kind) {
        problems.extend(shared::check(redis, runtime).map_err(ServeError::from).err());
    }
    ServeError::of(problems)
}

impl Live {
    /// The current drain timeout.
    pub(crate) fn grace(&self) -> Duration {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).grace
    }

    /// The TLS configuration for new connections.
    pub(crate) fn door(&self) -> Arc<Door> {
        Arc::clone(&self.door)
    }

    /// The access check for an admin listener on this address.
    pub(crate) fn guard(&self, address: SocketAddr) -> Guard {
        Guard::new(address, self.made.lock().unwrap_or_else(PoisonError::into_inner).credential)
    }

    /// Applies new settings, all or nothing. Returns what happened to the counts of every limit.
    pub(crate) fn change(&self, settings: &Settings, guard: &Guard) -> Result<Vec<LimitChange>, ServeError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (renewed, rules) = made.renewed(settings, &self.keys, &self.around)?;
        let gate = self.gate.load_full().renewed(settings)?;
        // The admin address does not change until the next start, whatever the new settings say.
        if renewed.credential.is_none() && !guard.may_be_open() {
            return Err(ServeError::OpenAdmin("others can reach its address, so it needs a credential"));
        }
        // Before the first request that may use a new name.
        self.sight.metrics.know(settings.routes.keys(), settings.targets.keys());
        let groups = rules.limits.groups();
        let changes = self.path.change(rules)?;
        if let Some(store) = &self.sight.store {
            store.set_groups(groups);
        }
        gate.take_effect();
        self.gate.store(Arc::new(gate));
        renewed.targets.take_effect(self.runtime.monotonic())?;
        self.door.set(renewed.encryption.as_ref());
        guard.change(renewed.credential);
        *made = renewed;
        self.path.set_budget(settings.budget.limits.clone());
        self.sight.body_memory.change(body_memory(settings))?;
        self.sight.connections.change(settings);
        self.sight.serves_metrics.set(&settings.telemetry);
        Ok(changes)
    }
}

impl Made {
    /// The state before any settings are applied.
    fn nothing(
        settings: &Settings,
        keys: &[(Tier, String)],
        directory: Arc<LateDirectory>,
    ) -> Result<Self, ServeError> {
        let retry_budget = settings.retry.budget.clone();
        let shelf =
            MemoryAnswers::of_rule(settings.cache.ages, settings.cache.storing, crate::chat::MOST_KEPT);
        Ok(Self {
            grace: Duration::ZERO,
            targets: Targets::default(),
            encryption: None,
            credential: None,
            retry_budget: (retry_budget.clone(), Arc::new(RetryBudget::new(retry_budget)?)),
            hedge: (settings.retry.hedge, Arc::new(HedgePolicy::new(settings.retry.hedge)?)),
            chat: ChatState::new(settings, Arc::new(shelf))?,
            callers: Arc::new(Callers::new(caller_options(settings, keys, None))),
            directory,
        })
    }

    /// Derives the rules from these settings. Reuses as much as possible of what exists already.
    fn renewed(
        &self,
        settings: &Settings,
        keys: &[(Tier, String)],
        around: &Surroundings,
    ) -> Result<(Self, RuleOptions), ServeError> {
        // Collect all problems, so that they can be fixed in one go.
        let mut problems = Vec::new();
        if !somebody_may_ask(settings, keys) {
            problems.push(ServeError::NoKey);
        }
        let has_folder = settings.store.kind != StoreKind::Memory;
        let directory: Option<Arc<dyn CallerDirectory>> =
            has_folder.then(|| Arc::<LateDirectory>::clone(&self.directory) as Arc<_>);
        let callers = Arc::new(self.callers.renewed(caller_options(settings, keys, directory)));
        let (targets, wrong) = self.targets.of(settings, around);
        problems.extend(wrong.into_iter().map(|(name, error)| ServeError::Target(name, error)));
        let encryption = Encryption::of(settings.server.tls.as_ref(), self.encryption.as_ref());
        let encryption = encryption.map_err(|error| problems.push(error.into())).unwrap_or_default();
        let credential =
            operators(settings, keys).map_err(|problem| problems.push(problem)).unwrap_or_default();
        ServeError::of(problems)?;
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
        let chat = self.chat.renewed(settings)?;
        let route = |(name, route): (&String, &RouteSettings)| {
            Route::new(RouteOptions {
                alias: name.clone(),
                faces: faces(&route.faces),
                guest_faces: faces(&route.guest_faces),
                start_limit: route.start_time,
                token_limit: route.tokens.map(|rate| u64::from(rate.limit)),
                falls_back: route.fallback,
                guardrails: guardrails_of(settings, name)?,
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
                body: size(server.body_limit),
                depth: size(server.nesting),
                fields: size(server.fields),
                members: size(server.members),
            },
            arrival: ArrivalLimits {
                head: server.header_time,
                body: server.body_time,
                idle: server.idle_timeout,
                send: server.send_timeout,
                guest_body: size(server.guest_body_limit),
            },
            posture: Posture {
                protections: settings.protections,
                hours: settings.hours.clone(),
                guest_lite: settings.rollout.guest_lite,
                ..Posture::default()
            },
            chat: chat.rules(settings)?,
            shared_caller_day: (settings.store.kind == StoreKind::Redis)
                .then(|| settings.budget.limits.caller_cap()),
        };
        let grace = server.drain_time;
        let directory = Arc::clone(&self.directory);
        Ok((
            Self { grace, targets, encryption, credential, retry_budget, hedge, chat, callers, directory },
            rules,
        ))
    }
}

/// Whether callers can authenticate at all, or need not. A state directory may hold keys now or later.
fn somebody_may_ask(settings: &Settings, keys: &[(Tier, String)]) -> bool {
    let callers = &settings.callers;
    callers.guests
        || !callers.keys.is_empty()
        || !callers.issuers.is_empty()
        || !keys.is_empty()
        || settings.store.kind != StoreKind::Memory
}

/// The credential of the admin API. It must differ from every caller's key, because callers know their keys.
fn operators(settings: &Settings, keys: &[(Tier, String)]) -> Result<Option<Credential>, ServeError> {
    let Some(reference) = &settings.admin.credential else {
        // The settings check refuses this too; this covers settings that were built in another way.
        let is_open = settings.admin.listen.ip().to_canonical().is_loopback();
        let problem = "others can reach its address, so it needs a credential";
        return if is_open { Ok(None) } else { Err(ServeError::OpenAdmin(problem)) };
    };
    let credential = Credential::new(&fetch_text(reference)?);
    let of_run = keys.iter().map(|(_, key)| crate::identity::credential_of_key(key));
    if settings.callers.keys.values().map(|key| key.hash).chain(of_run).any(|hash| credential.is_key(&hash)) {
        return Err(ServeError::OpenAdmin(
            "its credential is the key of a caller: give operators one of their own",
        ));
    }
    Ok(Some(credential))
}

fn faces(names: &[FaceName]) -> Faces {
    Faces::of(names.iter().flat_map(|name| {
        match name {
            FaceName::Anthropic => &[Face::AnthropicMessages][..],
            FaceName::OpenAi => &[Face::OpenAiChat],
            FaceName::Bedrock => &[Face::BedrockInvoke, Face::BedrockConverse],
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
    let of_route = |(name, route): (&String, &RouteSettings)| Some((name.clone(), route.quotas.clone()?));
    LimitRules {
        tiers: limits.tiers.clone(),
        everybody: limits.everybody.clone(),
        by_address: Some(limits.guests_by_address.clone()),
        routes: settings.routes.iter().filter_map(of_route).collect(),
        come_back: limits.come_back,
    }
}

fn log(place: &LogPlaceValue) -> Result<Option<Box<dyn Write + Send>>, ServeError> {
    Ok(match place {
        LogPlaceValue::Nowhere => None,
        LogPlaceValue::Stdout => Some(Box::new(std::io::stdout())),
        LogPlaceValue::File(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            Some(Box::new(file.map_err(|error| ServeError::LogFile(path.clone(), error))?))
        }
    })
}

#[cfg(test)]
mod tests;

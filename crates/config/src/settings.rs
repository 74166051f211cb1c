//! Validated settings.
//!
//! Every value is valid: where `core` has a checked type, it is of that type. Where a `core` component is built from
//! options and cannot be compared, the options are stored, and building the component from them cannot fail.

mod models;
mod telemetry;

pub(crate) use models::ANY_MODEL;
pub use models::{ModelFacts, ModelSettings, PriceSource, RouteSettings, TargetSettings};
pub use telemetry::{RecordSettings, TelemetrySettings};

use crate::kind::{
    AddressRange, CoreCount, JwksSource, JwtAlgorithm, RuntimeLayout, SecretReference, StoreKind,
};
use crate::terms::KeyTerms;
use seawall_core::breaker::BreakerSettings;
use seawall_core::budget::{BudgetLimits, CalendarOffset, CostSettings, LeaseSize, PeriodCaps};
use seawall_core::cache_policy::{CacheAges, CacheStoreRule, SingleFlightOptions};
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::deadline::{Phases, RungReserves, TimeLimits};
use seawall_core::evaluator::Protections;
use seawall_core::framing::FramingSettings;
use seawall_core::history::TokenLimits;
use seawall_core::hours::{Hours, OffPeak};
use seawall_core::in_flight::SlotShares;
use seawall_core::ladder::{ClassifierOptions, LadderSettings, SignalWindowOptions};
use seawall_core::pressure::PressureSettings;
use seawall_core::queue::QueueSettings;
use seawall_core::quota::{QuotaGroup, RetryAfterPolicy};
use seawall_core::retry::{HedgeOptions, RetryOptions, RetryPolicy};
use seawall_core::rollout::{Experiment, Ramp};
use seawall_core::setting::Ratio;
use seawall_core::strategy::Strategy;
use seawall_core::tokens::OverheadOptions;
use seawall_core::untracked::UntrackedRules;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

/// All settings, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The callers' listener and its connection limits.
    pub server: ServerSettings,
    /// The admin listener.
    pub admin: AdminSettings,
    /// Callers and their credentials.
    pub callers: CallerSettings,
    /// Rate limits and concurrency shares.
    pub limits: LimitSettings,
    /// Models and their prices.
    pub models: ModelSettings,
    /// Targets by name.
    pub targets: BTreeMap<String, TargetSettings>,
    /// Routes by name.
    pub routes: BTreeMap<String, RouteSettings>,
    /// Retries, the retry budget and hedging.
    pub retry: RetrySettings,
    /// Breakers by name.
    pub breakers: BTreeMap<String, BreakerSettings>,
    /// Pressure detection of targets.
    pub pressure: PressureSettings,
    /// Deadlines and timeouts.
    pub deadlines: DeadlineSettings,
    /// The queue for concurrency slots.
    pub queue: QueueSettings,
    /// Budgets.
    pub budget: BudgetSettings,
    /// Token limits.
    pub tokens: TokenSettings,
    /// Degradation levels.
    pub degradation: DegradationSettings,
    /// The intent classifier.
    pub classifier: ClassifierSettings,
    /// The peak and off-peak hours.
    pub hours: HoursSettings,
    /// The answer cache.
    pub cache: CacheSettings,
    /// Framing of streamed answers.
    pub framing: FramingSettings,
    /// The assistant of our own chat face.
    pub assistant: AssistantSettings,
    /// The store of state.
    pub store: StoreSettings,
    /// Switches and modes of protections.
    pub protections: Protections,
    /// Gradual rollout.
    pub rollout: RolloutSettings,
    /// Logs, traces and metrics.
    pub telemetry: TelemetrySettings,
}

/// The callers' listener and its connection limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The listen address.
    pub listen: SocketAddr,
    /// The arrangement of runtimes and threads.
    pub runtime: RuntimeLayout,
    /// The number of cores to use.
    pub cores: CoreCount,
    /// Maximum size of a request body, in bytes.
    pub max_body_size: u64,
    /// Maximum size of a guest's request body, in bytes.
    pub max_guest_body_size: u64,
    /// Maximum bytes of request bodies in memory; `None` means a quarter of the available memory.
    pub body_memory: Option<NonZeroU64>,
    /// The share of one caller in that.
    pub body_memory_per_caller: Ratio,
    /// The share of one address in that.
    pub body_memory_per_address: Ratio,
    /// Maximum nesting depth of a body.
    pub max_depth: u64,
    /// Maximum number of top-level fields of a body.
    pub max_fields: u64,
    /// Maximum number of items of its lists.
    pub max_items: u64,
    /// Timeout for the request head, including the wait before it.
    pub header_timeout: Duration,
    /// Timeout for the request body.
    pub body_timeout: Duration,
    /// Maximum number of callers' connections.
    pub max_connections: u64,
    /// Maximum number of connections of one address.
    pub max_connections_per_address: u64,
    /// Idle timeout of an HTTP/2 connection without a request.
    pub idle_timeout: Duration,
    /// How long an answer may wait for its caller to read.
    pub send_timeout: Duration,
    /// How long a stream may be silent before a keep-alive is sent; `None` for no keep-alives.
    pub keep_alive_interval: Option<Duration>,
    /// How long requests are still served after a shutdown signal.
    pub drain_delay: Duration,
    /// How long requests in flight may take to finish at shutdown.
    pub drain_timeout: Duration,
    /// Proxies whose `x-forwarded-for` is trusted.
    pub trusted_proxies: Vec<AddressRange>,
    /// TLS, if it is on.
    pub tls: Option<ServerTlsSettings>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsSettings {
    /// The file with the certificate chain.
    pub certificate: String,
    /// The private key.
    pub key: SecretReference,
}

/// The admin listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The listen address.
    pub listen: SocketAddr,
    /// The credential that requests must present.
    pub credential: Option<SecretReference>,
}

/// Callers and their credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSettings {
    /// Whether guests are allowed.
    pub guests: bool,
    /// The secret that signing keys are derived from.
    pub master_secret: Option<SecretReference>,
    /// The secret that guest cookies are signed with.
    pub guest_secret: Option<SecretReference>,
    /// How long a looked-up tier is cached.
    pub tier_cache_ttl: Duration,
    /// Timeout of a directory lookup.
    pub lookup_timeout: Duration,
    /// API keys by name.
    pub keys: BTreeMap<String, KeySettings>,
    /// The budgets of teams by name.
    pub teams: BTreeMap<String, PeriodCaps>,
    /// JWT issuers by name.
    pub issuers: BTreeMap<String, IssuerSettings>,
}

/// An API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// The SHA-256 of the key.
    pub hash: [u8; 32],
    /// The tier of its holder.
    pub tier: Tier,
    /// The routes it may use; `None` means all.
    pub routes: Option<Vec<String>>,
    /// Its other terms.
    pub terms: KeyTerms,
}

/// An issuer whose JSON Web Tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The required `iss` claim.
    pub issuer: String,
    /// The accepted `aud` claims; never empty.
    pub audience: Vec<String>,
    /// The accepted algorithms; never empty, and all with the same kind of key.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The keys that verify signatures.
    pub keys: IssuerKeys,
    /// Tolerated clock skew.
    pub leeway: Duration,
    /// The tier of its callers that are not in the directory.
    pub tier: Tier,
}

/// The keys that verify an issuer's signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerKeys {
    /// Public keys.
    Public(JwksSource),
    /// A shared secret.
    Shared(SecretReference),
}

/// Rate limits and concurrency shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// The limits of one caller, in the order of [`Tier::ALL`]; `None` for a tier without limits.
    pub tiers: [Option<QuotaGroup>; 3],
    /// The global limits of all callers together.
    pub global: QuotaGroup,
    /// Requests of all kinds at the edge, before authentication.
    pub account: QuotaGroup,
    /// Admitted requests at the edge.
    pub stage: QuotaGroup,
    /// New connections at the edge.
    pub connect: QuotaGroup,
    /// Messages on long-lived connections.
    pub message: QuotaGroup,
    /// The shared limits of guests from one address, if guests have limits.
    pub guests_by_address: Option<QuotaGroup>,
    /// The IPv6 prefix length that counts as one network.
    pub ipv6_prefix: u8,
    /// The shares of a target's concurrency.
    pub concurrency: SlotShares,
    /// The retry advice for callers that a limit rejects.
    pub retry_after: RetryAfterPolicy,
    /// The reservation for input that a request only refers to.
    pub untracked_input: UntrackedRules,
}

/// Retries, the retry budget and hedging.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySettings {
    /// The policy for interactive requests.
    pub interactive: RetryPolicy,
    /// The options it was built from.
    pub interactive_options: RetryOptions,
    /// The policy for background work.
    pub background: RetryPolicy,
    /// The options it was built from.
    pub background_options: RetryOptions,
    /// The retry budget of the node.
    pub budget: RetryBudgetOptions,
    /// Hedging: a second attempt in parallel to a slow one.
    pub hedge: HedgeOptions,
}

/// Deadlines and timeouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineSettings {
    /// The timeouts, each shorter than the one that encloses it.
    pub limits: TimeLimits,
    /// The time that the rungs of the chat need.
    pub reserves: RungReserves,
    /// The fallback when time runs short, and the time it needs.
    pub strategy: Strategy,
    /// The time for each phase: loading, building, calling and saving.
    pub phases: Phases,
}

/// Budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    /// The daily budget and its shares.
    pub limits: BudgetLimits,
    /// Whether every node of a fleet enforces them on its own; always so with Redis as the store.
    pub per_node: bool,
    /// Budgets by calendar window of each tier, in the order of [`Tier::ALL`].
    pub tiers: [PeriodCaps; 3],
    /// The calendar of all budgets by window.
    pub offset: CalendarOffset,
    /// The thresholds of cost warnings.
    pub cost: CostSettings,
    /// The size of a node's lease on the budget.
    pub lease: LeaseSize,
}

/// Token limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// The token limits of a request.
    pub limits: TokenLimits,
    /// Tokens in addition to those of the text.
    pub overhead: OverheadOptions,
}

/// Degradation levels.
#[derive(Clone, Debug, PartialEq)]
pub struct DegradationSettings {
    /// The thresholds of the levels.
    pub ladder: LadderSettings,
    /// The sliding window of the signals.
    pub window: SignalWindowOptions,
}

/// The intent classifier.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierSettings {
    /// When the classifier is considered unreliable.
    pub watch: ClassifierOptions,
    /// Timeout of a classification.
    pub timeout: Duration,
}

/// The peak and off-peak hours. At any moment at most one of them applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoursSettings {
    /// The busiest hours, in which fewer callers get strong models.
    pub evening_peak: Hours,
    /// The off-peak policy.
    pub off_peak: OffPeak,
}

/// The answer cache.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// Maximum ages of answers.
    pub ages: CacheAges,
    /// Which answers are stored.
    pub storage: CacheStoreRule,
    /// Single flight: one upstream call for concurrent identical requests.
    pub single_flight: SingleFlightOptions,
}

/// The assistant of our own chat face.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantSettings {
    /// The language of callers that state none.
    pub locale: String,
    /// The system prompt in Japanese.
    pub prompt_ja: String,
    /// The system prompt in English.
    pub prompt_en: String,
    /// Part of the key of every cached answer.
    pub prompt_version: String,
    /// The product catalogue file.
    pub catalogue: Option<String>,
    /// Part of the key of every cached answer.
    pub catalogue_version: String,
    /// The FAQ file.
    pub faq: Option<String>,
    /// The file with template answers.
    pub templates: Option<String>,
    /// The file with the patterns of each intent.
    pub intents: Option<String>,
    /// Texts that no question may contain, none of them empty.
    pub deny: Vec<String>,
    /// The sampling temperature of the model: 0 to 1.
    pub temperature: f64,
    /// Maximum number of turns of `history` in a prompt; at least 2.
    pub max_history_turns: u32,
    /// Maximum number of retrieved items in a prompt.
    pub max_retrieved_items: u32,
    /// Maximum characters of each.
    pub max_retrieved_characters: u32,
    /// Timeout of retrieval.
    pub retrieval_timeout: Duration,
}

/// The store of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The kind of store.
    pub kind: StoreKind,
    /// The data directory of the kinds `embedded` and `redis`.
    pub data_dir: String,
    /// The Redis of a fleet; present if it is the kind.
    pub redis: Option<RedisSettings>,
    /// How long a conversation is stored.
    pub session_ttl: Duration,
}

impl StoreSettings {
    /// The store that the nodes of a fleet share, if the kind has one.
    #[must_use]
    pub fn shared(&self) -> Option<&RedisSettings> {
        self.redis.as_ref().filter(|_| self.kind == StoreKind::Redis)
    }

    /// The data directory, unless the kind keeps state in memory only.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        (self.kind != StoreKind::Memory).then(|| Path::new(&self.data_dir))
    }
}

/// The Redis of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// The URL.
    pub url: String,
    /// The file with the CA certificates for TLS, if not those of the machine.
    pub ca_file: Option<String>,
    /// Its password.
    pub password: Option<SecretReference>,
    /// Timeout of one operation.
    pub operation_timeout: Duration,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// The prefix of every key; no braces and no control characters.
    pub prefix: String,
    /// Minimum number of nodes that share its limits; at least one.
    pub fleet_size: Option<u32>,
}

/// Gradual rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// A factor on every limit, over time.
    pub limits: Option<Ramp>,
    /// A factor on the daily budget, over time.
    pub budget: Option<Ramp>,
    /// The share of guests that get the smaller service; `None` means all.
    pub guest_lite: Option<Experiment>,
}

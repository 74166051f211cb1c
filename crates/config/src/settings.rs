//! Settings that have been checked.
//!
//! Every value here is fit for use: what `core` has a checked type for is of that type. Where a machine of `core` is built
//! from options and cannot be compared, the options are kept, and building it from them cannot fail.

use crate::kind::{
    AddressRange, Algorithm, CoresValue, FaceName, KeySetValue, LogPlaceValue, Provider, RateValue, Runtime,
    SecretReference, StoreKind,
};
use seawall_core::breaker::BreakerSettings;
use seawall_core::budget::{BudgetLimits, CostSettings, LeaseSize};
use seawall_core::cache_policy::{CacheAges, FlightOptions, StoreRule};
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::deadline::{Phases, Reserves, TimeLimits};
use seawall_core::evaluator::{Protections, ShopHours};
use seawall_core::framing::FramingSettings;
use seawall_core::history::TokenLimits;
use seawall_core::in_flight::SlotShares;
use seawall_core::ladder::{ClassifierOptions, LadderSettings, SignalWindowOptions};
use seawall_core::money::{ModelPriceOptions, PriceList};
use seawall_core::pressure::PressureSettings;
use seawall_core::queue::QueueSettings;
use seawall_core::quota::{ComeBackRule, QuotaGroup};
use seawall_core::retry::{HedgeOptions, RetryOptions, RetryPolicy};
use seawall_core::rollout::{Experiment, Ramp};
use seawall_core::setting::Ratio;
use seawall_core::strategy::Strategy;
use seawall_core::tokens::OverheadOptions;
use seawall_core::untracked::UntrackedRules;
use seawall_core::vocabulary::{Grade, OutputLimitField, Tier};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Everything, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where Seawall listens and what it takes from a connection.
    pub server: ServerSettings,
    /// Where operators reach it.
    pub admin: AdminSettings,
    /// Who may ask.
    pub callers: CallerSettings,
    /// How often who may ask.
    pub limits: LimitSettings,
    /// Models and what their tokens cost.
    pub models: ModelSettings,
    /// Places where models are served, by name.
    pub targets: BTreeMap<String, TargetSettings>,
    /// Names that callers use, and what stands behind them.
    pub routes: BTreeMap<String, RouteSettings>,
    /// How often and when to try again.
    pub retry: RetrySettings,
    /// Breakers by name.
    pub breakers: BTreeMap<String, BreakerSettings>,
    /// How hard a target struggles.
    pub pressure: PressureSettings,
    /// Time limits.
    pub deadlines: DeadlineSettings,
    /// Who waits for a place at a model.
    pub queue: QueueSettings,
    /// Money.
    pub budget: BudgetSettings,
    /// Tokens.
    pub tokens: TokenSettings,
    /// When to step down.
    pub degradation: DegradationSettings,
    /// When the classifier is not relied on.
    pub classifier: ClassifierSettings,
    /// The evening and the night.
    pub hours: ShopHours,
    /// Which answers are kept.
    pub cache: CacheSettings,
    /// How streamed answers are sent.
    pub framing: FramingSettings,
    /// What the assistant is told and knows.
    pub assistant: AssistantSettings,
    /// Where state is kept.
    pub store: StoreSettings,
    /// Switches and modes.
    pub protections: Protections,
    /// What is brought in by degrees.
    pub rollout: RolloutSettings,
    /// What is told of requests.
    pub telemetry: TelemetrySettings,
}

/// Where Seawall listens and what it takes from a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The address that callers use.
    pub listen: SocketAddr,
    /// How threads and tasks go together.
    pub runtime: Runtime,
    /// How many cores to use.
    pub cores: CoresValue,
    /// The largest body of a request, in bytes.
    pub body_limit: u64,
    /// The largest body of a guest's request, in bytes.
    pub guest_body_limit: u64,
    /// Bytes of request bodies in memory at once; nothing means a quarter of the memory there is.
    pub body_memory: Option<u64>,
    /// The share of one caller in that.
    pub body_memory_per_caller: Ratio,
    /// The share of one address in that.
    pub body_memory_per_address: Ratio,
    /// How deep a body may nest.
    pub nesting: u64,
    /// How many fields a body may have at its top.
    pub fields: u64,
    /// How many members its lists may have.
    pub members: u64,
    /// How long the head of a request may take, the wait before it included.
    pub header_time: Duration,
    /// How long its body may take.
    pub body_time: Duration,
    /// Connections of callers at once.
    pub max_connections: u64,
    /// Connections of one address at once.
    pub max_connections_per_address: u64,
    /// How long an HTTP/2 connection may be open without a request.
    pub idle_timeout: Duration,
    /// How long an answer may wait for its caller to read on.
    pub send_timeout: Duration,
    /// How long requests may take to finish at the end.
    pub drain_time: Duration,
    /// Proxies whose word on where a request came from is believed.
    pub trusted_proxies: Vec<AddressRange>,
    /// To be reached by HTTPS.
    pub tls: Option<TlsSettings>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The file with the chain of certificates.
    pub certificate: String,
    /// Where the private key is found.
    pub key: SecretReference,
}

/// Where operators reach Seawall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// The address.
    pub listen: SocketAddr,
    /// What they must show.
    pub credential: Option<SecretReference>,
}

/// Who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerSettings {
    /// Whether guests may.
    pub guests: bool,
    /// What the secrets of keys for signing are derived from.
    pub master_secret: Option<SecretReference>,
    /// What the cookies of guests are signed with.
    pub guest_secret: Option<SecretReference>,
    /// How long a tier is believed.
    pub tier_cache: Duration,
    /// How long looking it up may take.
    pub directory_time: Duration,
    /// API keys by name.
    pub keys: BTreeMap<String, KeySettings>,
    /// Issuers by name.
    pub issuers: BTreeMap<String, IssuerSettings>,
}

/// An API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySettings {
    /// Its SHA-256.
    pub hash: [u8; 32],
    /// What its holder is entitled to.
    pub tier: Tier,
    /// The routes it may use; nothing means all.
    pub routes: Option<Vec<String>>,
}

/// Somebody whose JSON Web Tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// What `iss` must be.
    pub issuer: String,
    /// What `aud` must hold one of; never empty.
    pub audience: Vec<String>,
    /// How tokens may be signed; never empty, and all with the same sort of key.
    pub algorithms: Vec<Algorithm>,
    /// What signatures are checked with.
    pub keys: IssuerKeys,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// What its callers are entitled to where the directory says nothing.
    pub tier: Tier,
}

/// What signatures are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssuerKeys {
    /// Public keys.
    Public(KeySetValue),
    /// A secret that both know.
    Shared(SecretReference),
}

/// How often who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// One caller, in the order of [`Tier::ALL`].
    pub tiers: [QuotaGroup; 3],
    /// All callers together.
    pub everybody: QuotaGroup,
    /// The whole door.
    pub account: QuotaGroup,
    /// Requests that are let in.
    pub stage: QuotaGroup,
    /// New connections.
    pub connect: QuotaGroup,
    /// Messages on connections that stay.
    pub message: QuotaGroup,
    /// Guests from one address.
    pub guests_by_address: QuotaGroup,
    /// Bits of an IPv6 address that stand for one network.
    pub ipv6_prefix: u8,
    /// How many of a target's concurrent calls whose may be.
    pub concurrency: SlotShares,
    /// What callers are told whom a limit refuses.
    pub come_back: ComeBackRule,
    /// What is reserved for input that a request only names.
    pub untracked_input: UntrackedRules,
}

/// Models and what their tokens cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// Prices, by id.
    pub prices: Vec<ModelPriceOptions>,
    /// Tokens that a model can hold, where that is known.
    pub windows: BTreeMap<String, u64>,
    /// The most tokens that a model counts a picture as, where the settings say so.
    pub image_tokens: BTreeMap<String, u64>,
}

impl ModelSettings {
    /// The list of prices.
    #[must_use]
    pub fn list(&self) -> PriceList {
        // The same prices were accepted when the settings were checked.
        PriceList::new(&self.prices).unwrap_or_default()
    }
}

/// One place where a model is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// Who serves it.
    pub provider: Provider,
    /// The id of the model, which has a price.
    pub model: String,
    /// How strong it is.
    pub grade: Grade,
    /// The region, for Bedrock.
    pub region: Option<String>,
    /// Where it is reached, if not where the provider usually is.
    pub url: Option<String>,
    /// Where our key is found.
    pub key: Option<SecretReference>,
    /// The role to take on.
    pub role: Option<String>,
    /// What the owner of the role wants to hear.
    pub external_id: Option<String>,
    /// The field in which it takes the limit of output, if it speaks as OpenAI does.
    pub output_limit_field: OutputLimitField,
    /// Calls that may be under way at once; at least one.
    pub concurrency: u32,
    /// The name of its breaker, which exists.
    pub breaker: String,
}

/// A name that callers use, and what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Targets in order; all exist, none is there twice, and there is at least one.
    pub targets: Vec<String>,
    /// Where its requests may come in.
    pub faces: Vec<FaceName>,
    /// Those at which guests may use it.
    pub guest_faces: Vec<FaceName>,
    /// How long an answer may take to begin.
    pub start_time: Duration,
    /// Whether callers of an API also get answers from lower rungs.
    pub fallback: bool,
    /// Requests of all its callers.
    pub requests: Option<RateValue>,
    /// Tokens of all its callers.
    pub tokens: Option<RateValue>,
    /// Both as limits, where there is one.
    pub quotas: Option<QuotaGroup>,
}

/// How often and when to try again.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySettings {
    /// For somebody who waits.
    pub interactive: RetryPolicy,
    /// What it is made from.
    pub interactive_options: RetryOptions,
    /// For work that nobody waits for.
    pub background: RetryPolicy,
    /// What it is made from.
    pub background_options: RetryOptions,
    /// What the node can afford.
    pub budget: RetryBudgetOptions,
    /// A second attempt beside a slow one.
    pub hedge: HedgeOptions,
}

/// Time limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineSettings {
    /// Each shorter than the one around it.
    pub limits: TimeLimits,
    /// What the rungs of the chat need.
    pub reserves: Reserves,
    /// What to answer with instead, and what it needs.
    pub strategy: Strategy,
    /// What loading, building, asking and saving may take.
    pub phases: Phases,
}

/// Money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Who may spend what.
    pub limits: BudgetLimits,
    /// Whether every node of a fleet enforces them on its own; always so where Redis is the store.
    pub per_node: bool,
    /// When to warn.
    pub cost: CostSettings,
    /// What a node keeps in hand.
    pub lease: LeaseSize,
}

/// Tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// What a request may have.
    pub limits: TokenLimits,
    /// What is spent on top of the text.
    pub overhead: OverheadOptions,
}

/// When to step down.
#[derive(Clone, Debug, PartialEq)]
pub struct DegradationSettings {
    /// The thresholds.
    pub ladder: LadderSettings,
    /// How readings are made.
    pub window: SignalWindowOptions,
}

/// When the classifier is not relied on.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierSettings {
    /// How it is watched.
    pub watch: ClassifierOptions,
    /// How long it may take.
    pub time: Duration,
}

/// Which answers are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// How old they may be.
    pub ages: CacheAges,
    /// Which are kept.
    pub storing: StoreRule,
    /// Who asks when many want the same.
    pub flights: FlightOptions,
}

/// What the assistant is told and knows.
#[derive(Clone, Debug, PartialEq)]
pub struct AssistantSettings {
    /// The language of who says nothing of theirs.
    pub locale: String,
    /// Instructions in Japanese.
    pub prompt_ja: String,
    /// Instructions in English.
    pub prompt_en: String,
    /// Part of the key of every kept answer.
    pub prompt_version: String,
    /// The file with the products.
    pub catalogue: Option<String>,
    /// Part of the key of every kept answer.
    pub catalogue_version: String,
    /// The file with frequent questions.
    pub faq: Option<String>,
    /// The file with prepared answers.
    pub templates: Option<String>,
    /// The file that says what questions of each kind look like.
    pub intents: Option<String>,
    /// Texts that no question may hold, none of them empty.
    pub deny: Vec<String>,
    /// How freely the model words its answers: 0 to 1.
    pub temperature: f64,
    /// Found items in a prompt.
    pub retrieved_items: u32,
    /// Characters of each.
    pub retrieved_characters: u32,
    /// How long looking things up may take.
    pub retrieval_time: Duration,
}

/// Where state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// What keeps it.
    pub kind: StoreKind,
    /// The folder of an embedded store.
    pub folder: String,
    /// The Redis of a fleet; there if it is the kind.
    pub redis: Option<RedisSettings>,
    /// Turns of a conversation that are kept.
    pub session_turns: u32,
    /// How long a conversation is kept.
    pub session_keep_for: Duration,
}

/// The Redis of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where it is reached.
    pub url: String,
    /// The file with the authorities that may vouch for it by TLS, if not those of the machine.
    pub ca_file: Option<String>,
    /// Its password.
    pub password: Option<SecretReference>,
    /// How long one operation may take.
    pub operation_time: Duration,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// What every key begins with; no braces and no control characters.
    pub prefix: String,
    /// The least number of nodes that share its limits; at least one.
    pub fleet_size: Option<u32>,
}

/// What is brought in by degrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// A factor on every limit.
    pub limits: Option<Ramp>,
    /// A factor on the day's money.
    pub budget: Option<Ramp>,
    /// The guests who get the smaller service; nothing means all.
    pub guest_lite: Option<Experiment>,
}

/// What is told of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetrySettings {
    /// Where a line for each request goes.
    pub access_log: LogPlaceValue,
    /// Where traces are sent.
    pub otlp: Option<String>,
    /// The share of ordinary traces that are kept, in percent.
    pub sampling: f64,
    /// Traces a second that are kept in any case.
    pub sampled_per_second: u64,
    /// What names are hashed with.
    pub salt: Option<SecretReference>,
    /// Whether the admin listener serves metrics.
    pub metrics: bool,
    /// Whether the callers' listener serves them, too.
    pub public_metrics: bool,
}

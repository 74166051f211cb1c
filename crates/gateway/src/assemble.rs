//! From a handful of options to a gateway that listens.

use crate::listen::{Gateway, ListenError, Listening, Shape};
use crate::log::{AccessLog, Counters};
use crate::runtime::TokioRuntime;
use seawall_core::breaker::BreakerProfile;
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::deadline::TimeLimitOptions;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, Unit};
use seawall_core::retry::RetryOptions;
use seawall_core::setting::SettingError;
use seawall_pipeline::{
    Directory, GuardedTarget, KeyError, Path, PathOptions, Route, RuleOptions, Runtime as _, TargetOptions,
    Tier,
};
use seawall_provider::way::TlsOptions;
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, Client, ClientOptions, Secret, Surroundings,
};
use seawall_store::MemoryLedger;
use seawall_wire::RequestLimits;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A model behind an address.
pub struct TargetAddress {
    /// The name in logs.
    pub name: String,
    /// What the provider calls the model.
    pub model: String,
    /// `http://host:port` or `https://host`, and a base path if there is one.
    pub url: String,
    /// Our key there.
    pub api_key: String,
    /// What its tokens cost.
    pub price: Price,
    /// When its breaker opens.
    pub breaker: BreakerProfile,
}

/// What a gateway is to do.
pub struct ServeOptions {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// How threads and runtimes go together.
    pub shape: Shape,
    /// The name that callers use for the model.
    pub alias: String,
    /// The targets behind it, in the order they are tried.
    pub targets: Vec<TargetAddress>,
    /// Who may ask.
    pub keys: Vec<(Tier, String)>,
    /// The day's money.
    pub budget: Money,
    /// Where lines about requests go, if anywhere.
    pub log: Option<Box<dyn Write + Send>>,
    /// How long requests under way may take to finish once it is told to stop.
    pub grace: Duration,
    /// Every limit on requests is multiplied by this: 1, but for load tests, whose callers are few and fast.
    pub scale_limits: NonZeroU32,
}

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A key makes no sense.
    #[error("key of tier {tier}: {error}", tier = .0.name(), error = .1)]
    Key(Tier, KeyError),
    /// Nobody may ask.
    #[error("no key is given, so nobody could ask")]
    NoKey,
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log cannot be started.
    #[error("cannot start the log: {0}")]
    Log(std::io::Error),
}

impl ServeError {
    /// Whether what was asked for makes no sense, rather than that it could not be done.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Setting(_) | Self::Key(..) | Self::NoKey)
    }
}

/// Starts a gateway.
pub fn serve(options: ServeOptions) -> Result<Listening, ServeError> {
    let ServeOptions { address, shape, alias, targets, keys, budget, log, grace, scale_limits } = options;
    if keys.is_empty() {
        return Err(ServeError::NoKey);
    }
    let mut directory = Directory::default();
    for (tier, key) in &keys {
        directory.add(key, *tier).map_err(|error| ServeError::Key(*tier, error))?;
    }
    let cores = match shape {
        Shape::PerCore(cores) => cores,
        Shape::Shared(_) => 1,
    };
    let runtime = TokioRuntime::new();
    let targets =
        targets.into_iter().map(|target| connect(target, cores, runtime)).collect::<Result<_, _>>()?;
    let counters = Arc::new(Counters::default());
    let observer = Arc::new(AccessLog::new(Arc::clone(&counters), log).map_err(ServeError::Log)?);
    let scaled = |limit: u32| limit.saturating_mul(scale_limits.get());
    let time = TimeLimitOptions::default().check();
    let time = time.map_err(|_| SettingError::new("limits", "the default time limits do not nest"))?;
    let rules = RuleOptions {
        directory,
        tiers: [
            tier("prime", [60, 10, 500, 15_000].map(scaled))?,
            tier("standard", [30, 5, 200, 5_000].map(scaled))?,
            tier("guest", [10, 2, 50, 5_000].map(scaled))?,
        ],
        everybody: everybody([50_000, 5_000, 7_500].map(scaled))?,
        routes: vec![Route::new(&alias, Duration::from_secs(30), targets)?],
        retry: RetryOptions::interactive().check()?,
        time,
        request: RequestLimits::default(),
    };
    let path = PathOptions {
        rules,
        ledger: MemoryLedger::new(budget),
        retry_budget: RetryBudgetOptions::default(),
        observer,
        seed: runtime.draw().below(u64::MAX),
    };
    let path = Arc::new(Path::new(runtime, path)?);
    Ok(Gateway { address, shape, grace, runtime, path, counters }.start()?)
}

fn per_minute(limit: u32, burst: u32) -> Result<Quota, SettingError> {
    Quota::sliding("minute", Unit::Request, limit, Duration::from_secs(60), burst)
}

/// The limits of one caller: any minute, any hour, the day.
fn tier(name: &str, [minute, burst, hour, day]: [u32; 4]) -> Result<QuotaGroup, SettingError> {
    let hour = Quota::sliding("hour", Unit::Request, hour, Duration::from_secs(3_600), 0)?;
    let day = Quota::calendar("day", Unit::Request, day, CalendarPeriod::Day)?;
    QuotaGroup::new(name, vec![per_minute(minute, burst)?, hour, day])
}

/// The limits of all callers together: any minute, and a smooth second.
fn everybody([minute, second, burst]: [u32; 3]) -> Result<QuotaGroup, SettingError> {
    // A rate scaled for load tests ends where a request would take less than ten nanoseconds.
    let second =
        Quota::rate("second", Unit::Request, second.min(100_000_000), Duration::from_secs(1), burst)?;
    QuotaGroup::new("everybody", vec![per_minute(minute, 0)?, second])
}

fn connect(
    target: TargetAddress,
    cores: usize,
    runtime: TokioRuntime,
) -> Result<Arc<GuardedTarget>, SettingError> {
    let TargetAddress { name, model, url, api_key, price, breaker } = target;
    let around = Surroundings::new(runtime.timer(), Arc::new(move || runtime.now().utc));
    // Certificates are read only where one will be looked at.
    let is_secure = url.starts_with("https:");
    let tls = is_secure.then(|| TlsOptions::default().check(Arc::clone(&around.date))).transpose()?;
    let client = Client::new(&ClientOptions { cores, tls, ..ClientOptions::new(url) }, &around)?;
    let key = AnthropicKey::ApiKey(Secret::new(api_key));
    let target = GuardedTarget::new(TargetOptions {
        name,
        model,
        price,
        concurrency: 1_000,
        breaker: breaker.options().check()?,
        pressure: PressureOptions::default().check()?,
        upstream: Arc::new(AnthropicTarget::new(client, &AnthropicOptions::new(key))?),
    });
    target.map(Arc::new)
}

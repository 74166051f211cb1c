//! From a handful of options to a gateway that listens.

use crate::listen::{Gateway, ListenError, Listening, Shape};
use crate::log::{AccessLog, Counters};
use crate::runtime::TokioRuntime;
use seawall_core::breaker::BreakerProfile;
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::money::{Money, Price};
use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, Unit};
use seawall_core::retry::RetryOptions;
use seawall_core::setting::SettingError;
use seawall_pipeline::{Directory, KeyError, Path, PathOptions, Route, Runtime as _, TargetOptions, Tier};
use seawall_provider::AnthropicTarget;
use seawall_provider::http1::{Endpoint, Limits, TokioTimer};
use seawall_store::DayLedger;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A model behind an address.
pub struct TargetAddress {
    /// The name in logs.
    pub name: String,
    /// What the provider calls the model.
    pub model: String,
    /// `http://host:port`.
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
    let timer = TokioTimer::new();
    let targets =
        targets.into_iter().map(|target| connect(target, cores, timer)).collect::<Result<_, _>>()?;
    let runtime = TokioRuntime::new();
    let counters = Arc::new(Counters::default());
    let observer = Arc::new(AccessLog::new(Arc::clone(&counters), log).map_err(ServeError::Log)?);
    let scaled = |limit: u32| limit.saturating_mul(scale_limits.get());
    let path = PathOptions {
        directory,
        tiers: [
            tier("prime", [60, 10, 500, 15_000].map(scaled))?,
            tier("standard", [30, 5, 200, 5_000].map(scaled))?,
            tier("guest", [10, 2, 50, 5_000].map(scaled))?,
        ],
        everybody: everybody([50_000, 5_000, 7_500].map(scaled))?,
        ledger: DayLedger::new(budget),
        route: Route::new(&alias, targets)?,
        retry: RetryOptions::interactive(),
        retry_budget: RetryBudgetOptions::default(),
        start_limit: Duration::from_secs(30),
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

fn connect(target: TargetAddress, cores: usize, timer: TokioTimer) -> Result<TargetOptions, SettingError> {
    let TargetAddress { name, model, url, api_key, price, breaker } = target;
    let limits = Limits {
        connect: Duration::from_secs(5),
        write: Duration::from_secs(10),
        // The path has the shorter limits; these only bound a connection nobody waits for any more.
        head: Duration::from_secs(60),
        gap: Duration::from_secs(60),
        body_bytes: 64 << 20,
    };
    let upstream = AnthropicTarget::new(&endpoint(&url)?, cores, api_key, limits, timer);
    Ok(TargetOptions { name, model, price, concurrency: 1_000, breaker, upstream: Arc::new(upstream) })
}

fn endpoint(url: &str) -> Result<Endpoint, SettingError> {
    let wrong = |problem: &str| SettingError::new("url", format!("{url}: {problem}"));
    let authority = url.strip_prefix("http://").ok_or_else(|| wrong("must begin with http://"))?;
    let authority = authority.trim_end_matches('/');
    if authority.contains(['/', '?', '#', '@']) {
        return Err(wrong("must be http://host:port and nothing after it"));
    }
    let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong("must name a port"))?;
    let port: u16 = port.parse().map_err(|_| wrong("must name a port from 1 to 65535"))?;
    let address = authority.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let address = address.ok_or_else(|| wrong("cannot be resolved"))?;
    if is_metadata(address.ip()) {
        return Err(wrong("is a cloud metadata address"));
    }
    Endpoint::new(host, port, address)
}

/// Where clouds keep the credentials of a machine: never a model.
fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_link_local());
            mapped || address.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{endpoint, is_metadata};

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        for (url, problem) in [
            ("127.0.0.1:80", "must begin with http://"),
            ("https://127.0.0.1:80", "must begin with http://"),
            ("http://127.0.0.1", "must name a port"),
            ("http://127.0.0.1:x", "must name a port from 1 to 65535"),
            ("http://127.0.0.1:80/v1", "must be http://host:port and nothing after it"),
            ("http://user@127.0.0.1:80", "must be http://host:port and nothing after it"),
            ("http://169.254.169.254:80", "is a cloud metadata address"),
            ("http://[::ffff:169.254.169.254]:80", "is a cloud metadata address"),
        ] {
            assert_eq!(
                endpoint(url).err().map(|error| error.to_string()),
                Some(format!("url: {url}: {problem}"))
            );
        }
        assert!(endpoint("http://127.0.0.1:7710").is_ok());
        assert!(endpoint("http://localhost:7710/").is_ok());
        assert!(is_metadata("fd00:ec2::254".parse().unwrap()) && !is_metadata("::1".parse().unwrap()));
    }
}

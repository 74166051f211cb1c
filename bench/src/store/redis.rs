//! Decisions on a Redis server, compared with the throughput of that server.
//!
//! The server has a core of its own. Each case sends over one connection, from 64 concurrent tasks.

use crate::measure::{Case, Measurement};
use crate::proxy::child::{LOAD_CORE, PinnedProcess, TEST_CORE};
use crate::report::BenchGate;
use anyhow::Context as _;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use seawall_core::money::Money;
use seawall_core::quota::{
    CalendarPeriod, GroupId, Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits,
};
use seawall_core::runtime::Runtime as _;
use seawall_gateway::TokioRuntime;
use seawall_store::redis::{Placement, RedisConnection, RedisOptions, RedisQuotas};
use seawall_store::{AdmissionRequest, AdmitDecision, CallerBudgetRequest, ClaimRequest, Quotas, Settlement};
use seawall_testkit::free_address;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const TASKS: u32 = 64;
const DECISIONS: u32 = 32_000;
const CALLERS: u64 = 10_000;

const PING: &str = "server: PING";
const BUCKET: &str = "server: a script with one bucket";
const WHOLE: &str = "server: complete decision";
const LIMITS: &str = "server: five limits";
const SETTLED: &str = "server: the same, and settlement";

/// A name, a number and its unit.
type Figure = (&'static str, f64, &'static str);

/// Goal: complete decisions per second, as a fraction of single-bucket scripts per second.
const MIN_SHARE: f64 = 0.35;

/// A plain GCRA bucket as in most rate limiters: one key, one number.
const BUCKET_SCRIPT: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + ARGV[1]
local over = tat - now - ARGV[2]
if over > 0 then return over end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return 0";

pub(crate) fn groups() -> anyhow::Result<Vec<QuotaGroup>> {
    let second = Duration::from_secs(1);
    let quotas = vec![
        Quota::sliding("minute", QuotaUnit::Request, 1_000_000, second * 60, 10)?,
        Quota::sliding("hour", QuotaUnit::Request, 50_000_000, second * 3_600, 0)?,
        Quota::sliding("tokens", QuotaUnit::Token, 1_000_000_000, second * 60, 0)?,
        Quota::rate("smooth", QuotaUnit::Request, 100_000, second, 100_000)?,
        Quota::calendar("day", QuotaUnit::Request, u32::MAX, CalendarPeriod::Day)?,
    ];
    Ok(vec![QuotaGroup::new("tier", quotas)?])
}

/// A request of a caller, with an idempotency key of its own.
pub(crate) fn with_request<T>(
    caller: u64,
    number: u64,
    whole: bool,
    take: impl FnOnce(&AdmissionRequest<'_>) -> T,
) -> T {
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) }];
    let name = format!("request-{number}");
    let lasts = Duration::from_secs(30);
    let money = CallerBudgetRequest {
        caller,
        max_cost: Money::from_nanos(1),
        cap: Money::from_dollars(1_000_000),
        timeout: lasts,
    };
    let claim = ClaimRequest { caller, key: &name, fingerprint: number, timeout: lasts, retention: lasts };
    let ask = AdmissionRequest {
        partition: caller,
        scopes: &scopes,
        units: QuotaUnits::tokens(100),
        money: whole.then_some(money),
        claim: whole.then_some(claim),
    };
    take(&ask)
}

/// A server, and the async runtime that talks to it.
pub(crate) struct RedisBench {
    runtime: Runtime,
    address: SocketAddr,
    server: PinnedProcess,
}

impl RedisBench {
    pub(crate) fn start() -> anyhow::Result<Self> {
        Command::new("taskset").args(["-pc", LOAD_CORE, &std::process::id().to_string()]).output()?;
        let address = free_address()?;
        let arguments =
            ["--port", &address.port().to_string(), "--save", "", "--appendonly", "no"].map(str::to_owned);
        let mut server = PinnedProcess::start(TEST_CORE, Path::new("redis-server"), arguments)?;
        server.wait_until_listening(address)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, address, server })
    }

    pub(crate) fn cases(&self) -> anyhow::Result<Vec<Case<'_>>> {
        Ok(vec![
            self.ping()?,
            self.bucket()?,
            self.whole(LIMITS, false, false)?,
            self.whole(WHOLE, true, false)?,
            self.whole(SETTLED, true, true)?,
        ])
    }

    pub(crate) fn evaluate(&self, measured: &[Measurement]) -> anyhow::Result<(Vec<Figure>, Vec<BenchGate>)> {
        let find = |name: &str| measured.iter().find(|case| case.name == name).context("a case is missing");
        let rate = |name: &str| find(name).map(|case| 1e9 / case.median());
        let figures = vec![
            (PING, rate(PING)?, "per second"),
            (BUCKET, rate(BUCKET)?, "per second"),
            (WHOLE, rate(WHOLE)?, "per second"),
            (SETTLED, rate(SETTLED)?, "per second"),
            ("memory of the server", self.server.resident_mib()?, "MiB"),
        ];
        let slower = find(WHOLE)?.ratio_to(find(BUCKET)?);
        let gate = BenchGate {
            name: "complete decision ÷ one-bucket script",
            figure: slower,
            bound: 1.0 / MIN_SHARE,
        };
        Ok((figures, vec![gate]))
    }

    fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    fn connection(&self) -> anyhow::Result<ConnectionManager> {
        let client = redis::Client::open(self.url())?;
        let config = ConnectionManagerConfig::new().set_response_timeout(None);
        Ok(self.runtime.block_on(ConnectionManager::new_with_config(client, config))?)
    }

    /// Runs the work this many times, spread over all tasks.
    fn spread<F>(&self, decisions: u32, work: impl Fn(u32) -> F) -> u64
    where
        F: Future<Output = u64> + Send + 'static,
    {
        self.runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..TASKS {
                tasks.spawn(work(decisions / TASKS + task / TASKS));
            }
            let mut sum = 0;
            while let Some(done) = tasks.join_next().await {
                sum += done.unwrap_or_default();
            }
            sum
        })
    }

    fn ping(&self) -> anyhow::Result<Case<'_>> {
        let connection = self.connection()?;
        let run = move |decisions: u32| {
            self.spread(decisions, |each| {
                let mut connection = connection.clone();
                async move {
                    let ping = redis::cmd("PING");
                    let mut answered = 0;
                    for _ in 0..each {
                        answered += u64::from(ping.exec_async(&mut connection).await.is_ok());
                    }
                    answered
                }
            })
        };
        Ok(Case { name: PING, decisions: DECISIONS, run: Box::new(run) })
    }

    fn bucket(&self) -> anyhow::Result<Case<'_>> {
        let mut connection = self.connection()?;
        let script = redis::Script::new(BUCKET_SCRIPT);
        self.runtime.block_on(script.prepare_invoke().load_async(&mut connection))?;
        let hash: Arc<str> = script.get_hash().into();
        let runtime = TokioRuntime::new();
        let run = move |decisions: u32| {
            self.spread(decisions, |each| {
                let (mut connection, hash) = (connection.clone(), Arc::clone(&hash));
                async move {
                    let mut answered = 0;
                    for _ in 0..each {
                        let key = format!("bucket:{{{:x}}}", runtime.draw().below(CALLERS));
                        let mut command = redis::cmd("EVALSHA");
                        command.arg(&*hash).arg(1).arg(key).arg(10).arg(10_000_000);
                        let wait: Result<i64, _> = command.query_async(&mut connection).await;
                        answered += u64::from(wait == Ok(0));
                    }
                    answered
                }
            })
        };
        Ok(Case { name: BUCKET, decisions: DECISIONS, run: Box::new(run) })
    }

    fn whole(&self, name: &'static str, whole: bool, settled: bool) -> anyhow::Result<Case<'_>> {
        let runtime = TokioRuntime::new();
        let options = RedisOptions {
            servers: vec![self.url()],
            operation_timeout: Duration::from_secs(5),
            ..RedisOptions::default()
        };
        let placed = groups()?.into_iter().map(|group| (group, Placement::Partition)).collect();
        let _inside = self.runtime.enter();
        let quotas = Arc::new(RedisQuotas::new(RedisConnection::new(&options, runtime)?, placed)?);
        let run = move |decisions: u32| {
            self.spread(decisions, |each| {
                let quotas = Arc::clone(&quotas);
                async move {
                    let mut granted = 0;
                    for _ in 0..each {
                        let (caller, number) = (runtime.draw().below(CALLERS), runtime.draw().bits());
                        granted += decide(&quotas, caller, number, (whole, settled)).await;
                    }
                    granted
                }
            })
        };
        Ok(Case { name, decisions: DECISIONS, run: Box::new(run) })
    }
}

async fn decide(quotas: &RedisQuotas<TokioRuntime>, caller: u64, number: u64, how: (bool, bool)) -> u64 {
    let (whole, settled) = how;
    let now = seawall_core::time::Now::default();
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) }];
    let name = format!("request-{number}");
    let ask = with_request(caller, number, whole, |ask| AdmissionRequest {
        scopes: &scopes,
        claim: ask.claim.map(|claim| ClaimRequest { key: &name, ..claim }),
        partition: ask.partition,
        units: ask.units,
        money: ask.money,
    });
    match quotas.reserve(&ask, now).await {
        Ok(AdmitDecision::Granted { reservation, .. }) if settled => {
            let spent =
                Settlement { units: QuotaUnits::tokens(60), cost: Money::from_nanos(1), answered: true };
            u64::from(quotas.settle(reservation, spent, now).await.is_ok())
        }
        Ok(AdmitDecision::Granted { .. }) => 1,
        Ok(_) | Err(_) => 0,
    }
}

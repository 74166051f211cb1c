//! A small shop: three callers, two targets, a day's money.

use bytes::Bytes;
use seawall_core::breaker::BreakerProfile;
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::money::{Money, Price};
use seawall_core::quota::{Quota, QuotaGroup, Unit};
use seawall_core::retry::RetryOptions;
use seawall_core::time::Timestamp;
use seawall_pipeline::{
    Directory, InboundRequest, Observer, Path, PathOptions, Record, Reply, Route, TargetOptions, Tier,
};
use seawall_provider::Target;
use seawall_sim::World;
use seawall_store::{DayBooks, DayLedger};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const PRIME: &str = "sk-prime-0000000000";
pub(crate) const GUEST: &str = "sk-guest-0000000000";

/// Keeps every record.
#[derive(Default)]
pub(crate) struct Records(Mutex<Vec<Record>>);

impl Observer for Records {
    fn settled(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) path: Arc<Path<World>>,
    pub(crate) ledger: DayLedger,
    records: Arc<Records>,
    /// When each request arrived; its place is its id.
    arrivals: Mutex<Vec<Timestamp>>,
}

/// What a caller saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Whole(Bytes),
    Stream(Vec<Bytes>),
    Rejected(seawall_pipeline::Rejection),
}

impl Shop {
    pub(crate) fn new(world: &World, strong: Arc<dyn Target>, fast: Arc<dyn Target>, cap: Money) -> Self {
        let mut directory = Directory::default();
        directory.add(PRIME, Tier::Prime).unwrap();
        directory.add(GUEST, Tier::Guest).unwrap();
        let models = [("strong-model", 3_000_000_000, strong), ("fast-model", 1_000_000_000, fast)];
        Self::with(world, directory, models, cap)
    }

    /// A shop with these callers, and models with this name and price of a million input tokens.
    pub(crate) fn with(
        world: &World,
        directory: Directory,
        [strong, fast]: [(&str, u64, Arc<dyn Target>); 2],
        cap: Money,
    ) -> Self {
        let minute = Duration::from_secs(60);
        let tier = |name: &str, limit, burst, hour| {
            let quotas = vec![
                Quota::sliding("minute", Unit::Request, limit, minute, burst).unwrap(),
                Quota::sliding("hour", Unit::Request, hour, minute * 60, 0).unwrap(),
            ];
            QuotaGroup::new(name, quotas).unwrap()
        };
        let everybody = vec![Quota::sliding("minute", Unit::Request, 50_000, minute, 0).unwrap()];
        let target =
            |name: &str, (model, input, upstream): (&str, u64, Arc<dyn Target>), breaker| TargetOptions {
                name: name.to_owned(),
                model: model.to_owned(),
                // Output costs five times as much as input.
                price: Price::per_million(Money::from_nanos(input), Money::from_nanos(input * 5)),
                concurrency: 1_000,
                breaker,
                upstream,
            };
        let targets = vec![
            target("strong", strong, BreakerProfile::Sonnet),
            target("fast", fast, BreakerProfile::Haiku),
        ];
        let records = Arc::new(Records::default());
        let ledger = DayLedger::new(cap);
        let options = PathOptions {
            directory,
            tiers: [
                tier("prime", 60_000, 10, 500_000),
                tier("standard", 30, 5, 200),
                tier("guest", 10, 2, 50),
            ],
            everybody: QuotaGroup::new("everybody", everybody).unwrap(),
            ledger: ledger.clone(),
            route: Route::new("manga", targets).unwrap(),
            retry: RetryOptions::interactive(),
            retry_budget: RetryBudgetOptions::default(),
            start_limit: Duration::from_secs(30),
            observer: Arc::<Records>::clone(&records),
            seed: 1,
        };
        let path = Arc::new(Path::new(world.clone(), options).unwrap());
        Self { world: world.clone(), path, ledger, records, arrivals: Mutex::default() }
    }

    /// Sends one request, reads the reply to its end, or gives up after so many frames.
    pub(crate) fn ask(
        &self,
        key: &str,
        body: &str,
        give_up_after: Option<usize>,
    ) -> Arc<Mutex<Option<Seen>>> {
        self.ask_at(self.world.now(), key, body, give_up_after)
    }

    /// The same, noted as having arrived at this moment.
    pub(crate) fn ask_at(
        &self,
        arrived: Timestamp,
        key: &str,
        body: &str,
        give_up_after: Option<usize>,
    ) -> Arc<Mutex<Option<Seen>>> {
        let seen = Arc::new(Mutex::new(None));
        let (path, noted) = (Arc::clone(&self.path), Arc::clone(&seen));
        let id = {
            let mut arrivals = self.arrivals.lock().unwrap();
            arrivals.push(arrived);
            arrivals.len() as u64 - 1
        };
        let inbound = InboundRequest {
            id,
            api_key: Some(key.to_owned()),
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        self.world.spawn(async move {
            let reply = match path.serve(inbound).await {
                Reply::Whole(body) => Seen::Whole(body),
                Reply::Rejected(rejection) => Seen::Rejected(rejection),
                Reply::Stream(mut stream) => {
                    let mut frames = Vec::new();
                    while give_up_after.is_none_or(|most| frames.len() < most) {
                        match stream.frame().await {
                            Some(frame) => frames.push(frame),
                            None => break,
                        }
                    }
                    Seen::Stream(frames)
                }
            };
            *noted.lock().unwrap() = Some(reply);
        });
        seen
    }

    /// Sends one request and goes away after this long, whatever has come by then.
    pub(crate) fn ask_for(&self, patience: Duration, key: &str, body: &str) {
        let (path, world) = (Arc::clone(&self.path), self.world.clone());
        let inbound = InboundRequest {
            id: 0,
            api_key: Some(key.to_owned()),
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        self.world.spawn(async move {
            let mut serving = Box::pin(async move { path.serve(inbound).await });
            let mut gone = Box::pin(world.sleep(patience));
            std::future::poll_fn(|context| {
                let _ = serving.as_mut().poll(context).is_ready();
                gone.as_mut().poll(context)
            })
            .await;
        });
    }

    /// Sends one request and runs the world until nothing happens any more.
    pub(crate) fn ask_and_wait(&self, key: &str, body: &str) -> Seen {
        let seen = self.ask(key, body, None);
        self.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.0.lock().unwrap().clone()
    }

    /// Every record with the moment its request arrived.
    pub(crate) fn arrivals(&self) -> Vec<(Timestamp, Record)> {
        let arrivals = self.arrivals.lock().unwrap();
        let at = |record: &Record| arrivals[usize::try_from(record.id).unwrap()];
        self.records().into_iter().map(|record| (at(&record), record)).collect()
    }

    pub(crate) fn books(&self) -> DayBooks {
        self.ledger.day(seawall_pipeline::Runtime::now(&self.world).utc)
    }
}

pub(crate) fn body(stream: bool) -> String {
    format!(
        r#"{{"model":"manga","max_tokens":100,"stream":{stream},"messages":[{{"role":"user","content":"おすすめは？"}}]}}"#
    )
}

//! The Redis stores in the conformance suite.

use super::server::Server;
use super::world::World;
use crate::conformance::{self, Drive, Effort};
use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaScope};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_store::redis::{
    Placement, RedisAnswers, RedisBoard, RedisClaims, RedisProbes, RedisQuotas, RedisSessions,
};
use seawall_store::{
    AdmissionRequest, AdmitDecision, CheckedLimits, QuotaReceipt, Quotas, Settlement, StoreFuture,
};
use tokio::runtime::Runtime;

/// Each case starts with a flushed server and uses the network: at most a quarter of the cases of the memory stores.
fn effort() -> Effort {
    let Effort { cases, threads } = Effort::default();
    Effort { cases: cases.div_ceil(4), threads }
}

struct OnServer {
    server: Server,
    runtime: Runtime,
    world: World,
}

impl OnServer {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(Server::start());
        let world = runtime.block_on(async { World::new() });
        Self { server, runtime, world }
    }

    fn link(&self) -> seawall_store::redis::RedisConnection<World> {
        self.server.command("FLUSHALL");
        let _inside = self.runtime.enter();
        self.server.link(&self.world)
    }
}

impl Drive for OnServer {
    fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.handle().block_on(work)
    }
}

/// The suite's callers share a group that is decided together with their own, so all of them get the same partition.
struct OneHome(RedisQuotas<World>);

impl Quotas for OneHome {
    fn reserve<'a>(&'a self, ask: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::boxed(async move {
            self.0.reserve(&AdmissionRequest { partition: 1, ..ask.clone() }, now).await
        })
    }

    fn settle(&self, reservation: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::boxed(async move { self.0.settle(reservation, spent, now).await })
    }

    fn view<'a>(&'a self, _: u64, scopes: &'a [QuotaScope], now: Now) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::boxed(async move { self.0.view(1, scopes, now).await })
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        self.0.check_limits(groups)
    }

    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        self.0.change_limits(limits, now)
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        self.0.group(name)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        self.0.limit_name(limit)
    }
}

#[test]
fn quotas_on_a_server_conform() {
    let place = OnServer::start();
    let make = |groups: Vec<QuotaGroup>| {
        let groups = groups.into_iter().map(|group| (group, Placement::Partition)).collect();
        OneHome(RedisQuotas::new(place.link(), groups).unwrap().with_manual_clock())
    };
    conformance::quotas(effort(), &place, make).unwrap();
}

#[test]
fn sessions_on_a_server_conform() {
    let place = OnServer::start();
    conformance::sessions(effort(), &place, || RedisSessions::new(place.link()).with_manual_clock()).unwrap();
}

#[test]
fn answers_on_a_server_conform() {
    let place = OnServer::start();
    let make = |ages, options| RedisAnswers::new(place.link(), ages, options).unwrap();
    conformance::answers(effort(), &place, make).unwrap();
}

#[test]
fn the_board_on_a_server_conforms() {
    let place = OnServer::start();
    conformance::board(effort(), &place, || RedisBoard::new(place.link()).with_manual_clock()).unwrap();
}

#[test]
fn probes_on_a_server_conform() {
    let place = OnServer::start();
    conformance::probes(effort(), &place, || RedisProbes::new(place.link()).with_manual_clock()).unwrap();
}

#[test]
fn claims_on_a_server_conform() {
    let place = OnServer::start();
    conformance::claims(effort(), &place, || RedisClaims::new(place.link()).with_manual_clock()).unwrap();
}

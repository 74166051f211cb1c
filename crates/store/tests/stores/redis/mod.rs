//! Stores on real servers, each on a free port of this machine.

mod agree;
mod conform;
mod fleet;
mod keys;
mod lost;
mod outage;
mod proxy;
mod sentinel;
mod server;
mod world;

use seawall_core::quota::{GroupId, Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits};
use seawall_store::redis::{Placement, RedisConnection, RedisQuotas};
use seawall_store::{AdmissionRequest, AdmitDecision, Quotas, StoreError};
use std::time::Duration;
use world::World;

/// A group with one limit.
fn group(name: &str, quota: Quota) -> QuotaGroup {
    QuotaGroup::new(name, vec![quota]).unwrap()
}

/// A limit of this many requests in any minute.
fn minute(limit: u32) -> QuotaGroup {
    group("tier", Quota::sliding("minute", QuotaUnit::Request, limit, Duration::from_secs(60), 0).unwrap())
}

fn at_home(link: RedisConnection<World>, groups: Vec<QuotaGroup>) -> RedisQuotas<World> {
    let placed = groups.into_iter().map(|group| (group, Placement::Partition)).collect();
    RedisQuotas::new(link, placed).unwrap()
}

/// One request of a caller in the first group.
async fn try_one<Q: Quotas>(quotas: &Q, caller: u64, world: &World) -> Result<AdmitDecision, StoreError> {
    use seawall_core::runtime::Runtime;
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) }];
    let ask = AdmissionRequest {
        partition: caller,
        scopes: &scopes,
        units: QuotaUnits::REQUEST,
        money: None,
        claim: None,
    };
    quotas.reserve(&ask, world.now()).await
}

async fn is_granted<Q: Quotas>(quotas: &Q, caller: u64, world: &World) -> bool {
    matches!(try_one(quotas, caller, world).await.unwrap(), AdmitDecision::Granted { .. })
}

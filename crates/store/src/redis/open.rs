//! Opens the stores of a fleet in Redis.

use super::board::RedisBoard;
use super::connection::{RedisConnection, RedisOptions};
use super::quotas::RedisQuotas;
use crate::local_fallback::{FleetStores, SharedQuotas, SharedQuotasOptions};
use crate::open::SharedStoreOptions;
use crate::quotas::Placement;
use seawall_core::quota::QuotaGroup;
use seawall_core::runtime::Runtime;
use seawall_core::setting::SettingError;
use std::sync::Arc;

pub(crate) fn open<R: Runtime>(
    options: SharedStoreOptions,
    groups: &[(QuotaGroup, Placement)],
    seed: u64,
    runtime: R,
) -> Result<FleetStores, SettingError> {
    let connection = RedisConnection::new(&redis_options(&options), runtime.clone())?;
    let quotas = RedisQuotas::new(connection.clone(), groups.to_vec())?;
    let fallback = SharedQuotasOptions {
        node: options.node,
        operation_timeout: options.operation_timeout,
        fleet_size: options.fleet_size,
        seed,
    };
    let groups = groups.iter().map(|(group, _)| group.clone()).collect();
    let quotas = SharedQuotas::new(quotas, groups, fallback, runtime, options.observer)?;
    Ok(FleetStores { quotas: Arc::new(quotas), board: Arc::new(RedisBoard::new(connection)) })
}

/// Checks the options without waiting for a connection.
pub(crate) fn check<R: Runtime>(options: &SharedStoreOptions, runtime: R) -> Result<(), SettingError> {
    RedisConnection::new(&redis_options(options), runtime).map(drop)
}

fn redis_options(options: &SharedStoreOptions) -> RedisOptions {
    RedisOptions {
        servers: vec![options.url.clone()],
        ca_certificates: options.ca_certificates.clone(),
        cluster: options.cluster,
        prefix: options.prefix.clone(),
        operation_timeout: options.operation_timeout,
        ..RedisOptions::default()
    }
}

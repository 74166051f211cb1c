//! A shared bucket in Redis or Valkey.
//!
//! One number per account and region is kept: the time at which the bucket will be full again. A script moves it by one
//! interval per token, in the server's time, so that clocks of processes do not matter. A caller whose turn is in the
//! future is told how long to wait; turns are given in the order of arrival.

use crate::bucket::BucketKey;
use crate::shared_bucket::{SharedBucket, SharedBucketDecision, SharedBucketError, SharedBucketFuture};
use redis::Script;
use redis::aio::ConnectionManager;
use seawall_core::waiting::WaitingSettings;
use std::time::Duration;

/// Microseconds; doubles hold them exactly until the year 2255.
const SCRIPT: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, capacity, max_wait = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full_at = tonumber(redis.call('GET', KEYS[1]) or '0')
if full_at < now then full_at = now end
local next_full_at = full_at + interval
local wait = next_full_at - interval * capacity - now
if wait < 0 then wait = 0 end
if wait > max_wait then return {0, wait} end
redis.call('SET', KEYS[1], string.format('%.0f', next_full_at), 'PX', math.ceil((next_full_at - now) / 1000) + 1000)
return {1, wait}
";

/// A bucket in Redis or Valkey. Clones share the connection.
#[derive(Clone)]
pub struct RedisBucket {
    connection: ConnectionManager,
    script: Script,
    prefix: String,
}

impl RedisBucket {
    /// A bucket on this connection, whose keys begin with `prefix`.
    #[must_use]
    pub fn new(connection: ConnectionManager, prefix: impl Into<String>) -> Self {
        Self { connection, script: Script::new(SCRIPT), prefix: prefix.into() }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << 52)
}

impl SharedBucket for RedisBucket {
    fn reserve<'a>(
        &'a self,
        key: &'a BucketKey,
        settings: WaitingSettings,
        max_wait: Duration,
    ) -> SharedBucketFuture<'a> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let name = format!("{}:{{{}/{}}}", self.prefix, key.account(), key.region());
            let mut invocation = self.script.key(name);
            invocation.arg(micros(settings.interval()).max(1)).arg(settings.capacity()).arg(micros(max_wait));
            let answer: Result<(u8, u64), _> = invocation.invoke_async(&mut connection).await;
            let (granted, wait) = answer.map_err(|error| SharedBucketError(error.to_string()))?;
            let wait = Duration::from_micros(wait);
            Ok(if granted == 1 {
                SharedBucketDecision::Granted { wait }
            } else {
                SharedBucketDecision::Refused { would_wait: wait }
            })
        })
    }
}

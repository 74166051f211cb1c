//! Merges what nodes admitted while the store was unreachable.

use super::arguments::{TouchedLimits, sort_scopes, with_placement};
use super::{RedisQuotas, ScriptRules};
use crate::local_fallback::{FallbackReport, SharedQuotaStore};
use crate::quotas::Placement;
use crate::redis::connection::parse_integers;
use crate::redis::key;
use crate::redis::packing::ScriptArguments;
use crate::{StoreError, StoreFuture};
use redis::Value;
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;

/// Returns the store's incarnation, and creates one where it is missing; it is renewed with every read.
pub(super) const INCARNATION: &str = "
local life = redis.call('GET', KEYS[1])
if not life or #life ~= 12 then life = ARGV[1] end
redis.call('SET', KEYS[1], life, 'PX', 86400000)
return life";

impl<R: Runtime> SharedQuotaStore for RedisQuotas<R> {
    fn incarnation(&self, _now: Now) -> StoreFuture<'_, u64> {
        StoreFuture::boxed(self.read_incarnation())
    }

    fn merge<'a>(&'a self, report: &'a FallbackReport, now: Now) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(self.merge_report(report, now))
    }

    fn return_leases(&self, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::boxed(async move {
            self.return_expired_chunks(now).await;
            Ok(())
        })
    }
}

impl<R: Runtime> RedisQuotas<R> {
    async fn read_incarnation(&self) -> Result<u64, StoreError> {
        self.connection.reconnect_if_lost();
        let proposed = format!("{:012x}", self.connection.runtime().draw().bits() >> 16);
        let keys = [format!("{}:incarnation", key::VERSION)];
        let response = self.connection.run(&self.scripts.incarnation, &keys, &[proposed.as_bytes()]).await?;
        let Value::BulkString(incarnation) = response else { return Err(super::unexpected_response()) };
        let incarnation = std::str::from_utf8(&incarnation)
            .ok()
            .and_then(|incarnation| u64::from_str_radix(incarnation, 16).ok());
        incarnation.ok_or_else(super::unexpected_response)
    }

    async fn merge_report(&self, report: &FallbackReport, now: Now) -> Result<(), StoreError> {
        let rules = self.rules();
        let mut partition = TouchedLimits::default();
        let mut entries = Vec::new();
        let mut fleet: Vec<(TouchedLimits, Vec<MergeEntry>)> = Vec::new();
        for admitted in &report.admitted {
            // A group that was removed meanwhile has no limits to charge.
            let Ok(scopes) = sort_scopes(&admitted.scopes, &rules) else { continue };
            let age = admitted.age;
            for scope in &with_placement(&scopes, &rules, Placement::Partition) {
                let record = partition.record(report.partition, scope.key.0);
                each_limit(scope, &rules, admitted, |id, shape, units| {
                    entries.push(MergeEntry { record, id, shape, units, age });
                });
            }
            for scope in &with_placement(&scopes, &rules, Placement::Fleet) {
                let mut own = Vec::new();
                each_limit(scope, &rules, admitted, |id, shape, units| {
                    own.push(MergeEntry { record: 1, id, shape, units, age });
                });
                fleet.push((TouchedLimits::of_fleet(scope, &rules), own));
            }
            if let Some((caller, money)) = admitted.money {
                let record = partition.record(report.partition, caller);
                entries.push(MergeEntry { record, id: 0, shape: 0, units: money.as_nanos(), age });
            }
        }
        self.merge_records(
            report,
            &partition.keys,
            &key::fallback_report(report.partition, report.node.0),
            &entries,
            now,
        )
        .await?;
        let mut done: Vec<&String> = Vec::new();
        for (touched, _) in &fleet {
            let Some(record) = touched.keys.first() else { continue };
            if done.contains(&record) {
                continue;
            }
            let same = fleet.iter().filter(|(other, _)| other.keys.first() == Some(record));
            let entries: Vec<MergeEntry> = same.flat_map(|(_, entries)| entries.iter().copied()).collect();
            let report_key = format!("{record}:{:x}", report.node.0);
            self.merge_records(report, std::slice::from_ref(record), &report_key, &entries, now).await?;
            done.push(record);
        }
        Ok(())
    }
}

/// Units of one limit at one time.
#[derive(Clone, Copy)]
struct MergeEntry {
    record: u64,
    id: u64,
    shape: u64,
    units: u64,
    age: std::time::Duration,
}

fn each_limit(
    scope: &seawall_core::quota::QuotaScope,
    rules: &ScriptRules,
    admitted: &crate::local_fallback::AdmittedUsage,
    mut each: impl FnMut(u64, u64, u64),
) {
    let Some(group) = rules.group(scope) else { return };
    for rule in &group.limits {
        let units = rule.units(admitted.cost);
        if units > 0 {
            each(rule.id, rule.shape, units.into());
        }
    }
}

impl<R: Runtime> RedisQuotas<R> {
    async fn merge_records(
        &self,
        report: &FallbackReport,
        records: &[String],
        report_key: &str,
        entries: &[MergeEntry],
        now: Now,
    ) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut arguments = ScriptArguments::new();
        arguments.time(self.given(now));
        arguments
            .number(report.incarnation & LOW_48)
            .number(report.sequence & LOW_48)
            .number(records.len() as u64);
        for entry in entries {
            arguments.number(entry.record).number(entry.id).number(entry.shape);
            arguments.number(entry.units).span(entry.age);
        }
        let mut keys = records.to_vec();
        keys.push(report_key.to_owned());
        let response = self.connection.run(&self.scripts.merge, &keys, &[&arguments.finish()]).await?;
        parse_integers(&response).map(|_| ())
    }
}

const LOW_48: u64 = (1 << 48) - 1;

//! Merges what nodes admitted while the store was unreachable.

use super::ask::{MOST_SCOPES, Touched, ordered, placed};
use super::rules::Placement;
use super::{RedisQuotas, Rules};
use crate::StoreError;
use crate::away::{AwayReport, SharedStore};
use crate::redis::key;
use crate::redis::link::numbers;
use crate::redis::packing::Packing;
use crate::redis::script::StoreScript;
use arrayvec::ArrayVec;
use redis::Value;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;

/// Returns the store's incarnation, and creates one where it is missing; it is renewed with every read.
const LIFE: &str = "
local life = redis.call('GET', KEYS[1])
if not life or #life ~= 12 then life = ARGV[1] end
redis.call('SET', KEYS[1], life, 'PX', 86400000)
return life";

impl<R: Runtime> SharedStore for RedisQuotas<R> {
    async fn life(&self, _now: Now) -> Result<u64, StoreError> {
        self.link.mend();
        let proposed = format!("{:012x}", self.link.runtime().draw().bits() >> 16);
        let script = StoreScript::new(LIFE);
        let keys = [format!("{}:life", key::VERSION)];
        let answer = self.link.run(&script, &keys, &[proposed.as_bytes()]).await?;
        let Value::BulkString(life) = answer else { return Err(super::strange()) };
        let life = std::str::from_utf8(&life).ok().and_then(|life| u64::from_str_radix(life, 16).ok());
        life.ok_or_else(super::strange)
    }

    async fn merge(&self, report: &AwayReport, now: Now) -> Result<(), StoreError> {
        let rules = self.rules();
        let mut home = Touched::default();
        let mut entries = Vec::new();
        let mut fleet: Vec<(Touched, Vec<Entry>)> = Vec::new();
        for admitted in &report.admitted {
            // A group that was removed meanwhile has no limits to charge.
            let Ok(scopes) = ordered(&admitted.scopes, &rules) else { continue };
            let ago = admitted.ago;
            for scope in &placed(&scopes, &rules, Placement::Home) {
                let record = home.record(report.home, scope.key.0);
                each_limit(scope, &rules, admitted, |id, shape, units| {
                    entries.push(Entry { record, id, shape, units, ago });
                });
            }
            for scope in &placed(&scopes, &rules, Placement::Fleet) {
                let mut own = Vec::new();
                each_limit(scope, &rules, admitted, |id, shape, units| {
                    own.push(Entry { record: 1, id, shape, units, ago });
                });
                fleet.push((Touched::of_fleet(scope, &rules), own));
            }
            if let Some((caller, money)) = admitted.money {
                let record = home.record(report.home, caller);
                entries.push(Entry { record, id: 0, shape: 0, units: money.as_nanos(), ago });
            }
        }
        self.book(report, &home.keys, &key::told(report.home, report.node.0), &entries, now).await?;
        let mut done: ArrayVec<String, { 2 * MOST_SCOPES }> = ArrayVec::new();
        for (touched, _) in &fleet {
            let Some(record) = touched.keys.first() else { continue };
            if done.contains(record) {
                continue;
            }
            let same = fleet.iter().filter(|(other, _)| other.keys.first() == Some(record));
            let entries: Vec<Entry> = same.flat_map(|(_, entries)| entries.iter().copied()).collect();
            let told = format!("{record}:{:x}", report.node.0);
            self.book(report, std::slice::from_ref(record), &told, &entries, now).await?;
            let _ = done.try_push(record.clone());
        }
        Ok(())
    }
}

/// Units of one limit at one time.
#[derive(Clone, Copy)]
struct Entry {
    record: u64,
    id: u64,
    shape: u64,
    units: u64,
    ago: std::time::Duration,
}

fn each_limit(
    scope: &seawall_core::quota::Scope,
    rules: &Rules,
    admitted: &crate::away::Admitted,
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
    async fn book(
        &self,
        report: &AwayReport,
        records: &[String],
        told: &str,
        entries: &[Entry],
        now: Now,
    ) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut packing = Packing::new();
        packing.time(self.given(now));
        packing.number(report.life & LOW_48).number(report.sequence & LOW_48).number(records.len() as u64);
        for entry in entries {
            packing.number(entry.record).number(entry.id).number(entry.shape);
            packing.number(entry.units).span(entry.ago);
        }
        let mut keys = records.to_vec();
        keys.push(told.to_owned());
        let answer = self.link.run(&self.scripts.merge, &keys, &[&packing.finish()]).await?;
        numbers(&answer).map(|_| ())
    }
}

const LOW_48: u64 = (1 << 48) - 1;

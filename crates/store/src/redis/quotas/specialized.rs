//! Generates specialised scripts for a decision over one record with known limits.
//!
//! **What it does.** The usual decision reads one record, computes and writes it back. A script with the limits inlined
//! as constants does that in half the time of one that iterates over tables. It is followed by the general script for
//! all other cases, which decides anew in the same step.
//!
//! **What it does not do.** It generates no more than [`MAX_SCRIPTS`] scripts for one set of limits, because servers
//! keep each of them in their script cache.

use super::arguments::{GroupIds, TouchedLimits};
use super::rules::{LimitRule, LimitTime};
use crate::lock;
use crate::redis::script::StoreScript;
use seawall_core::quota::QuotaUnit;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// The most scripts for one set of limits. Further combinations use the general script.
const MAX_SCRIPTS: usize = 64;
/// The most limits in one specialised script, because a Lua function can have 200 local variables.
const MAX_INLINED_LIMITS: usize = 12;
const DAY: u64 = 86_400_000_000;
const HOUR: u64 = DAY / 24;

/// The operation that a script implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ScriptOperation {
    Reserve,
    Settle,
}

/// The variant of a script: its operation, whether it handles money and a claim, and whether the time is passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScriptVariant {
    pub(super) operation: ScriptOperation,
    pub(super) money: bool,
    pub(super) claim: bool,
    pub(super) manual_clock: bool,
}

/// The scripts generated so far for one set of limits, by the groups they handle.
#[derive(Debug, Default)]
pub(super) struct SpecializedScripts(Mutex<BTreeMap<(GroupIds, ScriptVariant), Arc<StoreScript>>>);

impl SpecializedScripts {
    /// Returns the script for a decision over these limits, if there is one.
    pub(super) fn script(&self, touched: &TouchedLimits, variant: ScriptVariant) -> Option<Arc<StoreScript>> {
        if touched.keys.len() != 1 || !(1..=MAX_INLINED_LIMITS).contains(&touched.limits.len()) {
            return None;
        }
        let key = (touched.groups.clone(), variant);
        let mut scripts = lock(&self.0);
        if let Some(script) = scripts.get(&key) {
            return Some(Arc::clone(script));
        }
        if scripts.len() >= MAX_SCRIPTS {
            return None;
        }
        let limits: Vec<LimitRule> = touched.limits.iter().map(|(_, rule)| *rule).collect();
        let (specialized, general) = match variant.operation {
            ScriptOperation::Reserve => (reserve_text(&limits, variant), general_reserve()),
            ScriptOperation::Settle => (settle_text(&limits, variant), general_settle()),
        };
        let script = Arc::new(StoreScript::new(&(specialized + &general.text)));
        scripts.insert(key, Arc::clone(&script));
        Some(script)
    }
}

/// The general script, which handles every case.
pub(super) fn general_reserve() -> StoreScript {
    StoreScript::over_records(include_str!("../lua/reserve.lua"), include_str!("../lua/repair.lua"))
}

pub(super) fn general_settle() -> StoreScript {
    StoreScript::over_records(include_str!("../lua/settle.lua"), include_str!("../lua/guard.lua"))
}

fn settle_text(limits: &[LimitRule], variant: ScriptVariant) -> String {
    let layout = Layout::new(limits);
    let mut text = fragment("settle begin").to_owned();
    if !variant.manual_clock {
        text += fragment("clock");
    }
    text += &layout.put_names(&fragment("settle load").replace("$lengths", &layout.lengths));
    let mut sliding: Vec<u32> = Vec::new();
    for (index, rule) in (1..).zip(limits) {
        // The byte offset of the limit's mark in the argument.
        let mark = 72 + 22 * (index - 1) + 16;
        let own = match rule.time() {
            LimitTime::Sliding { .. } => {
                let own = fragment("settle sliding").replace("$before", &lengths(&sliding));
                sliding.push(index);
                own
            }
            LimitTime::Rate { unit } => {
                let own = fragment("settle rate").replace("$units", units(rule));
                own.replace("$unit", &unit.to_string())
            }
            LimitTime::Day | LimitTime::Month => fragment("settle calendar").to_owned(),
        };
        let own = own.replace("$units", units(rule)).replace("$mark", &mark.to_string());
        text += &own.replace("$i", &index.to_string());
    }
    if variant.money {
        text += fragment("settle money");
    }
    if variant.claim {
        text += fragment("settle claim");
    }
    text += &layout.put_names(fragment("settle end"));
    text.replace("$format", &layout.format).replace("$length", &layout.length.to_string())
}

fn reserve_text(limits: &[LimitRule], variant: ScriptVariant) -> String {
    let layout = Layout::new(limits);
    let mut text = fragment("begin").to_owned();
    if !variant.manual_clock {
        text += fragment("clock");
    }
    if variant.money || limits.iter().any(|rule| rule.time() == LimitTime::Day) {
        text += fragment("today");
    }
    if limits.iter().any(|rule| rule.time() == LimitTime::Month) {
        text += fragment("month");
    }
    let load = fragment("load").replace("$lengths", &layout.lengths);
    text += &layout.put_names(&load.replace("$zeros", &layout.zeros));
    let mut sliding: Vec<u32> = Vec::new();
    for (index, rule) in (1..).zip(limits) {
        text += &limit(rule, index, &sliding);
        if matches!(rule.time(), LimitTime::Sliding { .. }) {
            sliding.push(index);
        }
    }
    if variant.money {
        text += fragment("money");
    }
    if variant.claim {
        text += fragment("claim");
    }
    if sliding.is_empty() {
        text += fragment("rest");
    } else {
        text += &fragment("moved").replace("$moved", &named(&sliding, "b", " or "));
        for index in &sliding {
            text += &fragment("older").replace("$i", &index.to_string());
        }
        text += fragment("still");
    }
    text += &end(limits, &layout, variant);
    text.replace("$format", &layout.format).replace("$length", &layout.length.to_string())
}

/// Generates the decision over one limit; `sliding` are the preceding limits that have slices.
fn limit(rule: &LimitRule, index: u32, sliding: &[u32]) -> String {
    let units = units(rule);
    let text = match rule.time() {
        LimitTime::Sliding { slice } => {
            let before = lengths(sliding);
            fragment("sliding").replace("$slice", &slice.to_string()).replace("$before", &before)
        }
        LimitTime::Rate { unit } => {
            let all = unit.saturating_mul(u64::from(rule.capacity)).to_string();
            let text = fragment("rate").replace("$units", units).replace("$all", &all);
            text.replace("$unit", &unit.to_string())
        }
        LimitTime::Day => fragment("calendar").replace("$period", "today"),
        LimitTime::Month => fragment("calendar").replace("$period", "month"),
    };
    let text = text.replace("$units", units).replace("$capacity", &rule.capacity.to_string());
    text.replace("$i", &index.to_string())
}

fn units(rule: &LimitRule) -> &'static str {
    match rule.unit {
        QuotaUnit::Request => "requests",
        QuotaUnit::Token => "tokens",
    }
}

fn end(limits: &[LimitRule], layout: &Layout, variant: ScriptVariant) -> String {
    let money = if variant.money { DAY + HOUR } else { 0 };
    let lasts = limits.iter().map(LimitRule::retention).max().unwrap_or(0).max(money);
    // The record is kept longer than necessary, so that not every decision has to extend its expiry.
    let retention = lasts + lasts / 64;
    let px = retention.div_ceil(1_000) + if variant.manual_clock { HOUR / 1_000 } else { 0 };
    let (hold, more, held) =
        if variant.money { ("I6I7I7", " + 1", ", number, max_cost, mono + lasts") } else { ("", "", "") };
    let end = fragment("end").replace("$lasts", &lasts.to_string()).replace("$kept", &retention.to_string());
    let end = end.replace("$px", &px.to_string()).replace("$held", held).replace("$hold", hold);
    layout.put_names(&end.replace("$more", more))
}

/// A Lua expression for the length of the older slices of these limits, to be appended to a sum.
fn lengths(sliding: &[u32]) -> String {
    if sliding.is_empty() { String::new() } else { format!(" + 11 * ({})", named(sliding, "o", " + ")) }
}

fn named(indexes: &[u32], letter: &str, between: &str) -> String {
    let names: Vec<String> = indexes.iter().map(|index| format!("{letter}{index}")).collect();
    names.join(between)
}

/// The byte layout of a record with exactly these limits; `lua/common.lua` describes the general layout.
#[derive(Default)]
struct Layout {
    /// The header of such a record as a Lua literal, and its length.
    name: String,
    named: usize,
    /// The length of everything except holds and older slices.
    length: usize,
    format: String,
    names: String,
    zeros: String,
    /// The length of the older slices, as a Lua expression.
    lengths: String,
}

impl Layout {
    fn new(limits: &[LimitRule]) -> Self {
        let mut layout = Self { format: ">I7I4I7I7I2".into(), length: 27, ..Self::default() };
        let mut name = vec![1, u8::try_from(limits.len()).unwrap_or(u8::MAX)];
        let mut older = Vec::new();
        for (index, rule) in (1..).zip(limits) {
            let index: u32 = index;
            name.extend_from_slice(&rule.id.to_be_bytes()[2..]);
            name.extend_from_slice(&rule.shape.to_be_bytes()[1..]);
            let (format, length, names) = match rule.time() {
                LimitTime::Sliding { .. } => {
                    older.push(index);
                    ("I7I4I7I2", 20, &["n", "u", "s", "o"][..])
                }
                LimitTime::Rate { .. } => ("I7", 7, &["t"][..]),
                LimitTime::Day | LimitTime::Month => ("I4I4", 8, &["n", "u"][..]),
            };
            layout.format += format;
            layout.length += length;
            for name in names {
                let _ = write!(layout.names, ", {name}{index}");
                layout.zeros += ", 0";
            }
        }
        layout.named = name.len();
        layout.length += layout.named;
        layout.name = literal(&name);
        layout.lengths = lengths(&older);
        layout
    }
}

impl Layout {
    fn put_names(&self, text: &str) -> String {
        let text = text.replace("$names", &self.names).replace("$named", &self.named.to_string());
        text.replace("$name", &self.name)
    }
}

/// Formats bytes as a Lua string literal.
fn literal(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for byte in bytes {
        let _ = write!(text, "\\{byte:03}");
    }
    text.push('\'');
    text
}

/// Returns one of the fragments that scripts are assembled from.
fn fragment(name: &str) -> &'static str {
    let parts = include_str!("../lua/specialized.lua").split("--# ");
    parts.skip(1).find_map(|part| part.strip_prefix(name)?.strip_prefix('\n')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{
        LimitRule, MAX_INLINED_LIMITS, MAX_SCRIPTS, ScriptOperation, ScriptVariant, SpecializedScripts,
        TouchedLimits, fragment, reserve_text, settle_text,
    };
    use seawall_core::quota::{GroupId, LimitId, QuotaUnit, QuotaUnits};

    const SHAPES: [u64; 4] = [4_000_000, 200_001, 2, 6];

    fn rule(index: usize) -> LimitRule {
        let limit = LimitId { group: GroupId::from_index(0), quota: index };
        let unit = if index.is_multiple_of(3) { QuotaUnit::Token } else { QuotaUnit::Request };
        LimitRule { limit, id: index as u64 + 1, shape: SHAPES[index % 4], capacity: 10, unit }
    }

    fn touched(group: u16, limits: usize) -> TouchedLimits {
        let limits = (0..limits).map(|index| (1, rule(index))).collect();
        let mut touched = TouchedLimits::default();
        touched.keys.push("key".into());
        touched.limits = limits;
        touched.groups.push(GroupId::from_index(group));
        touched
    }

    #[test]
    fn every_fragment_exists_and_every_placeholder_is_filled_in() {
        for name in
            ["clock", "today", "month", "load", "sliding", "rate", "calendar", "money", "claim", "moved"]
        {
            assert!(fragment(name).ends_with('\n'), "{name}");
        }
        for limits in 1..=MAX_INLINED_LIMITS {
            for bits in 0..8 {
                let (money, claim, manual_clock) = (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
                let variant =
                    ScriptVariant { operation: ScriptOperation::Reserve, money, claim, manual_clock };
                let rules: Vec<LimitRule> = (0..limits).map(rule).collect();
                let text = reserve_text(&rules, variant);
                assert!(!text.contains('$') && !text.contains("--#"), "{text}");
                assert_eq!(text.contains("'NX'"), variant.claim);
                assert_eq!(text.contains("held + max_cost"), variant.money);
                assert_eq!(text.contains("'TIME'"), !variant.manual_clock);
                assert_eq!(text.contains("local month"), limits > 3);
                let text = settle_text(&rules, variant);
                assert!(!text.contains('$') && !text.contains("--#"), "{text}");
                assert_eq!(text.contains("'DEL'"), variant.claim);
                assert_eq!(text.contains("posted + actual_cost"), variant.money);
                assert_eq!(text.contains("'TIME'"), !variant.manual_clock);
            }
        }
    }

    #[test]
    fn only_one_record_and_so_many_limits_and_texts() {
        let operation = ScriptOperation::Reserve;
        let variant = ScriptVariant { operation, money: false, claim: false, manual_clock: false };
        let scripts = SpecializedScripts::default();
        assert!(scripts.script(&touched(0, 0), variant).is_none());
        assert!(scripts.script(&touched(0, MAX_INLINED_LIMITS + 1), variant).is_none());
        let mut two = touched(0, 1);
        two.keys.push("other".into());
        assert!(scripts.script(&two, variant).is_none());
        let first = scripts.script(&touched(0, MAX_INLINED_LIMITS), variant).unwrap();
        for group in 1..MAX_SCRIPTS {
            assert!(scripts.script(&touched(u16::try_from(group).unwrap(), 1), variant).is_some());
        }
        assert!(scripts.script(&touched(u16::MAX, 1), variant).is_none());
        assert_eq!(scripts.script(&touched(0, MAX_INLINED_LIMITS), variant).unwrap().hash, first.hash);
    }

    #[test]
    fn marks_are_where_a_script_would_take_from() {
        // 29 February 2028, one second into the day; the clocks differ by one day.
        let utc = 1_835_395_201_000_000;
        let mono = utc - 86_400_000_000;
        let marks: Vec<u64> =
            (0..4).map(|index| rule(index).mark(QuotaUnits { requests: 3, tokens: 5 }, mono, utc)).collect();
        assert_eq!(marks, [mono / 1_000_000, mono + 150_000, 21_243, 2_028 * 12 + 2]);
        let lasts: Vec<u64> = (0..4).map(|index| rule(index).retention()).collect();
        assert_eq!(lasts, [62_000_000, 1_500_000, 172_800_000_000, 2_764_800_000_000]);
    }
}

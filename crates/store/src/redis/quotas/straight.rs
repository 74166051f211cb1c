//! Generates specialised scripts for a decision over one record with known limits.
//!
//! **What it does.** The usual decision reads one record, computes and writes it back. A script with the limits inlined
//! as constants does that in half the time of one that iterates over tables. It is followed by the general script for
//! all other cases, which decides anew in the same step.
//!
//! **What it does not do.** It generates no more than [`MOST_TEXTS`] scripts for one set of limits, because servers
//! keep each of them in their script cache.

use super::ask::{MOST_SCOPES, Touched};
use super::rules::{LimitRule, LimitTime};
use crate::lock;
use crate::redis::script::StoreScript;
use arrayvec::ArrayVec;
use seawall_core::quota::{GroupId, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

/// The most scripts for one set of limits. Further combinations use the general script.
const MOST_TEXTS: usize = 64;
/// The most limits in one specialised script, because a Lua function can have 200 local variables.
const MOST_STRAIGHT: usize = 12;
const DAY: u64 = 86_400_000_000;
const HOUR: u64 = DAY / 24;

/// The operation that a script implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Reserve,
    Settle,
}

/// The variant of a script: its operation, whether it handles money and a claim, and whether the time is passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    pub(super) purpose: Purpose,
    pub(super) money: bool,
    pub(super) claim: bool,
    pub(super) stepped: bool,
}

type Groups = ArrayVec<GroupId, MOST_SCOPES>;

/// The scripts generated so far for one set of limits, by the groups they handle.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<BTreeMap<(Groups, Wanted), Arc<StoreScript>>>);

impl Texts {
    /// Returns the script for a decision over these limits, if there is one.
    pub(super) fn script(&self, touched: &Touched, wanted: Wanted) -> Option<Arc<StoreScript>> {
        if touched.keys.len() != 1 || !(1..=MOST_STRAIGHT).contains(&touched.limits.len()) {
            return None;
        }
        let key = (touched.groups.clone(), wanted);
        let mut texts = lock(&self.0);
        if let Some(script) = texts.get(&key) {
            return Some(Arc::clone(script));
        }
        if texts.len() >= MOST_TEXTS {
            return None;
        }
        let limits: Vec<LimitRule> = touched.limits.iter().map(|(_, rule)| *rule).collect();
        let (straight, general) = match wanted.purpose {
            Purpose::Reserve => (text(&limits, wanted), general_reserve()),
            Purpose::Settle => (settle_text(&limits, wanted), general_settle()),
        };
        let script = Arc::new(StoreScript::new(&(straight + &general.text)));
        texts.insert(key, Arc::clone(&script));
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

fn settle_text(limits: &[LimitRule], wanted: Wanted) -> String {
    let layout = Layout::new(limits);
    let mut text = part("settle begin").to_owned();
    if !wanted.stepped {
        text += part("clock");
    }
    text += &layout.put_names(&part("settle load").replace("$lengths", &layout.lengths));
    let mut sliding: Vec<u32> = Vec::new();
    for (place, rule) in (1..).zip(limits) {
        // The byte offset of the limit's mark in the argument.
        let mark = 72 + 22 * (place - 1) + 16;
        let own = match rule.time() {
            LimitTime::Sliding { .. } => {
                let own = part("settle sliding").replace("$before", &lengths(&sliding));
                sliding.push(place);
                own
            }
            LimitTime::Rate { unit } => {
                let own = part("settle rate").replace("$units", units(rule));
                own.replace("$unit", &unit.to_string())
            }
            LimitTime::Day | LimitTime::Month => part("settle calendar").to_owned(),
        };
        let own = own.replace("$units", units(rule)).replace("$mark", &mark.to_string());
        text += &own.replace("$i", &place.to_string());
    }
    if wanted.money {
        text += part("settle money");
    }
    if wanted.claim {
        text += part("settle claim");
    }
    text += &layout.put_names(part("settle end"));
    text.replace("$format", &layout.format).replace("$length", &layout.length.to_string())
}

fn text(limits: &[LimitRule], wanted: Wanted) -> String {
    let layout = Layout::new(limits);
    let mut text = part("begin").to_owned();
    if !wanted.stepped {
        text += part("clock");
    }
    if wanted.money || limits.iter().any(|rule| rule.time() == LimitTime::Day) {
        text += part("today");
    }
    if limits.iter().any(|rule| rule.time() == LimitTime::Month) {
        text += part("month");
    }
    let load = part("load").replace("$lengths", &layout.lengths);
    text += &layout.put_names(&load.replace("$zeros", &layout.zeros));
    let mut sliding: Vec<u32> = Vec::new();
    for (place, rule) in (1..).zip(limits) {
        text += &limit(rule, place, &sliding);
        if matches!(rule.time(), LimitTime::Sliding { .. }) {
            sliding.push(place);
        }
    }
    if wanted.money {
        text += part("money");
    }
    if wanted.claim {
        text += part("claim");
    }
    if sliding.is_empty() {
        text += part("rest");
    } else {
        text += &part("moved").replace("$moved", &named(&sliding, "b", " or "));
        for place in &sliding {
            text += &part("older").replace("$i", &place.to_string());
        }
        text += part("still");
    }
    text += &end(limits, &layout, wanted);
    text.replace("$format", &layout.format).replace("$length", &layout.length.to_string())
}

/// Generates the decision over one limit; `sliding` are the preceding limits that have slices.
fn limit(rule: &LimitRule, place: u32, sliding: &[u32]) -> String {
    let units = units(rule);
    let text = match rule.time() {
        LimitTime::Sliding { slice } => {
            let before = lengths(sliding);
            part("sliding").replace("$slice", &slice.to_string()).replace("$before", &before)
        }
        LimitTime::Rate { unit } => {
            let all = unit.saturating_mul(u64::from(rule.most)).to_string();
            let text = part("rate").replace("$units", units).replace("$all", &all);
            text.replace("$unit", &unit.to_string())
        }
        LimitTime::Day => part("calendar").replace("$period", "today"),
        LimitTime::Month => part("calendar").replace("$period", "month"),
    };
    let text = text.replace("$units", units).replace("$most", &rule.most.to_string());
    text.replace("$i", &place.to_string())
}

fn units(rule: &LimitRule) -> &'static str {
    match rule.unit {
        Unit::Request => "requests",
        Unit::Token => "tokens",
    }
}

fn end(limits: &[LimitRule], layout: &Layout, wanted: Wanted) -> String {
    let money = if wanted.money { DAY + HOUR } else { 0 };
    let lasts = limits.iter().map(LimitRule::lasts).max().unwrap_or(0).max(money);
    // The record is kept longer than necessary, so that not every decision has to extend its expiry.
    let kept = lasts + lasts / 64;
    let px = kept.div_ceil(1_000) + if wanted.stepped { HOUR / 1_000 } else { 0 };
    let (hold, more, held) =
        if wanted.money { ("I6I7I7", " + 1", ", number, worst, mono + lasts") } else { ("", "", "") };
    let end = part("end").replace("$lasts", &lasts.to_string()).replace("$kept", &kept.to_string());
    let end = end.replace("$px", &px.to_string()).replace("$held", held).replace("$hold", hold);
    layout.put_names(&end.replace("$more", more))
}

/// A Lua expression for the length of the older slices of these limits, to be appended to a sum.
fn lengths(sliding: &[u32]) -> String {
    if sliding.is_empty() { String::new() } else { format!(" + 11 * ({})", named(sliding, "o", " + ")) }
}

fn named(places: &[u32], letter: &str, between: &str) -> String {
    let names: Vec<String> = places.iter().map(|place| format!("{letter}{place}")).collect();
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
        for (place, rule) in (1..).zip(limits) {
            let place: u32 = place;
            name.extend_from_slice(&rule.id.to_be_bytes()[2..]);
            name.extend_from_slice(&rule.shape.to_be_bytes()[1..]);
            let (format, length, names) = match rule.time() {
                LimitTime::Sliding { .. } => {
                    older.push(place);
                    ("I7I4I7I2", 20, &["n", "u", "s", "o"][..])
                }
                LimitTime::Rate { .. } => ("I7", 7, &["t"][..]),
                LimitTime::Day | LimitTime::Month => ("I4I4", 8, &["n", "u"][..]),
            };
            layout.format += format;
            layout.length += length;
            for name in names {
                let _ = write!(layout.names, ", {name}{place}");
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
fn part(name: &str) -> &'static str {
    let parts = include_str!("../lua/straight.lua").split("--# ");
    parts.skip(1).find_map(|part| part.strip_prefix(name)?.strip_prefix('\n')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{
        LimitRule, MOST_STRAIGHT, MOST_TEXTS, Purpose, Texts, Touched, Wanted, part, settle_text, text,
    };
    use seawall_core::quota::{Cost, GroupId, LimitId, Unit};

    const SHAPES: [u64; 4] = [4_000_000, 200_001, 2, 6];

    fn rule(place: usize) -> LimitRule {
        let limit = LimitId { group: GroupId::at(0), quota: place };
        let unit = if place.is_multiple_of(3) { Unit::Token } else { Unit::Request };
        LimitRule { limit, id: place as u64 + 1, shape: SHAPES[place % 4], most: 10, unit }
    }

    fn touched(group: u16, limits: usize) -> Touched {
        let limits = (0..limits).map(|place| (1, rule(place))).collect();
        let mut touched = Touched::default();
        touched.keys.push("key".into());
        touched.limits = limits;
        touched.groups.push(GroupId::at(group));
        touched
    }

    #[test]
    fn every_part_is_there_and_everything_is_put_in() {
        for name in
            ["clock", "today", "month", "load", "sliding", "rate", "calendar", "money", "claim", "moved"]
        {
            assert!(part(name).ends_with('\n'), "{name}");
        }
        for limits in 1..=MOST_STRAIGHT {
            for bits in 0..8 {
                let (money, claim, stepped) = (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
                let wanted = Wanted { purpose: Purpose::Reserve, money, claim, stepped };
                let rules: Vec<LimitRule> = (0..limits).map(rule).collect();
                let text = text(&rules, wanted);
                assert!(!text.contains('$') && !text.contains("--#"), "{text}");
                assert_eq!(text.contains("'NX'"), wanted.claim);
                assert_eq!(text.contains("held + worst"), wanted.money);
                assert_eq!(text.contains("'TIME'"), !wanted.stepped);
                assert_eq!(text.contains("local month"), limits > 3);
                let text = settle_text(&rules, wanted);
                assert!(!text.contains('$') && !text.contains("--#"), "{text}");
                assert_eq!(text.contains("'DEL'"), wanted.claim);
                assert_eq!(text.contains("posted + truth"), wanted.money);
                assert_eq!(text.contains("'TIME'"), !wanted.stepped);
            }
        }
    }

    #[test]
    fn only_one_record_and_so_many_limits_and_texts() {
        let purpose = Purpose::Reserve;
        let wanted = Wanted { purpose, money: false, claim: false, stepped: false };
        let texts = Texts::default();
        assert!(texts.script(&touched(0, 0), wanted).is_none());
        assert!(texts.script(&touched(0, MOST_STRAIGHT + 1), wanted).is_none());
        let mut two = touched(0, 1);
        two.keys.push("other".into());
        assert!(texts.script(&two, wanted).is_none());
        let first = texts.script(&touched(0, MOST_STRAIGHT), wanted).unwrap();
        for group in 1..MOST_TEXTS {
            assert!(texts.script(&touched(u16::try_from(group).unwrap(), 1), wanted).is_some());
        }
        assert!(texts.script(&touched(u16::MAX, 1), wanted).is_none());
        assert_eq!(texts.script(&touched(0, MOST_STRAIGHT), wanted).unwrap().hash, first.hash);
    }

    #[test]
    fn marks_are_where_a_script_would_take_from() {
        // 29 February 2028, one second into the day; the clocks differ by one day.
        let utc = 1_835_395_201_000_000;
        let mono = utc - 86_400_000_000;
        let marks: Vec<u64> =
            (0..4).map(|place| rule(place).mark(Cost { requests: 3, tokens: 5 }, mono, utc)).collect();
        assert_eq!(marks, [mono / 1_000_000, mono + 150_000, 21_243, 2_028 * 12 + 2]);
        let lasts: Vec<u64> = (0..4).map(|place| rule(place).lasts()).collect();
        assert_eq!(lasts, [62_000_000, 1_500_000, 172_800_000_000, 2_764_800_000_000]);
    }
}

//! Calls that came through the journal, some hundreds in a row.
//!
//! A row for each call would cost more than all the rest of keeping it. So calls that ended in the same second lie together,
//! in the order of their time and name. A row's key is the time of its first call and a number that no other row has; rows
//! may overlap, but none reaches into the next second. Whoever looks for a time therefore begins at its second, and puts
//! each second in order.
//!
//! **What it will not do.** There is no way from a call's name to its row but through its time.

use super::codec::{Input, Output};
use super::rows::{Kind, Row, Rows};
use crate::StoreError;
use crate::books::{
    certainty_byte, put_call, put_usage, read_call, read_certainty, read_hash, read_money, read_tier,
    read_usage, tier_byte,
};
use crate::encoding::{Reader, put_number, put_text};
use crate::usage::{CallId, UsageEvent};
use seawall_core::time::UtcTime;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// From which length on a row is followed by the next: a little less than four pages of the database.
const FULL: usize = 15_000;
/// So many rows are read at once.
const AT_ONCE: usize = 64;

/// When a call ended, and which it is: what calls are in the order of.
pub(super) type Name = (UtcTime, CallId);

pub(super) const fn name(event: &UsageEvent) -> Name {
    (event.at, event.id)
}

const fn second(at: UtcTime) -> u64 {
    at.as_nanos() / SECOND
}

/// Where the rows of a second begin; of one behind the last, none do.
fn beginning(second: u64) -> Vec<u8> {
    Output::default().number(second.saturating_mul(SECOND)).key()
}

/// Rows in the making.
#[derive(Debug)]
pub(super) struct Blocks {
    /// The segment of the journal up to which the calls are taken in: no two rows have this and a place in common.
    number: u64,
    rows: Vec<Row>,
    calls: Vec<u8>,
    models: Vec<Arc<str>>,
    /// Of the row that is open, when its first and its last call ended.
    open: Option<(UtcTime, UtcTime)>,
}

impl Blocks {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, rows: Vec::new(), calls: Vec::new(), models: Vec::new(), open: None }
    }

    /// Puts calls into rows.
    pub(super) fn add(&mut self, events: &mut [UsageEvent]) {
        events.sort_unstable_by_key(name);
        for event in &*events {
            self.put(event);
        }
        self.close();
    }

    fn put(&mut self, event: &UsageEvent) {
        let is_of_another = self.open.is_some_and(|(first, _)| second(first) != second(event.at));
        if is_of_another || self.calls.len() >= FULL {
            self.close();
        }
        let (first, last) = self.open.unwrap_or((event.at, event.at));
        self.open = Some((first, event.at));
        let known = self.models.iter().position(|model| *model == event.model);
        let model = known.unwrap_or_else(|| {
            self.models.push(Arc::clone(&event.model));
            self.models.len() - 1
        });
        put_number(&mut self.calls, event.at.as_nanos() - last.as_nanos());
        put_call(&mut self.calls, event.id);
        put_number(&mut self.calls, event.day);
        self.calls.extend_from_slice(&event.caller.to_le_bytes());
        self.calls.push(tier_byte(event.tier));
        put_number(&mut self.calls, model as u64);
        put_usage(&mut self.calls, &event.usage);
        put_number(&mut self.calls, event.cost.as_nanos());
        self.calls.push(certainty_byte(event.certainty));
    }

    fn close(&mut self) {
        let Some((first, last)) = self.open.take() else { return };
        let mut names = Vec::new();
        put_number(&mut names, self.models.len() as u64);
        for model in self.models.drain(..) {
            put_text(&mut names, &model);
        }
        let place = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let key = Output::default().moment(first).number(self.number).short(place).key();
        let length = size_of::<u64>() + names.len() + self.calls.len();
        let row = Output::with_room(length).moment(last).fixed(&names).fixed(&self.calls).row();
        self.calls.clear();
        self.rows.push((key, row));
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// The calls of a row. None of them if all ended before `from`.
fn read(key: &[u8], row: &[u8], from: UtcTime) -> Result<Vec<UsageEvent>, StoreError> {
    let first = Input::key("blocks", key).moment()?;
    let mut input = Input::row("blocks", row)?;
    if input.moment()? < from {
        return Ok(Vec::new());
    }
    let wrong = input.wrong();
    read_calls(first, Reader::new(input.rest())).ok_or(wrong)
}

fn read_calls(first: UtcTime, mut reader: Reader<'_>) -> Option<Vec<UsageEvent>> {
    let mut models: Vec<Arc<str>> = Vec::new();
    for _ in 0..reader.number()? {
        models.push(reader.text()?.into());
    }
    let (mut events, mut at) = (Vec::new(), first);
    while reader.end().is_none() {
        at = UtcTime::from_nanos(at.as_nanos().checked_add(reader.number()?)?);
        events.push(UsageEvent {
            at,
            id: read_call(&mut reader)?,
            day: reader.number()?,
            caller: read_hash(&mut reader)?,
            tier: read_tier(&mut reader)?,
            model: Arc::clone(models.get(usize::try_from(reader.number()?).ok()?)?),
            usage: read_usage(&mut reader)?,
            cost: read_money(&mut reader)?,
            certainty: read_certainty(&mut reader)?,
        });
    }
    Some(events)
}

/// The calls that ended in this time, from a name on if there is one: at least the first `most` of them, in order.
pub(super) fn calls_in(
    rows: &mut impl Rows,
    time: Range<UtcTime>,
    from: Option<Name>,
    most: usize,
) -> Result<BTreeMap<Name, UsageEvent>, StoreError> {
    let start = from.map_or(time.start, |(at, _)| at.max(time.start));
    let end = Output::default().moment(time.end).key();
    let mut next = Bound::Included(beginning(second(start)));
    let (mut calls, mut present) = (BTreeMap::new(), second(start));
    loop {
        let bounds = (next.as_ref().map(Vec::as_slice), Bound::Excluded(end.as_slice()));
        let some = rows.range(Kind::Blocks, bounds, AT_ONCE)?;
        let Some((last, _)) = some.last() else { return Ok(calls) };
        let behind = Bound::Excluded(last.clone());
        for (key, row) in some {
            let of = second(Input::key("blocks", &key).moment()?);
            if of != present && calls.len() >= most {
                return Ok(calls);
            }
            present = of;
            let is_wanted =
                |event: &UsageEvent| time.contains(&event.at) && from.is_none_or(|from| name(event) >= from);
            let found = read(&key, &row, start)?.into_iter().filter(is_wanted);
            calls.extend(found.map(|event| (name(&event), event)));
        }
        next = behind;
    }
}

/// Which of these calls are there.
pub(super) fn known(rows: &mut impl Rows, events: &[UsageEvent]) -> Result<BTreeSet<Name>, StoreError> {
    let mut known = BTreeSet::new();
    // Where nobody has a journal there are none.
    if rows.beginning(Kind::Blocks, &[], 1)?.is_empty() {
        return Ok(known);
    }
    let names: BTreeSet<Name> = events.iter().map(name).collect();
    let seconds: BTreeSet<u64> = events.iter().map(|event| second(event.at)).collect();
    for of in seconds {
        let time = |second: u64| UtcTime::from_nanos(second.saturating_mul(SECOND));
        let found = calls_in(rows, time(of)..time(of.saturating_add(1)), None, usize::MAX)?;
        known.extend(found.into_keys().filter(|name| names.contains(name)));
    }
    Ok(known)
}

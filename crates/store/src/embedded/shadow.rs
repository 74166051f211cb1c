//! The books as recorded in the journal.
//!
//! The node's own books change all the time and cannot be paused for a snapshot. So the writer maintains a replica: the
//! last snapshot and all entries since. Both have the same state, because books are the result of their entries; it is
//! also the state that a crash would leave.
//!
//! **What it forgets.** The node's books forget by a clock that is not journaled. The replica drops days that are not
//! among the last few that were used, and their conversations, unless they have calls that still have to be posted.

use super::EmbeddedOptions;
use super::codec::STORE;
use super::counts::Counts;
use super::refusal::OpenError;
use super::rows::{Batch, Kind, Rows};
use super::snapshot::{Saved, SavedCall};
use super::table::Table;
use crate::StoreError;
use crate::books::JournalRecord;
use crate::ledger::Totals;
use crate::usage::{CallId, Certainty, UsageEvent};
use seawall_core::budget::{BudgetBook, BudgetSource, Entry, Reservation, ReservationId};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The id of a call, and the name of its model.
type CallName = (CallId, Arc<str>);

const SNAPSHOT_KEY: &[u8] = b"snapshot";
/// How many days are kept: today, yesterday, and some that a wrongly set calendar may have used for a while.
const DAYS_KEPT: usize = 4;
/// The most purses that are aggregated before they are entered into the book.
const MOST_PURSES: usize = 16_384;
/// The model of a call whose name was not recorded.
const UNNAMED: &str = "unknown";

/// The books as recorded in the journal.
#[derive(Debug)]
pub(super) struct Shadow {
    book: BudgetBook,
    /// Where the money comes from. The same entries mean something else for another source.
    source: BudgetSource,
    /// Whether anything has been recorded.
    is_used: bool,
    first_segment: u64,
    /// Reservations whose calls have not been posted, and the calls they pay for. This includes expired ones: they have
    /// been charged, and their calls are posted when their holds end.
    untold: Table<ReservationId, (Reservation, Option<CallName>)>,
    /// The days, the most recently used last.
    days: Vec<u64>,
    /// The last day of each conversation.
    sessions: BTreeMap<u64, u64>,
    last_model: Arc<str>,
    /// Reservations from this number on have not been entered into the book.
    first_fresh: u64,
    /// The number after the last reservation.
    next: u64,
    /// The sums of those that have ended, by purse.
    spent: Table<Purse, Spent>,
    counts: Counts,
}

/// The account that pays for a call. Calls that share all of this can be entered into the books as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Purse {
    day: u64,
    caller: u64,
    tier: Tier,
    generation: u64,
    session: Option<u64>,
}

impl Purse {
    /// One reservation that stands for several ended ones, with `worst` as the amount held.
    const fn reservation(self, id: ReservationId, worst: Money) -> Reservation {
        let Self { day, caller, tier, generation, session } = self;
        let expires = Timestamp::NEVER;
        Reservation { id, day, caller, tier, generation, session, input: 0, output: 0, worst, expires }
    }
}

/// The sums of the calls of one purse.
#[derive(Debug)]
struct Spent {
    /// The number of the last reservation among them.
    last: ReservationId,
    totals: Totals,
    /// What they cost beyond their reservations.
    overrun: Money,
}

impl Shadow {
    /// Loads the last snapshot, or starts with empty books.
    pub(super) fn load(rows: &mut impl Rows, options: &EmbeddedOptions) -> Result<Self, StoreError> {
        let saved = match rows.get(Kind::Books, SNAPSHOT_KEY)? {
            Some(row) => Saved::read(&row)?,
            None => Saved { source: options.source, ..Saved::default() },
        };
        let Saved { source, first_segment, calls, days, sessions, snapshot } = saved;
        let book = BudgetBook::from_snapshot(options.limits.clone(), source, &snapshot);
        let book = book.map_err(|error| StoreError::broken(STORE, error))?;
        let mut calls: BTreeMap<ReservationId, Option<CallName>> =
            calls.into_iter().map(|call| (call.reservation, call.name)).collect();
        let with_name = |one: &Reservation| calls.remove(&one.id).map(|name| (one.id, (*one, name)));
        let untold = snapshot.open.iter().chain(&snapshot.given_up).filter_map(with_name).collect();
        let is_used = !days.is_empty();
        let sessions = sessions.into_iter().collect();
        let (last_model, next, spent) = (UNNAMED.into(), snapshot.next, Table::default());
        let first_fresh = next;
        let counts = Counts::load(rows, options.groups.as_deref())?;
        Ok(Self {
            book,
            source,
            is_used,
            first_segment,
            untold,
            days,
            sessions,
            last_model,
            first_fresh,
            next,
            spent,
            counts,
        })
    }

    /// Switches the books to this source of money. That is possible only while they are empty; otherwise their present
    /// source is returned as the error.
    pub(super) fn take_source(
        &mut self,
        options: &EmbeddedOptions,
        is_used: bool,
    ) -> Result<(), BudgetSource> {
        if options.source == self.source {
            return Ok(());
        }
        if self.is_used || is_used {
            return Err(self.source);
        }
        self.source = options.source;
        (self.first_fresh, self.next) = (0, 0);
        self.book = match options.source {
            BudgetSource::Caps => BudgetBook::new(options.limits.clone()),
            BudgetSource::Leases { node } => BudgetBook::on_leases(options.limits.clone(), node),
        };
        Ok(())
    }

    /// The first journal segment that no checkpoint has covered.
    pub(super) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    pub(super) fn into_parts(mut self) -> (BudgetBook, Counts) {
        self.settle_up();
        (self.book, self.counts)
    }

    /// Applies the records of a frame and collects its calls. Returns the number of records.
    pub(super) fn replay(
        &mut self,
        path: &Path,
        frame: &[u8],
        events: &mut Vec<UsageEvent>,
    ) -> Result<usize, OpenError> {
        let (mut replayed, mut rest) = (0, frame);
        while !rest.is_empty() {
            let (record, behind) = first_record(rest, &mut self.last_model)
                .ok_or_else(|| OpenError::damaged(path, "a record that this program cannot read"))?;
            self.apply(record, events);
            replayed += 1;
            rest = behind;
        }
        Ok(replayed)
    }

    fn apply(&mut self, record: JournalRecord, events: &mut Vec<UsageEvent>) {
        self.counts.apply(&record);
        let ended = record.entry().and_then(|entry| self.enter(&entry));
        match record {
            JournalRecord::Attempt { reservation, id, model }
            | JournalRecord::Begun { reservation: Reservation { id: reservation, .. }, id, model } => {
                if let Some((_, name)) = self.untold.get_mut(&reservation) {
                    *name = Some((id, model));
                }
            }
            JournalRecord::Ended { at, usage, cost, certainty, .. } => {
                let told = |(reservation, name)| UsageEvent {
                    usage,
                    cost,
                    certainty,
                    ..worst(&reservation, name, at)
                };
                events.extend(ended.map(told));
            }
            JournalRecord::Event(event) => events.push(event),
            JournalRecord::Entry(_)
            | JournalRecord::Counted { .. }
            | JournalRecord::Recounted { .. }
            | JournalRecord::Done(_)
            | JournalRecord::Released(_) => {}
        }
    }

    /// Applies an entry. Returns the reservation that it ended, if its call has not been posted.
    fn enter(&mut self, entry: &Entry) -> Option<(Reservation, Option<CallName>)> {
        match *entry {
            Entry::Reserved(reservation) => {
                self.note(&reservation);
                None
            }
            Entry::Posted { id, usage, cost } => self.end(id, usage, cost),
            Entry::Voided(id) => self.end(id, Usage::default(), Money::ZERO),
            Entry::Expired(id) => {
                // An expired reservation is still open, so that its later entries have to be applied, too.
                self.settle_up();
                let _ = self.book.apply(&Entry::Expired(id));
                None
            }
            Entry::Corrected { id, correction } => {
                // A correction has a number of its own, after those of all reservations it may refer to.
                self.settle_up();
                let _ = self.book.apply(entry);
                let next = id.0.saturating_add(1).max(self.next);
                (self.next, self.first_fresh) = (next, next);
                self.use_day(correction.day);
                None
            }
            Entry::Leased { lease, .. } | Entry::Returned { lease, .. } => {
                self.use_day(lease.day);
                let _ = self.book.apply(entry);
                None
            }
        }
    }

    fn end(
        &mut self,
        id: ReservationId,
        usage: Usage,
        cost: Money,
    ) -> Option<(Reservation, Option<CallName>)> {
        let ended = self.untold.remove(&id);
        if id.0 < self.first_fresh {
            let _ = self.book.apply(&Entry::Posted { id, usage, cost });
            return ended;
        }
        let (reservation, _) = ended.as_ref()?;
        let Reservation { day, caller, tier, generation, session, .. } = *reservation;
        let nothing = Spent { last: id, totals: Totals::default(), overrun: Money::ZERO };
        let overrun = cost.saturating_sub(reservation.worst);
        let spent = self.spent.entry(Purse { day, caller, tier, generation, session }).or_insert(nothing);
        spent.last = spent.last.max(id);
        spent.totals.join(&Totals { calls: 1, usage, cost });
        spent.overrun = spent.overrun.saturating_add(overrun);
        if self.spent.len() >= MOST_PURSES {
            self.settle_up();
        }
        ended
    }

    /// Brings the book up to date with the journal. A call that began and ended since the last time changes the book
    /// only by its cost. So the calls of one purse are entered as one, which held their cost without the overruns;
    /// reservations that are still open are entered as they are.
    fn settle_up(&mut self) {
        let spent = self.spent.drain();
        let mut fresh: Vec<(ReservationId, Option<(Purse, Spent)>)> =
            spent.map(|(purse, spent)| (spent.last, Some((purse, spent)))).collect();
        let is_fresh = |id: &&ReservationId| id.0 >= self.first_fresh;
        fresh.extend(self.untold.keys().filter(is_fresh).map(|id| (*id, None)));
        // The book accepts numbers only in ascending order.
        fresh.sort_unstable_by_key(|(id, _)| *id);
        for (id, spent) in fresh {
            if let Some((purse, Spent { totals: Totals { usage, cost, .. }, overrun, .. })) = spent {
                let held = cost.saturating_sub(overrun);
                let _ = self.book.apply(&Entry::Reserved(purse.reservation(id, held)));
                let _ = self.book.apply(&Entry::Posted { id, usage, cost });
            } else if let Some((reservation, _)) = self.untold.get(&id) {
                let _ = self.book.apply(&Entry::Reserved(*reservation));
            }
        }
        self.first_fresh = self.next;
    }

    fn note(&mut self, reservation: &Reservation) {
        // A number that has been used before is a duplicate.
        let Some(next) = reservation.id.0.checked_add(1).filter(|next| *next > self.next) else { return };
        self.next = next;
        self.untold.insert(reservation.id, (*reservation, None));
        self.use_day(reservation.day);
        if let Some(session) = reservation.session {
            self.sessions.insert(session, reservation.day);
        }
    }

    fn use_day(&mut self, day: u64) {
        if self.days.last() != Some(&day) {
            self.days.retain(|used| *used != day);
            self.days.push(day);
        }
    }

    /// Charges everything that is open at its worst-case cost. Returns every call that has not been posted.
    pub(super) fn charge_open(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        self.settle_up();
        let _ = self.book.recover();
        let mut untold: Vec<_> = self.untold.drain().map(|(_, untold)| untold).collect();
        untold.sort_unstable_by_key(|(reservation, _)| reservation.id);
        untold.into_iter().map(|(reservation, name)| worst(&reservation, name, now)).collect()
    }

    /// Writes a snapshot, after which the journal is replayed from `next` on. Without `now`, counts are saved as of the
    /// latest time in the journal.
    pub(super) fn save(
        &mut self,
        batch: &mut Batch<'_>,
        next: u64,
        now: Option<UtcTime>,
    ) -> Result<(), StoreError> {
        self.first_segment = next;
        self.counts.save(batch, now)?;
        self.settle_up();
        self.forget();
        let mut snapshot = self.book.snapshot();
        let is_kept = |day: u64| self.days.contains(&day);
        snapshot.days.retain(|day| is_kept(day.day));
        snapshot.given_up.retain(|given_up| is_kept(given_up.day));
        snapshot.sessions.retain(|session| self.sessions.contains_key(&session.session));
        snapshot.session_round = None;
        let call = |(id, (_, name)): (&ReservationId, &(Reservation, Option<CallName>))| SavedCall {
            reservation: *id,
            name: name.clone(),
        };
        let mut calls: Vec<SavedCall> = self.untold.iter().map(call).collect();
        calls.sort_unstable_by_key(|call| call.reservation);
        let saved = Saved {
            source: self.source,
            first_segment: next,
            calls,
            days: self.days.clone(),
            sessions: self.sessions.iter().map(|(session, day)| (*session, *day)).collect(),
            snapshot,
        };
        batch.put(Kind::Books, SNAPSHOT_KEY, &saved.row())
    }

    fn forget(&mut self) {
        let old = self.days.len().saturating_sub(DAYS_KEPT);
        let untold = || self.untold.values().map(|(reservation, _)| reservation);
        let is_used = |day: u64| untold().any(|reservation| reservation.day == day);
        let over: Vec<u64> = self.days[..old].iter().copied().filter(|day| !is_used(*day)).collect();
        self.days.retain(|day| !over.contains(day));
        // A conversation may have open reservations on another day than its last one, if the calendar was set back
        // meanwhile.
        let talking: BTreeSet<u64> = untold().filter_map(|reservation| reservation.session).collect();
        self.sessions.retain(|session, day| !over.contains(day) || talking.contains(session));
    }
}

/// Decodes the first record of a frame, which is prefixed with its length, and returns the rest. The allocation of the
/// model's name is reused from the previous record if it is the same, which is the usual case.
fn first_record<'a>(bytes: &'a [u8], last_model: &mut Arc<str>) -> Option<(JournalRecord, &'a [u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((JournalRecord::decode_after(record, last_model).ok()?, rest))
}

fn worst(reservation: &Reservation, name: Option<CallName>, now: UtcTime) -> UsageEvent {
    let Reservation { id, day, caller, tier, input, output, worst, .. } = *reservation;
    // No real request has this id: request ids are random, and no reservation number comes near this range.
    let unnamed = || (CallId { request: u128::MAX - u128::from(id.0), attempt: u32::MAX }, UNNAMED.into());
    let (call, model) = name.unwrap_or_else(unnamed);
    UsageEvent {
        id: call,
        at: now,
        day,
        caller,
        tier,
        model,
        usage: Usage { input, output, ..Usage::default() },
        cost: worst,
        certainty: Certainty::Worst,
    }
}

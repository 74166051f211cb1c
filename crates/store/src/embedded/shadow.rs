//! The books as the journal tells them.
//!
//! The node's own books are in use all the time and cannot be asked to hold still while they are written down. So the writer
//! has books of its own: the last snapshot, and all the entries since. They come to the same, because books are what their
//! entries make of them, and they are what a crash would leave.
//!
//! **What it forgets.** The node's books forget by a clock that is not written down. Here the days go that were not among
//! the last few to be used, and conversations with them, unless something of theirs is still to be told.

use super::EmbeddedOptions;
use super::codec::STORE;
use super::refusal::OpenError;
use super::rows::{Batch, Kind, Rows};
use super::segment::SegmentText;
use super::snapshot::{Saved, SavedCall};
use crate::StoreError;
use crate::books::JournalRecord;
use crate::usage::{CallId, Certainty, UsageEvent};
use seawall_core::budget::{BudgetBook, BudgetSource, Entry, Reservation, ReservationId};
use seawall_core::money::Usage;
use seawall_core::time::UtcTime;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The name of a call, and of its model.
type CallName = (CallId, Arc<str>);

const SNAPSHOT_KEY: &[u8] = b"snapshot";
/// How many days are kept: today, yesterday, and some that a calendar which was set wrong for a while has used.
const DAYS_KEPT: usize = 4;
/// The model of a call whose name was not written down.
const UNNAMED: &str = "unknown";

/// The books as the journal tells them.
#[derive(Debug)]
pub(super) struct Shadow {
    book: BudgetBook,
    /// Where the money of these books comes from. Books of another source say other things with the same entries.
    source: BudgetSource,
    /// Whether anything has been written to them.
    is_used: bool,
    first_segment: u64,
    /// Reservations whose calls have not been told of, and what they are for. One that has passed its time is among them:
    /// it is charged already, and its call is told of when somebody lets go of it.
    untold: BTreeMap<ReservationId, (Reservation, Option<CallName>)>,
    /// The days, the one that was used last at the end.
    days: Vec<u64>,
    /// The last day of each conversation.
    sessions: BTreeMap<u64, u64>,
}

impl Shadow {
    /// The last snapshot, or empty books.
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
        Ok(Self { book, source, is_used, first_segment, untold, days, sessions })
    }

    /// Has the books go on with the money of this source. Those of another can only if they are empty; otherwise it is
    /// told which they have.
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
        self.book = match options.source {
            BudgetSource::Caps => BudgetBook::new(options.limits.clone()),
            BudgetSource::Leases { node } => BudgetBook::on_leases(options.limits.clone(), node),
        };
        Ok(())
    }

    /// From which segment on the journal has not been taken into the books.
    pub(super) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    pub(super) fn into_book(self) -> BudgetBook {
        self.book
    }

    /// Applies what a segment says, and collects its calls. Returns how many records it has.
    pub(super) fn replay(
        &mut self,
        path: &Path,
        text: &SegmentText,
        events: &mut Vec<UsageEvent>,
    ) -> Result<usize, OpenError> {
        let mut replayed = 0;
        for frame in text.frames() {
            let mut rest = frame;
            while !rest.is_empty() {
                let (record, behind) = first_record(rest)
                    .ok_or_else(|| OpenError::damaged(path, "a record that this program cannot read"))?;
                self.apply(record, events);
                replayed += 1;
                rest = behind;
            }
        }
        Ok(replayed)
    }

    fn apply(&mut self, record: JournalRecord, events: &mut Vec<UsageEvent>) {
        match record {
            JournalRecord::Entry(entry) => {
                match entry {
                    Entry::Reserved(reservation) => self.note(&reservation),
                    Entry::Posted { id, .. } | Entry::Voided(id) => {
                        self.untold.remove(&id);
                    }
                    Entry::Leased { lease, .. } | Entry::Returned { lease, .. } => self.use_day(lease.day),
                    Entry::Expired(_) => {}
                }
                let _ = self.book.apply(&entry);
            }
            JournalRecord::Attempt { reservation, id, model } => {
                if let Some((_, name)) = self.untold.get_mut(&reservation) {
                    *name = Some((id, model));
                }
            }
            JournalRecord::Event(event) => events.push(event),
        }
    }

    fn note(&mut self, reservation: &Reservation) {
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

    /// Charges everything that is open at its worst. Returns every call that nobody has told of.
    pub(super) fn charge_open(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        let _ = self.book.recover();
        let untold = std::mem::take(&mut self.untold);
        untold.into_values().map(|(reservation, name)| worst(&reservation, name, now)).collect()
    }

    /// Writes a snapshot: the journal is to be read from `next` on.
    pub(super) fn save(&mut self, batch: &mut Batch<'_>, next: u64) -> Result<(), StoreError> {
        self.first_segment = next;
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
        let saved = Saved {
            source: self.source,
            first_segment: next,
            calls: self.untold.iter().map(call).collect(),
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
        // A conversation may hold something on another day than its last: a calendar can be set back meanwhile.
        let talking: BTreeSet<u64> = untold().filter_map(|reservation| reservation.session).collect();
        self.sessions.retain(|session, day| !over.contains(day) || talking.contains(session));
    }
}

/// The first record of a frame, which stands behind its length, and what comes after it.
fn first_record(bytes: &[u8]) -> Option<(JournalRecord, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((JournalRecord::decode(record).ok()?, rest))
}

fn worst(reservation: &Reservation, name: Option<CallName>, now: UtcTime) -> UsageEvent {
    let Reservation { id, day, caller, tier, input, output, worst, .. } = *reservation;
    // No request has this number: those who name requests draw them, and no book counts so far.
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

//! The ledger as recorded in the journal.
//!
//! The node's own ledger changes all the time and cannot be paused for a snapshot. So the writer maintains a replica: the
//! last snapshot and all entries since. Both have the same state, because a ledger is the result of its entries; it is
//! also the state that a crash would leave.
//!
//! **What it drops.** The node's ledger evicts by a clock that is not journaled. The replica drops days that are not
//! among the last few that were used, and their conversations, unless they have calls that still have to be posted.

use super::EmbeddedOptions;
use super::codec::STORE;
use super::counts::JournaledCounts;
use super::fast_map::FastMap;
use super::open_error::OpenError;
use super::rows::{Batch, Rows, TableKind};
use super::snapshot::{LedgerSnapshot, SavedCall};
use crate::StoreError;
use crate::ledger::Totals;
use crate::node_ledger::{JournalRecord, RecentNames};
use crate::usage::{CallId, Certainty, SpendLabels, UsageEvent};
use seawall_core::budget::{
    BudgetEntry, BudgetLedger, BudgetReservation, BudgetSource, BudgetWindows, ReservationId,
};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The id of a call, the name of its model, and its labels.
type CallIdentity = (CallId, Arc<str>, SpendLabels);

const SNAPSHOT_KEY: &[u8] = b"snapshot";
/// How many days are kept: today, yesterday, and some that a wrongly set calendar may have used for a while.
const DAYS_KEPT: usize = 4;
/// The most accounts that are aggregated before they are entered into the budget ledger.
const MAX_ACCOUNTS: usize = 16_384;
/// The model of a call whose name was not recorded.
const UNKNOWN_MODEL: &str = "unknown";

/// The ledger as recorded in the journal.
#[derive(Debug)]
pub(super) struct LedgerReplica {
    budget_ledger: BudgetLedger,
    /// Where the money comes from. The same entries mean something else for another source.
    source: BudgetSource,
    /// Whether anything has been recorded.
    is_used: bool,
    first_segment: u64,
    /// Reservations whose calls have not been posted, and the calls they pay for. This includes expired ones: they have
    /// been charged, and their calls are posted when their holds end.
    unposted: FastMap<ReservationId, (BudgetReservation, Option<CallIdentity>)>,
    /// The days, the most recently used last.
    days: Vec<u64>,
    /// The last day of each conversation.
    sessions: BTreeMap<u64, u64>,
    recent_names: RecentNames,
    /// Reservations from this number on have not been entered into the budget ledger.
    first_unapplied: u64,
    /// The number after the last reservation.
    next_id: u64,
    /// The totals of those that have ended, by account.
    ended: FastMap<SpendingAccount, AccountSpending>,
    counts: JournaledCounts,
}

/// The account that pays for a call. Calls that share all of this can be entered into the ledger as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SpendingAccount {
    day: u64,
    caller: u64,
    tier: Tier,
    generation: u64,
    session: Option<u64>,
    windows: BudgetWindows,
}

impl SpendingAccount {
    /// One reservation that stands for several ended ones, which held this amount.
    const fn reservation(self, id: ReservationId, max_cost: Money) -> BudgetReservation {
        let Self { day, caller, tier, generation, session, windows } = self;
        let expires = Timestamp::NEVER;
        BudgetReservation {
            id,
            day,
            caller,
            tier,
            generation,
            session,
            input: 0,
            output: 0,
            max_cost,
            expires,
            windows,
        }
    }
}

/// The totals of the calls of one account.
#[derive(Debug)]
struct AccountSpending {
    /// The number of the last reservation among them.
    last: ReservationId,
    totals: Totals,
    /// What they cost beyond their reservations.
    overrun: Money,
}

impl LedgerReplica {
    /// Loads the last snapshot, or starts with an empty ledger.
    pub(super) fn load(rows: &mut impl Rows, options: &EmbeddedOptions) -> Result<Self, StoreError> {
        let saved = match rows.get(TableKind::LedgerSnapshot, SNAPSHOT_KEY)? {
            Some(row) => LedgerSnapshot::read(&row)?,
            None => LedgerSnapshot { source: options.source, ..LedgerSnapshot::default() },
        };
        let LedgerSnapshot { source, first_segment, calls, days, sessions, snapshot } = saved;
        let budget_ledger = BudgetLedger::from_snapshot(options.limits.clone(), source, &snapshot);
        let budget_ledger = budget_ledger.map_err(|error| StoreError::failed(STORE, error))?;
        let mut calls: BTreeMap<ReservationId, Option<CallIdentity>> =
            calls.into_iter().map(|call| (call.reservation, call.identity)).collect();
        let with_call = |reservation: &BudgetReservation| {
            calls.remove(&reservation.id).map(|call| (reservation.id, (*reservation, call)))
        };
        let unposted = snapshot.open.iter().chain(&snapshot.expired).filter_map(with_call).collect();
        let is_used = !days.is_empty();
        let sessions = sessions.into_iter().collect();
        let (recent_names, next_id, ended) = (RecentNames::default(), snapshot.next, FastMap::default());
        let first_unapplied = next_id;
        let counts = JournaledCounts::load(rows, options.groups.as_deref())?;
        Ok(Self {
            budget_ledger,
            source,
            is_used,
            first_segment,
            unposted,
            days,
            sessions,
            recent_names,
            first_unapplied,
            next_id,
            ended,
            counts,
        })
    }

    /// Switches the ledger to this source of money. That is possible only while it is empty; otherwise its present
    /// source is returned as the error.
    pub(super) fn set_source(
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
        (self.first_unapplied, self.next_id) = (0, 0);
        self.budget_ledger = match options.source {
            BudgetSource::Caps => BudgetLedger::new(options.limits.clone()),
            BudgetSource::Leases { node } => BudgetLedger::with_leases(options.limits.clone(), node),
        };
        Ok(())
    }

    /// The first journal segment that no checkpoint has covered.
    pub(super) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    pub(super) fn into_parts(mut self) -> (BudgetLedger, JournaledCounts) {
        self.apply_spending();
        (self.budget_ledger, self.counts)
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
            let (record, remaining) = first_record(rest, &mut self.recent_names)
                .ok_or_else(|| OpenError::damaged(path, "a journal record cannot be decoded"))?;
            self.apply(record, events);
            replayed += 1;
            rest = remaining;
        }
        Ok(replayed)
    }

    fn apply(&mut self, record: JournalRecord, events: &mut Vec<UsageEvent>) {
        self.counts.apply(&record);
        let ended = record.entry().and_then(|entry| self.apply_entry(&entry));
        match record {
            JournalRecord::CallAssigned { reservation, id, model } => {
                self.assign(reservation, (id, model, SpendLabels::default()));
            }
            JournalRecord::CallStarted { reservation, id, model, labels } => {
                self.assign(reservation.id, (id, model, labels));
            }
            JournalRecord::CallEnded { at, usage, cost, certainty, .. } => {
                let posted = |(reservation, call)| UsageEvent {
                    usage,
                    cost,
                    certainty,
                    ..max_cost_event(&reservation, call, at)
                };
                events.extend(ended.map(posted));
            }
            JournalRecord::Event(event) => events.push(event),
            JournalRecord::Entry(_)
            | JournalRecord::Admitted { .. }
            | JournalRecord::ChargeCorrected { .. }
            | JournalRecord::KeyCompleted(_)
            | JournalRecord::KeyReleased(_) => {}
        }
    }

    /// Records which call a reservation pays for.
    fn assign(&mut self, reservation: ReservationId, identity: CallIdentity) {
        if let Some((_, call)) = self.unposted.get_mut(&reservation) {
            *call = Some(identity);
        }
    }

    /// Applies an entry. Returns the reservation that it ended, if its call has not been posted.
    fn apply_entry(&mut self, entry: &BudgetEntry) -> Option<(BudgetReservation, Option<CallIdentity>)> {
        match *entry {
            BudgetEntry::Reserved(reservation) => {
                self.add_reservation(&reservation);
                None
            }
            BudgetEntry::Posted { id, usage, cost } => self.end(id, usage, cost),
            BudgetEntry::Voided(id) => self.end(id, Usage::default(), Money::ZERO),
            BudgetEntry::Expired(id) => {
                // An expired reservation is still open, so that its later entries have to be applied, too.
                self.apply_spending();
                let _ = self.budget_ledger.apply(&BudgetEntry::Expired(id));
                None
            }
            BudgetEntry::Corrected { id, correction } => {
                // A correction has a number of its own, after those of all reservations it may refer to.
                self.apply_spending();
                let _ = self.budget_ledger.apply(entry);
                let next = id.0.saturating_add(1).max(self.next_id);
                (self.next_id, self.first_unapplied) = (next, next);
                self.touch_day(correction.day);
                None
            }
            BudgetEntry::Leased { lease, .. } | BudgetEntry::Returned { lease, .. } => {
                self.touch_day(lease.day);
                let _ = self.budget_ledger.apply(entry);
                None
            }
        }
    }

    fn end(
        &mut self,
        id: ReservationId,
        usage: Usage,
        cost: Money,
    ) -> Option<(BudgetReservation, Option<CallIdentity>)> {
        let ended = self.unposted.remove(&id);
        if id.0 < self.first_unapplied {
            let _ = self.budget_ledger.apply(&BudgetEntry::Posted { id, usage, cost });
            return ended;
        }
        let (reservation, _) = ended.as_ref()?;
        let BudgetReservation { day, caller, tier, generation, session, windows, .. } = *reservation;
        let nothing = AccountSpending { last: id, totals: Totals::default(), overrun: Money::ZERO };
        let overrun = cost.saturating_sub(reservation.max_cost);
        let account = SpendingAccount { day, caller, tier, generation, session, windows };
        let account = self.ended.entry(account).or_insert(nothing);
        account.last = account.last.max(id);
        account.totals.join(&Totals { calls: 1, usage, cost });
        account.overrun = account.overrun.saturating_add(overrun);
        if self.ended.len() >= MAX_ACCOUNTS {
            self.apply_spending();
        }
        ended
    }

    /// Brings the budget ledger up to date with the journal. A call that began and ended since the last time changes the budget ledger
    /// only by its cost. So the calls of one account are entered as one, which held their cost without the overruns;
    /// reservations that are still open are entered as they are.
    fn apply_spending(&mut self) {
        let spending = self.ended.drain();
        let mut unapplied: Vec<(ReservationId, Option<(SpendingAccount, AccountSpending)>)> =
            spending.map(|(account, spending)| (spending.last, Some((account, spending)))).collect();
        let is_unapplied = |id: &&ReservationId| id.0 >= self.first_unapplied;
        unapplied.extend(self.unposted.keys().filter(is_unapplied).map(|id| (*id, None)));
        // The budget ledger accepts numbers only in ascending order.
        unapplied.sort_unstable_by_key(|(id, _)| *id);
        for (id, spending) in unapplied {
            if let Some((account, AccountSpending { totals: Totals { usage, cost, .. }, overrun, .. })) =
                spending
            {
                let held = cost.saturating_sub(overrun);
                let _ = self.budget_ledger.apply(&BudgetEntry::Reserved(account.reservation(id, held)));
                let _ = self.budget_ledger.apply(&BudgetEntry::Posted { id, usage, cost });
            } else if let Some((reservation, _)) = self.unposted.get(&id) {
                let _ = self.budget_ledger.apply(&BudgetEntry::Reserved(*reservation));
            }
        }
        self.first_unapplied = self.next_id;
    }

    fn add_reservation(&mut self, reservation: &BudgetReservation) {
        // A number that has been used before is a duplicate.
        let Some(next) = reservation.id.0.checked_add(1).filter(|next| *next > self.next_id) else { return };
        self.next_id = next;
        self.unposted.insert(reservation.id, (*reservation, None));
        self.touch_day(reservation.day);
        if let Some(session) = reservation.session {
            self.sessions.insert(session, reservation.day);
        }
    }

    fn touch_day(&mut self, day: u64) {
        if self.days.last() != Some(&day) {
            self.days.retain(|used| *used != day);
            self.days.push(day);
        }
    }

    /// Charges everything that is open at its maximum cost. Returns every call that has not been posted.
    pub(super) fn charge_open_reservations(&mut self, now: UtcTime) -> Vec<UsageEvent> {
        self.apply_spending();
        let _ = self.budget_ledger.recover();
        let mut unposted: Vec<_> = self.unposted.drain().map(|(_, unposted)| unposted).collect();
        unposted.sort_unstable_by_key(|(reservation, _)| reservation.id);
        unposted.into_iter().map(|(reservation, call)| max_cost_event(&reservation, call, now)).collect()
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
        self.apply_spending();
        self.drop_old_days();
        let mut snapshot = self.budget_ledger.snapshot();
        let is_kept = |day: u64| self.days.contains(&day);
        snapshot.days.retain(|day| is_kept(day.day));
        snapshot.expired.retain(|expired| is_kept(expired.day));
        snapshot.sessions.retain(|session| self.sessions.contains_key(&session.session));
        snapshot.session_sweep = None;
        snapshot.windows.sweep = None;
        // A window that ended before all days that are kept is over, whatever a wrongly set calendar says today.
        let first_hour = self.days.iter().min().map_or(0, |day| day.saturating_sub(1).saturating_mul(24));
        snapshot
            .windows
            .all
            .retain(|window| u64::from(window.key.end.0) > first_hour || window.account.held > Money::ZERO);
        let call = |(id, (_, identity)): (&ReservationId, &(BudgetReservation, Option<CallIdentity>))| {
            SavedCall { reservation: *id, identity: identity.clone() }
        };
        let mut calls: Vec<SavedCall> = self.unposted.iter().map(call).collect();
        calls.sort_unstable_by_key(|call| call.reservation);
        let saved = LedgerSnapshot {
            source: self.source,
            first_segment: next,
            calls,
            days: self.days.clone(),
            sessions: self.sessions.iter().map(|(session, day)| (*session, *day)).collect(),
            snapshot,
        };
        batch.put(TableKind::LedgerSnapshot, SNAPSHOT_KEY, &saved.row())
    }

    fn drop_old_days(&mut self) {
        let excess = self.days.len().saturating_sub(DAYS_KEPT);
        let unposted = || self.unposted.values().map(|(reservation, _)| reservation);
        let is_used = |day: u64| unposted().any(|reservation| reservation.day == day);
        let dropped: Vec<u64> = self.days[..excess].iter().copied().filter(|day| !is_used(*day)).collect();
        self.days.retain(|day| !dropped.contains(day));
        // A conversation may have open reservations on another day than its last one, if the calendar was set back
        // meanwhile.
        let active: BTreeSet<u64> = unposted().filter_map(|reservation| reservation.session).collect();
        self.sessions.retain(|session, day| !dropped.contains(day) || active.contains(session));
    }
}

/// Decodes the first record of a frame, which is prefixed with its length, and returns the rest. The allocation of the
/// model's name is reused from the previous record if it is the same, which is the usual case.
fn first_record<'a>(bytes: &'a [u8], recent: &mut RecentNames) -> Option<(JournalRecord, &'a [u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((JournalRecord::decode_after(record, recent).ok()?, rest))
}

fn max_cost_event(
    reservation: &BudgetReservation,
    identity: Option<CallIdentity>,
    now: UtcTime,
) -> UsageEvent {
    let BudgetReservation { id, day, caller, tier, input, output, max_cost, .. } = *reservation;
    // No real request has this id: request ids are random, and no reservation number comes near this range.
    let unknown_call = || {
        (
            CallId { request: u128::MAX - u128::from(id.0), attempt: u32::MAX },
            UNKNOWN_MODEL.into(),
            SpendLabels::default(),
        )
    };
    let (call, model, labels) = identity.unwrap_or_else(unknown_call);
    UsageEvent {
        id: call,
        at: now,
        day,
        caller,
        tier,
        model,
        labels,
        usage: Usage { input, output, ..Usage::default() },
        cost: max_cost,
        certainty: Certainty::Maximum,
    }
}

//! The ledger of one node: money is held before a call and posted after it, without waiting for another node.
//!
//! **When it acts.** Before each call [`NodeLedger::reserve`] holds its maximum cost over all limits at once, and
//! journals that. The [`Hold`] ends exactly once: posted with the actual cost, voided because no call was made, or
//! dropped, which charges the maximum cost. An end may reach the journal a few milliseconds late; a crash then charges
//! that call at its maximum cost. Ended calls wait in a spool until they are carried to the shared ledger, unless the
//! journal feeds that ledger.
//!
//! **When the journal cannot write.** No new reservation succeeds, because money must not be spent before the spending
//! is journaled. What has been spent still changes the ledger in memory, and the failure is counted.
//!
//! **On a fleet.** The ledger of a node spends leases instead of caps, and reports to the shared ledger what was spent,
//! in totals.
//!
//! **What it does not do.** It sends no messages and starts no tasks. A hold that is never dropped is charged at its
//! maximum cost when it expires; the event of its call is emitted when the hold ends.

mod admission;
mod hold;
mod journal;
mod leases;
mod record;
mod spool;
#[cfg(test)]
mod tests;

pub use admission::{AdmissionRecord, IdempotencyRecord, LimitCharge};
pub use hold::{Hold, UnwrittenHold};
pub use journal::{Journal, JournalPosition, NoJournal};
pub use record::{InvalidRecord, JournalRecord};
#[cfg(feature = "embedded")]
pub(crate) use record::{
    RecentNames, certainty_byte, put_call, put_labels, put_usage, read_call, read_certainty, read_hash,
    read_labels, read_money, read_tier, read_usage, tier_byte,
};

use crate::ledger::Totals;
use crate::usage::{CallId, SpendLabels, UsageEvent};
use crate::{StoreError, lock};
use seawall_core::budget::{
    ApplyDecision, BudgetAccount, BudgetEntry, BudgetLedger, BudgetLimits, BudgetName, BudgetRefusal,
    CalendarHour, Correction, CorrectionRefusal, ReservationRequest, SessionTokens, SingleSourceAlarm,
    WindowCaps,
};
use seawall_core::money::Money;
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use spool::Spool;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a reservation also sweeps expired reservations, if nothing else does.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The most alarms that wait to be read. A caller raises one a day, so that more than this add no information.
const MAX_ALARMS: usize = 256;
/// The longest name of a model, in bytes. The name is stored with every call, and a call that could be reserved must
/// also be short enough to be posted.
const MAX_MODEL_NAME_BYTES: usize = 4_096;
/// The most expired reservations that are journaled together: a journal bounds the size of one write.
const MAX_EXPIRED_PER_WRITE: usize = 1_024;

/// One call to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCall {
    /// The id of the call.
    pub id: CallId,
    /// The vendor's name of the model.
    pub model: Arc<str>,
    /// What the call is made for.
    pub labels: SpendLabels,
}

/// Why nothing was reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// A budget limit has no room.
    #[error(transparent)]
    Refused(BudgetRefusal),
    /// The reservation could not be journaled.
    #[error(transparent)]
    Journal(StoreError),
}

/// Why a posting was not corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorrectionError {
    /// The ledger does not contain the posting that is to be corrected.
    #[error(transparent)]
    Refused(CorrectionRefusal),
    /// The correction could not be journaled.
    #[error(transparent)]
    Journal(StoreError),
}

/// Failures of the ledger since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLedgerStats {
    /// The number of journal writes that have failed.
    pub journal_failures: u64,
    /// Calls that found the spool full. They are in the node ledger, but their events never reach the shared ledger one by one.
    pub dropped: Totals,
}

/// The ledger of one node. Cloning gives another handle to the same ledger.
///
/// ```
/// use seawall_core::budget::{BudgetOptions, ReservationRequest, WindowCaps};
/// use seawall_core::history::TokenLimits;
/// use seawall_core::money::{Money, Usage};
/// use seawall_core::time::{Now, Timestamp};
/// use seawall_core::vocabulary::Tier;
/// use seawall_store::{CallId, SpendLabels, Certainty, LedgerCall, NoJournal, NodeLedger};
///
/// let ledger = NodeLedger::new(BudgetOptions::default().check().unwrap(), NoJournal);
/// let (limits, max_cost) = (TokenLimits::default(), Money::from_dollars(1));
/// let request = ReservationRequest {
///     caller: 7,
///     tier: Tier::Guest,
///     session: None,
///     limits,
///     input: 900,
///     output: 100,
///     max_cost,
///     expires: Timestamp::NEVER,
///     windows: WindowCaps::default(),
/// };
/// let attempt = LedgerCall { id: CallId { request: 1, attempt: 0 }, model: "strong".into(), labels: SpendLabels::default() };
/// let hold = ledger.reserve(&request, attempt, Now::default()).unwrap();
/// assert_eq!(ledger.day(0).held, max_cost);
/// hold.post(Usage::default(), Money::from_nanos(400_000_000), Certainty::Reported, Now::default());
/// assert_eq!((ledger.day(0).posted.to_string(), ledger.open_reservations()), ("$0.40".to_owned(), 0));
/// assert_eq!(ledger.take_events(10).len(), 1);
/// ```
#[derive(Clone)]
pub struct NodeLedger(Arc<Mutex<LedgerState>>);

/// The state behind the lock.
struct LedgerState {
    ledger: BudgetLedger,
    journal: Box<dyn Journal>,
    spool: Spool,
    alarms: Vec<SingleSourceAlarm>,
    journal_failures: u64,
    /// Why the last write failed, unless one has succeeded since.
    journal_error: Option<StoreError>,
    /// The latest wall-clock time that was passed in, because dropping a hold passes none.
    latest_utc: UtcTime,
    next_sweep: Timestamp,
    /// How long posted calls have held their money: a moving average over about the last sixteen.
    typical_hold_duration: Duration,
}

impl NodeLedger {
    /// An empty ledger that may spend up to the caps.
    #[must_use]
    pub fn new(limits: BudgetLimits, journal: impl Journal + 'static) -> Self {
        Self::with_ledger(BudgetLedger::new(limits), journal)
    }

    /// An empty ledger that may spend what is leased to this node; nothing is leased yet.
    #[must_use]
    pub fn with_leases(limits: BudgetLimits, node: u64, journal: impl Journal + 'static) -> Self {
        Self::with_ledger(BudgetLedger::with_leases(limits, node), journal)
    }

    /// A ledger that continues from a state that was read back.
    #[must_use]
    pub fn with_ledger(ledger: BudgetLedger, journal: impl Journal + 'static) -> Self {
        Self(Arc::new(Mutex::new(LedgerState {
            ledger,
            journal: Box::new(journal),
            spool: Spool::default(),
            alarms: Vec::new(),
            journal_failures: 0,
            journal_error: None,
            latest_utc: UtcTime::default(),
            next_sweep: Timestamp::ZERO,
            typical_hold_duration: Duration::ZERO,
        })))
    }

    /// Whether every limit has room for a call. Changes nothing.
    pub fn check(&self, request: &ReservationRequest, now: Now) -> Result<(), BudgetRefusal> {
        lock(&self.0).ledger.decide(request, now).map(drop)
    }

    /// Holds the maximum cost of a call, if every limit has room for it and it can be journaled.
    pub fn reserve(
        &self,
        request: &ReservationRequest,
        call: LedgerCall,
        now: Now,
    ) -> Result<Hold, ReserveError> {
        self.begin(request, call, None, now)?.write()
    }

    /// Holds the maximum cost of a call, if every limit has room for it. The reservation still has to be written to
    /// the journal, together with what its request was charged by limits, where that has not been buffered yet.
    pub fn begin(
        &self,
        request: &ReservationRequest,
        call: LedgerCall,
        admission: Option<&AdmissionRecord>,
        now: Now,
    ) -> Result<UnwrittenHold, ReserveError> {
        let mut state = lock(&self.0);
        state.observe_time(now);
        if now.monotonic >= state.next_sweep {
            state.expire(now.monotonic);
        }
        if call.model.len() > MAX_MODEL_NAME_BYTES {
            let reason = "the model name is longer than 4096 bytes";
            return Err(ReserveError::Journal(StoreError::failed("ledger", reason)));
        }
        let entry = state.ledger.decide(request, now).map_err(ReserveError::Refused)?;
        let BudgetEntry::Reserved(reservation) = entry else {
            return Err(ReserveError::Journal(StoreError::failed(
                "ledger",
                "the decision is not a reservation",
            )));
        };
        // Includes the id of the call, so that a call that never ends can still be posted.
        let (model, labels) = (Arc::clone(&call.model), call.labels.clone());
        let started = JournalRecord::CallStarted { reservation, id: call.id, model, labels };
        let position = match admission.and_then(AdmissionRecord::unjournaled) {
            Some(admission) => state.journal.buffer(&[admission, started]),
            None => state.journal.buffer(std::slice::from_ref(&started)),
        };
        state.record_failure(&position);
        let position = position.map_err(ReserveError::Journal)?;
        if let Some(admission) = admission {
            admission.mark_journaled();
        }
        state.apply(&entry);
        drop(state);
        Ok(UnwrittenHold::new(Hold::new(self.clone(), reservation, call, now.monotonic), position))
    }

    /// Charges expired reservations at their maximum cost. Reservations do this now and then; where requests are
    /// few, call it about every second. Returns how many had expired.
    pub fn expire(&self, now: Now) -> usize {
        let mut state = lock(&self.0);
        state.observe_time(now);
        state.expire(now.monotonic)
    }

    /// Changes the limits. What is posted and held stays.
    pub fn set_limits(&self, limits: BudgetLimits) {
        lock(&self.0).ledger.set_limits(limits);
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        lock(&self.0).ledger.limits().clone()
    }

    /// What all tiers have spent on a day, counted in days since 1970.
    #[must_use]
    pub fn day(&self, day: u64) -> BudgetAccount {
        lock(&self.0).ledger.all(day)
    }

    /// What a tier has spent on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> BudgetAccount {
        lock(&self.0).ledger.tier(day, tier)
    }

    /// What a tier may spend on a day on this node: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        lock(&self.0).ledger.tier_cap(day, tier)
    }

    /// What calls of all tiers have cost on a day beyond their reservations. It is included in what is posted.
    #[must_use]
    pub fn overrun(&self, day: u64) -> Money {
        let state = lock(&self.0);
        Tier::ALL.into_iter().map(|tier| state.ledger.overrun(day, tier)).sum()
    }

    /// Corrects what was posted for a call. The correction is journaled first, so that a restart does not restore the
    /// old amount.
    pub fn correct(&self, correction: &Correction) -> Result<(), CorrectionError> {
        let mut state = lock(&self.0);
        let entry = state.ledger.decide_correction(correction).map_err(CorrectionError::Refused)?;
        state.write(&[JournalRecord::Entry(entry)]).map_err(CorrectionError::Journal)?;
        state.apply(&entry);
        Ok(())
    }

    /// What one caller has spent on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> BudgetAccount {
        lock(&self.0).ledger.caller(day, caller)
    }

    /// The most that a request of this caller could hold now.
    #[must_use]
    pub fn available(&self, caller: u64, tier: Tier, windows: &WindowCaps, now: Now) -> Money {
        lock(&self.0).ledger.available(caller, tier, windows, now)
    }

    /// What is posted and held in the window of a budget that contains this hour; see [`BudgetLedger::window`].
    #[must_use]
    pub fn window(&self, name: BudgetName, id: u64, hour: CalendarHour) -> BudgetAccount {
        lock(&self.0).ledger.window(name, id, hour)
    }

    /// Lets the ledger learn of all calls that have ended by now, where the journal [feeds](Journal::feeds_ledger) it.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let mut state = lock(&self.0);
        let written = state.journal.checkpoint();
        state.record_write(&written);
        written
    }

    /// The tokens that a conversation has used.
    #[must_use]
    pub fn session(&self, session: u64) -> SessionTokens {
        lock(&self.0).ledger.session(session)
    }

    /// The number of calls in flight that have not expired.
    #[must_use]
    pub fn open_reservations(&self) -> usize {
        lock(&self.0).ledger.open()
    }

    /// How long calls have typically held their money lately, to estimate when money that is held now will be free
    /// again.
    #[must_use]
    pub fn typical_hold_duration(&self) -> Duration {
        lock(&self.0).typical_hold_duration
    }

    /// Why the journal cannot be written, while that lasts. Nothing can be reserved meanwhile.
    #[must_use]
    pub fn journal_error(&self) -> Option<StoreError> {
        lock(&self.0).journal_error.clone()
    }

    /// Retries a journal that could not be written. Call it about every second, because without requests nothing else
    /// retries.
    pub fn retry_journal(&self) {
        let mut state = lock(&self.0);
        if state.journal_error.is_some() {
            let written = state.journal.flush();
            state.record_failure(&written);
            if written.is_ok() {
                state.journal_error = None;
            }
        }
    }

    /// Failures so far.
    #[must_use]
    pub fn stats(&self) -> NodeLedgerStats {
        let state = lock(&self.0);
        NodeLedgerStats { journal_failures: state.journal_failures, dropped: state.spool.dropped() }
    }

    /// Takes up to `max` ended calls, oldest first, to be posted to the ledger. Empty where the ledger [takes
    /// them](Journal::feeds_ledger) from the journal.
    #[must_use]
    pub fn take_events(&self, max: usize) -> Vec<UsageEvent> {
        lock(&self.0).spool.take(max)
    }

    /// Takes the alarms about unusual callers; each caller raises one alarm a day.
    #[must_use]
    pub fn take_alarms(&self) -> Vec<SingleSourceAlarm> {
        std::mem::take(&mut lock(&self.0).alarms)
    }
}

impl LedgerState {
    fn observe_time(&mut self, now: Now) {
        self.latest_utc = self.latest_utc.max(now.utc);
    }

    fn record_hold_duration(&mut self, duration: Duration) {
        self.typical_hold_duration = if self.typical_hold_duration.is_zero() {
            duration
        } else {
            (self.typical_hold_duration.saturating_mul(15).saturating_add(duration)) / 16
        };
    }

    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        let written = self.journal.write(records);
        self.record_write(&written);
        written
    }

    fn write_buffered(&mut self, position: JournalPosition) -> Result<(), StoreError> {
        let written = self.journal.write_buffered(position);
        self.record_write(&written);
        written
    }

    fn record_write(&mut self, written: &Result<(), StoreError>) {
        self.record_failure(written);
        if written.is_ok() {
            self.journal_error = None;
        }
    }

    fn record_failure<T>(&mut self, written: &Result<T, StoreError>) {
        if let Err(error) = written {
            self.journal_failures = self.journal_failures.saturating_add(1);
            self.journal_error = Some(error.clone());
        }
    }

    fn apply(&mut self, entry: &BudgetEntry) {
        let decision = self.ledger.apply(entry);
        self.record_alarm(decision);
    }

    fn record_alarm(&mut self, decision: ApplyDecision) {
        if let ApplyDecision::SingleSource(alarm) = decision
            && self.alarms.len() < MAX_ALARMS
        {
            self.alarms.push(alarm);
        }
    }

    fn expire(&mut self, now: Timestamp) -> usize {
        self.next_sweep = now + SWEEP_INTERVAL;
        let expired = self.ledger.expire(now);
        if expired.is_empty() {
            return 0;
        }
        for chunk in expired.chunks(MAX_EXPIRED_PER_WRITE) {
            let records: Vec<_> = chunk.iter().map(|(entry, _)| JournalRecord::Entry(*entry)).collect();
            // Reservations that are open when the ledger is read back are charged at their maximum cost anyway.
            let _ = self.write(&records);
        }
        for (_, decision) in &expired {
            self.record_alarm(*decision);
        }
        expired.len()
    }

    /// Ends a reservation, in the journal and in the ledger.
    fn settle(&mut self, record: &JournalRecord) {
        // An end that the journal lost is charged at its maximum cost when it is read back.
        let position = self.journal.buffer(std::slice::from_ref(record));
        self.record_failure(&position);
        if let Some(entry) = record.entry() {
            self.apply(&entry);
        }
    }

    /// Spools the event of an ended call, unless the journal feeds the ledger.
    fn spool_event(&mut self, event: impl FnOnce() -> UsageEvent) {
        if !self.journal.feeds_ledger() {
            self.spool.put(event());
        }
    }
}

impl fmt::Debug for NodeLedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NodeLedger").field("open", &self.open_reservations()).finish_non_exhaustive()
    }
}

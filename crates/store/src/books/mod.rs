//! The books of one node: money is held before a call and posted after it, without waiting for another node.
//!
//! **When they act.** Before each call [`Books::reserve`] holds its worst-case cost over all limits at once, and
//! journals that. The [`Hold`] ends exactly once: posted with the actual cost, voided because no call was made, or
//! dropped, which charges the worst case. An end may reach the journal a few milliseconds late; a crash then charges
//! that call at its worst-case cost. Ended calls wait in a spool until they are carried to the ledger, unless the
//! journal feeds the ledger.
//!
//! **When the journal cannot write.** No new reservation succeeds, because money must not be spent before the spending
//! is journaled. What has been spent still changes the books in memory, and the failure is counted.
//!
//! **On a fleet.** The books of a node spend leases instead of caps, and report to the ledger what was spent, in
//! totals.
//!
//! **What they do not do.** They send no messages and start no tasks. A hold that is never dropped is charged at its
//! worst-case cost when it expires; the event of its call is emitted when the hold ends.

mod counted;
mod hold;
mod journal;
mod record;
mod spool;
#[cfg(test)]
mod tests;

pub(crate) use counted::MOST_CHARGED;
pub use counted::{CountMark, LimitCharge, NameMark};
pub use hold::{Hold, Unwritten};
pub use journal::{Journal, NoJournal, Noted};
pub use record::{JournalRecord, NoRecord};
#[cfg(feature = "embedded")]
pub(crate) use record::{
    certainty_byte, put_call, put_usage, read_call, read_certainty, read_hash, read_money, read_tier,
    read_usage, tier_byte,
};

use crate::ledger::Totals;
use crate::usage::{CallId, UsageEvent};
use crate::{StoreError, lock};
use seawall_core::budget::{
    Account, ApplyDecision, Ask, BudgetBook, BudgetLimits, BudgetRefusal, Correction, CorrectionRefusal,
    Entry, HeldLease, Lease, LeaseReport, SessionTokens, SourceAlarm,
};
use seawall_core::money::Money;
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use spool::Spool;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a reservation also sweeps expired reservations, if nothing else does.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most alarms that wait to be read. A caller raises one a day, so that more than this add no information.
const MOST_ALARMS: usize = 256;
/// The longest name of a model, in bytes. The name is stored with every call, and a call that could be reserved must
/// also be short enough to be posted.
const MOST_IN_A_NAME: usize = 4_096;
/// The most expired reservations that are journaled together: a journal bounds the size of one write.
const EXPIRED_TOGETHER: usize = 1_024;

/// One call to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The id of the call.
    pub id: CallId,
    /// The vendor's name of the model.
    pub model: Arc<str>,
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
pub enum CorrectError {
    /// The books do not contain the posting that is to be corrected.
    #[error(transparent)]
    Refused(CorrectionRefusal),
    /// The correction could not be journaled.
    #[error(transparent)]
    Journal(StoreError),
}

/// Failures of the books since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BooksStats {
    /// The number of journal writes that have failed.
    pub journal_failures: u64,
    /// Calls that found the spool full. They are in the books, but their events never reach the ledger one by one.
    pub untold: Totals,
}

/// The books of one node. Cloning gives another handle to the same books.
///
/// ```
/// use seawall_core::budget::{Ask, BudgetOptions};
/// use seawall_core::history::TokenLimits;
/// use seawall_core::money::{Money, Usage};
/// use seawall_core::time::{Now, Timestamp};
/// use seawall_core::vocabulary::Tier;
/// use seawall_store::{Attempt, Books, CallId, Certainty, NoJournal};
///
/// let books = Books::new(BudgetOptions::default().check().unwrap(), NoJournal);
/// let (limits, worst) = (TokenLimits::default(), Money::from_dollars(1));
/// let ask = Ask {
///     caller: 7,
///     tier: Tier::Guest,
///     session: None,
///     limits,
///     input: 900,
///     output: 100,
///     worst,
///     expires: Timestamp::NEVER,
/// };
/// let attempt = Attempt { id: CallId { request: 1, attempt: 0 }, model: "strong".into() };
/// let hold = books.reserve(&ask, attempt, Now::default()).unwrap();
/// assert_eq!(books.day(0).held, worst);
/// hold.post(Usage::default(), Money::from_nanos(400_000_000), Certainty::Told, Now::default());
/// assert_eq!((books.day(0).posted.to_string(), books.open()), ("$0.40".to_owned(), 0));
/// assert_eq!(books.take_events(10).len(), 1);
/// ```
#[derive(Clone)]
pub struct Books(Arc<Mutex<Desk>>);

/// The state behind the lock.
struct Desk {
    book: BudgetBook,
    journal: Box<dyn Journal>,
    spool: Spool,
    alarms: Vec<SourceAlarm>,
    journal_failures: u64,
    /// Why the last write failed, unless one has succeeded since.
    journal_error: Option<StoreError>,
    /// The latest wall-clock time that was passed in, because dropping a hold passes none.
    heard: UtcTime,
    next_look: Timestamp,
    /// How long posted calls have held their money: a moving average over about the last sixteen.
    typical_hold: Duration,
}

impl Books {
    /// Empty books that may spend up to the caps.
    #[must_use]
    pub fn new(limits: BudgetLimits, journal: impl Journal + 'static) -> Self {
        Self::with_book(BudgetBook::new(limits), journal)
    }

    /// Empty books that may spend what is leased to this node; nothing is leased yet.
    #[must_use]
    pub fn on_leases(limits: BudgetLimits, node: u64, journal: impl Journal + 'static) -> Self {
        Self::with_book(BudgetBook::on_leases(limits, node), journal)
    }

    /// Books that continue from a state that was read back.
    #[must_use]
    pub fn with_book(book: BudgetBook, journal: impl Journal + 'static) -> Self {
        Self(Arc::new(Mutex::new(Desk {
            book,
            journal: Box::new(journal),
            spool: Spool::default(),
            alarms: Vec::new(),
            journal_failures: 0,
            journal_error: None,
            heard: UtcTime::default(),
            next_look: Timestamp::ZERO,
            typical_hold: Duration::ZERO,
        })))
    }

    /// Holds the worst-case cost of a call, if every limit has room for it and it can be journaled.
    pub fn reserve(&self, ask: &Ask, attempt: Attempt, now: Now) -> Result<Hold, ReserveError> {
        self.begin(ask, attempt, None, now)?.write()
    }

    /// Holds the worst-case cost of a call, if every limit has room for it. The reservation still has to be written to
    /// the journal, together with what its request has taken from limits where that has not been noted yet.
    pub fn begin(
        &self,
        ask: &Ask,
        attempt: Attempt,
        mark: Option<&CountMark>,
        now: Now,
    ) -> Result<Unwritten, ReserveError> {
        let mut desk = lock(&self.0);
        desk.hear(now);
        if now.monotonic >= desk.next_look {
            desk.expire(now.monotonic);
        }
        if attempt.model.len() > MOST_IN_A_NAME {
            let reason = "the name of the model is too long to be written down";
            return Err(ReserveError::Journal(StoreError::broken("book", reason)));
        }
        let entry = desk.book.decide(ask, now).map_err(ReserveError::Refused)?;
        let Entry::Reserved(reservation) = entry else {
            return Err(ReserveError::Journal(StoreError::broken(
                "book",
                "what was decided is no reservation",
            )));
        };
        // Includes the id of the call, so that a call that never ends can still be posted.
        let begun = JournalRecord::Begun { reservation, id: attempt.id, model: Arc::clone(&attempt.model) };
        let noted = match mark.and_then(CountMark::unnoted) {
            Some(counted) => desk.journal.note(&[counted, begun]),
            None => desk.journal.note(std::slice::from_ref(&begun)),
        };
        desk.count(&noted);
        let noted = noted.map_err(ReserveError::Journal)?;
        if let Some(mark) = mark {
            mark.set_noted();
        }
        desk.apply(&entry);
        drop(desk);
        Ok(Unwritten::new(Hold::new(self.clone(), reservation, attempt, now.monotonic), noted))
    }

    /// Charges expired reservations at their worst-case cost. Reservations do this now and then; where requests are
    /// few, call it about every second. Returns how many had expired.
    pub fn expire(&self, now: Now) -> usize {
        let mut desk = lock(&self.0);
        desk.hear(now);
        desk.expire(now.monotonic)
    }

    /// Changes the limits. What is posted and held stays.
    pub fn set_limits(&self, limits: BudgetLimits) {
        lock(&self.0).book.set_limits(limits);
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> BudgetLimits {
        lock(&self.0).book.limits().clone()
    }

    /// What all tiers have spent on a day, counted in days since 1970.
    #[must_use]
    pub fn day(&self, day: u64) -> Account {
        lock(&self.0).book.all(day)
    }

    /// What a tier has spent on a day.
    #[must_use]
    pub fn tier(&self, day: u64, tier: Tier) -> Account {
        lock(&self.0).book.tier(day, tier)
    }

    /// What a tier may spend on a day on this node: its cap, or what was leased.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        lock(&self.0).book.tier_cap(day, tier)
    }

    /// What calls of all tiers have cost on a day beyond their reservations. It is included in what is posted.
    #[must_use]
    pub fn overrun(&self, day: u64) -> Money {
        let desk = lock(&self.0);
        Tier::ALL.into_iter().map(|tier| desk.book.overrun(day, tier)).sum()
    }

    /// Corrects what was posted for a call. The correction is journaled first, so that a restart does not restore the
    /// old amount.
    pub fn correct(&self, correction: &Correction) -> Result<(), CorrectError> {
        let mut desk = lock(&self.0);
        let entry = desk.book.decide_correction(correction).map_err(CorrectError::Refused)?;
        desk.write(&[JournalRecord::Entry(entry)]).map_err(CorrectError::Journal)?;
        desk.apply(&entry);
        Ok(())
    }

    /// What one caller has spent on a day.
    #[must_use]
    pub fn caller(&self, day: u64, caller: u64) -> Account {
        lock(&self.0).book.caller(day, caller)
    }

    /// The most that a request of this caller could hold now.
    #[must_use]
    pub fn free(&self, caller: u64, tier: Tier, now: Now) -> Money {
        lock(&self.0).book.free(caller, tier, now)
    }

    /// The tokens that a conversation has used.
    #[must_use]
    pub fn session(&self, session: u64) -> SessionTokens {
        lock(&self.0).book.session(session)
    }

    /// The number of calls in flight that have not expired.
    #[must_use]
    pub fn open(&self) -> usize {
        lock(&self.0).book.open()
    }

    /// How long calls have typically held their money lately, to estimate when money that is held now will be free
    /// again.
    #[must_use]
    pub fn typical_hold(&self) -> Duration {
        lock(&self.0).typical_hold
    }

    /// Why the journal cannot be written, while that lasts. Nothing can be reserved meanwhile.
    #[must_use]
    pub fn journal_error(&self) -> Option<StoreError> {
        lock(&self.0).journal_error.clone()
    }

    /// Retries a journal that could not be written. Call it about every second, because without requests nothing else
    /// retries.
    pub fn retry_journal(&self) {
        let mut desk = lock(&self.0);
        if desk.journal_error.is_some() {
            let written = desk.journal.flush();
            desk.count(&written);
            if written.is_ok() {
                desk.journal_error = None;
            }
        }
    }

    /// Failures so far.
    #[must_use]
    pub fn stats(&self) -> BooksStats {
        let desk = lock(&self.0);
        BooksStats { journal_failures: desk.journal_failures, untold: desk.spool.untold() }
    }

    /// Takes up to `most` ended calls, oldest first, to be posted to the ledger. Empty where the ledger [takes
    /// them](Journal::feeds_ledger) from the journal.
    #[must_use]
    pub fn take_events(&self, most: usize) -> Vec<UsageEvent> {
        lock(&self.0).spool.take(most)
    }

    /// Takes the alarms about unusual callers; each caller raises one alarm a day.
    #[must_use]
    pub fn take_alarms(&self) -> Vec<SourceAlarm> {
        std::mem::take(&mut lock(&self.0).alarms)
    }

    /// Applies the ledger's response to a lease request that was sent at `asked`. The lease runs from that moment, less
    /// a margin for clocks that run at different speeds.
    pub fn set_lease(&self, lease: &Lease, asked: Timestamp, margin: Duration) {
        let mut desk = lock(&self.0);
        if let Some(entry) = desk.book.set_lease(lease, asked, margin) {
            // If the write fails, books that are read back spend less than they may, which is safe.
            let _ = desk.write(&[JournalRecord::Entry(entry)]);
        }
    }

    /// The reports to the ledger about all leases of a day.
    #[must_use]
    pub fn lease_reports(&self, day: u64) -> Vec<LeaseReport> {
        lock(&self.0).book.lease_reports(day)
    }

    /// The lease that pays for a tier's calls of a day. `None` where caps are spent.
    #[must_use]
    pub fn held_lease(&self, day: u64, tier: Tier) -> Option<HeldLease> {
        lock(&self.0).book.held_lease(day, tier)
    }

    /// Gives back up to `total` of the current lease of a tier's day, counted from the start of the lease, as far as it
    /// is neither posted nor held. It is journaled first: otherwise books that are read back would spend money that
    /// another node has. Returns the total that has been given back.
    pub fn give_back(&self, day: u64, tier: Tier, total: Money) -> Result<Money, StoreError> {
        let mut desk = lock(&self.0);
        if let Some(entry) = desk.book.decide_return(day, tier, total) {
            desk.write(&[JournalRecord::Entry(entry)])?;
            desk.apply(&entry);
        }
        Ok(desk.book.held_lease(day, tier).map_or(Money::ZERO, |held| held.returned))
    }
}

impl Desk {
    fn hear(&mut self, now: Now) {
        self.heard = self.heard.max(now.utc);
    }

    fn learn_hold(&mut self, lasted: Duration) {
        self.typical_hold = if self.typical_hold.is_zero() {
            lasted
        } else {
            (self.typical_hold.saturating_mul(15).saturating_add(lasted)) / 16
        };
    }

    fn write(&mut self, records: &[JournalRecord]) -> Result<(), StoreError> {
        let written = self.journal.write(records);
        self.count_write(&written);
        written
    }

    fn write_noted(&mut self, noted: Noted) -> Result<(), StoreError> {
        let written = self.journal.write_noted(noted);
        self.count_write(&written);
        written
    }

    fn count_write(&mut self, written: &Result<(), StoreError>) {
        self.count(written);
        if written.is_ok() {
            self.journal_error = None;
        }
    }

    fn count<T>(&mut self, written: &Result<T, StoreError>) {
        if let Err(error) = written {
            self.journal_failures = self.journal_failures.saturating_add(1);
            self.journal_error = Some(error.clone());
        }
    }

    fn apply(&mut self, entry: &Entry) {
        let decision = self.book.apply(entry);
        self.note(decision);
    }

    fn note(&mut self, decision: ApplyDecision) {
        if let ApplyDecision::SingleSource(alarm) = decision
            && self.alarms.len() < MOST_ALARMS
        {
            self.alarms.push(alarm);
        }
    }

    fn expire(&mut self, now: Timestamp) -> usize {
        self.next_look = now + LOOK_EVERY;
        let expired = self.book.expire(now);
        if expired.is_empty() {
            return 0;
        }
        for some in expired.chunks(EXPIRED_TOGETHER) {
            let records: Vec<_> = some.iter().map(|(entry, _)| JournalRecord::Entry(*entry)).collect();
            // Reservations that are open when the books are read back are charged at their worst-case cost anyway.
            let _ = self.write(&records);
        }
        for (_, decision) in &expired {
            self.note(*decision);
        }
        expired.len()
    }

    /// Ends a reservation, in the journal and in the books.
    fn settle(&mut self, record: &JournalRecord) {
        // An end that the journal lost is charged at its worst-case cost when it is read back.
        let noted = self.journal.note(std::slice::from_ref(record));
        self.count(&noted);
        if let Some(entry) = record.entry() {
            self.apply(&entry);
        }
    }

    /// Spools the event of an ended call, unless the journal feeds the ledger.
    fn tell(&mut self, event: impl FnOnce() -> UsageEvent) {
        if !self.journal.feeds_ledger() {
            self.spool.put(event());
        }
    }
}

impl fmt::Debug for Books {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Books").field("open", &self.open()).finish_non_exhaustive()
    }
}

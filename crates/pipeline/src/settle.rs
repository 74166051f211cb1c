//! The last stage: what it took and what it cost.

use crate::callers::TierOrigin;
use crate::credential::CredentialStatus;
use crate::limit_name::LimitName;
use crate::limits::{Limits, Taking};
use seawall_core::failure::FailureKind;
use seawall_core::handle::Runtime;
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{Cost, LimitView};
use seawall_core::strategy::Language;
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::{Rung, Tier};
use seawall_store::{Books, CountMark, Spent};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answered whole.
    Answered,
    /// Broken off after text had been delivered.
    Interrupted(FailureKind),
    /// The caller went away.
    Abandoned,
    /// Refused; the word says why.
    Rejected(&'static str),
}

/// What is known of a request once it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Our name for it.
    pub id: u64,
    /// Where it came in.
    pub face: &'static str,
    /// Who asked, where that became known.
    pub caller: Option<(u64, Tier, TierOrigin)>,
    /// The route it asked for, where that is one.
    pub route: Option<Arc<str>>,
    /// Which way it was answered.
    pub rung: Option<Rung>,
    /// Which target answered, if one did.
    pub target: Option<Arc<str>>,
    /// Whether a limit would have refused it that is not enforced.
    pub would_limit: bool,
    /// The limit that refused it, or would have.
    pub limit: Option<Arc<LimitName>>,
    /// How it ended.
    pub verdict: Verdict,
    /// More about why it was refused than the caller was told.
    pub cause: Option<&'static str>,
    /// Attempts made.
    pub attempts: u32,
    /// What the answering attempt used.
    pub usage: Usage,
    /// What was posted for all attempts together.
    pub cost: Money,
    /// By how much that is more than was reserved for them.
    pub overrun: Money,
    /// Whether a vendor told more than is possible, and was not believed.
    pub is_bounded: bool,
    /// From arrival to first content, where there was any.
    pub first_content: Option<Duration>,
    /// From arrival to the end.
    pub took: Duration,
    /// What Seawall itself added before the answer began.
    pub overhead: Option<Duration>,
    /// When it was over.
    pub ended: Timestamp,
}

/// What is known of one try on one target once it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord<'a> {
    /// Where.
    pub target: &'a Arc<str>,
    /// For whom.
    pub tier: Tier,
    /// How it ended.
    pub ending: AttemptEnding,
    /// What the books say it used: what the vendor told, or else the most it can have been.
    pub usage: Usage,
    /// What was posted for it.
    pub cost: Money,
    /// By how much that is more than was reserved for it.
    pub overrun: Money,
    /// Whether the vendor told more than is possible, and was not believed.
    pub is_bounded: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    /// With an answer.
    Succeeded,
    /// Without.
    Failed(FailureKind),
    /// Nobody wanted its answer any more.
    Abandoned,
}

/// What the attempts of one request have come to so far. Attempts add to it, whatever becomes of them.
pub(crate) struct Tally {
    observer: Arc<dyn Observer>,
    attempts: AtomicU32,
    /// What it has taken of limits and names, where that outlives the process.
    mark: OnceLock<Box<(Books, CountMark)>>,
    /// Whether any attempt reached a vendor.
    was_sent: AtomicBool,
    cost_nanos: AtomicU64,
    overrun_nanos: AtomicU64,
    is_bounded: AtomicBool,
    /// Tokens that were posted, for input and output.
    tokens: AtomicU64,
    /// Time spent waiting for others: targets, places, pauses between tries.
    waited_nanos: AtomicU64,
}

impl Tally {
    fn new(observer: &Arc<dyn Observer>) -> Self {
        Self {
            observer: Arc::clone(observer),
            attempts: AtomicU32::new(0),
            mark: OnceLock::new(),
            was_sent: AtomicBool::new(false),
            cost_nanos: AtomicU64::new(0),
            overrun_nanos: AtomicU64::new(0),
            is_bounded: AtomicBool::new(false),
            tokens: AtomicU64::new(0),
            waited_nanos: AtomicU64::new(0),
        }
    }

    /// Tells of an attempt that is over, and whether anything of it reached a vendor.
    pub(crate) fn attempted(&self, attempt: &AttemptRecord<'_>, was_sent: bool) {
        if was_sent {
            self.was_sent.store(true, Ordering::Relaxed);
        }
        self.observer.attempted(attempt);
    }

    /// Tells that a vendor has begun to reject our key, or to accept it.
    pub(crate) fn credential_changed(&self, target: &Arc<str>, status: CredentialStatus) {
        self.observer.credential_changed(target, status);
    }

    /// This is to be written down with the first reservation, in these books.
    pub(crate) fn set_mark(&self, books: Books, mark: CountMark) {
        // A request is let in once.
        let _ = self.mark.set(Box::new((books, mark)));
    }

    pub(crate) fn mark(&self) -> Option<&CountMark> {
        self.mark.get().map(|marked| &marked.1)
    }

    fn settle_mark(&self, spent: Spent, now: Now) {
        if let Some((books, mark)) = self.mark.get().map(Box::as_ref) {
            books.settle_mark(mark, spent, now);
        }
    }

    pub(crate) fn count_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// An attempt has used and cost this, as the books have it.
    pub(crate) fn add(&self, usage: &Usage, cost: Money) {
        add(&self.cost_nanos, cost.as_nanos());
        add(&self.tokens, usage.total_input().saturating_add(usage.output));
    }

    /// An attempt has cost so much more than was reserved for it.
    pub(crate) fn add_overrun(&self, overrun: Money, is_bounded: bool) {
        add(&self.overrun_nanos, overrun.as_nanos());
        self.is_bounded.fetch_or(is_bounded, Ordering::Relaxed);
    }

    fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    pub(crate) fn cost(&self) -> Money {
        Money::from_nanos(self.cost_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn add_wait(&self, wait: Duration) {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        add(&self.waited_nanos, nanos);
    }

    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_nanos.load(Ordering::Relaxed))
    }
}

/// A vendor may tell numbers beyond all measure; two of them must not add up to a small one.
fn add(sum: &AtomicU64, more: u64) {
    let added = |sum: u64| Some(sum.saturating_add(more));
    // It always gives a number.
    let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
}

/// The end of a request, told exactly once: dropped at any point, it tells what is known by then, and puts right what was
/// taken of limits. A request whose caller goes away before anything was decided ends as abandoned.
pub(crate) struct Closing<R: Runtime> {
    runtime: R,
    began: Timestamp,
    pub(crate) tally: Arc<Tally>,
    pub(crate) record: Record,
    /// The limit with the least left.
    pub(crate) tightest: Option<LimitView>,
    /// The limits of the caller's tier, as a header of answers has them; for refusals.
    pub(crate) policy: Option<Arc<str>>,
    /// What we speak to this caller, where our own face knows it.
    pub(crate) language: Option<Language>,
    /// What is to be put right at the end, and where.
    pub(crate) taking: Option<(Taking, Arc<Limits>)>,
    /// Whether limits have counted it.
    pub(crate) is_counted: bool,
    /// When it was over, where that was before this is dropped.
    pub(crate) ended: Option<Timestamp>,
}

impl<R: Runtime> Closing<R> {
    pub(crate) fn new(runtime: &R, observer: &Arc<dyn Observer>, id: u64, face: &'static str) -> Self {
        let record = Record {
            id,
            face,
            caller: None,
            route: None,
            rung: None,
            target: None,
            would_limit: false,
            limit: None,
            verdict: Verdict::Abandoned,
            cause: None,
            attempts: 0,
            usage: Usage::default(),
            cost: Money::ZERO,
            overrun: Money::ZERO,
            is_bounded: false,
            first_content: None,
            took: Duration::ZERO,
            overhead: None,
            ended: Timestamp::ZERO,
        };
        Self {
            runtime: runtime.clone(),
            began: runtime.monotonic(),
            tally: Arc::new(Tally::new(observer)),
            record,
            tightest: None,
            policy: None,
            language: None,
            taking: None,
            is_counted: true,
            ended: None,
        }
    }

    /// The answer begins now: what has passed by then, without what was waited for, is our own.
    pub(crate) fn note_overhead(&mut self, now: Timestamp) {
        self.record.overhead = Some((now - self.began).saturating_sub(self.tally.waited()));
    }
}

impl<R: Runtime> Drop for Closing<R> {
    fn drop(&mut self) {
        let record = &mut self.record;
        record.attempts = self.tally.attempts();
        record.cost = self.tally.cost();
        record.overrun = Money::from_nanos(self.tally.overrun_nanos.load(Ordering::Relaxed));
        record.is_bounded = self.tally.is_bounded.load(Ordering::Relaxed);
        record.ended = self.ended.unwrap_or_else(|| self.runtime.monotonic());
        record.took = record.ended - self.began;
        if let Some((taking, limits)) = self.taking.take() {
            // A refusal is free, whatever it was for, unless a vendor has worked on the request before. Who goes away by
            // itself has been let in all the same: otherwise leaving early would be a way around limits.
            let is_free = matches!(record.verdict, Verdict::Rejected(_))
                && !self.tally.was_sent.load(Ordering::Relaxed);
            if is_free {
                let now = self.runtime.now();
                self.tally.settle_mark(Spent::default(), now);
                limits.refund(taking, now);
                self.tally.observer.settled(record);
                return;
            }
            // All that the books have, also of attempts that failed and of answers that nobody read to their end, where a
            // vendor has told of the use: who leaves in time must not have used nothing.
            let used = u32::try_from(self.tally.tokens()).unwrap_or(u32::MAX);
            let spent = Spent {
                cost: if self.is_counted { Cost::tokens(used) } else { Cost::NOTHING },
                money: record.cost,
                done: record.verdict == Verdict::Answered,
            };
            let now = self.runtime.now();
            if let Some(mark) = self.tally.mark() {
                let cost = if taking.is_settled() { spent.cost } else { mark.cost() };
                self.tally.settle_mark(Spent { cost, ..spent }, now);
            }
            limits.settle(taking, spent, now);
        }
        self.tally.observer.settled(record);
    }
}

/// Somebody who wants to know of every request that is over. Called on the request's own task: it must not wait.
pub trait Observer: Send + Sync {
    /// A request is over.
    fn settled(&self, record: &Record);

    /// A try on a target is over. Comes before the end of its request, unless that ends in mid-air.
    fn attempted(&self, _attempt: &AttemptRecord<'_>) {}

    /// A target's vendor has begun to reject our key, or accepts it again.
    fn credential_changed(&self, _target: &Arc<str>, _status: CredentialStatus) {}
}

#[cfg(test)]
mod tests {
    use super::add;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn numbers_beyond_all_measure_add_up_to_the_most_there_is() {
        let sum = AtomicU64::new(0);
        for (more, all) in [(1, 1), (u64::MAX - 2, u64::MAX - 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            add(&sum, more);
            assert_eq!(sum.load(Ordering::Relaxed), all);
        }
    }
}

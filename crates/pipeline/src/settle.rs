//! The last stage: what it took and what it cost.

use seawall_core::failure::FailureKind;
use seawall_core::handle::Runtime;
use seawall_core::money::{Money, Usage};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
    /// Who asked, where that became known.
    pub caller: Option<(u64, Tier)>,
    /// Which target answered, if one did.
    pub target: Option<String>,
    /// How it ended.
    pub verdict: Verdict,
    /// Attempts made.
    pub attempts: u32,
    /// What the answering attempt used.
    pub usage: Usage,
    /// What was posted for all attempts together.
    pub cost: Money,
    /// From arrival to first content, where there was any.
    pub first_content: Option<Duration>,
    /// When it was over.
    pub ended: Timestamp,
}

/// What the attempts of one request have come to so far. Attempts add to it, whatever becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    attempts: AtomicU32,
    cost_nanos: AtomicU64,
}

impl Tally {
    pub(crate) fn count_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    pub(crate) fn add_cost(&self, cost: Money) {
        self.cost_nanos.fetch_add(cost.as_nanos(), Ordering::Relaxed);
    }
}

/// The end of a request, told exactly once: dropped at any point, it tells what is known by then. A request whose caller
/// goes away before anything was decided ends as abandoned.
pub(crate) struct Closing<R: Runtime> {
    runtime: R,
    observer: Arc<dyn Observer>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) record: Record,
    /// When it was over, where that was before this is dropped.
    pub(crate) ended: Option<Timestamp>,
}

impl<R: Runtime> Closing<R> {
    pub(crate) fn new(runtime: &R, observer: &Arc<dyn Observer>, id: u64) -> Self {
        let record = Record {
            id,
            caller: None,
            target: None,
            verdict: Verdict::Abandoned,
            attempts: 0,
            usage: Usage::default(),
            cost: Money::ZERO,
            first_content: None,
            ended: Timestamp::ZERO,
        };
        Self {
            runtime: runtime.clone(),
            observer: Arc::clone(observer),
            tally: Arc::default(),
            record,
            ended: None,
        }
    }
}

impl<R: Runtime> Drop for Closing<R> {
    fn drop(&mut self) {
        self.record.attempts = self.tally.attempts();
        self.record.cost = Money::from_nanos(self.tally.cost_nanos.load(Ordering::Relaxed));
        self.record.ended = self.ended.unwrap_or_else(|| self.runtime.monotonic());
        self.observer.settled(&self.record);
    }
}

/// Somebody who wants to know of every request that is over. Called on the request's own task: it must not wait.
pub trait Observer: Send + Sync {
    /// A request is over.
    fn settled(&self, record: &Record);
}

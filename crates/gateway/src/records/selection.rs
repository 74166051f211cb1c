//! Which requests get a record of their own.
//!
//! A busy gateway answers thousands of requests per second in the usual way, and a caller without a valid key may be
//! rejected as often. Neither may push out the records that somebody will look for. Of ordinary answers a number per
//! second is kept. Of one caller's rejections for one reason ten per minute are kept, and the others are counted in one
//! record.

use seawall_core::time::Timestamp;
use seawall_pipeline::{RequestOutcome, RequestRecord};
use std::collections::BTreeMap;
use std::time::Duration;

/// Rejections of one caller for one reason that are recorded each, per [`FOLD_PERIOD`].
pub(super) const MAX_REPEATED: u64 = 10;
/// The period in which rejections are counted.
pub(super) const FOLD_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of callers and reasons that are counted apart. Beyond it, callers are counted together.
const MAX_FOLDS: usize = 10_000;

/// Samples ordinary answers.
#[derive(Debug)]
pub(super) struct RecordSampler {
    max_rate: u64,
    second: u64,
    kept: u64,
}

impl RecordSampler {
    pub(super) const fn new(max_rate: u64) -> Self {
        Self { max_rate, second: 0, kept: 0 }
    }

    /// Whether this request is recorded.
    pub(super) fn is_kept(&mut self, record: &RequestRecord) -> bool {
        if record.outcome != RequestOutcome::Answered || !record.is_plain() || record.limit_observed {
            return true;
        }
        let second = record.ended.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.kept) = (second, 0);
        }
        let is_kept = self.kept < self.max_rate;
        self.kept += u64::from(is_kept);
        is_kept
    }
}

/// Rejections that are counted instead of recorded each.
#[derive(Debug)]
pub(super) struct FoldedRejections {
    /// The last of them.
    pub(super) last: RequestRecord,
    /// How many there were.
    pub(super) count: u64,
}

/// The rejections of one caller for one reason, since the first of them.
#[derive(Debug)]
struct RejectionFold {
    since: Timestamp,
    seen: u64,
    folded: Option<Box<FoldedRejections>>,
}

/// Counts rejections of one caller for one reason.
#[derive(Debug, Default)]
pub(super) struct RejectionFolder {
    folds: BTreeMap<(Option<u64>, &'static str), RejectionFold>,
}

impl RejectionFolder {
    /// Returns the record if it is recorded by itself; otherwise it is counted.
    pub(super) fn add(&mut self, record: RequestRecord) -> Option<RequestRecord> {
        let RequestOutcome::Rejected(reason) = record.outcome else { return Some(record) };
        let caller = record.caller.map(|(caller, ..)| caller);
        let mut key = (caller, reason);
        if self.folds.len() >= MAX_FOLDS && !self.folds.contains_key(&key) {
            key.0 = None;
        }
        let fresh = || RejectionFold { since: record.ended, seen: 0, folded: None };
        let fold = self.folds.entry(key).or_insert_with(fresh);
        fold.seen += 1;
        if fold.seen <= MAX_REPEATED {
            return Some(record);
        }
        match &mut fold.folded {
            Some(folded) => (folded.last, folded.count) = (record, folded.count + 1),
            None => fold.folded = Some(Box::new(FoldedRejections { last: record, count: 1 })),
        }
        None
    }

    /// Ends the periods that are over by now, and returns what was counted in them.
    pub(super) fn take_ended(&mut self, now: Timestamp) -> Vec<FoldedRejections> {
        let is_over = |fold: &RejectionFold| now - fold.since >= FOLD_PERIOD;
        if !self.folds.values().any(is_over) {
            return Vec::new();
        }
        self.folds
            .extract_if(.., |_, fold| is_over(fold))
            .filter_map(|(_, fold)| Some(*fold.folded?))
            .collect()
    }

    /// Ends all periods.
    pub(super) fn take_all(&mut self) -> Vec<FoldedRejections> {
        std::mem::take(&mut self.folds).into_values().filter_map(|fold| Some(*fold.folded?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLD_PERIOD, MAX_FOLDS, MAX_REPEATED, RecordSampler, RejectionFolder};
    use seawall_core::time::Timestamp;
    use seawall_pipeline::{RequestOutcome, RequestRecord, Tier, TierOrigin};
    use std::time::Duration;

    fn record(id: u64, outcome: RequestOutcome, millis: u64) -> RequestRecord {
        RequestRecord {
            caller: Some((id % 2, Tier::Guest, TierOrigin::Guest)),
            outcome,
            ended: Timestamp::from_nanos(millis * 1_000_000),
            ..RequestRecord::new(id, "openai")
        }
    }

    #[test]
    fn ordinary_answers_are_sampled_by_second_and_everything_else_is_kept() {
        let mut sampler = RecordSampler::new(3);
        let mut kept = |outcome: RequestOutcome, millis| sampler.is_kept(&record(1, outcome, millis));
        let first: Vec<bool> = (0..5).map(|_| kept(RequestOutcome::Answered, 1_999)).collect();
        assert_eq!(first, [true, true, true, false, false]);
        assert!(kept(RequestOutcome::Degraded, 1_999) && kept(RequestOutcome::Rejected("blocked"), 1_999));
        assert!(kept(RequestOutcome::Abandoned, 1_999));
        assert!(kept(RequestOutcome::Answered, 2_000), "another second");
    }

    #[test]
    fn rejections_beyond_ten_a_minute_are_counted_by_caller_and_reason() {
        let mut folder = RejectionFolder::default();
        let mut kept = 0;
        for id in 0..642 {
            kept += u64::from(folder.add(record(id, RequestOutcome::Rejected("rate_limited"), id)).is_some());
        }
        assert!(
            folder.add(record(700, RequestOutcome::Rejected("blocked"), 700)).is_some(),
            "another reason"
        );
        assert!(folder.add(record(700, RequestOutcome::Degraded, 700)).is_some());
        assert_eq!(kept, 2 * MAX_REPEATED);
        assert!(folder.take_ended(Timestamp::from_nanos(1_000_000_000)).is_empty(), "the minute is not over");
        let ended = folder.take_ended(Timestamp::from_nanos(800_000_000) + FOLD_PERIOD);
        let counted: Vec<_> = ended.iter().map(|folded| (folded.last.id, folded.count)).collect();
        assert_eq!(counted, [(640, 311), (641, 311)]);
        assert!(folder.add(record(2, RequestOutcome::Rejected("rate_limited"), 90_000)).is_some());
        assert!(folder.take_all().is_empty());
    }

    #[test]
    fn memory_is_bounded_however_many_callers_there_are() {
        let mut folder = RejectionFolder::default();
        for caller in 0..2 * MAX_FOLDS as u64 {
            let mut one = record(caller, RequestOutcome::Rejected("rate_limited"), 0);
            one.caller = Some((caller, Tier::Guest, TierOrigin::Guest));
            folder.add(one);
        }
        assert!(folder.folds.len() <= MAX_FOLDS + 1);
        let counted: u64 = folder.take_all().iter().map(|folded| folded.count).sum();
        assert_eq!(counted, MAX_FOLDS as u64 - MAX_REPEATED);
        let _ = Duration::ZERO;
    }
}

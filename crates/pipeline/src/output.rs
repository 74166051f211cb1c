//! What an answer's output comes to: counted while it arrives, and charged when it ends.
//!
//! A vendor that has told what it used is believed, as far as that is possible. Where it has not, because a stream was cut or
//! left or the usage is incomplete, the most that it can bill for what arrived is charged, and never more than what was
//! reserved: the text at one token a byte, and one second at the speed of the target, for what was generated before the
//! vendor noticed that nobody listens. Where part of an answer is not shown, what was shown says nothing, and all that was
//! reserved is charged.

use crate::target::{CallBound, GuardedTarget};
use seawall_core::money::{Money, Usage};
use seawall_core::tokens::{Family, OutputLimit, OutputMeter};
use seawall_wire::chat::UsageReport;

/// What is known of the output of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    limit: OutputLimit,
    /// Whether nothing is seen of it before all of it is there.
    comes_whole: bool,
    /// Whether the target bills what it does not show.
    hides: bool,
    /// The most tokens that can be billed for what has arrived; nothing where that does not say.
    billed: Option<u64>,
    /// The most tokens that were shown of a stream.
    shown: Option<u64>,
    /// Tokens of a stream that was stopped because it had passed its limit.
    passed: Option<u64>,
}

/// How an answer ended, as far as its bill is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputEnd {
    /// The vendor ended it.
    Vendor,
    /// It was still being generated, as far as anybody knows.
    Open,
    /// What came proves that there was none.
    Nothing,
}

/// What is posted for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) usage: Usage,
    pub(crate) cost: Money,
    /// Whether the vendor told all of it.
    pub(crate) is_told: bool,
    /// Whether the vendor told more than is possible, and was not believed.
    pub(crate) is_bounded: bool,
}

impl Output {
    pub(crate) fn new(most_output: u64, comes_whole: bool, target: &GuardedTarget) -> Self {
        let hides = target.output.hides();
        let billed = (!comes_whole && !hides).then_some(0);
        Self { limit: OutputLimit::new(most_output), comes_whole, hides, billed, shown: None, passed: None }
    }

    /// Notes what has arrived of a stream, and how many bytes of it are not counted. Returns whether that is more than it
    /// may be.
    pub(crate) fn note(&mut self, meter: &OutputMeter, unread: u64, family: Family) -> bool {
        let billed = if self.hides { meter.counted() } else { meter.billed_at_most() };
        self.billed = billed.map(|billed| billed.saturating_add(unread));
        self.shown = Some(meter.upper());
        let is_passed = self.limit.is_passed(meter, family);
        if is_passed {
            self.passed = Some(meter.counted().unwrap_or_else(|| meter.best(family).max(meter.events())));
        }
        is_passed
    }

    /// Whether it has passed its limit.
    pub(crate) const fn is_passed(&self) -> bool {
        self.passed.is_some()
    }

    /// How many tokens there are of an answer that has passed its limit.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.unwrap_or_default()
    }

    /// The most tokens that the caller was shown of a stream, where that is known.
    pub(crate) const fn shown(&self) -> Option<u64> {
        self.shown
    }

    /// Notes a whole answer, which can have so many tokens.
    pub(crate) const fn note_whole(&mut self, most: u64) {
        if !self.hides {
            self.billed = Some(most);
        }
    }

    /// Tokens of output to charge where the vendor did not tell.
    fn at_most(&self, end: OutputEnd, target: &GuardedTarget) -> u64 {
        let reserved = self.limit.reserved();
        let unseen = if end == OutputEnd::Open && !self.comes_whole { target.output.per_second() } else { 0 };
        match (end, self.passed, self.billed) {
            (OutputEnd::Nothing, ..) => 0,
            // An estimate may be wrong by a fifth.
            (_, Some(passed), _) => reserved.max(passed.saturating_add(passed / 4).saturating_add(unseen)),
            (_, None, Some(billed)) => billed.saturating_add(unseen).min(reserved),
            (_, None, None) => reserved,
        }
    }

    /// What to post for an attempt that can come to this bound and for which `held` was reserved.
    pub(crate) fn charge(
        &self,
        report: UsageReport,
        end: OutputEnd,
        bound: &CallBound,
        held: Money,
        target: &GuardedTarget,
    ) -> Charge {
        // What is told at the beginning is all the input there is, unless the vendor goes on asking by itself.
        let has_input = report.usage.total_input() > 0 && (report.has_output || !self.hides);
        let is_told = has_input && report.has_output;
        let output = if report.has_output { report.usage.output } else { self.at_most(end, target) };
        let input = Usage { input: bound.input, ..Usage::default() };
        let mut usage = Usage { output, ..if has_input { report.usage } else { input } };
        let price = |usage: &Usage| {
            if has_input { target.price.of(usage) } else { bound.cost_with(usage.output) }
        };
        let mut cost = price(&usage);
        let mut is_bounded = false;
        if !is_told && self.passed.is_none() {
            cost = cost.min(held);
        }
        let possible = self.possible(usage, bound, target);
        if possible != usage && (cost > held || held == Money::ZERO) {
            (usage, is_bounded) = (possible, true);
            cost = price(&usage).max(held.min(cost));
        }
        Charge { usage, cost, is_told, is_bounded }
    }

    /// As much of it as a model can have read and said: its window, and its longest answer.
    fn possible(&self, usage: Usage, bound: &CallBound, target: &GuardedTarget) -> Usage {
        let (window, longest) = target.output_bounds();
        let mut left = window.max(bound.input);
        let mut take = |tokens: u64| {
            let taken = tokens.min(left);
            left -= taken;
            taken
        };
        // The dearest input first.
        let (cache_write, input, cache_read) =
            (take(usage.cache_write), take(usage.input), take(usage.cache_read));
        let output = usage.output.min(longest.max(self.limit.reserved()));
        Usage { input, cache_read, cache_write, output, ..usage }
    }
}

//! Meters the output of an answer while it arrives, and computes the charge when it ends.
//!
//! A complete usage report of the vendor is charged as reported, as far as it is plausible. Without one, because a
//! stream was cut or abandoned or its usage is incomplete, the charge is the most that the vendor can bill for what
//! arrived, and never more than was reserved: the text at one token per byte, plus one second at the target's output
//! rate for what it generated before it noticed the disconnect. If part of the answer is hidden, the visible part is no
//! bound, and the whole reservation is charged. That applies to targets that are known to hide output and to requests
//! that ask for it: thinking may arrive summarised, encrypted or not at all, and text written by a vendor's own tools
//! is not sent.

use crate::target::{CallBound, GuardedTarget};
use seawall_core::money::{Money, Usage};
use seawall_core::tokens::{OutputLimit, OutputMeter, TokenizerFamily};
use seawall_wire::chat::UsageReport;

/// The metered output of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptOutput {
    limit: OutputLimit,
    /// Whether the answer is not streamed.
    is_unstreamed: bool,
    /// Whether the vendor may bill output that it does not send.
    hides_output: bool,
    /// Whether the request itself asks for hidden output, so that it proves nothing about the target.
    requests_hidden_output: bool,
    /// Whether the input reported at the start may be incomplete.
    rereads_input: bool,
    /// Upper bound of the tokens billable for what has arrived; `None` if no bound is known.
    billed: Option<u64>,
    /// Upper bound of the tokens that a stream has sent.
    visible: Option<u64>,
    /// Token count of a stream that was cut because it exceeded its limit.
    exceeded_tokens: Option<u64>,
}

/// How an answer ended, as far as billing is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputEnd {
    /// The vendor ended it.
    ByVendor,
    /// The vendor may still have been generating output.
    StillGenerating,
    /// The response proves that no output was generated.
    NoOutput,
}

/// The amount posted for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) usage: Usage,
    pub(crate) cost: Money,
    /// Whether all of the usage was reported by the vendor.
    pub(crate) is_reported: bool,
    /// Whether the vendor reported more than is possible and the charge was capped.
    pub(crate) is_capped: bool,
}

impl AttemptOutput {
    pub(crate) fn new(bound: &CallBound, is_unstreamed: bool, target: &GuardedTarget) -> Self {
        let is_known_to_hide = target.output.hides_output();
        let hides_output = is_known_to_hide || bound.hides_output;
        Self {
            limit: OutputLimit::new(bound.output),
            is_unstreamed,
            hides_output,
            requests_hidden_output: bound.hides_output,
            rereads_input: is_known_to_hide || bound.rereads_input,
            billed: (!is_unstreamed && !hides_output).then_some(0),
            visible: None,
            exceeded_tokens: None,
        }
    }

    /// Records how much of a stream has arrived and how many of its bytes are not metered yet. Returns whether the
    /// output exceeds its limit.
    pub(crate) fn record(&mut self, meter: &mut OutputMeter, unread: u64, family: TokenizerFamily) -> bool {
        let billed = if self.hides_output { meter.counted() } else { meter.max_billed() };
        self.billed = billed.map(|billed| billed.saturating_add(unread));
        self.visible = Some(meter.upper());
        let is_exceeded = self.limit.is_exceeded(meter, family);
        if is_exceeded {
            self.exceeded_tokens =
                Some(meter.counted().unwrap_or_else(|| meter.best(family).max(meter.events())));
        }
        is_exceeded
    }

    pub(crate) const fn is_exceeded(&self) -> bool {
        self.exceeded_tokens.is_some()
    }

    /// The token count of an answer that exceeded its limit.
    pub(crate) fn exceeded_tokens(&self) -> u64 {
        self.exceeded_tokens.unwrap_or_default()
    }

    /// Upper bound of the tokens that a stream has sent. `None` if the request asked for thinking: hidden output is
    /// then no evidence that the target also hides output unasked.
    pub(crate) fn visible(&self) -> Option<u64> {
        self.visible.filter(|_| !self.requests_hidden_output)
    }

    /// Records an answer that was not streamed, with its maximum token count.
    pub(crate) const fn record_unstreamed(&mut self, max: u64) {
        if !self.hides_output {
            self.billed = Some(max);
        }
    }

    /// Output tokens to charge if the vendor did not report them.
    fn max_billable(&self, end: OutputEnd, target: &GuardedTarget) -> u64 {
        let reserved = self.limit.reserved();
        let unseen = if end == OutputEnd::StillGenerating && !self.is_unstreamed {
            target.output.tokens_per_second()
        } else {
            0
        };
        match (end, self.exceeded_tokens, self.billed) {
            (OutputEnd::NoOutput, ..) => 0,
            // A token estimate may be off by a fifth.
            (_, Some(exceeded), _) => {
                reserved.max(exceeded.saturating_add(exceeded / 4).saturating_add(unseen))
            }
            (_, None, Some(billed)) => billed.saturating_add(unseen).min(reserved),
            (_, None, None) => reserved,
        }
    }

    /// Computes the charge of an attempt with this bound, for which `held` was reserved.
    pub(crate) fn charge(
        &self,
        report: UsageReport,
        end: OutputEnd,
        bound: &CallBound,
        held: Money,
        target: &GuardedTarget,
    ) -> Charge {
        // The input reported at the start is complete, unless the vendor calls the model again by itself.
        let has_input = report.usage.total_input() > 0 && (report.output_reported || !self.rereads_input);
        let is_reported = has_input && report.output_reported;
        let output =
            if report.output_reported { report.usage.output } else { self.max_billable(end, target) };
        let input = Usage { input: bound.input, ..Usage::default() };
        let mut usage = Usage { output, ..if has_input { report.usage } else { input } };
        let price = |usage: &Usage| {
            if has_input { target.price.cost(usage) } else { bound.max_cost_for_output(usage.output) }
        };
        let mut cost = price(&usage);
        let mut is_capped = false;
        if !is_reported && self.exceeded_tokens.is_none() {
            cost = cost.min(held);
        }
        let possible = self.possible(usage, bound, target);
        if possible != usage && (cost > held || held == Money::ZERO) {
            (usage, is_capped) = (possible, true);
            cost = price(&usage).max(held.min(cost));
        }
        Charge { usage, cost, is_reported, is_capped }
    }

    /// Caps the usage at what the model can process: its context window and its longest answer.
    fn possible(&self, usage: Usage, bound: &CallBound, target: &GuardedTarget) -> Usage {
        let (window, longest) = target.output_bounds();
        let mut left = window.max(bound.input);
        let mut take = |tokens: u64| {
            let granted = tokens.min(left);
            left -= granted;
            granted
        };
        // The most expensive kind of input first.
        let (cache_write, input, cache_read) =
            (take(usage.cache_write), take(usage.input), take(usage.cache_read));
        let output = usage.output.min(longest.max(self.limit.reserved()));
        Usage { input, cache_read, cache_write, output, ..usage }
    }
}

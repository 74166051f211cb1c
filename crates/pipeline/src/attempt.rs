//! One try on one target, and all that it holds.
//!
//! An attempt holds money, a breaker permit, a place in flight and perhaps a retry credit. It gives all of them back
//! exactly once: by success, by failure, or, dropped in the middle because the caller went away, by what was known
//! until then.

use crate::output::{Charge, Output, OutputEnd};
use crate::place::Place;
use crate::settle::{AttemptEnding, AttemptRecord, Tally};
use crate::target::{CallBound, GuardedTarget};
use seawall_core::breaker::{Breaker, SharedPermit, TripReason};
use seawall_core::credit::Credit;
use seawall_core::failure::{Failure, FailureKind, Outcome};
use seawall_core::handle::Runtime;
use seawall_core::money::{Money, Usage};
use seawall_core::sender::ThrottleVerdict;
use seawall_core::time::{Now, Timestamp};
use seawall_core::tokens::OutputMeter;
use seawall_core::vocabulary::Tier;
use seawall_store::{Certainty, Hold};
use seawall_wire::chat::UsageReport;
use std::sync::Arc;
use std::time::Duration;

/// Money that is still held so long after a request's deadline is charged at its worst.
pub(crate) const LATEST_END: Duration = Duration::from_secs(30);

pub(crate) struct Attempt<R: Runtime> {
    runtime: R,
    pub(crate) target: Arc<GuardedTarget>,
    pub(crate) started: Timestamp,
    first_content: Option<Timestamp>,
    /// What the vendor has said so far.
    pub(crate) usage: Usage,
    /// Whether that is all of the output.
    has_output: bool,
    /// Bytes of answer that have arrived.
    received_bytes: u64,
    /// The most that the call can come to.
    bound: CallBound,
    /// Whether nothing is seen of the answer before all of it is there.
    comes_whole: bool,
    output: Output,
    hold: Option<Hold>,
    permit: Option<SharedPermit>,
    credit: Option<Credit>,
    /// Held until the answer has ended, however long its reader takes.
    place: Option<Place<R>>,
    tally: Arc<Tally>,
    tier: Tier,
    ending: AttemptEnding,
    /// It failed before a byte of it was sent.
    was_never_sent: bool,
    /// What was posted, and by how much that is more than was reserved.
    posted: Option<(Charge, Money)>,
}

/// What an attempt asks for.
pub(crate) struct Wanted {
    /// The most that it can come to.
    pub(crate) bound: CallBound,
    /// Whether nothing is seen of it before all of it is there.
    pub(crate) comes_whole: bool,
}

/// What an attempt is given to hold.
pub(crate) struct Holdings<R: Runtime> {
    /// What is asked for.
    pub(crate) wanted: Wanted,
    /// Whose money it is.
    pub(crate) tier: Tier,
    pub(crate) hold: Hold,
    pub(crate) permit: SharedPermit,
    pub(crate) credit: Option<Credit>,
    pub(crate) place: Place<R>,
}

impl<R: Runtime> Attempt<R> {
    pub(crate) fn start(
        runtime: &R,
        target: &Arc<GuardedTarget>,
        holdings: Holdings<R>,
        tally: &Arc<Tally>,
        now: Timestamp,
    ) -> Box<Self> {
        let Holdings { wanted, tier, hold, permit, credit, place } = holdings;
        let Wanted { bound, comes_whole } = wanted;
        tally.count_attempt();
        Box::new(Self {
            runtime: runtime.clone(),
            target: Arc::clone(target),
            started: now,
            first_content: None,
            usage: Usage::default(),
            has_output: false,
            received_bytes: 0,
            bound,
            comes_whole,
            output: Output::new(bound.output, comes_whole, target),
            hold: Some(hold),
            permit: Some(permit),
            credit,
            place: Some(place),
            tally: Arc::clone(tally),
            tier,
            ending: AttemptEnding::Abandoned,
            was_never_sent: false,
            posted: None,
        })
    }

    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.received_bytes = self.received_bytes.saturating_add(bytes as u64);
    }

    pub(crate) const fn has_received(&self) -> bool {
        self.received_bytes > 0
    }

    /// Notes what has arrived of a stream, and how many bytes of it are not counted. Returns whether that is more than was
    /// reserved.
    pub(crate) fn note_output(&mut self, meter: &OutputMeter, unread: usize) -> bool {
        self.output.note(meter, unread as u64, self.target.family)
    }

    /// How many tokens a stream that has passed its limit has, as far as is known.
    pub(crate) fn tokens_passed(&self) -> u64 {
        self.output.passed()
    }

    /// The first content has arrived.
    pub(crate) fn note_content(&mut self) {
        // Every event with content comes through here; only the first one is worth a look at the clock.
        if self.first_content.is_none() {
            self.note_content_at(self.runtime.monotonic());
        }
    }

    /// The first content arrived at this moment.
    pub(crate) fn note_content_at(&mut self, now: Timestamp) {
        if self.first_content.is_none() {
            self.first_content = Some(now);
            self.target.starts.record(now - self.started);
            self.tally.add_wait(now - self.started);
        }
    }

    /// Whether anything of an answer has arrived.
    pub(crate) const fn has_bytes(&self) -> bool {
        self.received_bytes > 0
    }

    pub(crate) fn has_content(&self) -> bool {
        self.first_content.is_some()
    }

    /// When the first content arrived.
    pub(crate) fn first_content(&self) -> Option<Timestamp> {
        self.first_content
    }

    /// A whole answer has come.
    pub(crate) fn succeed_whole(&mut self, report: UsageReport, body: &[u8]) {
        if !(report.has_output && report.usage.total_input() > 0) {
            self.output.note_whole(seawall_wire::most_tokens(body));
        }
        self.succeed(report);
    }

    /// The answer has ended as it should, and the vendor has told this of its use.
    pub(crate) fn succeed(&mut self, report: UsageReport) {
        (self.usage, self.has_output) = (report.usage, report.has_output);
        let now = self.runtime.now();
        if let Some(first) = self.first_content.filter(|_| report.has_output) {
            self.target.output.note_answer(report.usage.output, self.output.shown(), now.monotonic - first);
        }
        self.complete(now);
    }

    /// The answer had passed its limit, and was ended by us.
    pub(crate) fn stop(&mut self) {
        self.complete(self.runtime.now());
    }

    fn complete(&mut self, now: Now) {
        let took = self.first_content.unwrap_or(now.monotonic) - self.started;
        let outcome = if self.comes_whole {
            let usual = self.target.gauges().usual.judge_whole(took, self.usage.output, now.monotonic);
            Outcome::AnsweredWhole { took, usual }
        } else {
            Outcome::Succeeded { first_content_after: took }
        };
        self.report(&outcome, now.monotonic);
        if let Some(credit) = self.credit.take() {
            credit.succeeded();
        }
        let end = if self.output.is_passed() { OutputEnd::Open } else { OutputEnd::Vendor };
        self.post_at(now, end);
        // What is told of an answer is what was paid for.
        self.usage = self.posted.map_or(self.usage, |(charge, _)| charge.usage);
        self.place = None;
    }

    /// A guardrail of ours stopped the answer. The target did nothing wrong by that, and is owed what it sent.
    pub(crate) fn block(&mut self) {
        let now = self.runtime.now();
        let first_content_after = self.first_content.unwrap_or(now.monotonic) - self.started;
        self.report(&Outcome::Succeeded { first_content_after }, now.monotonic);
        self.post_at(now, OutputEnd::Open);
        self.place = None;
    }

    /// The attempt has failed. A vendor that answered with an error has not billed it; where nothing was answered, or
    /// the answer had begun, nobody can say, and the most it can be is owed.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        let now = self.runtime.now();
        if self.first_content.is_none() {
            self.tally.add_wait(now.monotonic - self.started);
        }
        self.report(&Outcome::Failed(*failure), now.monotonic);
        self.was_never_sent = failure.not_executed && is_before_sending(failure.kind);
        let answered_with_error = self.received_bytes == 0 && is_answer(failure.kind);
        if failure.not_executed || answered_with_error {
            if let Some(hold) = self.hold.take() {
                hold.void();
            }
        } else {
            self.post_at(
                now,
                match failure {
                    _ if failure.no_output => OutputEnd::Nothing,
                    _ if is_answer(failure.kind) => OutputEnd::Vendor,
                    _ => OutputEnd::Open,
                },
            );
        }
        self.place = None;
    }

    /// We leave it, for no fault of the target's: its answer is not read, or the gateway ends.
    pub(crate) fn abandon(&mut self) {
        self.permit = None;
        self.post();
        self.place = None;
    }

    /// Posts what the vendor has told, and where it has not, the most that it can bill.
    fn post_at(&mut self, now: Now, end: OutputEnd) {
        let Some(hold) = self.hold.take() else { return };
        let (held, report) = (
            hold.amount(),
            UsageReport { usage: self.bound.completed(self.usage), has_output: self.has_output },
        );
        let charge = self.output.charge(report, end, &self.bound, held, &self.target);
        let certainty = match charge.is_told {
            true => Certainty::Told,
            false if charge.cost == held => Certainty::Worst,
            false => Certainty::Counted,
        };
        let overrun = charge.cost.saturating_sub(held);
        if overrun > Money::ZERO {
            self.target.output.note_overrun(now.monotonic);
            self.tally.add_overrun(overrun, charge.is_bounded);
        }
        self.tally.add(&charge.usage, charge.cost);
        self.posted = Some((charge, overrun));
        hold.post(charge.usage, charge.cost, certainty, now);
    }

    /// The same now, unless it was done before.
    fn post(&mut self) {
        if self.hold.is_some() {
            self.post_at(self.runtime.now(), OutputEnd::Open);
        }
    }

    fn report(&mut self, outcome: &Outcome, now: Timestamp) {
        let Some(permit) = self.permit.take() else { return };
        self.ending = match outcome {
            Outcome::Succeeded { .. } | Outcome::AnsweredWhole { .. } => AttemptEnding::Succeeded,
            Outcome::Failed(failure) => AttemptEnding::Failed(failure.kind),
            Outcome::Abandoned => AttemptEnding::Abandoned,
        };
        if let Some(status) = self.target.credential.note(outcome) {
            self.tally.credential_changed(&self.target.name, status);
        }
        let mut gauges = self.target.gauges();
        // An attempt that was waited for in vain took at least as long as it was waited for.
        let waited_in_vain =
            matches!(outcome, Outcome::Failed(failure) if is_late(failure.kind)) && !self.has_bytes();
        if outcome.is_answer() || waited_in_vain {
            let began = self.first_content.unwrap_or(now);
            gauges.usual.note_start(self.comes_whole, began - self.started, now);
        }
        // A target that is busy and has said until when is no failure for its breaker.
        let is_held_back = gauges.note(outcome, self.started, now) == ThrottleVerdict::HeldBack;
        self.target.note_pacing(&gauges);
        permit.report(if is_held_back { &Outcome::Abandoned } else { outcome }, now);
        let pressure = &mut gauges.pressure;
        if pressure.record(outcome, now).is_some() {
            self.target.breaker.with(|breaker| breaker.trip(TripReason::SustainedPressure, now));
        }
        for transition in self.target.breaker.with(Breaker::take_transitions) {
            pressure.follow(transition.to);
        }
    }
}

/// Whether a failure of this kind is that nothing came in time.
const fn is_late(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::NotStarted | FailureKind::TimedOut)
}

/// Whether a failure of this kind is something the vendor said, rather than something we noticed.
const fn is_answer(kind: FailureKind) -> bool {
    !matches!(
        kind,
        FailureKind::NotStarted
            | FailureKind::TimedOut
            | FailureKind::Unreachable
            | FailureKind::BrokeMidStream
            | FailureKind::Unrecognised
    )
}

/// Whether a failure of this kind, where nothing was executed, is one of connecting: a vendor that answers has been reached.
const fn is_before_sending(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Unreachable | FailureKind::NotStarted)
}

impl<R: Runtime> Drop for Attempt<R> {
    fn drop(&mut self) {
        // The caller went away: the permit says nothing about the target, the money is owed all the same.
        self.post();
        let (usage, cost) = self.posted.map(|(charge, _)| (charge.usage, charge.cost)).unwrap_or_default();
        let record = AttemptRecord {
            target: &self.target.name,
            tier: self.tier,
            ending: self.ending,
            usage,
            cost,
            overrun: self.posted.map_or(Money::ZERO, |(_, overrun)| overrun),
            is_bounded: self.posted.is_some_and(|(charge, _)| charge.is_bounded),
        };
        self.tally.attempted(&record, !self.was_never_sent);
    }
}

//! Circuit breaker: stops calls to a target that is failing, and probes carefully until it has recovered.
//!
//! **When it opens.** After `failure_threshold` consecutive failures; when the failure rate or the slow-call rate over
//! the sliding window reaches its threshold with at least `min_calls` calls; or when pressure stayed high. A caller's
//! own mistake never counts. An attempt that we cut short counts as slow, not as failed.
//!
//! **How it closes.** After `open_for` the breaker is half-open and runs a trial in stages: by default one probe, then
//! three, then ten. A stage is passed when it has as many successes as its size. A failure opens the breaker again with
//! a fresh timer, first for the caller whose probe it was, then, if another caller's next call fails too, for all. A probe without a result counts as failed when its permit expires; a probe whose caller
//! disconnected frees its slot and does not count.
//!
//! **What it does not do.** It does not retry, wait or make calls. Reading it ([`Breaker::peek`]) changes nothing. A
//! result from an earlier generation changes nothing: a success that was in flight before the trip cannot close the
//! breaker, and a late failure cannot keep it open.
//!
//! [`Breaker`] is the bare state machine. [`SharedBreaker`] puts it behind a lock, with permits that report themselves
//! as abandoned when dropped.

mod attribution;
mod change;
mod fleet;
mod last_resort;
mod machine;
mod quarantine;
mod settings;
mod shared;
mod types;
mod window;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use attribution::CallerKey;
pub use fleet::{BreakerReport, FleetView, NodeId, ReportedPhase, should_probe_without_store};
pub use last_resort::LastResort;
pub use machine::{BreakerPhase, Transition, TripReason};
pub use settings::{BreakerOptions, BreakerProfile, BreakerSettings};
pub use shared::{SharedBreaker, SharedPermit};
pub use types::{BreakerDecision, BreakerMode, BreakerPeek, BreakerPermit, RejectReason};
pub use window::CallCounts;

use crate::deadline::Deadline;
use crate::failure::{AttemptOutcome, Health};
use crate::invariant::{Violation, enforce, no_call_while_open, probes_within_stage};
use crate::time::Timestamp;
use arrayvec::ArrayVec;
use attribution::FailureAttribution;
use machine::{BreakerMachine, BreakerState, Probe};
use quarantine::Quarantine;
use std::time::Duration;
use types::PermitKind;
use window::HealthWindow;

/// A probe counts as lost when its result has not arrived this long after its attempt's deadline.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// A circuit breaker for one target or dependency.
///
/// ```
/// use seawall_core::breaker::{BreakerDecision, Breaker, BreakerPhase, BreakerProfile};
/// use seawall_core::deadline::Deadline;
/// use seawall_core::failure::{Failure, FailureKind, AttemptOutcome};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let mut breaker = Breaker::new(BreakerProfile::Sonnet.options().check().unwrap());
/// let mut now = Timestamp::ZERO;
/// for _ in 0..5 {
///     let BreakerDecision::Permitted(permit) = breaker.acquire(now, Deadline::NEVER) else { panic!() };
///     breaker.report(permit, &AttemptOutcome::Failed(Failure::of(FailureKind::Overloaded)), now);
/// }
/// assert_eq!(breaker.peek(now).phase, BreakerPhase::Open);
///
/// now = now + Duration::from_secs(60);
/// assert_eq!(breaker.peek(now).phase, BreakerPhase::HalfOpen { stage: 0 });
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    mode: BreakerMode,
    machine: BreakerMachine,
    /// The one caller this breaker is open for, while it stays usable for all others.
    quarantine: Option<Box<Quarantine>>,
    window: HealthWindow,
    blame: FailureAttribution,
    panic_calls: u64,
    /// Probes this node may send when the fleet shares them out; `None` when the node runs alone.
    lease: Option<ProbeLease>,
    next_serial: u64,
    late_results: u64,
    transitions: ArrayVec<Transition, 8>,
}

/// A node's share of the fleet's probes, valid for one stage of one episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeLease {
    /// The episode the lease was granted for.
    pub episode: u64,
    /// The stage the lease was granted for.
    pub stage: usize,
    /// How many probes the node may still send.
    pub probes: u32,
}

impl Breaker {
    /// Creates a closed breaker in automatic mode for a node that runs alone.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        let (window, blame) = (HealthWindow::new(settings.window), FailureAttribution::new(settings.window));
        Self {
            settings,
            mode: BreakerMode::Automatic,
            machine: BreakerMachine::new(),
            quarantine: None,
            window,
            blame,
            panic_calls: 0,
            lease: None,
            next_serial: 0,
            late_results: 0,
            transitions: ArrayVec::new(),
        }
    }

    /// Requests a permit for one call that ends by `attempt`. The outcome is attributed to no caller, so no caller can
    /// be quarantined for it.
    pub fn acquire(&mut self, now: Timestamp, attempt: Deadline) -> BreakerDecision {
        self.acquire_for(None, now, attempt)
    }

    /// Requests a permit for one call of `caller` that ends by `attempt`.
    pub fn acquire_for(
        &mut self,
        caller: Option<CallerKey>,
        now: Timestamp,
        attempt: Deadline,
    ) -> BreakerDecision {
        self.advance(now);
        if self.mode == BreakerMode::ForcedOpen {
            return BreakerDecision::Rejected { reason: RejectReason::ForcedOpen, retry_after: None };
        }
        match self.rejection(caller) {
            Some(reason) if self.mode == BreakerMode::Automatic => {
                BreakerDecision::Rejected { reason, retry_after: self.retry_after(caller, now) }
            }
            Some(reason) => BreakerDecision::Permitted(self.new_permit(caller, PermitKind::Observed(reason))),
            None => BreakerDecision::Permitted(self.permit(caller, now, attempt)),
        }
    }

    /// Returns a permit together with the outcome of its call.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is spent by giving it back")]
    pub fn report(&mut self, permit: BreakerPermit, outcome: &AttemptOutcome, now: Timestamp) {
        self.advance(now);
        if permit.would_reject().is_some() {
            return;
        }
        if !self.is_current(&permit) {
            self.late_results = self.late_results.saturating_add(1);
            return;
        }
        let health = outcome.health(self.settings.slow_threshold);
        match permit.kind {
            PermitKind::SingleProbe => return self.record_single_probe(&permit, health, now),
            PermitKind::Panic => return self.record_panic_call(&permit, health, now),
            PermitKind::Call if permit.is_quarantined => {
                return self.record_quarantine_probe(permit.serial, health, now);
            }
            PermitKind::Call | PermitKind::Observed(_) => {}
        }
        match &mut self.machine.state {
            BreakerState::Closed { consecutive_failures } => {
                match health {
                    Health::Bad => {
                        *consecutive_failures = consecutive_failures.saturating_add(1);
                        self.blame.record_failure(permit.caller, now);
                    }
                    Health::Good | Health::Slow => {
                        *consecutive_failures = 0;
                        self.blame.end_streak();
                    }
                    Health::TimedOut => {}
                    // The rates shift as old calls leave the window. An outcome without information must not cause a
                    // trip.
                    Health::Unknown => return,
                }
                if matches!(health, Health::Slow | Health::TimedOut) {
                    self.blame.record_slow(permit.caller, now);
                }
                self.window.record(health, outcome.is_unstreamed(), now);
                self.evaluate_window(now);
            }
            BreakerState::HalfOpen(_) => {
                match health {
                    Health::Bad => self.blame.record_failure(permit.caller, now),
                    Health::Slow | Health::TimedOut => self.blame.record_slow(permit.caller, now),
                    Health::Good | Health::Unknown => {}
                }
                let result = self.machine.record_probe(&self.settings, permit.serial, health);
                // The stage still needs a success in place of this probe.
                if matches!(health, Health::Unknown | Health::TimedOut) {
                    self.return_lease();
                }
                self.conclude_stage(result, now);
            }
            BreakerState::Suspect { .. } => self.record_suspect_probe(permit.serial, health, now),
            BreakerState::Open { .. } => {}
        }
    }

    /// Returns a permit without an outcome, because the caller disconnected. Needs no clock, so it can run in `Drop`.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is spent by giving it back")]
    pub fn abandon(&mut self, permit: BreakerPermit) {
        if !self.is_current(&permit) || permit.would_reject().is_some() {
            return;
        }
        let machine = self.machine_mut(permit.is_quarantined);
        let is_other = |probe: &Probe| probe.serial != permit.serial;
        match &mut machine.state {
            BreakerState::HalfOpen(trial) => {
                let before = trial.probes.len();
                trial.probes.retain(|probe| is_other(probe));
                if trial.probes.len() < before && !permit.is_quarantined {
                    self.return_lease();
                }
            }
            BreakerState::Open { opening, .. } => opening.probe = opening.probe.filter(is_other),
            BreakerState::Suspect { probe, .. } => *probe = probe.filter(is_other),
            BreakerState::Closed { .. } => {}
        }
    }

    /// The state and the decision a call would get now. Changes nothing, however often it is called.
    #[must_use]
    pub fn peek(&self, now: Timestamp) -> BreakerPeek {
        // In the suspect state no other caller has probed the target yet, so report the quarantined caller's view: open.
        let is_suspect = matches!(self.machine.state, BreakerState::Suspect { .. });
        let caller = self.quarantine.as_ref().filter(|_| is_suspect).map(|quarantine| quarantine.caller);
        self.peek_for(caller, now)
    }

    /// The state and the decision a call of `caller` would get now.
    #[must_use]
    pub fn peek_for(&self, caller: Option<CallerKey>, now: Timestamp) -> BreakerPeek {
        let mut outlook = self.clone();
        outlook.advance(now);
        let rejects = match outlook.mode {
            BreakerMode::ForcedOpen => Some(RejectReason::ForcedOpen),
            BreakerMode::Automatic => outlook.rejection(caller),
            BreakerMode::Observing | BreakerMode::ForcedClosed => None,
        };
        BreakerPeek {
            phase: outlook.visible_phase(caller),
            mode: outlook.mode,
            rejects,
            retry_after: rejects.and_then(|_| outlook.retry_after(caller, now)),
            is_open_for_one_caller: outlook.quarantine.is_some(),
        }
    }

    /// Opens the breaker for a reason found outside it, such as sustained pressure. Has no effect unless the breaker is
    /// closed and not forced closed.
    pub fn trip(&mut self, reason: TripReason, now: Timestamp) {
        self.advance(now);
        let is_closed = matches!(self.machine.state, BreakerState::Closed { .. });
        if is_closed && self.mode != BreakerMode::ForcedClosed {
            self.open(reason, now);
        }
    }

    /// Sets the operator's mode. Leaving forced open starts a trial; leaving forced closed starts closed with empty
    /// counts.
    pub fn set_mode(&mut self, mode: BreakerMode, now: Timestamp) {
        self.advance(now);
        let before = std::mem::replace(&mut self.mode, mode);
        if before == mode {
            return;
        }
        self.quarantine = None;
        if matches!(self.machine.state, BreakerState::Suspect { .. }) {
            let transition = self.machine.close(now);
            self.record_transition(Some(transition));
        }
        let released_from_forced_open =
            before == BreakerMode::ForcedOpen && mode != BreakerMode::ForcedClosed;
        if released_from_forced_open {
            let transition = self.machine.enter_stage(0, now);
            self.record_transition(Some(transition));
        } else if mode == BreakerMode::ForcedClosed || before == BreakerMode::ForcedClosed {
            let transition = self.machine.close(now);
            self.record_transition(Some(transition));
        }
    }

    /// The transitions since the last call, oldest first. Only the newest eight are kept.
    pub fn take_transitions(&mut self) -> ArrayVec<Transition, 8> {
        self.transitions.take()
    }

    /// The number of transitions since the breaker was created, whether or not they were taken.
    #[must_use]
    pub fn transition_count(&self) -> u64 {
        self.machine.generation
    }

    /// The number of results since the breaker was created that arrived too late to count.
    #[must_use]
    pub fn late_results(&self) -> u64 {
        self.late_results
    }

    /// Sets the probes this node may send when the fleet shares them out. Replaces any earlier lease; from then on the
    /// node sends no probe without a lease.
    pub fn set_probe_lease(&mut self, lease: ProbeLease) {
        self.lease = Some(lease);
    }

    /// Returns to running alone: this node sends all probes of a stage itself.
    pub fn clear_probe_lease(&mut self) {
        self.lease = None;
    }

    /// The lease that the current or the next trial needs: its stage, and the probes that the fleet still has to pass
    /// it.
    #[must_use]
    pub fn needed_probes(&self) -> Option<ProbeLease> {
        let (stage, done) = match &self.machine.state {
            BreakerState::Closed { .. } | BreakerState::Suspect { .. } => return None,
            BreakerState::Open { .. } => (0, 0),
            BreakerState::HalfOpen(trial) => {
                let under_way = u32::try_from(trial.probes.len()).unwrap_or(u32::MAX);
                let succeeded = trial.successes.saturating_add(trial.peer_successes);
                (trial.stage, succeeded.saturating_add(under_way))
            }
        };
        let probes = self.settings.stage_size(stage)?.saturating_sub(done);
        Some(ProbeLease { episode: self.machine.episode, stage, probes })
    }

    fn advance(&mut self, now: Timestamp) {
        // No timer runs while the operator forces a state.
        if self.is_forced() {
            return;
        }
        while let Some(transition) = self.machine.advance(&self.settings, now) {
            // Once it is open for all, no caller needs to be kept out.
            if transition.to == BreakerPhase::Open {
                self.quarantine = None;
            }
            self.record_transition(Some(transition));
        }
        if let Some(quarantine) = &mut self.quarantine {
            while quarantine.machine.advance(&self.settings, now).is_some() {}
        }
    }

    fn is_forced(&self) -> bool {
        matches!(self.mode, BreakerMode::ForcedOpen | BreakerMode::ForcedClosed)
    }

    fn rejection(&self, caller: Option<CallerKey>) -> Option<RejectReason> {
        let (machine, is_quarantined) = self.machine_for(caller);
        match &machine.state {
            BreakerState::Closed { .. } => None,
            BreakerState::Suspect { probe, .. } => Self::suspect_rejection(probe.as_ref()),
            BreakerState::Open { reason, .. } => Some(RejectReason::Open(*reason)),
            BreakerState::HalfOpen(trial) => {
                // The probes of a quarantined caller's own trial do not come out of the fleet's lease.
                let free = match self.lease.filter(|_| !is_quarantined) {
                    Some(lease) if (lease.episode, lease.stage) == (self.machine.episode, trial.stage) => {
                        lease.probes > 0 && !trial.probes.is_full()
                    }
                    Some(_) => false,
                    None => {
                        let under_way = u32::try_from(trial.probes.len()).unwrap_or(u32::MAX);
                        let sent = trial.successes.saturating_add(under_way);
                        self.settings.stage_size(trial.stage).is_some_and(|size| sent < size)
                    }
                };
                (!free).then_some(RejectReason::ProbesInFlight)
            }
        }
    }

    fn permit(&mut self, caller: Option<CallerKey>, now: Timestamp, attempt: Deadline) -> BreakerPermit {
        let permit = self.new_permit(caller, PermitKind::Call);
        // Bounded by `max_open_for`: otherwise a lost probe of an attempt without deadline would block the breaker forever.
        let expires = attempt.within(now, self.settings.max_open_for).moment() + PROBE_GRACE;
        let new = Probe { serial: permit.serial, expires };
        match &mut self.machine_mut(permit.is_quarantined).state {
            BreakerState::HalfOpen(trial) => {
                // There is room: `rejection` has just checked it.
                let _ = trial.probes.try_push(new);
                if let Some(lease) = self.lease.as_mut().filter(|_| !permit.is_quarantined) {
                    lease.probes = lease.probes.saturating_sub(1);
                }
            }
            BreakerState::Suspect { probe, .. } => *probe = Some(new),
            BreakerState::Closed { .. } | BreakerState::Open { .. } => {}
        }
        enforce(self.check_permit(&permit, now));
        permit
    }

    /// The invariants of a breaker that has just issued this permit.
    fn check_permit(&self, permit: &BreakerPermit, now: Timestamp) -> Result<(), Violation> {
        let machine = self.machine_for(permit.caller).0;
        match &machine.state {
            BreakerState::Open { until, .. } => no_call_while_open(now, Some(*until)),
            // With a lease, the store that leases probes to the nodes keeps their sum within the stage.
            BreakerState::HalfOpen(trial) if self.lease.is_none() => {
                let under_way = u32::try_from(trial.probes.len()).unwrap_or(u32::MAX);
                let size = self.settings.stage_size(trial.stage).unwrap_or(0);
                probes_within_stage(under_way, trial.successes, size)
            }
            BreakerState::HalfOpen(_) | BreakerState::Closed { .. } | BreakerState::Suspect { .. } => Ok(()),
        }
    }

    /// Whether no transition has happened since this permit was issued.
    fn is_current(&self, permit: &BreakerPermit) -> bool {
        let (machine, is_quarantined) = self.machine_for(permit.caller);
        is_quarantined == permit.is_quarantined && machine.generation == permit.generation
    }

    fn new_permit(&mut self, caller: Option<CallerKey>, kind: PermitKind) -> BreakerPermit {
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        let (machine, is_quarantined) = self.machine_for(caller);
        BreakerPermit { generation: machine.generation, serial, caller, is_quarantined, kind }
    }

    /// Returns a probe to the lease it came from, unless that lease has been replaced by one for the next stage.
    fn return_lease(&mut self) {
        if let (BreakerState::HalfOpen(trial), Some(lease)) = (&self.machine.state, &mut self.lease)
            && (lease.episode, lease.stage) == (self.machine.episode, trial.stage)
        {
            lease.probes = lease.probes.saturating_add(1);
        }
    }

    fn retry_after(&self, caller: Option<CallerKey>, now: Timestamp) -> Option<Duration> {
        match &self.machine_for(caller).0.state {
            BreakerState::Open { until, .. } => Some(*until - now),
            BreakerState::Closed { .. } | BreakerState::HalfOpen(_) | BreakerState::Suspect { .. } => None,
        }
    }

    fn evaluate_window(&mut self, now: Timestamp) {
        let BreakerState::Closed { consecutive_failures } = self.machine.state else { return };
        if self.mode == BreakerMode::ForcedClosed {
            return;
        }
        let reason = if consecutive_failures >= self.settings.failure_threshold {
            Some(TripReason::ConsecutiveFailures)
        } else {
            let counts = self.window.counts(now);
            self.reached_rate(counts)
        };
        if let Some(reason) = reason {
            self.open(reason, now);
        }
    }

    /// Streams and non-streaming answers are judged for slowness separately: each kind needs `min_calls` calls of its
    /// own.
    fn reached_rate(&self, counts: CallCounts) -> Option<TripReason> {
        let settings = &self.settings;
        let enough = |calls: u64| calls >= settings.min_calls.into();
        let is_slow = |slow, calls| enough(calls) && settings.slow_rate.is_reached_by(slow, calls);
        if enough(counts.calls) && settings.failure_rate.is_reached_by(counts.failed, counts.calls) {
            Some(TripReason::FailureRate)
        } else if is_slow(counts.unstreamed_slow, counts.unstreamed)
            || is_slow(counts.slow.saturating_sub(counts.timed_out), counts.streams())
        {
            Some(TripReason::SlowRate)
        } else if is_slow(counts.slow, counts.streams()) {
            Some(TripReason::StartTimeout)
        } else {
            None
        }
    }

    fn record_transition(&mut self, transition: Option<Transition>) {
        let Some(transition) = transition else { return };
        // The counts belong to the state that has ended; a trial is judged by its probes alone.
        self.window.clear();
        self.blame.clear();
        if self.transitions.is_full() {
            self.transitions.remove(0);
        }
        self.transitions.push(transition);
    }
}

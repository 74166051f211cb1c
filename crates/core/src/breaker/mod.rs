//! The breaker: stops sending to a dependency that does not answer, and finds out carefully when it does again.
//!
//! **When it opens.** After so many failures in a row, or when too large a share of at least `min_calls` calls
//! in the window failed or was slow, or when pressure stayed high. A caller's mistake never counts; an attempt
//! that we cut short counts as slow, not as failed.
//!
//! **How it closes.** After `open_for` a trial begins: one probe, then three, then ten, each stage needing its
//! size in successes. Any failure opens it again with a fresh timer. A probe that never comes back counts as
//! failed when its permit expires; one whose caller went away frees its place and says nothing.
//!
//! **What it will not do.** It does not retry, wait or call anybody. Looking at it ([`Breaker::peek`]) changes
//! nothing. A result of an earlier generation changes nothing, so a success that was under way before the
//! trip cannot close it, and a late failure cannot keep it open.
//!
//! [`Breaker`] is the bare machine; [`SharedBreaker`] is the same behind a lock, with permits that report
//! themselves abandoned when dropped.

mod change;
mod fleet;
mod machine;
mod settings;
mod shared;
mod window;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use fleet::{BreakerReport, FleetView, NodeId, ReportedPhase, probes_without_store};
pub use machine::{BreakerPhase, Transition, TripReason};
pub use settings::{BreakerOptions, BreakerProfile, BreakerSettings};
pub use shared::{SharedBreaker, SharedPermit};
pub use window::CallCounts;

use crate::deadline::Deadline;
use crate::failure::{Health, Outcome};
use crate::time::Timestamp;
use arrayvec::ArrayVec;
use machine::{Machine, Probe, State};
use std::time::Duration;
use window::HealthWindow;

/// A probe may come back this long after its attempt's deadline before it counts as lost.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// The operator's hand on a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreakerMode {
    /// It decides by itself.
    #[default]
    Automatic,
    /// It decides by itself but blocks nothing, to learn what it would have done.
    Observing,
    /// It blocks everything until released.
    ForcedOpen,
    /// It blocks nothing until released, and keeps measuring.
    ForcedClosed,
}

/// The right to make one call. Give it back with [`Breaker::report`] or [`Breaker::abandon`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not given back counts as a lost probe"]
pub struct BreakerPermit {
    generation: u64,
    serial: u64,
    /// Set when the breaker would have blocked this call but only observes.
    would_reject: Option<RejectReason>,
}

impl BreakerPermit {
    /// Why this call would have been blocked, if the breaker did more than observe.
    #[must_use]
    pub fn would_reject(&self) -> Option<RejectReason> {
        self.would_reject
    }
}

/// Why a breaker blocks a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// It is open.
    Open(TripReason),
    /// It is half-open and all probes of this stage are under way.
    ProbesTaken,
    /// The operator forced it open.
    ForcedOpen,
}

/// The answer to a call that wants to pass.
#[derive(Debug, PartialEq, Eq)]
pub enum AcquireDecision {
    /// It may.
    Permitted(BreakerPermit),
    /// It may not.
    Rejected {
        /// Why.
        reason: RejectReason,
        /// When the next probe may pass, where that is known.
        retry_after: Option<Duration>,
    },
}

/// How a breaker would answer, read without touching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPeek {
    /// Where it stands.
    pub phase: BreakerPhase,
    /// The operator's hand on it.
    pub mode: BreakerMode,
    /// Why it would block a call now; `None` if it would let it pass.
    pub rejects: Option<RejectReason>,
    /// When the next probe may pass, where that is known.
    pub retry_after: Option<Duration>,
}

/// A circuit breaker for one target or dependency.
///
/// ```
/// use seawall_core::breaker::{AcquireDecision, Breaker, BreakerPhase, BreakerProfile};
/// use seawall_core::deadline::Deadline;
/// use seawall_core::failure::{Failure, FailureKind, Outcome};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let mut breaker = Breaker::new(BreakerProfile::Sonnet.options().check().unwrap());
/// let mut now = Timestamp::ZERO;
/// for _ in 0..5 {
///     let AcquireDecision::Permitted(permit) = breaker.acquire(now, Deadline::NEVER) else { panic!() };
///     breaker.report(permit, &Outcome::Failed(Failure::of(FailureKind::Overloaded)), now);
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
    machine: Machine,
    window: HealthWindow,
    /// Probes this node may send, where a fleet shares them out; `None` on a node of its own.
    lease: Option<ProbeLease>,
    next_serial: u64,
    late_results: u64,
    transitions: ArrayVec<Transition, 8>,
}

/// A share of the fleet's probes, good for one stage of one episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeLease {
    /// The episode it was taken for.
    pub episode: u64,
    /// The stage it was taken for.
    pub stage: usize,
    /// How many probes may still be sent.
    pub probes: u32,
}

impl Breaker {
    /// A closed breaker that decides by itself, on a node of its own.
    #[must_use]
    pub fn new(settings: BreakerSettings) -> Self {
        let window = HealthWindow::new(settings.window);
        Self {
            settings,
            mode: BreakerMode::Automatic,
            machine: Machine::new(),
            window,
            lease: None,
            next_serial: 0,
            late_results: 0,
            transitions: ArrayVec::new(),
        }
    }

    /// Asks to make one call that ends by `attempt`.
    pub fn acquire(&mut self, now: Timestamp, attempt: Deadline) -> AcquireDecision {
        self.advance(now);
        if self.mode == BreakerMode::ForcedOpen {
            return AcquireDecision::Rejected { reason: RejectReason::ForcedOpen, retry_after: None };
        }
        match self.rejection() {
            Some(reason) if self.mode == BreakerMode::Automatic => {
                AcquireDecision::Rejected { reason, retry_after: self.retry_after(now) }
            }
            would_reject => AcquireDecision::Permitted(self.permit(now, attempt, would_reject)),
        }
    }

    /// Gives a permit back with what came of it.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is spent by giving it back")]
    pub fn report(&mut self, permit: BreakerPermit, outcome: &Outcome, now: Timestamp) {
        self.advance(now);
        if permit.would_reject.is_some() {
            return;
        }
        if permit.generation != self.machine.generation {
            self.late_results = self.late_results.saturating_add(1);
            return;
        }
        let health = outcome.health(self.settings.slow_after);
        match &mut self.machine.state {
            State::Closed { consecutive_failures } => {
                match health {
                    Health::Bad => *consecutive_failures = consecutive_failures.saturating_add(1),
                    Health::Good | Health::Slow => *consecutive_failures = 0,
                    Health::Cut => {}
                    // Shares shift as old calls leave the window; what says nothing must not be what trips.
                    Health::Unknown => return,
                }
                self.window.record(health, now);
                self.judge_window(now);
            }
            State::HalfOpen(_) => {
                let settings = &self.settings;
                let transition = self.machine.judge_probe(settings, permit.serial, health, now);
                // Without a success the stage still needs that probe.
                if matches!(health, Health::Unknown | Health::Cut) {
                    self.return_lease();
                }
                self.note(transition);
            }
            State::Open { .. } => {}
        }
    }

    /// Gives a permit back without a verdict: the caller went away. Needs no clock, so it can be done on drop.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is spent by giving it back")]
    pub fn abandon(&mut self, permit: BreakerPermit) {
        if permit.generation != self.machine.generation || permit.would_reject.is_some() {
            return;
        }
        if let State::HalfOpen(trial) = &mut self.machine.state {
            trial.probes.retain(|probe| probe.serial != permit.serial);
            self.return_lease();
        }
    }

    /// How it would answer now. Changes nothing, however often it is asked.
    #[must_use]
    pub fn peek(&self, now: Timestamp) -> BreakerPeek {
        let mut outlook = self.clone();
        outlook.advance(now);
        let rejects = match outlook.mode {
            BreakerMode::ForcedOpen => Some(RejectReason::ForcedOpen),
            BreakerMode::Automatic => outlook.rejection(),
            BreakerMode::Observing | BreakerMode::ForcedClosed => None,
        };
        BreakerPeek {
            phase: outlook.machine.phase(),
            mode: outlook.mode,
            rejects,
            retry_after: rejects.and_then(|_| outlook.retry_after(now)),
        }
    }

    /// Opens it for a reason that was found elsewhere, such as pressure that stayed high. Only a closed,
    /// self-deciding breaker follows.
    pub fn trip(&mut self, reason: TripReason, now: Timestamp) {
        self.advance(now);
        let is_closed = matches!(self.machine.state, State::Closed { .. });
        if is_closed && self.mode != BreakerMode::ForcedClosed {
            let transition = self.machine.open(&self.settings, reason, now);
            self.note(Some(transition));
        }
    }

    /// Sets the operator's hand. Released from forced open it begins a trial; from forced closed, afresh.
    pub fn set_mode(&mut self, mode: BreakerMode, now: Timestamp) {
        self.advance(now);
        let before = std::mem::replace(&mut self.mode, mode);
        if before == mode {
            return;
        }
        let released_from_forced_open =
            before == BreakerMode::ForcedOpen && mode != BreakerMode::ForcedClosed;
        if released_from_forced_open {
            let transition = self.machine.enter_stage(0, now);
            self.note(Some(transition));
        } else if mode == BreakerMode::ForcedClosed || before == BreakerMode::ForcedClosed {
            let transition = self.machine.close(now);
            self.note(Some(transition));
        }
    }

    /// The transitions since the last call, oldest first; the newest eight if nobody asked for long.
    pub fn take_transitions(&mut self) -> ArrayVec<Transition, 8> {
        self.transitions.take()
    }

    /// All transitions ever, whether anybody took them or not.
    #[must_use]
    pub fn transition_count(&self) -> u64 {
        self.machine.generation
    }

    /// Results that came too late to count, ever.
    #[must_use]
    pub fn late_results(&self) -> u64 {
        self.late_results
    }

    /// Where a fleet shares probes out: the ones this node may send. Replaces any earlier lease; from then on
    /// the node sends no probe without one.
    pub fn lease_probes(&mut self, lease: ProbeLease) {
        self.lease = Some(lease);
    }

    /// Back to a node of its own, that sends all probes of a stage itself.
    pub fn forget_fleet(&mut self) {
        self.lease = None;
    }

    /// The lease that would serve the trial this breaker is on, or will next be on: its stage, and the probes the
    /// fleet still needs to pass it.
    #[must_use]
    pub fn wants_probes(&self) -> Option<ProbeLease> {
        let (stage, done) = match &self.machine.state {
            State::Closed { .. } => return None,
            State::Open { .. } => (0, 0),
            State::HalfOpen(trial) => {
                let under_way = u32::try_from(trial.probes.len()).unwrap_or(u32::MAX);
                let succeeded = trial.successes.saturating_add(trial.peer_successes);
                (trial.stage, succeeded.saturating_add(under_way))
            }
        };
        let probes = self.settings.stage_size(stage)?.saturating_sub(done);
        Some(ProbeLease { episode: self.machine.episode, stage, probes })
    }

    fn advance(&mut self, now: Timestamp) {
        // Forced states stand still in time.
        if self.is_forced() {
            return;
        }
        while let Some(transition) = self.machine.advance(&self.settings, now) {
            self.note(Some(transition));
        }
    }

    fn is_forced(&self) -> bool {
        matches!(self.mode, BreakerMode::ForcedOpen | BreakerMode::ForcedClosed)
    }

    fn rejection(&self) -> Option<RejectReason> {
        match &self.machine.state {
            State::Closed { .. } => None,
            State::Open { reason, .. } => Some(RejectReason::Open(*reason)),
            State::HalfOpen(trial) => {
                let free = match self.lease {
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
                (!free).then_some(RejectReason::ProbesTaken)
            }
        }
    }

    fn permit(
        &mut self,
        now: Timestamp,
        attempt: Deadline,
        would_reject: Option<RejectReason>,
    ) -> BreakerPermit {
        let serial = self.next_serial;
        self.next_serial = self.next_serial.wrapping_add(1);
        if would_reject.is_none()
            && let State::HalfOpen(trial) = &mut self.machine.state
        {
            // Bounded, so that a lost probe of an attempt without deadline does not block for ever.
            let expires = attempt.within(now, self.settings.open_cap).moment() + PROBE_GRACE;
            // There is room: `rejection` has just said so.
            let _ = trial.probes.try_push(Probe { serial, expires });
            if let Some(lease) = &mut self.lease {
                lease.probes = lease.probes.saturating_sub(1);
            }
        }
        BreakerPermit { generation: self.machine.generation, serial, would_reject }
    }

    /// Gives a probe back to the lease it came from; one fetched ahead for the next stage is another.
    fn return_lease(&mut self) {
        if let (State::HalfOpen(trial), Some(lease)) = (&self.machine.state, &mut self.lease)
            && (lease.episode, lease.stage) == (self.machine.episode, trial.stage)
        {
            lease.probes = lease.probes.saturating_add(1);
        }
    }

    fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        match &self.machine.state {
            State::Open { until, .. } => Some(*until - now),
            State::Closed { .. } | State::HalfOpen(_) => None,
        }
    }

    fn judge_window(&mut self, now: Timestamp) {
        let State::Closed { consecutive_failures } = self.machine.state else { return };
        if self.mode == BreakerMode::ForcedClosed {
            return;
        }
        let reason = if consecutive_failures >= self.settings.failure_threshold {
            Some(TripReason::ConsecutiveFailures)
        } else {
            let counts = self.window.counts(now);
            self.shares_reached(counts)
        };
        if let Some(reason) = reason {
            let transition = self.machine.open(&self.settings, reason, now);
            self.note(Some(transition));
        }
    }

    fn shares_reached(&self, counts: CallCounts) -> Option<TripReason> {
        let settings = &self.settings;
        if counts.calls < u64::from(settings.min_calls) {
            None
        } else if settings.failure_rate.is_reached_by(counts.failed, counts.calls) {
            Some(TripReason::FailureRate)
        } else if settings.slow_rate.is_reached_by(counts.slow, counts.calls) {
            Some(TripReason::SlowRate)
        } else {
            None
        }
    }

    fn note(&mut self, transition: Option<Transition>) {
        let Some(transition) = transition else { return };
        // What was measured before belongs to the state that has ended; a trial is judged by itself.
        self.window.clear();
        if self.transitions.is_full() {
            self.transitions.remove(0);
        }
        self.transitions.push(transition);
    }
}

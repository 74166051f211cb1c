//! The state transitions of a breaker. Measurement is elsewhere (`window`).

use super::attribution::CallerKey;
use super::settings::{BreakerSettings, MAX_PROBES};
use crate::failure::Health;
use crate::time::Timestamp;
use arrayvec::ArrayVec;
use std::time::Duration;

/// Why a breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripReason {
    /// The number of consecutive failures on this node reached its threshold.
    ConsecutiveFailures,
    /// The failure rate reached its threshold.
    FailureRate,
    /// The rate of slow answers reached its threshold.
    SlowRate,
    /// The slow-call rate reached its threshold only together with attempts that we cut off before their first content.
    StartTimeout,
    /// More than half of the calls failed for a minute under high pressure.
    SustainedPressure,
    /// A probe failed.
    ProbeFailed,
    /// A probe's permit expired without a result.
    ProbeExpired,
    /// The probes succeeded but were too slow.
    ProbesSlow,
    /// A peer's breaker is open, or the summed counts of the fleet reached a threshold.
    Fleet,
}

impl TripReason {
    /// Whether the target answers, but too late to be useful.
    #[must_use]
    pub const fn is_slow_answers(self) -> bool {
        matches!(self, Self::SlowRate | Self::ProbesSlow)
    }

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures => "consecutive_failures",
            Self::FailureRate => "failure_rate",
            Self::SlowRate => "slow_rate",
            Self::StartTimeout => "start_timeout",
            Self::SustainedPressure => "sustained_pressure",
            Self::ProbeFailed => "probe_failed",
            Self::ProbeExpired => "probe_expired",
            Self::ProbesSlow => "probes_slow",
            Self::Fleet => "fleet",
        }
    }
}

/// The phase of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPhase {
    /// Calls pass.
    Closed,
    /// Calls are blocked.
    Open,
    /// A limited number of probes pass, to test whether the target has recovered.
    HalfOpen {
        /// The stage of the trial, counted from zero.
        stage: usize,
    },
}

/// A change of phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When the transition was due; that may be before the call that noticed it.
    pub at: Timestamp,
    /// The phase before.
    pub from: BreakerPhase,
    /// The phase after.
    pub to: BreakerPhase,
    /// Why the breaker opened; `None` for other transitions.
    pub reason: Option<TripReason>,
}

/// The interval of single probes to a blocked target when there is no other target.
pub(super) const SINGLE_PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) serial: u64,
    pub(super) expires: Timestamp,
}

/// What the results of a stage amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageResult {
    Passed,
    Failed(TripReason),
}

/// A half-open trial: its current stage and the results of that stage so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub(super) stage: usize,
    pub(super) successes: u32,
    pub(super) peer_successes: u32,
    slow: u32,
    timed_out: u32,
    results: u32,
    pub(super) probes: ArrayVec<Probe, MAX_PROBES>,
}

/// The calls that pass an open breaker because there is no other target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    pub(super) next_probe: Timestamp,
    pub(super) probe: Option<Probe>,
    /// The only caller whose probes have failed since another caller's did. Others need not wait for `next_probe`.
    pub(super) sole_failed: Option<CallerKey>,
    /// Consecutive failures of panic calls.
    pub(super) panic_failures: u32,
}

impl Opening {
    fn starting_at(at: Timestamp) -> Self {
        Self { next_probe: at + SINGLE_PROBE_INTERVAL, ..Self::default() }
    }
}

#[expect(clippy::large_enum_variant, reason = "one per target, in place: a trip must not allocate")]
#[derive(Clone, Debug)]
pub(super) enum BreakerState {
    Closed {
        consecutive_failures: u32,
    },
    Open {
        until: Timestamp,
        reason: TripReason,
        opening: Opening,
    },
    HalfOpen(Trial),
    /// Open for one caller, whose failures these were. The first call of any other caller is a probe that decides
    /// whether the others are affected too.
    Suspect {
        /// The stage of the trial that these failures interrupted; `None` if the breaker was closed.
        stage: Option<usize>,
        probe: Option<Probe>,
    },
}

/// The state, with the counters that survive transitions.
#[derive(Clone, Debug)]
pub(super) struct BreakerMachine {
    pub(super) state: BreakerState,
    /// Incremented by every transition. Results of permits from an earlier generation are ignored.
    pub(super) generation: u64,
    /// Incremented by every opening, here or at a peer. Within an episode the phase only moves forward, from open
    /// through the stages to closed, which lets nodes converge without a leader.
    pub(super) episode: u64,
    /// Openings since the breaker was last closed; it drives `open_multiplier`.
    openings: u32,
}

impl BreakerMachine {
    pub(super) fn new() -> Self {
        Self {
            state: BreakerState::Closed { consecutive_failures: 0 },
            generation: 0,
            episode: 0,
            openings: 0,
        }
    }

    pub(super) fn phase(&self) -> BreakerPhase {
        match &self.state {
            BreakerState::Closed { .. } => BreakerPhase::Closed,
            BreakerState::Open { .. } | BreakerState::Suspect { .. } => BreakerPhase::Open,
            BreakerState::HalfOpen(trial) => BreakerPhase::HalfOpen { stage: trial.stage },
        }
    }

    /// The next transition caused by time alone up to `now`, dated to when it was due.
    pub(super) fn advance(&mut self, settings: &BreakerSettings, now: Timestamp) -> Option<Transition> {
        match &self.state {
            BreakerState::Open { until, .. } if *until <= now => {
                let until = *until;
                Some(self.enter_stage(0, until))
            }
            BreakerState::Suspect { probe: Some(probe), .. } if probe.expires <= now => {
                let expired = probe.expires;
                Some(self.open(settings, TripReason::ProbeExpired, expired))
            }
            BreakerState::HalfOpen(trial) => {
                let expired = trial.probes.iter().map(|probe| probe.expires).min()?;
                (expired <= now).then(|| self.open(settings, TripReason::ProbeExpired, expired))
            }
            BreakerState::Open { .. } => {
                self.expire_single_probe(now);
                None
            }
            BreakerState::Suspect { .. } | BreakerState::Closed { .. } => None,
        }
    }

    fn expire_single_probe(&mut self, now: Timestamp) {
        if let BreakerState::Open { opening, .. } = &mut self.state
            && let Some(probe) = opening.probe.filter(|probe| probe.expires <= now)
        {
            opening.probe = None;
            opening.next_probe = probe.expires + SINGLE_PROBE_INTERVAL;
        }
    }

    /// Opens from any state, with a fresh timer.
    pub(super) fn open(
        &mut self,
        settings: &BreakerSettings,
        reason: TripReason,
        at: Timestamp,
    ) -> Transition {
        self.episode = self.episode.saturating_add(1);
        self.openings = self.openings.saturating_add(1);
        let until = at + settings.open_for(self.openings);
        self.enter(BreakerState::Open { until, reason, opening: Opening::starting_at(at) }, at, Some(reason))
    }

    /// Adopts a peer's opening, with the peer's timer.
    pub(super) fn adopt_open(&mut self, episode: u64, until: Timestamp, now: Timestamp) -> Transition {
        self.episode = episode;
        self.openings = self.openings.saturating_add(1);
        let reason = TripReason::Fleet;
        self.enter(
            BreakerState::Open { until, reason, opening: Opening::starting_at(now) },
            now,
            Some(reason),
        )
    }

    /// Waits for the first call of any caller other than the quarantined one.
    pub(super) fn suspect(&mut self, reason: TripReason, at: Timestamp) -> Transition {
        let stage = match &self.state {
            BreakerState::HalfOpen(trial) => Some(trial.stage),
            BreakerState::Closed { .. } | BreakerState::Open { .. } | BreakerState::Suspect { .. } => None,
        };
        self.enter(BreakerState::Suspect { stage, probe: None }, at, Some(reason))
    }

    pub(super) fn enter_stage(&mut self, stage: usize, at: Timestamp) -> Transition {
        self.enter(BreakerState::HalfOpen(Trial { stage, ..Trial::default() }), at, None)
    }

    pub(super) fn close(&mut self, at: Timestamp) -> Transition {
        self.openings = 0;
        self.enter(BreakerState::Closed { consecutive_failures: 0 }, at, None)
    }

    fn enter(&mut self, state: BreakerState, at: Timestamp, reason: Option<TripReason>) -> Transition {
        let from = self.phase();
        self.state = state;
        self.generation += 1;
        Transition { at, from, to: self.phase(), reason }
    }

    /// Records a probe's result, which may decide its stage.
    pub(super) fn record_probe(
        &mut self,
        settings: &BreakerSettings,
        serial: u64,
        health: Health,
    ) -> Option<StageResult> {
        let BreakerState::HalfOpen(trial) = &mut self.state else { return None };
        let position = trial.probes.iter().position(|probe| probe.serial == serial)?;
        trial.probes.swap_remove(position);
        match health {
            Health::Unknown => return None,
            Health::Bad => return Some(StageResult::Failed(TripReason::ProbeFailed)),
            Health::Good => trial.successes += 1,
            Health::Slow => {
                trial.successes += 1;
                trial.slow += 1;
            }
            Health::TimedOut => {
                trial.slow += 1;
                trial.timed_out += 1;
            }
        }
        trial.results += 1;
        self.stage_result(settings)
    }

    /// Records the result of a probe that was sent before the stage began.
    pub(super) fn record_earlier_probe(
        &mut self,
        settings: &BreakerSettings,
        probe: Probe,
        health: Health,
    ) -> Option<StageResult> {
        if let BreakerState::HalfOpen(trial) = &mut self.state {
            trial.probes.push(probe);
        }
        self.record_probe(settings, probe.serial, health)
    }

    /// Whether the current stage has been passed, or has failed because too many of its probes were slow.
    pub(super) fn stage_result(&self, settings: &BreakerSettings) -> Option<StageResult> {
        let BreakerState::HalfOpen(trial) = &self.state else { return None };
        let size = settings.stage_size(trial.stage)?;
        let enough = trial.results >= size;
        if enough && settings.slow_rate.is_reached_by(trial.slow.into(), trial.results.into()) {
            let answered = trial.slow - trial.timed_out;
            let by_answers = settings.slow_rate.is_reached_by(answered.into(), trial.results.into());
            let reason = if by_answers { TripReason::ProbesSlow } else { TripReason::StartTimeout };
            return Some(StageResult::Failed(reason));
        }
        let is_passed = trial.successes.saturating_add(trial.peer_successes) >= size;
        is_passed.then_some(StageResult::Passed)
    }

    /// Enters the stage after the one that was passed, or closes after the last.
    pub(super) fn pass_stage(&mut self, settings: &BreakerSettings, at: Timestamp) -> Transition {
        let next = match &self.state {
            BreakerState::HalfOpen(trial) => trial.stage + 1,
            BreakerState::Closed { .. } | BreakerState::Open { .. } | BreakerState::Suspect { .. } => 0,
        };
        match settings.stage_size(next) {
            Some(_) => self.enter_stage(next, at),
            None => self.close(at),
        }
    }
}

//! Transition: which state a breaker is in and how it gets to the next. Measures nothing.

use super::settings::{BreakerSettings, MOST_PROBES};
use crate::failure::Health;
use crate::time::Timestamp;
use arrayvec::ArrayVec;
use std::time::Duration;

/// Why a breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripReason {
    /// Too many failures in a row on this node.
    ConsecutiveFailures,
    /// Too large a share of calls failed.
    FailureRate,
    /// Too large a share of calls was answered slowly.
    SlowRate,
    /// Too large a share of calls was slow, and it took attempts that we cut before they had begun to reach it.
    NotStarted,
    /// More than half of the calls failed for a minute under high pressure.
    SustainedPressure,
    /// A probe failed.
    ProbeFailed,
    /// A probe never came back.
    ProbeExpired,
    /// Probes were answered, too slowly.
    ProbesSlow,
    /// Another node's breaker is open, or the fleet's calls together failed too often.
    Fleet,
}

impl TripReason {
    /// Whether the target answers, only later than is useful.
    #[must_use]
    pub const fn is_slow_answers(self) -> bool {
        matches!(self, Self::SlowRate | Self::ProbesSlow)
    }

    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::ConsecutiveFailures => "consecutive_failures",
            Self::FailureRate => "failure_rate",
            Self::SlowRate => "slow_rate",
            Self::NotStarted => "not_started",
            Self::SustainedPressure => "sustained_pressure",
            Self::ProbeFailed => "probe_failed",
            Self::ProbeExpired => "probe_expired",
            Self::ProbesSlow => "probes_slow",
            Self::Fleet => "fleet",
        }
    }
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPhase {
    /// Calls pass.
    Closed,
    /// Calls are blocked.
    Open,
    /// A few probes pass, to find out.
    HalfOpen {
        /// Counted from zero.
        stage: usize,
    },
}

/// A change of phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When it happened, which may be before it was noticed.
    pub at: Timestamp,
    /// From this phase.
    pub from: BreakerPhase,
    /// To this one.
    pub to: BreakerPhase,
    /// Why, where it opened.
    pub reason: Option<TripReason>,
}

/// While no other target can be asked, a blocked one is probed this often, one call at a time.
pub(super) const SINGLE_PROBE_EVERY: Duration = Duration::from_secs(5);

/// A probe that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) serial: u64,
    pub(super) expires: Timestamp,
}

/// A trial: the stage it has reached and how that stage goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    pub(super) stage: usize,
    pub(super) successes: u32,
    pub(super) peer_successes: u32,
    slow: u32,
    cut: u32,
    verdicts: u32,
    pub(super) probes: ArrayVec<Probe, MOST_PROBES>,
}

/// How an opening goes: calls that pass although it blocks, because no other target can be asked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// When the next single probe may pass.
    pub(super) next_probe: Timestamp,
    pub(super) probe: Option<Probe>,
    /// Failures in a row of calls that passed because it is only slow.
    pub(super) panic_failures: u32,
}

impl Opening {
    fn begun(at: Timestamp) -> Self {
        Self { next_probe: at + SINGLE_PROBE_EVERY, probe: None, panic_failures: 0 }
    }
}

#[expect(clippy::large_enum_variant, reason = "one per target, in place: a trip must not allocate")]
#[derive(Clone, Debug)]
pub(super) enum State {
    Closed {
        consecutive_failures: u32,
    },
    Open {
        until: Timestamp,
        reason: TripReason,
        opening: Opening,
    },
    HalfOpen(Trial),
    /// One caller's failures have opened it, for that caller. The first call of any other finds out whether they see the
    /// same.
    Suspect {
        probe: Option<Probe>,
    },
}

/// The state with the counters that outlive it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) state: State,
    /// Changes with every transition. A permit of another generation has nothing to say any more.
    pub(super) generation: u64,
    /// Changes with every opening, here or at a peer. Within an episode the phase only moves forward, from
    /// open over the stages to closed, which is what lets nodes agree without a leader.
    pub(super) episode: u64,
    /// Openings since it was last closed.
    openings: u32,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { state: State::Closed { consecutive_failures: 0 }, generation: 0, episode: 0, openings: 0 }
    }

    pub(super) fn phase(&self) -> BreakerPhase {
        match &self.state {
            State::Closed { .. } => BreakerPhase::Closed,
            State::Open { .. } | State::Suspect { .. } => BreakerPhase::Open,
            State::HalfOpen(trial) => BreakerPhase::HalfOpen { stage: trial.stage },
        }
    }

    /// The next transition that time alone has brought about by `now`, dated when it was due.
    pub(super) fn advance(&mut self, settings: &BreakerSettings, now: Timestamp) -> Option<Transition> {
        match &self.state {
            State::Open { until, .. } if *until <= now => {
                let until = *until;
                Some(self.enter_stage(0, until))
            }
            State::Suspect { probe: Some(probe) } if probe.expires <= now => {
                let expired = probe.expires;
                Some(self.open(settings, TripReason::ProbeExpired, expired))
            }
            State::HalfOpen(trial) => {
                let expired = trial.probes.iter().map(|probe| probe.expires).min()?;
                (expired <= now).then(|| self.open(settings, TripReason::ProbeExpired, expired))
            }
            State::Open { .. } => {
                self.expire_single_probe(now);
                None
            }
            State::Suspect { .. } | State::Closed { .. } => None,
        }
    }

    fn expire_single_probe(&mut self, now: Timestamp) {
        if let State::Open { opening, .. } = &mut self.state
            && let Some(probe) = opening.probe.filter(|probe| probe.expires <= now)
        {
            opening.probe = None;
            opening.next_probe = probe.expires + SINGLE_PROBE_EVERY;
        }
    }

    /// Opens, from whatever state, with a fresh timer.
    pub(super) fn open(
        &mut self,
        settings: &BreakerSettings,
        reason: TripReason,
        at: Timestamp,
    ) -> Transition {
        self.episode = self.episode.saturating_add(1);
        self.openings = self.openings.saturating_add(1);
        let until = at + settings.open_for(self.openings);
        self.enter(State::Open { until, reason, opening: Opening::begun(at) }, at, Some(reason))
    }

    /// Takes over a peer's opening, with the peer's timer.
    pub(super) fn follow_open(&mut self, episode: u64, until: Timestamp, now: Timestamp) -> Transition {
        self.episode = episode;
        self.openings = self.openings.saturating_add(1);
        let reason = TripReason::Fleet;
        self.enter(State::Open { until, reason, opening: Opening::begun(now) }, now, Some(reason))
    }

    /// Waits for the first call of another caller than the one that is to blame.
    pub(super) fn suspect(&mut self, reason: TripReason, at: Timestamp) -> Transition {
        self.enter(State::Suspect { probe: None }, at, Some(reason))
    }

    pub(super) fn enter_stage(&mut self, stage: usize, at: Timestamp) -> Transition {
        self.enter(State::HalfOpen(Trial { stage, ..Trial::default() }), at, None)
    }

    pub(super) fn close(&mut self, at: Timestamp) -> Transition {
        self.openings = 0;
        self.enter(State::Closed { consecutive_failures: 0 }, at, None)
    }

    fn enter(&mut self, state: State, at: Timestamp, reason: Option<TripReason>) -> Transition {
        let from = self.phase();
        self.state = state;
        self.generation += 1;
        Transition { at, from, to: self.phase(), reason }
    }

    /// Judges a probe that came back, and with it perhaps the stage.
    pub(super) fn judge_probe(
        &mut self,
        settings: &BreakerSettings,
        serial: u64,
        health: Health,
        now: Timestamp,
    ) -> Option<Transition> {
        let State::HalfOpen(trial) = &mut self.state else { return None };
        let position = trial.probes.iter().position(|probe| probe.serial == serial)?;
        trial.probes.swap_remove(position);
        match health {
            Health::Unknown => return None,
            Health::Bad => return Some(self.open(settings, TripReason::ProbeFailed, now)),
            Health::Good => trial.successes += 1,
            Health::Slow => {
                trial.successes += 1;
                trial.slow += 1;
            }
            Health::Cut => {
                trial.slow += 1;
                trial.cut += 1;
            }
        }
        trial.verdicts += 1;
        self.judge_stage(settings, now)
    }

    /// Moves a trial on whose stage has been passed, or ends one that is too slow.
    pub(super) fn judge_stage(&mut self, settings: &BreakerSettings, now: Timestamp) -> Option<Transition> {
        let State::HalfOpen(trial) = &self.state else { return None };
        let size = settings.stage_size(trial.stage)?;
        let enough = trial.verdicts >= size;
        if enough && settings.slow_rate.is_reached_by(trial.slow.into(), trial.verdicts.into()) {
            let answered = trial.slow - trial.cut;
            let by_answers = settings.slow_rate.is_reached_by(answered.into(), trial.verdicts.into());
            let reason = if by_answers { TripReason::ProbesSlow } else { TripReason::NotStarted };
            return Some(self.open(settings, reason, now));
        }
        if trial.successes.saturating_add(trial.peer_successes) < size {
            return None;
        }
        let next = trial.stage + 1;
        let transition = match settings.stage_size(next) {
            Some(_) => self.enter_stage(next, now),
            None => self.close(now),
        };
        Some(transition)
    }
}

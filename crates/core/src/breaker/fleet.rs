//! How the breakers of a fleet agree.
//!
//! Each node decides by itself and tells the others where it stands. Within an *episode*, which begins when a
//! breaker opens, the phase only moves forward: open, the stages of the trial, closed. A failed probe begins the
//! next episode. So of two stands the later one is always the right one to take over, whatever order the news
//! arrives in and however often. Times travel as "so long still", never as another node's clock.

use super::machine::{BreakerPhase, State, TripReason};
use super::window::CallCounts;
use super::{Breaker, BreakerMode};
use crate::chance::Draw;
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A report older than this says nothing any more: its node has gone.
const REPORT_LIFE: Duration = Duration::from_secs(10);

/// A node of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// Where one node's breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerReport {
    /// Later reports of a node have a higher number.
    pub sequence: u64,
    /// Its episode.
    pub episode: u64,
    /// Its phase.
    pub phase: ReportedPhase,
}

/// The phase of a peer, with what others need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedPhase {
    /// Open.
    Open {
        /// For so long still, when it was reported.
        remaining: Duration,
    },
    /// On trial.
    HalfOpen {
        /// Which stage.
        stage: usize,
        /// Probes of this stage that this node saw succeed.
        successes: u32,
    },
    /// Closed.
    Closed {
        /// The calls in its window.
        counts: CallCounts,
    },
}

impl BreakerReport {
    /// The order in which one stand follows another.
    fn rank(&self) -> (u64, usize) {
        let phase = match self.phase {
            ReportedPhase::Open { .. } => 0,
            ReportedPhase::HalfOpen { stage, .. } => stage.saturating_add(1),
            ReportedPhase::Closed { .. } => usize::MAX,
        };
        (self.episode, phase)
    }
}

/// The newest report of every other node.
///
/// Putting reports in is idempotent and the order does not matter: of one node, the highest sequence stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetView(BTreeMap<NodeId, (BreakerReport, Timestamp)>);

impl FleetView {
    /// Takes in a report that arrived at this moment of our own clock.
    pub fn insert(&mut self, node: NodeId, report: BreakerReport, received: Timestamp) {
        let entry = self.0.entry(node).or_insert((report, received));
        if report.sequence > entry.0.sequence {
            *entry = (report, received);
        }
    }

    /// Takes in all that another view knows.
    pub fn merge(&mut self, other: &Self) {
        for (node, (report, received)) in &other.0 {
            self.insert(*node, *report, *received);
        }
    }

    /// Drops nodes that have been silent for too long.
    pub fn forget_silent(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, received)| now - *received <= REPORT_LIFE);
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &(BreakerReport, Timestamp)> {
        self.0.values().filter(move |(_, received)| now - *received <= REPORT_LIFE)
    }
}

/// Whether a node that cannot reach the store sends the probes of a stage itself: one in `fleet_size` does.
#[must_use]
pub fn probes_without_store(fleet_size: u64, draw: Draw) -> bool {
    draw.below(fleet_size.max(1)) == 0
}

impl Breaker {
    /// What to tell the other nodes.
    #[must_use]
    pub fn report_to_fleet(&mut self, sequence: u64, now: Timestamp) -> BreakerReport {
        self.advance(now);
        let phase = match &self.machine.state {
            State::Open { until, .. } => ReportedPhase::Open { remaining: *until - now },
            State::HalfOpen(trial) => {
                ReportedPhase::HalfOpen { stage: trial.stage, successes: trial.successes }
            }
            State::Closed { .. } => ReportedPhase::Closed { counts: self.window.counts(now) },
        };
        BreakerReport { sequence, episode: self.machine.episode, phase }
    }

    /// Takes over what the fleet knows better: a later stand, a longer opening, successes of the same stage, and
    /// failures that only together are too many. A breaker in the operator's hand stays where it is.
    pub fn fold(&mut self, view: &FleetView, now: Timestamp) {
        self.advance(now);
        if matches!(self.mode, BreakerMode::ForcedOpen | BreakerMode::ForcedClosed) {
            return;
        }
        let own = self.report_to_fleet(0, now).rank();
        let latest = view.live(now).max_by_key(|(report, _)| report.rank()).copied();
        if let Some((report, received)) = latest
            && report.rank() > own
        {
            self.follow(report, received, now);
        }
        match self.machine.phase() {
            BreakerPhase::Open => self.fold_open(view, now),
            BreakerPhase::HalfOpen { stage } => self.fold_trial(view, stage, now),
            BreakerPhase::Closed => self.fold_counts(view, now),
        }
        self.advance(now);
    }

    fn follow(&mut self, report: BreakerReport, received: Timestamp, now: Timestamp) {
        let was_closed = self.machine.phase() == BreakerPhase::Closed;
        self.machine.episode = report.episode;
        let transition = match report.phase {
            ReportedPhase::Open { remaining } => {
                let until = received + remaining.min(self.settings.open_cap);
                Some(self.machine.follow_open(report.episode, until, now))
            }
            ReportedPhase::HalfOpen { stage, .. } if stage < self.settings.stages().len() => {
                Some(self.machine.enter_stage(stage, now))
            }
            // A stage we do not have: the peer runs other settings. Its episode is taken over, its stage not.
            ReportedPhase::HalfOpen { .. } => None,
            ReportedPhase::Closed { .. } if was_closed => None,
            ReportedPhase::Closed { .. } => Some(self.machine.close(now)),
        };
        self.note(transition);
    }

    fn fold_open(&mut self, view: &FleetView, now: Timestamp) {
        // Another node's word is bounded by our own settings: a peer gone wrong must not shut us for a year.
        let cap = self.settings.open_cap;
        let longest = self.peers_of_episode(view, now).filter_map(|(report, received)| match report.phase {
            ReportedPhase::Open { remaining } => Some(*received + remaining.min(cap)),
            ReportedPhase::HalfOpen { .. } | ReportedPhase::Closed { .. } => None,
        });
        let longest = longest.max();
        if let (State::Open { until, .. }, Some(longest)) = (&mut self.machine.state, longest) {
            *until = longest.max(*until);
        }
    }

    fn fold_trial(&mut self, view: &FleetView, at_stage: usize, now: Timestamp) {
        let peers = self.peers_of_episode(view, now).map(|(report, _)| match report.phase {
            ReportedPhase::HalfOpen { stage, successes } if stage == at_stage => successes,
            ReportedPhase::HalfOpen { .. } | ReportedPhase::Open { .. } | ReportedPhase::Closed { .. } => 0,
        });
        let peer_successes = peers.fold(0_u32, u32::saturating_add);
        if let State::HalfOpen(trial) = &mut self.machine.state {
            trial.peer_successes = peer_successes;
        }
        let transition = self.machine.judge_stage(&self.settings, now);
        self.note(transition);
    }

    fn fold_counts(&mut self, view: &FleetView, now: Timestamp) {
        let mut counts = self.window.counts(now);
        for (report, _) in self.peers_of_episode(view, now) {
            if let ReportedPhase::Closed { counts: peer } = report.phase {
                counts += peer;
            }
        }
        if self.shares_reached(counts).is_some() {
            let transition = self.machine.open(&self.settings, TripReason::Fleet, now);
            self.note(Some(transition));
        }
    }

    fn peers_of_episode<'view>(
        &self,
        view: &'view FleetView,
        now: Timestamp,
    ) -> impl Iterator<Item = &'view (BreakerReport, Timestamp)> + use<'view> {
        let episode = self.machine.episode;
        view.live(now).filter(move |(report, _)| report.episode == episode)
    }
}

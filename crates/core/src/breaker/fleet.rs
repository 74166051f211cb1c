//! How the breakers of a fleet agree.
//!
//! Each node decides by itself and tells the others where it stands. Within an *episode*, which begins when a
//! breaker opens, the phase only moves forward: open, the stages of the trial, closed. A failed probe begins the
//! next episode. So of two stands the later one is always the right one to take over, whatever order the news
//! arrives in and however often. Times travel as "so long still", never as another node's clock.

use super::Breaker;
use super::machine::{BreakerPhase, State, TripReason};
use super::window::CallCounts;
use crate::chance::Draw;
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A report older than this says nothing any more: its node has gone.
const REPORT_LIFE: Duration = Duration::from_secs(10);

/// An episode so far ahead of ours is no episode but a mistake, and following it would leave no later one.
const FURTHEST_EPISODE: u64 = 1 << 32;

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
    /// The order in which one stand follows another, for a node with this many stages. A peer with other settings
    /// may be at a stage we do not have; for us it is at our last.
    fn rank(&self, stages: usize) -> (u64, usize) {
        let phase = match self.phase {
            ReportedPhase::Open { .. } => 0,
            ReportedPhase::HalfOpen { stage, .. } => stage.saturating_add(1).min(stages),
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
        // A node that was silent for so long has started anew, and its numbers with it.
        let is_restarted = received - entry.1 > REPORT_LIFE;
        if report.sequence > entry.0.sequence || is_restarted {
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
    /// What to tell the other nodes; nothing while the operator holds this one, since that is no finding.
    #[must_use]
    pub fn report_to_fleet(&mut self, sequence: u64, now: Timestamp) -> Option<BreakerReport> {
        self.advance(now);
        (!self.is_forced()).then(|| self.stand(sequence, now))
    }

    fn stand(&mut self, sequence: u64, now: Timestamp) -> BreakerReport {
        let phase = match &self.machine.state {
            State::Open { until, .. } => ReportedPhase::Open { remaining: *until - now },
            State::HalfOpen(trial) => {
                ReportedPhase::HalfOpen { stage: trial.stage, successes: trial.successes }
            }
            State::Closed { .. } => ReportedPhase::Closed { counts: self.window.counts(now) },
            // One caller's doing is nothing that peers should follow.
            State::Suspect { .. } => ReportedPhase::Closed { counts: CallCounts::default() },
        };
        BreakerReport { sequence, episode: self.machine.episode, phase }
    }

    /// Takes over what the fleet knows better: a later stand, successes of the same stage, and failures that only
    /// together are too many. A breaker in the operator's hand stays where it is.
    pub fn fold(&mut self, view: &FleetView, now: Timestamp) {
        self.advance(now);
        if self.is_forced() {
            return;
        }
        let stages = self.settings.stages().len();
        let own = self.stand(0, now).rank(stages);
        let believable = |(report, _): &&(BreakerReport, Timestamp)| {
            report.episode.saturating_sub(own.0) <= FURTHEST_EPISODE
        };
        let latest = view.live(now).filter(believable).max_by_key(|(report, _)| report.rank(stages)).copied();
        if let Some((report, received)) = latest
            && report.rank(stages) > own
        {
            self.follow(report, received, now);
        }
        match self.machine.phase() {
            // The timer was taken over with the episode and only runs down: taking the longer of two again and
            // again would let two nodes keep each other open for ever.
            BreakerPhase::Open => {}
            BreakerPhase::HalfOpen { stage } => self.fold_trial(view, stage, now),
            BreakerPhase::Closed => self.fold_counts(view, now),
        }
        self.advance(now);
    }

    fn follow(&mut self, report: BreakerReport, received: Timestamp, now: Timestamp) {
        let was_closed = self.machine.phase() == BreakerPhase::Closed;
        self.quarantine = None;
        self.machine.episode = report.episode;
        let transition = match report.phase {
            ReportedPhase::Open { remaining } => {
                // Bounded by our own settings: a peer gone wrong must not shut us for a year.
                let until = received + remaining.min(self.settings.open_cap);
                Some(self.machine.follow_open(report.episode, until, now))
            }
            ReportedPhase::HalfOpen { stage, .. } => {
                let last = self.settings.stages().len() - 1;
                Some(self.machine.enter_stage(stage.min(last), now))
            }
            ReportedPhase::Closed { .. } if was_closed => None,
            ReportedPhase::Closed { .. } => Some(self.machine.close(now)),
        };
        self.note(transition);
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

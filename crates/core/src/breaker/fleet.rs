//! How the breakers of a fleet converge on one state, without a leader.
//!
//! Each node decides by itself and publishes its state to its peers. An *episode* begins when a breaker opens. Within
//! an episode the phase only moves forward: open, the stages of the trial, closed. A failed probe begins the next
//! episode. So states are totally ordered by (episode, phase) and merging takes the later one: the result does not
//! depend on the order of the reports, nor on duplicates. Times are sent as a remaining duration, never as a reading of
//! another node's clock.

use super::Breaker;
use super::machine::{BreakerPhase, BreakerState, TripReason};
use super::window::CallCounts;
use crate::invariant::{enforce, phase_never_regresses};
use crate::random::Draw;
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// A report older than this is ignored: its node is gone.
const REPORT_TTL: Duration = Duration::from_secs(10);

/// A report whose episode is this far ahead is ignored as corrupt. Following it would leave no room for later episodes.
const MAX_EPISODE_LEAD: u64 = 1 << 32;

/// The identifier of a node of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// The state of one node's breaker, as published to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerReport {
    /// Increases with every report of a node, so that of two reports the newer one is known.
    pub sequence: u64,
    /// The node's current episode.
    pub episode: u64,
    /// The node's current phase.
    pub phase: ReportedPhase,
}

/// The phase of a peer, with the details that other nodes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedPhase {
    /// The peer blocks calls.
    Open {
        /// How long the peer stays open, counted from its report.
        remaining: Duration,
    },
    /// The peer is sending probes.
    HalfOpen {
        /// The stage of the trial, counted from zero.
        stage: usize,
        /// Successful probes of this stage on the reporting node.
        successes: u32,
    },
    /// The peer lets calls pass.
    Closed {
        /// The counts in the peer's window.
        counts: CallCounts,
    },
}

impl BreakerReport {
    /// The position of a report in the order of states, for a node with this many stages. A peer with other settings
    /// may report a stage that this node does not have; it is treated as our last stage.
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
/// Inserting is idempotent and commutative: for each node the report with the highest sequence number stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetView(BTreeMap<NodeId, (BreakerReport, Timestamp)>);

impl FleetView {
    /// Adds a report that was received at this time by our own clock.
    pub fn insert(&mut self, node: NodeId, report: BreakerReport, received: Timestamp) {
        let entry = self.0.entry(node).or_insert((report, received));
        // A node that was silent for so long has restarted, and its sequence numbers start again.
        let is_restarted = received - entry.1 > REPORT_TTL;
        if report.sequence > entry.0.sequence || is_restarted {
            *entry = (report, received);
        }
    }

    /// Adds all reports of another view.
    pub fn merge(&mut self, other: &Self) {
        for (node, (report, received)) in &other.0 {
            self.insert(*node, *report, *received);
        }
    }

    /// Removes nodes whose last report has expired.
    pub fn remove_expired(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, received)| now - *received <= REPORT_TTL);
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &(BreakerReport, Timestamp)> {
        self.0.values().filter(move |(_, received)| now - *received <= REPORT_TTL)
    }
}

/// Whether a node that cannot reach the shared store sends a stage's probes itself. Each node does with a probability
/// of one in `fleet_size`, so that without the store one node of the fleet probes on average.
#[must_use]
pub fn should_probe_without_store(fleet_size: u64, draw: Draw) -> bool {
    draw.below(fleet_size.max(1)) == 0
}

impl Breaker {
    /// The report for the other nodes. `None` while the operator forces this breaker, since a forced state is not a
    /// finding.
    #[must_use]
    pub fn report_to_fleet(&mut self, sequence: u64, now: Timestamp) -> Option<BreakerReport> {
        self.advance(now);
        (!self.is_forced()).then(|| self.build_report(sequence, now))
    }

    fn build_report(&mut self, sequence: u64, now: Timestamp) -> BreakerReport {
        let phase = match &self.machine.state {
            BreakerState::Open { until, .. } => ReportedPhase::Open { remaining: *until - now },
            BreakerState::HalfOpen(trial) => {
                ReportedPhase::HalfOpen { stage: trial.stage, successes: trial.successes }
            }
            BreakerState::Closed { .. } => ReportedPhase::Closed { counts: self.window.counts(now) },
            // The failures of one quarantined caller are no reason for peers to open.
            BreakerState::Suspect { .. } => ReportedPhase::Closed { counts: CallCounts::default() },
        };
        BreakerReport { sequence, episode: self.machine.episode, phase }
    }

    /// Merges the reports of the fleet: adopts a later state, adds peers' successes in the same stage, and opens when
    /// the summed counts of all nodes reach a threshold that no single node reaches. A forced breaker does not change.
    pub fn merge_fleet(&mut self, view: &FleetView, now: Timestamp) {
        self.advance(now);
        if self.is_forced() {
            return;
        }
        let stages = self.settings.half_open_stages().len();
        let own = self.build_report(0, now).rank(stages);
        let believable = |(report, _): &&(BreakerReport, Timestamp)| {
            report.episode.saturating_sub(own.0) <= MAX_EPISODE_LEAD
        };
        let latest = view.live(now).filter(believable).max_by_key(|(report, _)| report.rank(stages)).copied();
        if let Some((report, received)) = latest
            && report.rank(stages) > own
        {
            self.adopt(report, received, now);
        }
        match self.machine.phase() {
            // The timer was adopted with the episode and only runs down. Taking the longer of two timers again and
            // again would let two nodes keep each other open forever.
            BreakerPhase::Open => {}
            BreakerPhase::HalfOpen { stage } => self.merge_trial(view, stage, now),
            BreakerPhase::Closed => self.merge_counts(view, now),
        }
        self.advance(now);
        enforce(phase_never_regresses(&own, &self.build_report(0, now).rank(stages)));
    }

    fn adopt(&mut self, report: BreakerReport, received: Timestamp, now: Timestamp) {
        let was_closed = self.machine.phase() == BreakerPhase::Closed;
        self.quarantine = None;
        self.machine.episode = report.episode;
        let transition = match report.phase {
            ReportedPhase::Open { remaining } => {
                // Bounded by our own settings: a faulty peer must not keep us open for a year.
                let until = received + remaining.min(self.settings.max_open_for);
                Some(self.machine.adopt_open(report.episode, until, now))
            }
            ReportedPhase::HalfOpen { stage, .. } => {
                let last = self.settings.half_open_stages().len() - 1;
                Some(self.machine.enter_stage(stage.min(last), now))
            }
            ReportedPhase::Closed { .. } if was_closed => None,
            ReportedPhase::Closed { .. } => Some(self.machine.close(now)),
        };
        self.record_transition(transition);
    }

    fn merge_trial(&mut self, view: &FleetView, at_stage: usize, now: Timestamp) {
        let peers = self.peers_of_episode(view, now).map(|(report, _)| match report.phase {
            ReportedPhase::HalfOpen { stage, successes } if stage == at_stage => successes,
            ReportedPhase::HalfOpen { .. } | ReportedPhase::Open { .. } | ReportedPhase::Closed { .. } => 0,
        });
        let peer_successes = peers.fold(0_u32, u32::saturating_add);
        if let BreakerState::HalfOpen(trial) = &mut self.machine.state {
            trial.peer_successes = peer_successes;
        }
        let result = self.machine.stage_result(&self.settings);
        self.conclude_stage(result, now);
    }

    fn merge_counts(&mut self, view: &FleetView, now: Timestamp) {
        let mut counts = self.window.counts(now);
        for (report, _) in self.peers_of_episode(view, now) {
            if let ReportedPhase::Closed { counts: peer } = report.phase {
                counts += peer;
            }
        }
        if self.reached_rate(counts).is_some() {
            let transition = self.machine.open(&self.settings, TripReason::Fleet, now);
            self.record_transition(Some(transition));
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

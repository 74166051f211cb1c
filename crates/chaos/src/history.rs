//! The recorded events of a run, as far as the invariants need them.

use crate::caller::ResponseObservation;
use crate::schedule::{MODELS, NODES};
use crate::traffic::ChaosCaller;
use seawall_core::time::Timestamp;
use seawall_testkit::validator::ClientDialect;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A period of time; without an end it is still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSpan {
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
}

impl TimeSpan {
    /// Whether it overlaps this closed interval.
    pub(crate) fn overlaps(&self, from: Timestamp, to: Timestamp) -> bool {
        self.from <= to && self.to.is_none_or(|end| end >= from)
    }
}

/// A request and its result.
#[derive(Clone, Debug)]
pub(crate) struct RequestObservation {
    pub(crate) caller: ChaosCaller,
    pub(crate) dialect: ClientDialect,
    pub(crate) is_streamed: bool,
    /// Whether it provoked a failure on purpose.
    pub(crate) is_hostile: bool,
    pub(crate) response: ResponseObservation,
}

/// One process of a node, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLifetime {
    pub(crate) node: usize,
    pub(crate) id: u32,
    pub(crate) span: TimeSpan,
    /// Open file descriptors when it was ready, and at the end of the run.
    pub(crate) descriptors: (u64, Option<u64>),
    /// Memory after a fifth of the run, if it lived that long, and at the last check.
    pub(crate) memory: (Option<u64>, u64),
}

/// The effect of unauthenticated clients on a node.
#[derive(Clone, Debug)]
pub(crate) struct AttackResult {
    pub(crate) node: usize,
    /// Memory growth in bytes.
    pub(crate) memory_growth: u64,
    /// Requests of an authenticated caller meanwhile, and the failures among them.
    pub(crate) requests: u32,
    pub(crate) failures: Vec<String>,
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    pub(crate) requests: Vec<RequestObservation>,
    pub(crate) processes: Vec<ProcessLifetime>,
    /// Requests admitted by the gateway that is killed repeatedly: when each was sent, and when its answer began.
    pub(crate) standalone: Vec<(Timestamp, Timestamp)>,
    /// When nodes were stopped, and killed.
    pub(crate) stops: Vec<(usize, TimeSpan)>,
    pub(crate) kills: Vec<(usize, TimeSpan)>,
    /// When models had faults.
    pub(crate) faulty: [Vec<TimeSpan>; MODELS],
    /// When models were slow, or failed for one caller only.
    pub(crate) degraded: [Vec<TimeSpan>; MODELS],
    /// When a model exceeded its output limit, or reported a false usage.
    pub(crate) false_billing: Vec<TimeSpan>,
    /// Since when a model may be quarantined because it exceeded its limits.
    pub(crate) quarantined_since: [Option<Timestamp>; MODELS],
    /// Decisions without the shared store, of all nodes together, at these times, until one of them was restarted.
    pub(crate) local_decisions: Vec<(Timestamp, u64)>,
    local_decisions_by_node: [u64; NODES],
    /// When counts were first lost: by the shared store, or by a node.
    pub(crate) counts_lost_at: Option<Timestamp>,
    /// The limits in force since each time; the earlier ones may apply a little longer.
    pub(crate) variants: Vec<(Timestamp, u64)>,
    /// How often ledgers were read, how close they came to their cap in thousandths, and what was beyond it.
    pub(crate) readings: u64,
    pub(crate) max_budget_use: u64,
    pub(crate) overdrawn: Vec<String>,
    /// Since when a node's budget may have been too low for the more expensive model.
    pub(crate) budget_low_since: [Option<Timestamp>; NODES],
    /// The effect of unauthenticated clients on nodes.
    pub(crate) attacks: Vec<AttackResult>,
    /// Forbidden behaviour of processes.
    pub(crate) process_failures: Vec<String>,
}

/// The shared record of a run.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Observations>>);

impl History {
    pub(crate) fn observations(&self) -> MutexGuard<'_, Observations> {
        // Nothing panics while it holds this lock; if it did, one entry would be missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observations {
    /// Records the number of decisions that a node made without the shared store.
    pub(crate) fn record_local_decisions(&mut self, node: usize, at: Timestamp, decided: u64) {
        self.local_decisions_by_node[node] = self.local_decisions_by_node[node].max(decided);
        let sum = self.local_decisions_by_node.iter().fold(0, |sum, more| u64::saturating_add(sum, *more));
        self.local_decisions.push((at, sum));
    }

    /// The current process of a node.
    pub(crate) fn process_of(&mut self, node: usize) -> Option<&mut ProcessLifetime> {
        self.processes.iter_mut().rev().find(|process| process.node == node && process.span.to.is_none())
    }
}

//! The recorded events of a run, as far as the invariants need them.

use crate::caller::Got;
use crate::schedule::{MODELS, NODES};
use crate::traffic::Who;
use seawall_core::time::Timestamp;
use seawall_demo::judge::Dialect;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A period of time; without an end it is still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
}

impl Span {
    /// Whether it overlaps this closed interval.
    pub(crate) fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.from <= to && self.to.is_none_or(|end| end >= from)
    }
}

/// A request and its result.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) who: Who,
    pub(crate) dialect: Dialect,
    pub(crate) is_streamed: bool,
    /// Whether it provoked a failure on purpose.
    pub(crate) is_hostile: bool,
    pub(crate) got: Got,
}

/// One process of a node, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) node: usize,
    pub(crate) id: u32,
    pub(crate) span: Span,
    /// Open file descriptors when it was ready, and at the end of the run.
    pub(crate) descriptors: (u64, Option<u64>),
    /// Memory after a fifth of the run, if it lived that long, and at the last check.
    pub(crate) memory: (Option<u64>, u64),
}

/// The effect of unauthenticated clients on a node.
#[derive(Clone, Debug)]
pub(crate) struct StrangersSeen {
    pub(crate) node: usize,
    /// Memory growth in bytes.
    pub(crate) grown: u64,
    /// Requests of an authenticated caller meanwhile, and the failures among them.
    pub(crate) asked: u32,
    pub(crate) unanswered: Vec<String>,
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<Asked>,
    pub(crate) lives: Vec<Life>,
    /// Requests admitted by the gateway that is killed repeatedly: when each was sent, and when its answer began.
    pub(crate) lone: Vec<(Timestamp, Timestamp)>,
    /// When nodes were stopped, and killed.
    pub(crate) stops: Vec<(usize, Span)>,
    pub(crate) kills: Vec<(usize, Span)>,
    /// When models had faults.
    pub(crate) spoilt: [Vec<Span>; MODELS],
    /// When models were slow, or failed for one caller only.
    pub(crate) strained: [Vec<Span>; MODELS],
    /// When a model exceeded its output limit, or reported a false usage.
    pub(crate) dishonest: Vec<Span>,
    /// Since when a model may be quarantined because it exceeded its limits.
    pub(crate) may_be_aside: [Option<Timestamp>; MODELS],
    /// Decisions without the shared store, of all nodes together, at these times, until one of them was restarted.
    pub(crate) alone: Vec<(Timestamp, u64)>,
    alone_by_node: [u64; NODES],
    /// When counts were first lost: by the shared store, or by a node.
    pub(crate) forgotten: Option<Timestamp>,
    /// The limits in force since each time; the earlier ones may apply a little longer.
    pub(crate) variants: Vec<(Timestamp, u64)>,
    /// How often ledgers were read, how close they came to their cap in thousandths, and what was beyond it.
    pub(crate) readings: u64,
    pub(crate) fullest: u64,
    pub(crate) overdrawn: Vec<String>,
    /// Since when a node's budget may have been too low for the more expensive model.
    pub(crate) tight: [Option<Timestamp>; NODES],
    /// The effect of unauthenticated clients on nodes.
    pub(crate) strangers: Vec<StrangersSeen>,
    /// Forbidden behaviour of processes.
    pub(crate) misdeeds: Vec<String>,
}

/// The shared record of a run.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Seen>>);

impl History {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while it holds this lock; if it did, one entry would be missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Records the number of decisions that a node made without the shared store.
    pub(crate) fn note_alone(&mut self, node: usize, at: Timestamp, decided: u64) {
        self.alone_by_node[node] = self.alone_by_node[node].max(decided);
        let sum = self.alone_by_node.iter().fold(0, |sum, more| u64::saturating_add(sum, *more));
        self.alone.push((at, sum));
    }

    /// The current process of a node.
    pub(crate) fn life_of(&mut self, node: usize) -> Option<&mut Life> {
        self.lives.iter_mut().rev().find(|life| life.node == node && life.span.to.is_none())
    }
}

//! What has happened, as far as laws need it.

use crate::caller::Got;
use crate::schedule::{MODELS, NODES};
use crate::traffic::Who;
use seawall_core::time::Timestamp;
use seawall_demo::judge::Dialect;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stretch of time; without an end it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
}

impl Span {
    /// Whether some of it lies between these moments, which belong to it.
    pub(crate) fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.from <= to && self.to.is_none_or(|end| end >= from)
    }
}

/// A question and what became of it.
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
    /// Descriptors when it was ready, and at the end of all.
    pub(crate) descriptors: (u64, Option<u64>),
    /// Memory after a fifth of the run, if it lived that long, and when it was last looked at.
    pub(crate) memory: (Option<u64>, u64),
}

/// What became of a node while strangers were at it.
#[derive(Clone, Debug)]
pub(crate) struct StrangersSeen {
    pub(crate) node: usize,
    /// Bytes of memory that it had more than before.
    pub(crate) grown: u64,
    /// How often somebody with a key asked, and how it was not answered.
    pub(crate) asked: u32,
    pub(crate) unanswered: Vec<String>,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: Vec<Asked>,
    pub(crate) lives: Vec<Life>,
    /// What the gateway that is killed again and again has admitted: when it was asked, and when the answer began.
    pub(crate) lone: Vec<(Timestamp, Timestamp)>,
    /// Nodes that were told to stop, and killed.
    pub(crate) stops: Vec<(usize, Span)>,
    pub(crate) kills: Vec<(usize, Span)>,
    /// When models went wrong.
    pub(crate) spoilt: [Vec<Span>; MODELS],
    /// When models were slow, or failed for one caller only.
    pub(crate) strained: [Vec<Span>; MODELS],
    /// When a model said more than it was asked for, or lied about how much.
    pub(crate) dishonest: Vec<Span>,
    /// Since when a model may be set aside because it passed its limits.
    pub(crate) may_be_aside: [Option<Timestamp>; MODELS],
    /// What all nodes together had decided without the shared store at these times, until one of them was started anew.
    pub(crate) alone: Vec<(Timestamp, u64)>,
    alone_by_node: [u64; NODES],
    /// When somebody first forgot what had been counted: the shared store, or a node.
    pub(crate) forgotten: Option<Timestamp>,
    /// Which limits held from when on; the earlier ones may hold a little longer.
    pub(crate) variants: Vec<(Timestamp, u64)>,
    /// How often books were read, how close they came to their cap in thousandths, and what was beyond it.
    pub(crate) readings: u64,
    pub(crate) fullest: u64,
    pub(crate) overdrawn: Vec<String>,
    /// From when on a node's money may have been too little for the dearer model.
    pub(crate) tight: [Option<Timestamp>; NODES],
    /// What became of nodes while strangers were at them.
    pub(crate) strangers: Vec<StrangersSeen>,
    /// What programs did that they must not.
    pub(crate) misdeeds: Vec<String>,
}

/// The same for all who add to it.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Seen>>);

impl History {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nothing panics while it holds this; if it did, one entry would be missing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// A node has decided so much without the shared store.
    pub(crate) fn note_alone(&mut self, node: usize, at: Timestamp, decided: u64) {
        self.alone_by_node[node] = self.alone_by_node[node].max(decided);
        let sum = self.alone_by_node.iter().fold(0, |sum, more| u64::saturating_add(sum, *more));
        self.alone.push((at, sum));
    }

    /// The process that a node has now.
    pub(crate) fn life_of(&mut self, node: usize) -> Option<&mut Life> {
        self.lives.iter_mut().rev().find(|life| life.node == node && life.span.to.is_none())
    }
}

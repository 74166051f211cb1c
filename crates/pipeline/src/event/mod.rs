//! Events: what happens to requests, attempts, targets and the node, as one stream to any number of sinks.
//!
//! **Why one type?** A log, metrics, traces and a live view each want another selection of the same facts. Where
//! something happens, one [`Event`] is emitted; what becomes of it is decided by the [`EventSink`]s that subscribe to its
//! [`EventTopic`]. Happenings of the node, such as a reload or a store that went away, are events of the same type, so
//! that a sink sees them in one order with the requests that they explain.
//!
//! **What it costs.** An event borrows what it describes, so emitting one allocates nothing. The topics that any sink
//! subscribes to are one word: an event that nobody wants costs one load and one test.
//!
//! **What it does not do.** It has no queue: a sink is called on the thread where the event happens, often that of a
//! request, and must not block. One that does I/O copies what it needs into a bounded queue of its own, drops what does
//! not fit, and counts that ([`EventSink::dropped`]). No decision depends on a sink.

mod sink;
mod topic;

pub use sink::{EventSink, EventSinks};
pub use topic::{EventTopic, EventTopics};

use crate::limit_description::LimitDescription;
use crate::record::{AttemptCause, AttemptRecord, RequestRecord, RequestStage, SkipKind};
use seawall_core::breaker::Transition;
use seawall_core::health::HealthTransition;
use seawall_core::key_pool::KeyTransition;
use seawall_core::money::Money;
use seawall_core::pressure::PressureTransition;
use seawall_core::time::Timestamp;
use seawall_store::SharedStoreState;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened. `request` is the ID of the request to which it happened.
///
/// The events of one request are emitted in this order: received, the stages as they end, with the decisions and attempts
/// within each, the last attempt's end, completed. Of a stream, the stage `answer` ends before its attempt does.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request was received completely, or was rejected before that.
    RequestReceived {
        /// The request.
        request: u64,
        /// The face at which it arrived.
        face: &'static str,
        /// When.
        at: Timestamp,
    },
    /// A stage of a request ended.
    StageEnded {
        /// The request.
        request: u64,
        /// The stage.
        stage: RequestStage,
        /// How long it took.
        duration: Duration,
        /// When it ended.
        at: Timestamp,
    },
    /// The limits decided about a request.
    LimitDecided {
        /// The request.
        request: u64,
        /// The limit that was exceeded, or the one with the least left.
        limit: &'a LimitDescription,
        /// The decision.
        decision: LimitDecision,
    },
    /// A budget decided about a request or an attempt.
    BudgetDecided {
        /// The request.
        request: u64,
        /// Which budget.
        budget: BudgetKind,
        /// The most that the call may cost.
        max_cost: Money,
        /// The decision.
        decision: BudgetDecision,
    },
    /// A target was not called.
    TargetSkipped {
        /// The request.
        request: u64,
        /// The target.
        target: &'a Arc<str>,
        /// Why.
        reason: SkipKind,
    },
    /// An attempt started.
    AttemptStarted {
        /// The request.
        request: u64,
        /// The number of the attempt within its request, from 0.
        number: u32,
        /// The target.
        target: &'a Arc<str>,
        /// Why the attempt is made.
        cause: AttemptCause,
        /// The wait before it.
        delay: Duration,
        /// When it started.
        at: Timestamp,
    },
    /// An attempt ended.
    AttemptEnded(&'a AttemptRecord<'a>),
    /// A request ended.
    RequestCompleted(&'a RequestRecord),
    /// A target's breaker has opened, become half-open or closed. The change is noticed when a call ends;
    /// [`Transition::at`] is when it happened.
    BreakerChanged {
        /// The target.
        target: &'a Arc<str>,
        /// The change.
        transition: &'a Transition,
    },
    /// The pressure on a target has changed. The change is noticed when a call ends.
    PressureChanged {
        /// The target.
        target: &'a Arc<str>,
        /// The change.
        transition: PressureTransition,
    },
    /// Something is wrong with a target, something else is, or nothing any more.
    TargetHealthChanged {
        /// The target.
        target: &'a Arc<str>,
        /// The provider's name of its model.
        model: &'a Arc<str>,
        /// The change.
        transition: &'a HealthTransition,
        /// The last error; empty if nothing is wrong.
        error: &'a str,
    },
    /// One of several keys of a target was set aside, or can be used again.
    TargetKeyChanged {
        /// The target.
        target: &'a Arc<str>,
        /// The number of its keys.
        keys: usize,
        /// The change.
        transition: &'a KeyTransition,
    },
    /// New settings are in force.
    SettingsReloaded {
        /// The changed keys that take effect now, separated by commas.
        keys: &'a str,
        /// Whether any key changed, also one that takes effect with the next start.
        is_changed: bool,
    },
    /// Changed settings are invalid; the running settings stay in force.
    SettingsRejected {
        /// Why, in one line. Empty if there are details.
        reason: &'a str,
        /// Every problem with its place in the file, for people.
        details: Option<&'a str>,
    },
    /// The shared store went away, is back, or is back with incomplete counts.
    SharedStoreChanged {
        /// The kind of store.
        store: &'static str,
        /// Its state now.
        state: SharedStoreState,
        /// Why.
        reason: &'a str,
    },
    /// The journal cannot be written, or can be written again.
    JournalChanged {
        /// Why it cannot; `None` if it can.
        problem: Option<&'a str>,
        /// The data directory, if there is one.
        data_dir: Option<&'a Path>,
    },
    /// The data directory cannot be written, or can be written again.
    DataDirChanged {
        /// Why it cannot, and what to do; `None` if it can.
        problem: Option<&'a str>,
    },
    /// The gateway accepts no more requests and drains those in flight.
    DrainStarted {
        /// What asked for it: a signal, or the program itself.
        cause: &'a str,
        /// How long requests in flight may take.
        timeout: Duration,
    },
    /// All requests and all threads of the gateway have ended. The threads of sinks are among them, so a sink with a
    /// queue does not see it.
    DrainCompleted {
        /// How long it took.
        duration: Duration,
    },
}

/// What the limits decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitDecision {
    /// The request is admitted.
    Granted,
    /// The request exceeds a limit in observe mode, and is admitted.
    Observed,
    /// The request is rejected.
    Rejected,
}

/// What a budget decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetDecision {
    /// The maximum cost is reserved.
    Reserved,
    /// Nothing is reserved, for this reason.
    Refused(SkipKind),
}

/// Which budget decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetKind {
    /// The budgets of this node: of the day, the tier and the caller. They decide about each attempt.
    Node,
    /// The caller's daily budget in the shared store. It decides about the request.
    SharedCaller,
}

impl Event<'_> {
    /// The topic of the event.
    #[must_use]
    pub const fn topic(&self) -> EventTopic {
        match self {
            Self::RequestReceived { .. } => EventTopic::RequestReceived,
            Self::StageEnded { .. } => EventTopic::StageEnded,
            Self::LimitDecided { .. } => EventTopic::LimitDecided,
            Self::BudgetDecided { .. } => EventTopic::BudgetDecided,
            Self::TargetSkipped { .. } => EventTopic::TargetSkipped,
            Self::AttemptStarted { .. } => EventTopic::AttemptStarted,
            Self::AttemptEnded(_) => EventTopic::AttemptEnded,
            Self::RequestCompleted(_) => EventTopic::RequestCompleted,
            Self::BreakerChanged { .. } => EventTopic::BreakerChanged,
            Self::PressureChanged { .. } => EventTopic::PressureChanged,
            Self::TargetHealthChanged { .. } => EventTopic::TargetHealthChanged,
            Self::TargetKeyChanged { .. } => EventTopic::TargetKeyChanged,
            Self::SettingsReloaded { .. } => EventTopic::SettingsReloaded,
            Self::SettingsRejected { .. } => EventTopic::SettingsRejected,
            Self::SharedStoreChanged { .. } => EventTopic::SharedStoreChanged,
            Self::JournalChanged { .. } => EventTopic::JournalChanged,
            Self::DataDirChanged { .. } => EventTopic::DataDirChanged,
            Self::DrainStarted { .. } => EventTopic::DrainStarted,
            Self::DrainCompleted { .. } => EventTopic::DrainCompleted,
        }
    }
}

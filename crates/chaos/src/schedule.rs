//! The schedule of faults, drawn from a seed before anything starts.
//!
//! A list with every kind of fault is shuffled and worked through, and then shuffled again, so that every run has some
//! of each. The same seed gives the same faults at the same times. **What it does not do.** It never takes both nodes
//! away at once, and injects nothing in the last seconds, so that requests in flight can end.

use seawall_core::random::SeededRandom;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const NODES: usize = 2;
pub(crate) const MODELS: usize = 2;
/// Sets of limits that reloads switch between.
pub(crate) const VARIANTS: u64 = 3;

/// No fault before this time.
const WARM_UP: Duration = Duration::from_secs(3);
/// No fault after this time, counted from the end.
const QUIET_END: Duration = Duration::from_secs(8);
/// Minimum and maximum time between two faults.
const GAP: (Duration, Duration) = (Duration::from_millis(800), Duration::from_millis(3_200));
/// How long a node is left alone after it was stopped or killed.
const NODE_COOLDOWN: Duration = Duration::from_secs(10);
/// How long the shared store is left alone after it is back.
const STORE_COOLDOWN: Duration = Duration::from_secs(2);

/// How long nodes may be without the shared store after their connections to it were lost: two seconds, and a margin
/// for a busy machine.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InjectedFault {
    /// A model gets these fault rules, or recovers if there are none.
    ModelFaults {
        /// The index of the model.
        model: usize,
        /// The name of the fault.
        name: &'static str,
        /// The fault rules.
        rules: Value,
    },
    /// The shared store is killed, and restarted empty after this time.
    StoreKilled(Duration),
    /// The shared store is suspended for this time.
    StorePaused(Duration),
    /// Connections to the shared store are lost without a reset, while new ones work; nodes must reconnect within this
    /// time.
    StoreConnectionsLost(Duration),
    /// A node is stopped gracefully, and started again.
    NodeStopped(usize),
    /// A node is killed, and started again.
    NodeKilled(usize),
    /// The gateway with local limits is killed this many times in a row.
    StandaloneKilled(u32),
    /// Both nodes reload with other limits.
    Reload(u64),
    /// One caller floods, for this time.
    Flood(Duration),
    /// One caller provokes failures that only its requests cause, for this time.
    HostileCaller(Duration),
    /// Unauthenticated clients that neither finish requests nor read responses, at every node for this time.
    UnauthenticatedClients(Duration),
}

/// Both models answer correctly, but late.
pub(crate) const SLOW_MODELS: &str = "slow models";
/// Both models fail on a text that one caller sends.
pub(crate) const HOSTILE_CALLER: &str = "one hostile caller";
/// The text that this caller sends.
pub(crate) const CRASH_TEXT: &str = "crash the model";

/// Whether a fault of this name excuses a rejection. A model that is slow, or fails for one caller, works for the
/// others.
pub(crate) fn excuses_rejection(name: &str) -> bool {
    ![SLOW_MODELS, HOSTILE_CALLER].contains(&name)
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScheduledFault {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) fault: InjectedFault,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Model,
    BothModels,
    StoreKilled,
    StorePaused,
    StoreConnectionsLost,
    NodeStopped,
    NodeKilled,
    StandaloneKilled,
    Reload,
    Flood,
    SlowModels,
    HostileCaller,
    EndlessOutput,
    FalseUsage,
    UnauthenticatedClients,
}

/// The model that exceeds its limits. Three overruns in ten minutes quarantine a target, so the other one must be
/// available.
pub(crate) const OVERRUN_MODEL: usize = 0;
/// The names of faults by which a model bills, or claims to bill, more than a request allows.
pub(crate) const FALSE_BILLING: [&str; 2] = ["endless output", "false usage"];

const FAULT_MIX: [FaultKind; 21] = [
    FaultKind::Model,
    FaultKind::Model,
    FaultKind::Model,
    FaultKind::Model,
    FaultKind::BothModels,
    FaultKind::BothModels,
    FaultKind::StoreKilled,
    FaultKind::StorePaused,
    FaultKind::StoreConnectionsLost,
    FaultKind::NodeStopped,
    FaultKind::NodeKilled,
    FaultKind::StandaloneKilled,
    FaultKind::Reload,
    FaultKind::Reload,
    FaultKind::Flood,
    FaultKind::Flood,
    FaultKind::SlowModels,
    FaultKind::HostileCaller,
    FaultKind::EndlessOutput,
    FaultKind::FalseUsage,
    FaultKind::UnauthenticatedClients,
];

/// All faults of a run of this length, the earliest first.
pub(crate) fn schedule(duration: Duration, seed: u64) -> Vec<ScheduledFault> {
    let mut scheduler = FaultScheduler {
        chance: SeededRandom::new(seed ^ 0x0063_6861_6f73),
        remaining: Vec::new(),
        scheduled: Vec::new(),
        models_free: [Duration::ZERO; MODELS],
        nodes_free: Duration::ZERO,
        standalone_free: Duration::ZERO,
        store_free: Duration::ZERO,
        variant: 0,
    };
    let end = duration.saturating_sub(QUIET_END);
    let mut at = WARM_UP;
    while at < end {
        scheduler.schedule_next(at, end);
        at += scheduler.chance.draw().between(GAP.0, GAP.1);
    }
    scheduler.scheduled.sort_by_key(|scheduled| scheduled.at);
    scheduler.scheduled
}

struct FaultScheduler {
    chance: SeededRandom,
    remaining: Vec<FaultKind>,
    scheduled: Vec<ScheduledFault>,
    models_free: [Duration; MODELS],
    nodes_free: Duration,
    standalone_free: Duration,
    store_free: Duration,
    variant: u64,
}

impl FaultScheduler {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.chance.draw().below(bound as u64)).unwrap_or(0)
    }

    fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.chance.draw().between(Duration::from_millis(low), Duration::from_millis(high))
    }

    /// Schedules the next fault that is possible now, if any.
    fn schedule_next(&mut self, at: Duration, end: Duration) {
        if self.remaining.is_empty() {
            self.remaining = FAULT_MIX.to_vec();
            for last in (1..self.remaining.len()).rev() {
                let other = self.below(last + 1);
                self.remaining.swap(last, other);
            }
        }
        let Some(index) = self.remaining.iter().rposition(|kind| self.is_possible(*kind, at)) else { return };
        let kind = self.remaining.remove(index);
        self.schedule_kind(kind, at, end);
    }

    fn is_possible(&self, kind: FaultKind, at: Duration) -> bool {
        match kind {
            FaultKind::Model => self.models_free.iter().any(|free| *free <= at),
            FaultKind::BothModels | FaultKind::SlowModels | FaultKind::HostileCaller => {
                self.models_free.iter().all(|free| *free <= at)
            }
            FaultKind::EndlessOutput | FaultKind::FalseUsage => self.models_free[OVERRUN_MODEL] <= at,
            FaultKind::StoreKilled | FaultKind::StorePaused | FaultKind::StoreConnectionsLost => {
                self.store_free <= at
            }
            FaultKind::NodeStopped | FaultKind::NodeKilled => self.nodes_free <= at,
            FaultKind::StandaloneKilled => self.standalone_free <= at,
            FaultKind::Reload | FaultKind::Flood | FaultKind::UnauthenticatedClients => true,
        }
    }

    fn schedule_kind(&mut self, kind: FaultKind, at: Duration, end: Duration) {
        let fault = match kind {
            FaultKind::Model => {
                let first = self.below(MODELS);
                let models = (0..MODELS).map(|step| (first + step) % MODELS);
                for model in models.filter(|model| self.models_free[*model] <= at).take(1).collect::<Vec<_>>()
                {
                    self.fault_model(model, at, end);
                }
                return;
            }
            FaultKind::BothModels => return (0..MODELS).for_each(|model| self.fault_model(model, at, end)),
            FaultKind::EndlessOutput | FaultKind::FalseUsage => {
                let fault = self.overrun(kind);
                return self.fault_model_with(OVERRUN_MODEL, fault, at, end);
            }
            FaultKind::StoreKilled => {
                let outage = self.millis(300, 3_000);
                self.store_free = at + outage + STORE_COOLDOWN;
                InjectedFault::StoreKilled(outage)
            }
            FaultKind::StorePaused => {
                let outage = self.millis(1_000, 8_000);
                self.store_free = at + outage + STORE_COOLDOWN;
                InjectedFault::StorePaused(outage)
            }
            FaultKind::StoreConnectionsLost => {
                self.store_free = at + RECONNECT_TIMEOUT + STORE_COOLDOWN;
                InjectedFault::StoreConnectionsLost(RECONNECT_TIMEOUT)
            }
            FaultKind::NodeStopped | FaultKind::NodeKilled => {
                self.nodes_free = at + NODE_COOLDOWN;
                let node = self.below(NODES);
                if kind == FaultKind::NodeStopped {
                    InjectedFault::NodeStopped(node)
                } else {
                    InjectedFault::NodeKilled(node)
                }
            }
            FaultKind::StandaloneKilled => {
                self.standalone_free = at + NODE_COOLDOWN;
                InjectedFault::StandaloneKilled(1 + u32::try_from(self.below(4)).unwrap_or(0))
            }
            FaultKind::Reload => {
                self.variant = (self.variant + 1 + self.chance.draw().below(VARIANTS - 1)) % VARIANTS;
                InjectedFault::Reload(self.variant)
            }
            FaultKind::Flood => InjectedFault::Flood(self.millis(1_500, 4_000)),
            FaultKind::SlowModels => {
                let until = (at + self.millis(3_000, 6_000)).min(end);
                let rule = json!([{ "name": SLOW_MODELS, "fault": { "kind": "slow", "by": "2200ms" } }]);
                return (0..MODELS)
                    .for_each(|model| self.add_model_fault(model, SLOW_MODELS, rule.clone(), at, until));
            }
            FaultKind::HostileCaller => {
                let lasts = self.millis(2_000, 4_000).min(end.saturating_sub(at));
                let fault = json!({ "kind": "status", "status": 500 });
                let rule = json!([{ "name": HOSTILE_CALLER, "contains": CRASH_TEXT, "fault": fault }]);
                // Requests that were sent at the last moment are retried for a while.
                let until = (at + lasts + Duration::from_secs(2)).min(end);
                (0..MODELS)
                    .for_each(|model| self.add_model_fault(model, HOSTILE_CALLER, rule.clone(), at, until));
                InjectedFault::HostileCaller(lasts)
            }
            FaultKind::UnauthenticatedClients => {
                InjectedFault::UnauthenticatedClients(self.millis(2_000, 4_000))
            }
        };
        self.scheduled.push(ScheduledFault { at, fault });
    }

    /// Gives a model a fault for some seconds.
    fn fault_model(&mut self, model: usize, at: Duration, end: Duration) {
        let fault = self.random_model_fault();
        self.fault_model_with(model, fault, at, end);
    }

    fn fault_model_with(
        &mut self,
        model: usize,
        (name, fault): (&'static str, Value),
        at: Duration,
        end: Duration,
    ) {
        let rule = json!([{ "name": name, "percent": 30 + self.below(71), "fault": fault }]);
        let until = (at + self.millis(1_500, 6_000)).min(end);
        self.add_model_fault(model, name, rule, at, until);
    }

    fn add_model_fault(
        &mut self,
        model: usize,
        name: &'static str,
        rule: Value,
        at: Duration,
        until: Duration,
    ) {
        self.models_free[model] = until + Duration::from_millis(500);
        self.scheduled
            .push(ScheduledFault { at, fault: InjectedFault::ModelFaults { model, name, rules: rule } });
        let recovered = InjectedFault::ModelFaults { model, name: "recovered", rules: json!([]) };
        self.scheduled.push(ScheduledFault { at: until, fault: recovered });
    }

    /// A model that exceeds its output limit, in one event or token by token, or one that reports a false usage.
    fn overrun(&mut self, kind: FaultKind) -> (&'static str, Value) {
        let tokens = 2_000 + self.below(4_000);
        match (kind, self.below(if kind == FaultKind::FalseUsage { 4 } else { 3 })) {
            (FaultKind::FalseUsage, 3) => ("false usage", json!({ "kind": "garbled_usage", "figure": "-1" })),
            (FaultKind::FalseUsage, 0) => ("false usage", json!({ "kind": "partial_usage" })),
            (FaultKind::FalseUsage, 1) => ("false usage", json!({ "kind": "usage", "percent": 300 })),
            (FaultKind::FalseUsage, _) => ("false usage", json!({ "kind": "claim", "output": tokens })),
            (_, 0) => ("endless output", json!({ "kind": "endless", "every": "20ms" })),
            (_, variant) => {
                ("endless output", json!({ "kind": "overlong", "tokens": tokens, "at_once": variant == 1 }))
            }
        }
    }

    fn random_model_fault(&mut self) -> (&'static str, Value) {
        let after = self.below(8);
        let status = [500, 502, 503, 529][self.below(4)];
        let delay = format!("{}ms", 200 + self.below(2_800));
        match self.below(13) {
            0 => ("throttled", json!({ "kind": "status", "status": 429, "retry_after": "1s" })),
            1 => ("server errors", json!({ "kind": "status", "status": status })),
            2 => ("resets", json!({ "kind": "reset" })),
            3 => ("cut", json!({ "kind": "cut", "after": after })),
            4 => ("cut by reset", json!({ "kind": "cut", "after": after, "reset": true })),
            5 => ("slow start", json!({ "kind": "slow", "by": delay })),
            6 => ("hangs", json!({ "kind": "hang", "after": after })),
            7 => ("hangs immediately", json!({ "kind": "hang", "after": 0 })),
            8 => ("ends early", json!({ "kind": "end_early", "after": after })),
            9 => ("truncated", json!({ "kind": "truncate", "after": after })),
            10 => ("malformed", json!({ "kind": "malformed", "after": after })),
            11 => ("errors in streams", json!({ "kind": "error", "after": after })),
            _ => ("slow drip", json!({ "kind": "drip", "every": "250ms" })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InjectedFault, MODELS, NODES, QUIET_END, ScheduledFault, VARIANTS, schedule};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_model::engine::read_faults;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn kind(scheduled: &ScheduledFault) -> &'static str {
        match scheduled.fault {
            InjectedFault::ModelFaults { .. } => "faults",
            InjectedFault::StoreKilled(_) => "store killed",
            InjectedFault::StorePaused(_) => "store paused",
            InjectedFault::StoreConnectionsLost(_) => "lost Redis connections",
            InjectedFault::NodeStopped(_) => "node stopped",
            InjectedFault::NodeKilled(_) => "node killed",
            InjectedFault::StandaloneKilled(_) => "standalone killed",
            InjectedFault::Reload(_) => "reload",
            InjectedFault::Flood(_) => "flood",
            InjectedFault::HostileCaller(_) => "hostile",
            InjectedFault::UnauthenticatedClients(_) => "unauthenticated clients",
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule() {
        assert_eq!(schedule(MINUTE, 7), schedule(MINUTE, 7));
        assert_ne!(schedule(MINUTE, 7), schedule(MINUTE, 8));
    }

    #[test]
    fn every_two_minutes_have_some_of_everything() {
        for seed in 0..200 {
            let scheduled = schedule(2 * MINUTE, seed);
            for expected in [
                "faults",
                "store killed",
                "store paused",
                "lost Redis connections",
                "node stopped",
                "node killed",
                "standalone killed",
                "reload",
                "flood",
                "hostile",
                "unauthenticated clients",
            ] {
                assert!(scheduled.iter().any(|one| kind(one) == expected), "seed {seed} has no {expected}");
            }
        }
    }

    proptest! {
        #[test]
        fn faults_are_ordered_leave_a_node_running_and_end_before_the_quiet_time(seed in any::<u64>(), seconds in 0_u64..400) {
            let duration = Duration::from_secs(seconds);
            let scheduled = schedule(duration, seed);
            prop_assert!(scheduled.is_sorted_by_key(|one| one.at));
            prop_assert!(scheduled.iter().all(|one| one.at <= duration.saturating_sub(QUIET_END)));
            let of_nodes: Vec<Duration> =
                scheduled.iter().filter(|one| kind(one).starts_with("node")).map(|one| one.at).collect();
            prop_assert!(of_nodes.windows(2).all(|two| two[1] - two[0] >= Duration::from_secs(10)));
            let mut is_faulty = [false; MODELS];
            for one in &scheduled {
                match &one.fault {
                    InjectedFault::ModelFaults { model, rules, .. } => {
                        let is_set = rules != &serde_json::json!([]);
                        prop_assert_eq!(is_faulty[*model], !is_set, "from well to spoilt and back");
                        is_faulty[*model] = is_set;
                        prop_assert!(read_faults(rules.to_string().as_bytes()).is_ok(), "{}", rules);
                    }
                    InjectedFault::NodeStopped(node) | InjectedFault::NodeKilled(node) => prop_assert!(*node < NODES),
                    InjectedFault::StandaloneKilled(times) => prop_assert!((1..=4).contains(times)),
                    InjectedFault::Reload(variant) => prop_assert!(*variant < VARIANTS),
                    InjectedFault::StoreKilled(_)
                    | InjectedFault::StorePaused(_)
                    | InjectedFault::StoreConnectionsLost(_)
                    | InjectedFault::Flood(_)
                    | InjectedFault::HostileCaller(_)
                    | InjectedFault::UnauthenticatedClients(_) => {}
                }
            }
            prop_assert_eq!(is_faulty, [false; MODELS], "all are well at the end");
        }
    }
}

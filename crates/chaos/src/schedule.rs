//! The schedule of faults, drawn from a seed before anything starts.
//!
//! A list with every kind of fault is shuffled and worked through, and then shuffled again, so that every run has some
//! of each. The same seed gives the same faults at the same times. **What it does not do.** It never takes both nodes
//! away at once, and injects nothing in the last seconds, so that requests in flight can end.

use seawall_core::chance::SeededChance;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const NODES: usize = 2;
pub(crate) const MODELS: usize = 2;
/// Sets of limits that reloads switch between.
pub(crate) const VARIANTS: u64 = 3;

/// No fault before this time.
const FIRST: Duration = Duration::from_secs(3);
/// No fault after this time, counted from the end.
const PEACE: Duration = Duration::from_secs(8);
/// Minimum and maximum time between two faults.
const GAP: (Duration, Duration) = (Duration::from_millis(800), Duration::from_millis(3_200));
/// How long a node is left alone after it was stopped or killed.
const NODE_REST: Duration = Duration::from_secs(10);
/// How long the shared store is left alone after it is back.
const STORE_REST: Duration = Duration::from_secs(2);

/// How long nodes may be without the shared store after their connections to it were lost: two seconds, and a margin
/// for a busy machine.
const BACK_AFTER: Duration = Duration::from_secs(4);

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// A model gets these fault rules, or recovers if there are none.
    Faults {
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
    StoreFrozen(Duration),
    /// Connections to the shared store are lost without a reset, while new ones work; nodes must reconnect within this
    /// time.
    StoreLineLost(Duration),
    /// A node is stopped gracefully, and started again.
    NodeStopped(usize),
    /// A node is killed, and started again.
    NodeKilled(usize),
    /// The gateway with local limits is killed this many times in a row.
    LoneKilled(u32),
    /// Both nodes reload with other limits.
    Reload(u64),
    /// One caller floods, for this time.
    Flood(Duration),
    /// One caller provokes failures that only its requests cause, for this time.
    Hostile(Duration),
    /// Unauthenticated clients that neither finish requests nor read responses, at every node for this time.
    Strangers(Duration),
}

/// Both models answer correctly, but late.
pub(crate) const SLOW_MODELS: &str = "slow models";
/// Both models fail on a text that one caller sends.
pub(crate) const HOSTILE_CALLER: &str = "one hostile caller";
/// The text that this caller sends.
pub(crate) const CRASH: &str = "crash the model";

/// Whether a fault of this name excuses a rejection. A model that is slow, or fails for one caller, works for the
/// others.
pub(crate) fn spoils(name: &str) -> bool {
    ![SLOW_MODELS, HOSTILE_CALLER].contains(&name)
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) trouble: Trouble,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Card {
    Model,
    BothModels,
    StoreKilled,
    StoreFrozen,
    StoreLineLost,
    NodeStopped,
    NodeKilled,
    LoneKilled,
    Reload,
    Flood,
    SlowModels,
    Hostile,
    EndlessOutput,
    LyingUsage,
    Strangers,
}

/// The model that exceeds its limits. Three overruns in ten minutes quarantine a target, so the other one must be
/// available.
pub(crate) const OVERRUNS: usize = 0;
/// The names of faults by which a model bills, or claims to bill, more than a request allows.
pub(crate) const DISHONEST: [&str; 2] = ["endless output", "lying usage"];

const DECK: [Card; 21] = [
    Card::Model,
    Card::Model,
    Card::Model,
    Card::Model,
    Card::BothModels,
    Card::BothModels,
    Card::StoreKilled,
    Card::StoreFrozen,
    Card::StoreLineLost,
    Card::NodeStopped,
    Card::NodeKilled,
    Card::LoneKilled,
    Card::Reload,
    Card::Reload,
    Card::Flood,
    Card::Flood,
    Card::SlowModels,
    Card::Hostile,
    Card::EndlessOutput,
    Card::LyingUsage,
    Card::Strangers,
];

/// All faults of a run of this length, the earliest first.
pub(crate) fn schedule(whole: Duration, seed: u64) -> Vec<Planned> {
    let mut dealer = Dealer {
        chance: SeededChance::new(seed ^ 0x0063_6861_6f73),
        deck: Vec::new(),
        planned: Vec::new(),
        models_free: [Duration::ZERO; MODELS],
        nodes_free: Duration::ZERO,
        lone_free: Duration::ZERO,
        store_free: Duration::ZERO,
        variant: 0,
    };
    let end = whole.saturating_sub(PEACE);
    let mut at = FIRST;
    while at < end {
        dealer.deal(at, end);
        at += dealer.chance.draw().between(GAP.0, GAP.1);
    }
    dealer.planned.sort_by_key(|planned| planned.at);
    dealer.planned
}

struct Dealer {
    chance: SeededChance,
    deck: Vec<Card>,
    planned: Vec<Planned>,
    models_free: [Duration; MODELS],
    nodes_free: Duration,
    lone_free: Duration,
    store_free: Duration,
    variant: u64,
}

impl Dealer {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.chance.draw().below(bound as u64)).unwrap_or(0)
    }

    fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.chance.draw().between(Duration::from_millis(low), Duration::from_millis(high))
    }

    /// Schedules the next fault that is possible now, if any.
    fn deal(&mut self, at: Duration, end: Duration) {
        if self.deck.is_empty() {
            self.deck = DECK.to_vec();
            for last in (1..self.deck.len()).rev() {
                let other = self.below(last + 1);
                self.deck.swap(last, other);
            }
        }
        let Some(place) = self.deck.iter().rposition(|card| self.can(*card, at)) else { return };
        let card = self.deck.remove(place);
        self.play(card, at, end);
    }

    fn can(&self, card: Card, at: Duration) -> bool {
        match card {
            Card::Model => self.models_free.iter().any(|free| *free <= at),
            Card::BothModels | Card::SlowModels | Card::Hostile => {
                self.models_free.iter().all(|free| *free <= at)
            }
            Card::EndlessOutput | Card::LyingUsage => self.models_free[OVERRUNS] <= at,
            Card::StoreKilled | Card::StoreFrozen | Card::StoreLineLost => self.store_free <= at,
            Card::NodeStopped | Card::NodeKilled => self.nodes_free <= at,
            Card::LoneKilled => self.lone_free <= at,
            Card::Reload | Card::Flood | Card::Strangers => true,
        }
    }

    fn play(&mut self, card: Card, at: Duration, end: Duration) {
        let trouble = match card {
            Card::Model => {
                let first = self.below(MODELS);
                let models = (0..MODELS).map(|step| (first + step) % MODELS);
                for model in models.filter(|model| self.models_free[*model] <= at).take(1).collect::<Vec<_>>()
                {
                    self.spoil(model, at, end);
                }
                return;
            }
            Card::BothModels => return (0..MODELS).for_each(|model| self.spoil(model, at, end)),
            Card::EndlessOutput | Card::LyingUsage => {
                let fault = self.overrun(card);
                return self.spoil_with(OVERRUNS, fault, at, end);
            }
            Card::StoreKilled => {
                let away = self.millis(300, 3_000);
                self.store_free = at + away + STORE_REST;
                Trouble::StoreKilled(away)
            }
            Card::StoreFrozen => {
                let away = self.millis(1_000, 8_000);
                self.store_free = at + away + STORE_REST;
                Trouble::StoreFrozen(away)
            }
            Card::StoreLineLost => {
                self.store_free = at + BACK_AFTER + STORE_REST;
                Trouble::StoreLineLost(BACK_AFTER)
            }
            Card::NodeStopped | Card::NodeKilled => {
                self.nodes_free = at + NODE_REST;
                let node = self.below(NODES);
                if card == Card::NodeStopped { Trouble::NodeStopped(node) } else { Trouble::NodeKilled(node) }
            }
            Card::LoneKilled => {
                self.lone_free = at + NODE_REST;
                Trouble::LoneKilled(1 + u32::try_from(self.below(4)).unwrap_or(0))
            }
            Card::Reload => {
                self.variant = (self.variant + 1 + self.chance.draw().below(VARIANTS - 1)) % VARIANTS;
                Trouble::Reload(self.variant)
            }
            Card::Flood => Trouble::Flood(self.millis(1_500, 4_000)),
            Card::SlowModels => {
                let until = (at + self.millis(3_000, 6_000)).min(end);
                let rule = json!([{ "name": SLOW_MODELS, "fault": { "kind": "slow", "by": "2200ms" } }]);
                return (0..MODELS)
                    .for_each(|model| self.go_wrong(model, SLOW_MODELS, rule.clone(), at, until));
            }
            Card::Hostile => {
                let lasts = self.millis(2_000, 4_000).min(end.saturating_sub(at));
                let fault = json!({ "kind": "status", "status": 500 });
                let rule = json!([{ "name": HOSTILE_CALLER, "contains": CRASH, "fault": fault }]);
                // Requests that were sent at the last moment are retried for a while.
                let until = (at + lasts + Duration::from_secs(2)).min(end);
                (0..MODELS).for_each(|model| self.go_wrong(model, HOSTILE_CALLER, rule.clone(), at, until));
                Trouble::Hostile(lasts)
            }
            Card::Strangers => Trouble::Strangers(self.millis(2_000, 4_000)),
        };
        self.planned.push(Planned { at, trouble });
    }

    /// Gives a model a fault for some seconds.
    fn spoil(&mut self, model: usize, at: Duration, end: Duration) {
        let fault = self.fault();
        self.spoil_with(model, fault, at, end);
    }

    fn spoil_with(
        &mut self,
        model: usize,
        (name, fault): (&'static str, Value),
        at: Duration,
        end: Duration,
    ) {
        let rule = json!([{ "name": name, "percent": 30 + self.below(71), "fault": fault }]);
        let until = (at + self.millis(1_500, 6_000)).min(end);
        self.go_wrong(model, name, rule, at, until);
    }

    fn go_wrong(&mut self, model: usize, name: &'static str, rule: Value, at: Duration, until: Duration) {
        self.models_free[model] = until + Duration::from_millis(500);
        self.planned.push(Planned { at, trouble: Trouble::Faults { model, name, rules: rule } });
        let well = Trouble::Faults { model, name: "well again", rules: json!([]) };
        self.planned.push(Planned { at: until, trouble: well });
    }

    /// A model that exceeds its output limit, in one event or token by token, or one that reports a false usage.
    fn overrun(&mut self, card: Card) -> (&'static str, Value) {
        let tokens = 2_000 + self.below(4_000);
        match (card, self.below(if card == Card::LyingUsage { 4 } else { 3 })) {
            (Card::LyingUsage, 3) => ("lying usage", json!({ "kind": "garbled_usage", "figure": "-1" })),
            (Card::LyingUsage, 0) => ("lying usage", json!({ "kind": "partial_usage" })),
            (Card::LyingUsage, 1) => ("lying usage", json!({ "kind": "usage", "percent": 300 })),
            (Card::LyingUsage, _) => ("lying usage", json!({ "kind": "claim", "output": tokens })),
            (_, 0) => ("endless output", json!({ "kind": "endless", "every": "20ms" })),
            (_, way) => {
                ("endless output", json!({ "kind": "overlong", "tokens": tokens, "at_once": way == 1 }))
            }
        }
    }

    fn fault(&mut self) -> (&'static str, Value) {
        let after = self.below(8);
        let status = [500, 502, 503, 529][self.below(4)];
        let late = format!("{}ms", 200 + self.below(2_800));
        match self.below(13) {
            0 => ("throttled", json!({ "kind": "status", "status": 429, "retry_after": "1s" })),
            1 => ("server errors", json!({ "kind": "status", "status": status })),
            2 => ("resets", json!({ "kind": "reset" })),
            3 => ("cut", json!({ "kind": "cut", "after": after })),
            4 => ("cut by reset", json!({ "kind": "cut", "after": after, "reset": true })),
            5 => ("slow start", json!({ "kind": "slow", "by": late })),
            6 => ("hangs", json!({ "kind": "hang", "after": after })),
            7 => ("hangs at once", json!({ "kind": "hang", "after": 0 })),
            8 => ("ends early", json!({ "kind": "end_early", "after": after })),
            9 => ("truncated", json!({ "kind": "truncate", "after": after })),
            10 => ("malformed", json!({ "kind": "malformed", "after": after })),
            11 => ("errors in streams", json!({ "kind": "error", "after": after })),
            _ => ("drips", json!({ "kind": "drip", "every": "250ms" })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MODELS, NODES, PEACE, Planned, Trouble, VARIANTS, schedule};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_model::engine::read_faults;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn kind(planned: &Planned) -> &'static str {
        match planned.trouble {
            Trouble::Faults { .. } => "faults",
            Trouble::StoreKilled(_) => "store killed",
            Trouble::StoreFrozen(_) => "store frozen",
            Trouble::StoreLineLost(_) => "lost Redis line",
            Trouble::NodeStopped(_) => "node stopped",
            Trouble::NodeKilled(_) => "node killed",
            Trouble::LoneKilled(_) => "lone killed",
            Trouble::Reload(_) => "reload",
            Trouble::Flood(_) => "flood",
            Trouble::Hostile(_) => "hostile",
            Trouble::Strangers(_) => "strangers",
        }
    }

    #[test]
    fn the_same_seed_deals_the_same_and_another_deals_another() {
        assert_eq!(schedule(MINUTE, 7), schedule(MINUTE, 7));
        assert_ne!(schedule(MINUTE, 7), schedule(MINUTE, 8));
    }

    #[test]
    fn every_two_minutes_have_some_of_everything() {
        for seed in 0..200 {
            let planned = schedule(2 * MINUTE, seed);
            for wanted in [
                "faults",
                "store killed",
                "store frozen",
                "lost Redis line",
                "node stopped",
                "node killed",
                "lone killed",
                "reload",
                "flood",
                "hostile",
                "strangers",
            ] {
                assert!(planned.iter().any(|one| kind(one) == wanted), "seed {seed} has no {wanted}");
            }
        }
    }

    proptest! {
        #[test]
        fn troubles_come_in_order_leave_a_node_alone_and_end_in_peace(seed in any::<u64>(), seconds in 0_u64..400) {
            let whole = Duration::from_secs(seconds);
            let planned = schedule(whole, seed);
            prop_assert!(planned.is_sorted_by_key(|one| one.at));
            prop_assert!(planned.iter().all(|one| one.at <= whole.saturating_sub(PEACE)));
            let of_nodes: Vec<Duration> =
                planned.iter().filter(|one| kind(one).starts_with("node")).map(|one| one.at).collect();
            prop_assert!(of_nodes.windows(2).all(|two| two[1] - two[0] >= Duration::from_secs(10)));
            let mut is_spoilt = [false; MODELS];
            for one in &planned {
                match &one.trouble {
                    Trouble::Faults { model, rules, .. } => {
                        let spoils = rules != &serde_json::json!([]);
                        prop_assert_eq!(is_spoilt[*model], !spoils, "from well to spoilt and back");
                        is_spoilt[*model] = spoils;
                        prop_assert!(read_faults(rules.to_string().as_bytes()).is_ok(), "{}", rules);
                    }
                    Trouble::NodeStopped(node) | Trouble::NodeKilled(node) => prop_assert!(*node < NODES),
                    Trouble::LoneKilled(times) => prop_assert!((1..=4).contains(times)),
                    Trouble::Reload(variant) => prop_assert!(*variant < VARIANTS),
                    Trouble::StoreKilled(_)
                    | Trouble::StoreFrozen(_)
                    | Trouble::StoreLineLost(_)
                    | Trouble::Flood(_)
                    | Trouble::Hostile(_)
                    | Trouble::Strangers(_) => {}
                }
            }
            prop_assert_eq!(is_spoilt, [false; MODELS], "all are well at the end");
        }
    }
}

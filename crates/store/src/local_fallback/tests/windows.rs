//! Bounds on what a fleet admits in any window, whenever the store becomes unreachable and recovers.

use super::{Clock, Node, Store, drive, is_granted, node};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, proptest};
use seawall_core::runtime::{Runtime, Timer as _};
use seawall_core::time::Timestamp;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

/// A request to a node, after this many milliseconds.
type Ask = (u32, u64);

fn asks(most: usize) -> impl Strategy<Value = Vec<Ask>> {
    // Uneven load: half of the requests go to the first node.
    vec((0_u32..12, 0_u64..2_000), 1..most)
}

struct Fleet {
    store: Store,
    clock: Clock,
    nodes: Vec<Node>,
    /// Which node admitted something, and when.
    granted: Vec<(usize, Timestamp)>,
}

impl Fleet {
    fn new(nodes: u32, seen: u32, limit: u32) -> Self {
        let (store, clock) = (Store::new(limit), Clock::default());
        let nodes = (0..nodes).map(|number| node(&store, &clock, number.into(), seen, limit).0).collect();
        Self { store, clock, nodes, granted: Vec::new() }
    }

    fn ask(&mut self, (which, passes): Ask) {
        self.clock.pass(Duration::from_millis(passes));
        let place = usize::try_from(which.saturating_sub(5)).unwrap() % self.nodes.len();
        if is_granted(&self.nodes[place], &self.clock, 1) {
            self.granted.push((place, self.clock.monotonic()));
        }
    }

    /// Every window that begins with an admission: the number of admissions of each node.
    fn windows(&self) -> impl Iterator<Item = (Timestamp, Vec<u64>)> {
        self.granted.iter().enumerate().map(|(place, (_, first))| {
            let mut counts = vec![0; self.nodes.len()];
            for (node, _) in self.granted[place..].iter().take_while(|(_, at)| *at - *first < WINDOW) {
                counts[*node] += 1;
            }
            (*first, counts)
        })
    }
}

proptest! {
    #[test]
    fn nodes_on_their_own_admit_the_limit_times_how_wrong_they_were_about_their_number(
        seen in 1_u32..6,
        nodes in 1_u32..6,
        limit in 1_u32..60,
        asks in asks(400),
    ) {
        let mut fleet = Fleet::new(nodes, seen, limit);
        fleet.store.set_unreachable(true);
        asks.into_iter().for_each(|ask| fleet.ask(ask));
        // In any window: the limit times the true fleet size over the assumed one, and one unit of rounding per node.
        let most = u64::from(limit) * u64::from(nodes.max(seen)) / u64::from(seen) + u64::from(nodes);
        for (_, counts) in fleet.windows() {
            let within: u64 = counts.iter().sum();
            prop_assert!(within <= most, "{within} of {most}");
        }
    }

    #[test]
    fn a_window_in_which_the_store_goes_away_has_the_limit_and_what_idle_shares_had_left(
        nodes in 1_u32..6,
        limit in 1_u32..60,
        before in asks(200),
        after in asks(200),
    ) {
        let mut fleet = Fleet::new(nodes, nodes, limit);
        before.into_iter().for_each(|ask| fleet.ask(ask));
        let known = fleet.granted.len();
        fleet.store.set_unreachable(true);
        after.into_iter().for_each(|ask| fleet.ask(ask));
        let share = u64::from(limit.div_ceil(nodes));
        for (place, (first, counts)) in fleet.windows().enumerate() {
            let mut shared = vec![0; fleet.nodes.len()];
            let of_store = fleet.granted[..known].iter().skip(place);
            of_store.take_while(|(_, at)| *at - first < WINDOW).for_each(|(node, _)| shared[*node] += 1);
            for (all, shared) in counts.iter().zip(&shared) {
                // A node that got its share or more from the store admits nothing on its own.
                prop_assert!(*all <= share.max(*shared), "{counts:?}, {shared:?} from the store");
            }
            let within: u64 = counts.iter().sum();
            let most = u64::from(limit) + share * u64::from(nodes - 1);
            prop_assert!(within <= most, "{within} of {most}");
            if shared.iter().all(|shared| *shared <= share) {
                // If the load was even before: no more than the shares, which are the limit apart from rounding.
                prop_assert!(within <= share * u64::from(nodes), "{counts:?}");
            }
        }
    }

    #[test]
    fn a_store_that_comes_and_goes_is_good_for_the_limit_and_every_share_once(
        nodes in 1_u32..6,
        limit in 1_u32..60,
        steps in vec((asks(30), 0_u32..6), 1..12),
    ) {
        let mut fleet = Fleet::new(nodes, nodes, limit);
        for (turn, (asks, ticks)) in steps.into_iter().enumerate() {
            fleet.store.set_unreachable(turn % 2 == 1);
            // Nodes check at different times; some do not check at all before the store is unreachable again.
            for ask in asks {
                fleet.ask(ask);
                if ask.0 < ticks {
                    let place = usize::try_from(ask.1).unwrap() % fleet.nodes.len();
                    drive(fleet.nodes[place].tick(fleet.clock.now()));
                }
            }
        }
        let share = u64::from(limit.div_ceil(nodes));
        for (_, counts) in fleet.windows() {
            let within: u64 = counts.iter().sum();
            let most = u64::from(limit) + share * u64::from(nodes);
            prop_assert!(within <= most, "{within} of {most}");
        }
    }
}

#[test]
fn the_worst_case_is_one_node_that_had_all_before_and_all_the_others_after() {
    let mut fleet = Fleet::new(4, 4, 40);
    for _ in 0..50 {
        fleet.ask((0, 0));
    }
    assert_eq!(fleet.granted.len(), 40);
    fleet.store.set_unreachable(true);
    for which in 0..4 {
        for _ in 0..20 {
            fleet.ask((which + 5, 0));
        }
    }
    assert_eq!(fleet.granted.len(), 40 + 3 * 10);
}

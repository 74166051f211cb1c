//! Tracks the number of nodes in the fleet, by which limits are divided into shares.
//!
//! **What it does.** It follows the number of nodes on the board. A larger number takes effect at once; a smaller one
//! only after the count has stayed smaller for a minute.
//!
//! **Why.** Without the store, a node decides by limit ÷ size. A size that is too small lets the fleet admit too much.
//! So nodes that restart one after the other, or a board that was just emptied, must not enlarge every share.
//!
//! **What it does not do.** The size never drops below the configured minimum.

use seawall_core::time::Timestamp;
use std::time::Duration;

/// How long the count must have stayed smaller.
const SMALLER_FOR: Duration = Duration::from_secs(60);

/// The number of nodes to divide limits by: it grows at once and shrinks after a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSize {
    min: u32,
    nodes: u32,
    /// Since when the count has been smaller, and the highest count since then.
    smaller: Option<(Timestamp, u32)>,
}

impl FleetSize {
    /// `min` is the configured minimum, `remembered` the size that was in force when this node last stopped.
    #[must_use]
    pub fn new(min: Option<u32>, remembered: Option<u32>) -> Self {
        let min = min.unwrap_or(1).max(1);
        Self { min, nodes: remembered.unwrap_or(1).max(min), smaller: None }
    }

    /// The number of nodes to divide limits by.
    #[must_use]
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Records a count of nodes. Returns the size that is in force from now on.
    pub fn observe(&mut self, nodes: u32, now: Timestamp) -> u32 {
        let nodes = nodes.max(self.min);
        if nodes >= self.nodes {
            (self.nodes, self.smaller) = (nodes, None);
            return nodes;
        }
        let (since, highest) =
            self.smaller.map_or((now, nodes), |(since, highest)| (since, highest.max(nodes)));
        if now - since >= SMALLER_FOR {
            (self.nodes, self.smaller) = (highest, None);
        } else {
            self.smaller = Some((since, highest));
        }
        self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::{FleetSize, SMALLER_FOR};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_that_has_counted_nobody_goes_by_settings_and_by_what_it_remembers() {
        let first = |min, remembered| FleetSize::new(min, remembered).nodes();
        assert_eq!((first(None, None), first(Some(3), None), first(None, Some(4))), (1, 3, 4));
        assert_eq!((first(Some(3), Some(2)), first(Some(2), Some(5)), first(Some(0), Some(0))), (3, 5, 1));
    }

    proptest! {
        #[test]
        fn the_size_is_the_most_that_was_counted_in_the_last_minute(
            min in 0_u32..4, counts in vec((1_u64..40, 1_u32..9), 1..60),
        ) {
            let mut size = FleetSize::new(Some(min), None);
            let mut now = 0;
            // A naive model: the size drops to the highest count of a run of smaller counts that has lasted a minute.
            let (mut expected, mut run): (u32, Vec<(u64, u32)>) = (min.max(1), Vec::new());
            for (wait, count) in counts {
                now += wait;
                let count = count.max(min).max(1);
                if count >= expected {
                    expected = count;
                    run.clear();
                } else {
                    run.push((now, count));
                    if now - run[0].0 >= SMALLER_FOR.as_secs() {
                        expected = run.iter().map(|(_, count)| *count).max().unwrap();
                        run.clear();
                    }
                }
                prop_assert_eq!(size.observe(count, at(now)), expected);
                prop_assert_eq!(size.nodes(), expected);
            }
        }
    }
}

//! Ring buffer of ten time slices. A slice expires as a whole once it is a window old, so that the ring covers between
//! 90 % and 100 % of the window.

use crate::time::{Timestamp, nanos};
use std::time::Duration;

const SLICES: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Slices<T> {
    slice_nanos: u64,
    /// Number of the newest slice since the clock's origin.
    newest: u64,
    slices: [T; SLICES],
}

impl<T: Default> Slices<T> {
    pub(super) fn new(window: Duration) -> Self {
        let slice_nanos = (nanos(window) / SLICES as u64).max(1);
        Self { slice_nanos, newest: 0, slices: std::array::from_fn(|_| T::default()) }
    }

    /// The slice of this moment. A late timestamp counts towards the newest slice.
    pub(super) fn current(&mut self, now: Timestamp) -> &mut T {
        self.advance(now);
        &mut self.slices[Self::index(self.newest)]
    }

    /// All slices that have not expired.
    pub(super) fn all(&mut self, now: Timestamp) -> &[T; SLICES] {
        self.advance(now);
        &self.slices
    }

    fn advance(&mut self, now: Timestamp) {
        let current = (now.as_nanos() / self.slice_nanos).max(self.newest);
        let steps = (current - self.newest).min(SLICES as u64);
        self.newest = current;
        for back in 0..steps {
            self.slices[Self::index(current - back)] = T::default();
        }
    }

    fn index(slice: u64) -> usize {
        usize::try_from(slice % SLICES as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Slices;
    use crate::time::Timestamp;
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::time::Duration;

    proptest! {
        #[test]
        fn the_ring_equals_a_list_of_all_moments(steps in vec((0_u64..40, 0_u64..30), 1..100)) {
            let mut slices: Slices<u64> = Slices::new(Duration::from_nanos(100));
            let (mut now, mut newest, mut seen) = (0, 0, vec![]);
            for (forward, back) in steps {
                now += forward;
                let moment = now - back.min(now);
                *slices.current(Timestamp::from_nanos(moment)) += 1;
                newest = newest.max(moment / 10);
                seen.push(newest);
                let expected = seen.iter().filter(|slice| newest - **slice < 10).count() as u64;
                prop_assert_eq!(slices.all(Timestamp::from_nanos(moment)).iter().sum::<u64>(), expected);
            }
            prop_assert_eq!(slices.all(Timestamp::from_nanos(now + 200)).iter().sum::<u64>(), 0);
        }
    }

    #[test]
    fn a_window_too_short_to_cut_is_cut_into_nanoseconds() {
        let mut slices: Slices<u64> = Slices::new(Duration::from_nanos(3));
        *slices.current(Timestamp::from_nanos(5)) += 1;
        assert_eq!(slices.all(Timestamp::from_nanos(14)).iter().sum::<u64>(), 1);
        assert_eq!(slices.all(Timestamp::from_nanos(15)).iter().sum::<u64>(), 0);
    }
}

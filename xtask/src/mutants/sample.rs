//! Reproducible random sampling.

use seawall_core::random::SeededRandom;

/// A uniformly random subset of `size` items, in their original order (selection sampling).
pub(super) fn choose<T>(all: Vec<T>, size: usize, seed: u64) -> Vec<T> {
    let mut generator = SeededRandom::new(seed);
    let mut still_needed = size.min(all.len()) as u64;
    let mut left = all.len() as u64;
    // Each item is taken with probability "still needed / still left", so exactly `size` are taken.
    let mut take = |_: &T| {
        let is_taken = generator.draw().below(left) < still_needed;
        left -= 1;
        still_needed -= u64::from(is_taken);
        is_taken
    };
    all.into_iter().filter(|item| take(item)).collect()
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn a_sample_has_its_size_keeps_the_order_and_is_repeated_by_its_seed() {
        for seed in 0..200 {
            let sample = choose((0..50).collect(), 7, seed);
            assert_eq!(sample.len(), 7);
            assert!(sample.is_sorted_by(|a, b| a < b));
            assert_eq!(sample, choose((0..50).collect(), 7, seed));
        }
        assert_ne!(choose((0..50).collect(), 7, 1), choose((0..50).collect(), 7, 2));
    }

    #[test]
    fn a_sample_larger_than_the_whole_is_the_whole() {
        assert_eq!(choose(vec!["a", "b"], 9, 3), ["a", "b"]);
        assert!(choose(Vec::<u8>::new(), 9, 3).is_empty());
    }

    #[test]
    fn every_item_is_chosen_about_equally_often() {
        let mut times = [0_u32; 10];
        for seed in 0..10_000 {
            for item in choose((0..10).collect::<Vec<usize>>(), 3, seed) {
                times[item] += 1;
            }
        }
        // 3,000 is expected; the bounds are more than four standard deviations away.
        assert!(times.iter().all(|times| (2_800..3_200).contains(times)), "{times:?}");
    }
}

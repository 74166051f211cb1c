//! A map whose entries expire.

use seawall_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The most expired entries that one call removes, so that no single call pays for all that expired since the last one.
const SLICE: usize = 8;

/// An ordered map whose entries expire. An expired entry is never visible, whether it has been removed yet or not.
#[derive(Debug)]
pub(super) struct Fading<K, V> {
    all: BTreeMap<K, (V, Timestamp)>,
    by_death: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Clone, V> Fading<K, V> {
    pub(super) const fn new() -> Self {
        Self { all: BTreeMap::new(), by_death: BTreeSet::new() }
    }

    pub(super) fn get(&self, key: &K, now: Timestamp) -> Option<&V> {
        self.all.get(key).filter(|(_, dies)| now < *dies).map(|(value, _)| value)
    }

    /// Returns a value to be changed; its expiry stays.
    pub(super) fn get_mut(&mut self, key: &K, now: Timestamp) -> Option<&mut V> {
        self.all.get_mut(key).filter(|(_, dies)| now < *dies).map(|(value, _)| value)
    }

    /// Inserts an entry, or replaces the present one.
    pub(super) fn insert(&mut self, key: K, value: V, dies: Timestamp) {
        if let Some((_, before)) = self.all.insert(key.clone(), (value, dies)) {
            self.by_death.remove(&(before, key.clone()));
        }
        self.by_death.insert((dies, key));
    }

    /// Removes an entry and returns it, unless it has expired.
    pub(super) fn remove(&mut self, key: &K, now: Timestamp) -> Option<V> {
        let (value, dies) = self.all.remove(key)?;
        self.by_death.remove(&(dies, key.clone()));
        (now < dies).then_some(value)
    }

    /// Removes a few expired entries.
    pub(super) fn forget(&mut self, now: Timestamp) {
        for _ in 0..SLICE {
            match self.by_death.first() {
                Some((dies, _)) if *dies <= now => {}
                _ => return,
            }
            if let Some((_, key)) = self.by_death.pop_first() {
                self.all.remove(&key);
            }
        }
    }

    /// All entries that have not expired, in the order of their keys.
    pub(super) fn iter(&self, now: Timestamp) -> impl Iterator<Item = (&K, &V)> {
        self.all.iter().filter(move |(_, (_, dies))| now < *dies).map(|(key, (value, _))| (key, value))
    }

    /// The number of entries in memory, including expired ones that have not been removed.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.all.len(), self.by_death.len());
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fading, SLICE};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::Timestamp;
    use std::collections::BTreeMap;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    proptest! {
        #[test]
        fn what_lives_is_there_and_nothing_else(steps in vec((0_u8..5, 0_u8..6, 0_u64..20, 0_u64..4), 1..120)) {
            let mut fading = Fading::new();
            let mut model: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
            let mut now = 0;
            for (step, key, life, passes) in steps {
                now += passes;
                let living = model.get(&key).filter(|(_, dies)| now < *dies).map(|(value, _)| *value);
                match step {
                    0 | 1 => {
                        fading.insert(key, now, at(now + life));
                        model.insert(key, (now, now + life));
                    }
                    2 => {
                        prop_assert_eq!(fading.remove(&key, at(now)), living);
                        model.remove(&key);
                    }
                    3 => {
                        if let Some(value) = fading.get_mut(&key, at(now)) {
                            *value += 1;
                        }
                        if let Some((value, dies)) = model.get_mut(&key) && now < *dies {
                            *value += 1;
                        }
                    }
                    _ => fading.forget(at(now)),
                }
                let living = |(key, (value, dies)): (&u8, &(u64, u64))| (now < *dies).then_some((*key, *value));
                let expected: Vec<_> = model.iter().filter_map(living).collect();
                let seen: Vec<_> = fading.iter(at(now)).map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(&seen, &expected);
                let alone = (0..6).filter_map(|key| fading.get(&key, at(now)).map(|value| (key, *value)));
                prop_assert_eq!(alone.collect::<Vec<_>>(), seen);
                prop_assert!(fading.len() >= expected.len());
            }
        }
    }

    #[test]
    fn a_few_of_the_dead_are_cleared_away_at_a_time() {
        let mut fading = Fading::new();
        for key in 0..20_u64 {
            fading.insert(key, (), at(10 + key));
        }
        fading.forget(at(9));
        assert_eq!(fading.len(), 20);
        fading.forget(at(10));
        assert_eq!(fading.len(), 19);
        fading.forget(at(28));
        assert_eq!(fading.len(), 19 - SLICE);
        fading.forget(at(28));
        fading.forget(at(28));
        assert_eq!((fading.len(), fading.iter(at(28)).count()), (1, 1));
    }
}

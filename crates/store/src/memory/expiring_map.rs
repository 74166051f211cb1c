//! A map whose entries expire.

use seawall_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The most expired entries that one call removes, so that no single call pays for all that expired since the last one.
const MAX_EVICTIONS: usize = 8;

/// An ordered map whose entries expire. An expired entry is never visible, whether it has been removed yet or not.
#[derive(Debug)]
pub(super) struct ExpiringMap<K, V> {
    entries: BTreeMap<K, (V, Timestamp)>,
    by_expiry: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Clone, V> ExpiringMap<K, V> {
    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), by_expiry: BTreeSet::new() }
    }

    pub(super) fn get(&self, key: &K, now: Timestamp) -> Option<&V> {
        self.entries.get(key).filter(|(_, expires)| now < *expires).map(|(value, _)| value)
    }

    /// Returns a value to be changed; its expiry stays.
    pub(super) fn get_mut(&mut self, key: &K, now: Timestamp) -> Option<&mut V> {
        self.entries.get_mut(key).filter(|(_, expires)| now < *expires).map(|(value, _)| value)
    }

    /// Inserts an entry, or replaces the present one.
    pub(super) fn insert(&mut self, key: K, value: V, expires: Timestamp) {
        if let Some((_, before)) = self.entries.insert(key.clone(), (value, expires)) {
            self.by_expiry.remove(&(before, key.clone()));
        }
        self.by_expiry.insert((expires, key));
    }

    /// Removes an entry and returns it, unless it has expired.
    pub(super) fn remove(&mut self, key: &K, now: Timestamp) -> Option<V> {
        let (value, expires) = self.entries.remove(key)?;
        self.by_expiry.remove(&(expires, key.clone()));
        (now < expires).then_some(value)
    }

    /// Removes a few expired entries.
    pub(super) fn evict_expired(&mut self, now: Timestamp) {
        for _ in 0..MAX_EVICTIONS {
            match self.by_expiry.first() {
                Some((expires, _)) if *expires <= now => {}
                _ => return,
            }
            if let Some((_, key)) = self.by_expiry.pop_first() {
                self.entries.remove(&key);
            }
        }
    }

    /// All entries that have not expired, in the order of their keys.
    pub(super) fn iter(&self, now: Timestamp) -> impl Iterator<Item = (&K, &V)> {
        self.entries
            .iter()
            .filter(move |(_, (_, expires))| now < *expires)
            .map(|(key, (value, _))| (key, value))
    }

    /// The number of entries in memory, including expired ones that have not been removed.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.entries.len(), self.by_expiry.len());
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpiringMap, MAX_EVICTIONS};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::Timestamp;
    use std::collections::BTreeMap;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    proptest! {
        #[test]
        fn only_entries_that_have_not_expired_are_visible(steps in vec((0_u8..5, 0_u8..6, 0_u64..20, 0_u64..4), 1..120)) {
            let mut map = ExpiringMap::new();
            let mut model: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
            let mut now = 0;
            for (step, key, life, passes) in steps {
                now += passes;
                let live = model.get(&key).filter(|(_, expires)| now < *expires).map(|(value, _)| *value);
                match step {
                    0 | 1 => {
                        map.insert(key, now, at(now + life));
                        model.insert(key, (now, now + life));
                    }
                    2 => {
                        prop_assert_eq!(map.remove(&key, at(now)), live);
                        model.remove(&key);
                    }
                    3 => {
                        if let Some(value) = map.get_mut(&key, at(now)) {
                            *value += 1;
                        }
                        if let Some((value, expires)) = model.get_mut(&key) && now < *expires {
                            *value += 1;
                        }
                    }
                    _ => map.evict_expired(at(now)),
                }
                let live = |(key, (value, expires)): (&u8, &(u64, u64))| (now < *expires).then_some((*key, *value));
                let expected: Vec<_> = model.iter().filter_map(live).collect();
                let seen: Vec<_> = map.iter(at(now)).map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(&seen, &expected);
                let alone = (0..6).filter_map(|key| map.get(&key, at(now)).map(|value| (key, *value)));
                prop_assert_eq!(alone.collect::<Vec<_>>(), seen);
                prop_assert!(map.len() >= expected.len());
            }
        }
    }

    #[test]
    fn a_few_expired_entries_are_evicted_at_a_time() {
        let mut map = ExpiringMap::new();
        for key in 0..20_u64 {
            map.insert(key, (), at(10 + key));
        }
        map.evict_expired(at(9));
        assert_eq!(map.len(), 20);
        map.evict_expired(at(10));
        assert_eq!(map.len(), 19);
        map.evict_expired(at(28));
        assert_eq!(map.len(), 19 - MAX_EVICTIONS);
        map.evict_expired(at(28));
        map.evict_expired(at(28));
        assert_eq!((map.len(), map.iter(at(28)).count()), (1, 1));
    }
}

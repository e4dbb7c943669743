//! A map and a set that search linearly while they are small, for validation of lists, which mostly have few items.

use std::collections::HashMap;
use std::hash::Hash;

/// With more keys than this, a hash index is built.
const LINEAR_SEARCH_MAX: usize = 16;

/// Like [`HashMap`], optimized for few keys. Iterates in insertion order.
#[derive(Debug)]
pub(crate) struct SmallMap<K, V> {
    entries: Vec<(K, V)>,
    /// The position of each key in `entries`, once there are more than `LINEAR_SEARCH_MAX`.
    positions: Option<HashMap<K, usize>>,
}

impl<K: Copy + Eq + Hash, V> SmallMap<K, V> {
    pub(crate) const fn new() -> Self {
        SmallMap {
            entries: Vec::new(),
            positions: None,
        }
    }

    pub(crate) fn with_capacity(count: usize) -> Self {
        SmallMap {
            entries: Vec::with_capacity(count),
            positions: None,
        }
    }

    fn position(&self, key: &K) -> Option<usize> {
        match &self.positions {
            Some(places) => places.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| known == key),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        Some(&self.entries[self.position(key)?].1)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.position(key).is_some()
    }

    /// Inserts or replaces the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.position(&key) {
            Some(place) => self.entries[place].1 = value,
            None => self.push(key, value),
        }
    }

    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = self.position(&key).unwrap_or_else(|| {
            self.push(key, V::default());
            self.entries.len() - 1
        });
        &mut self.entries[place].1
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }

    fn push(&mut self, key: K, value: V) {
        let place = self.entries.len();
        self.entries.push((key, value));
        if let Some(places) = &mut self.positions {
            places.insert(key, place);
        } else if place == LINEAR_SEARCH_MAX {
            let keys = self.entries.iter().enumerate();
            self.positions = Some(keys.map(|(place, (key, _))| (*key, place)).collect());
        }
    }
}

impl<K: Copy + Eq + Hash, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = SmallMap::with_capacity(entries.size_hint().0);
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Like [`std::collections::HashSet`], optimized for few values.
#[derive(Debug)]
pub(crate) struct SmallSet<T>(SmallMap<T, ()>);

impl<T: Copy + Eq + Hash> SmallSet<T> {
    pub(crate) const fn new() -> Self {
        SmallSet(SmallMap::new())
    }

    pub(crate) fn with_capacity(count: usize) -> Self {
        SmallSet(SmallMap::with_capacity(count))
    }

    /// Returns whether the value is new.
    pub(crate) fn insert(&mut self, value: T) -> bool {
        let is_new = !self.0.contains_key(&value);
        if is_new {
            self.0.push(value, ());
        }
        is_new
    }

    pub(crate) fn contains(&self, value: &T) -> bool {
        self.0.contains_key(value)
    }
}

impl<T: Copy + Eq + Hash> FromIterator<T> for SmallSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        SmallSet(values.into_iter().map(|value| (value, ())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_collections_find_every_key() {
        for count in [
            0,
            1,
            LINEAR_SEARCH_MAX,
            LINEAR_SEARCH_MAX + 1,
            LINEAR_SEARCH_MAX + 2,
            1000,
        ] {
            let mut set = SmallSet::new();
            let mut map = SmallMap::new();
            for number in 0..count {
                assert!(!set.contains(&number), "{count}");
                assert!(set.insert(number), "{count}");
                assert!(!set.insert(number), "{count}");
                map.insert(number, 0);
                map.insert(number, number + 1);
            }
            for number in 0..count {
                assert!(set.contains(&number), "{count}");
                assert_eq!(map.get(&number), Some(&(number + 1)));
                *map.get_or_default(number) += 1;
            }
            assert_eq!(map.get(&count), None);
            assert_eq!(map.values().count(), count);
            assert!(map.values().copied().eq(2..count + 2), "{count}");
            assert_eq!(*map.get_or_default(count), 0);
        }
    }
}

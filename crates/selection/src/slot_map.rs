//! Values by dense id in fixed-size chunks, as in the `slab` crate.

use std::ops::{Index, IndexMut};

use crate::Id;

/// Values per chunk: a large cluster needs only a few chunks.
const CHUNK_LEN: usize = 1 << 14;

/// Values by id. The ids of removed values are reused. There is no check for stale ids: callers count references.
#[derive(Debug, Clone)]
pub struct SlotMap<I, T> {
    /// All chunks but the last are full. Growing does not move values, except in the first chunk.
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<I>,
}

impl<I, T> Default for SlotMap<I, T> {
    fn default() -> Self {
        SlotMap {
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<I: Id, T> SlotMap<I, T> {
    pub fn insert(&mut self, value: T) -> I {
        if let Some(id) = self.free.pop() {
            self.chunks[id.index() / CHUNK_LEN][id.index() % CHUNK_LEN] = Some(value);
            return id;
        }
        let bound = self.bound();
        if bound.is_multiple_of(CHUNK_LEN) {
            // Only the first chunk grows: a small table must not occupy a whole chunk.
            let capacity = if bound == 0 { 0 } else { CHUNK_LEN };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        self.chunks[bound / CHUNK_LEN].push(Some(value));
        I::from_index(bound)
    }

    pub fn remove(&mut self, id: I) -> Option<T> {
        let chunk = self.chunks.get_mut(id.index() / CHUNK_LEN)?;
        let value = chunk.get_mut(id.index() % CHUNK_LEN)?.take()?;
        self.free.push(id);
        Some(value)
    }

    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        let chunk = self.chunks.get(id.index() / CHUNK_LEN)?;
        chunk.get(id.index() % CHUNK_LEN)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(id.index() / CHUNK_LEN)?;
        chunk.get_mut(id.index() % CHUNK_LEN)?.as_mut()
    }

    /// In the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let slots = self.chunks.iter().flatten().enumerate();
        slots.filter_map(|(index, slot)| Some((I::from_index(index), slot.as_ref()?)))
    }

    pub fn len(&self) -> usize {
        self.bound() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the largest index that is or was in use.
    pub fn bound(&self) -> usize {
        match self.chunks.split_last() {
            Some((last, full)) => full.len() * CHUNK_LEN + last.len(),
            None => 0,
        }
    }
}

/// For ids that are known to be in use, because their holder also holds a reference. Panics otherwise.
impl<I: Id, T> Index<I> for SlotMap<I, T> {
    type Output = T;

    #[inline]
    #[allow(clippy::expect_used)]
    fn index(&self, id: I) -> &T {
        self.get(id).expect("id is in use")
    }
}

impl<I: Id, T> IndexMut<I> for SlotMap<I, T> {
    #[inline]
    #[allow(clippy::expect_used)]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.get_mut(id).expect("id is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::ids! { PodId }

    #[test]
    fn ids_are_stable_and_free_slots_are_reused() {
        let mut slots: SlotMap<PodId, usize> = SlotMap::default();
        let ids: Vec<PodId> = (0..3 * CHUNK_LEN + 1).map(|at| slots.insert(at)).collect();
        assert!(ids.iter().enumerate().all(|(at, id)| slots[*id] == at));
        assert!(slots.iter().map(|(id, _)| id).eq(ids.iter().copied()));
        assert_eq!(slots.remove(ids[CHUNK_LEN]), Some(CHUNK_LEN));
        assert_eq!(slots.remove(ids[CHUNK_LEN]), None);
        assert_eq!((slots.len(), slots.bound()), (3 * CHUNK_LEN, ids.len()));
        assert_eq!(slots.insert(7), ids[CHUNK_LEN]);
        assert_eq!(slots[ids[CHUNK_LEN]], 7);
        let unknown = PodId::from_index(ids.len());
        assert!(slots.get(unknown).is_none() && slots.remove(unknown).is_none());
    }
}

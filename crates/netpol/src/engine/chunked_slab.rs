//! Small integer ids, and a slab (as in the `slab` crate) that stores values by id in fixed-size chunks.

use std::mem;
use std::ops::{Index, IndexMut};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl SlabKey for $name {
            fn from_index(index: usize) -> Self {
                // Cannot overflow: so many records do not fit into memory.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    NamespaceId,
    NamespaceSelectorId,
    PodId,
    SelectionId,
    SelectorId,
    PolicyId,
}

/// An id that is an index into a slab.
pub(crate) trait SlabKey: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Values per chunk: a large cluster needs only a few chunks.
const CHUNK_LEN: usize = 1 << 14;

/// A slab that reuses the ids of removed values. There is no check for stale ids: callers count references.
#[derive(Debug)]
pub(crate) struct ChunkedSlab<I, T> {
    /// All chunks but the last are full. Growing does not move existing values.
    chunks: Vec<Vec<T>>,
    free: Vec<I>,
}

impl<I, T> Default for ChunkedSlab<I, T> {
    fn default() -> Self {
        ChunkedSlab {
            chunks: vec![Vec::new()],
            free: Vec::new(),
        }
    }
}

impl<I: SlabKey, T: Default> ChunkedSlab<I, T> {
    pub(crate) fn insert(&mut self, value: T) -> I {
        if let Some(id) = self.free.pop() {
            self[id] = value;
            return id;
        }
        let full = self.chunks.len() - 1;
        let last = &mut self.chunks[full];
        last.push(value);
        let id = I::from_index(full * CHUNK_LEN + last.len() - 1);
        if last.len() == CHUNK_LEN {
            self.chunks.push(Vec::with_capacity(CHUNK_LEN));
        }
        id
    }

    pub(crate) fn remove(&mut self, id: I) -> T {
        self.free.push(id);
        mem::take(&mut self[id])
    }
}

impl<I: SlabKey, T> Index<I> for ChunkedSlab<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        let at = id.index();
        &self.chunks[at / CHUNK_LEN][at % CHUNK_LEN]
    }
}

impl<I: SlabKey, T> IndexMut<I> for ChunkedSlab<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        let at = id.index();
        &mut self.chunks[at / CHUNK_LEN][at % CHUNK_LEN]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable_and_free_slots_are_reused() {
        let mut slots: ChunkedSlab<PodId, usize> = ChunkedSlab::default();
        let ids: Vec<PodId> = (0..3 * CHUNK_LEN + 1).map(|at| slots.insert(at)).collect();
        assert!(ids.iter().enumerate().all(|(at, id)| slots[*id] == at));
        assert_eq!(slots.remove(ids[CHUNK_LEN]), CHUNK_LEN);
        assert_eq!(slots.insert(7), ids[CHUNK_LEN]);
        assert_eq!(slots[ids[CHUNK_LEN]], 7);
    }
}

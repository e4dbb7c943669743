//! Small numbers that stand for things, and lists by them.

use std::mem;
use std::ops::{Index, IndexMut};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(u32);

        impl Id for $name {
            fn from_index(index: usize) -> Self {
                // Memory ends long before: no more than this many fit into it.
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

/// A number that says where in a list something is.
pub(crate) trait Id: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// So many are together in memory: few of them hold a large cluster.
const CHUNK: usize = 1 << 14;

/// A list in which what is taken out leaves a place for the next. Whoever holds an id also holds what keeps it in use.
#[derive(Debug)]
pub(crate) struct Slots<I, T> {
    /// All but the last are full: nothing moves when there are more.
    chunks: Vec<Vec<T>>,
    free: Vec<I>,
}

impl<I, T> Default for Slots<I, T> {
    fn default() -> Self {
        Slots {
            chunks: vec![Vec::new()],
            free: Vec::new(),
        }
    }
}

impl<I: Id, T: Default> Slots<I, T> {
    pub(crate) fn insert(&mut self, value: T) -> I {
        if let Some(id) = self.free.pop() {
            self[id] = value;
            return id;
        }
        let full = self.chunks.len() - 1;
        let last = &mut self.chunks[full];
        last.push(value);
        let id = I::from_index(full * CHUNK + last.len() - 1);
        if last.len() == CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        id
    }

    pub(crate) fn remove(&mut self, id: I) -> T {
        self.free.push(id);
        mem::take(&mut self[id])
    }
}

impl<I: Id, T> Index<I> for Slots<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        let at = id.index();
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<I: Id, T> IndexMut<I> for Slots<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        let at = id.index();
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_keep_their_numbers_and_places_are_used_again() {
        let mut slots: Slots<PodId, usize> = Slots::default();
        let ids: Vec<PodId> = (0..3 * CHUNK + 1).map(|at| slots.insert(at)).collect();
        assert!(ids.iter().enumerate().all(|(at, id)| slots[*id] == at));
        assert_eq!(slots.remove(ids[CHUNK]), CHUNK);
        assert_eq!(slots.insert(7), ids[CHUNK]);
        assert_eq!(slots[ids[CHUNK]], 7);
    }
}

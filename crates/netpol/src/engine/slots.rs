//! Small numbers that stand for things, lists and maps by them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
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
    PolicyId,
}

/// A number that says where in a list something is.
pub(crate) trait Id: Copy {
    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// A list in which what is taken out leaves a place for the next. Whoever holds an id also holds what keeps it in use.
#[derive(Debug)]
pub(crate) struct Slots<I, T> {
    slots: Vec<T>,
    free: Vec<I>,
}

impl<I, T> Default for Slots<I, T> {
    fn default() -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<I: Id, T: Default> Slots<I, T> {
    pub(crate) fn insert(&mut self, value: T) -> I {
        if let Some(id) = self.free.pop() {
            self.slots[id.index()] = value;
            return id;
        }
        self.slots.push(value);
        I::from_index(self.slots.len() - 1)
    }

    pub(crate) fn remove(&mut self, id: I) -> T {
        self.free.push(id);
        mem::take(&mut self.slots[id.index()])
    }
}

impl<I: Id, T> Index<I> for Slots<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.slots[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Slots<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.slots[id.index()]
    }
}

/// Spreads small numbers and places in memory over a table by one multiplication: they are ours, so nobody can choose them
/// to collide.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table looks at the lowest and the highest bits; the highest are the well mixed ones.
        self.0 ^= self.0 >> 32;
    }
}

/// Never iterated where the order could show.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

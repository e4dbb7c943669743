//! A slab: a vector with stable typed indexes, in which freed slots are reused.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::ids::SlabKey;

/// A slab of `T`, indexed by the id type `I`.
#[derive(Debug, Clone)]
pub(super) struct TypedSlab<I, T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    id: PhantomData<I>,
}

impl<I, T> Default for TypedSlab<I, T> {
    fn default() -> Self {
        TypedSlab {
            slots: Vec::new(),
            free: Vec::new(),
            id: PhantomData,
        }
    }
}

impl<I: SlabKey, T> TypedSlab<I, T> {
    pub(super) fn insert(&mut self, value: T) -> I {
        match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(value);
                I::from_index(index)
            }
            None => {
                self.slots.push(Some(value));
                I::from_index(self.slots.len() - 1)
            }
        }
    }

    pub(super) fn remove(&mut self, id: I) -> Option<T> {
        let value = self.slots.get_mut(id.index())?.take()?;
        self.free.push(id.index());
        Some(value)
    }

    pub(super) fn get(&self, id: I) -> Option<&T> {
        self.slots.get(id.index())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((I::from_index(index), slot.as_ref()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// One more than the largest index that is or was in use.
    pub(super) fn key_bound(&self) -> usize {
        self.slots.len()
    }
}

/// For ids that are known to be in use, because their holder also holds a reference. Panics otherwise.
impl<I: SlabKey, T> Index<I> for TypedSlab<I, T> {
    type Output = T;

    #[allow(clippy::expect_used)]
    fn index(&self, id: I) -> &T {
        self.get(id).expect("id is in use")
    }
}

impl<I: SlabKey, T> IndexMut<I> for TypedSlab<I, T> {
    #[allow(clippy::expect_used)]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.get_mut(id).expect("id is in use")
    }
}

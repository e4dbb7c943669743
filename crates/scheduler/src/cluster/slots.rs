//! A list in which what is taken out leaves a place for the next.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::ids::Id;

#[derive(Debug, Clone)]
pub(super) struct Slots<I, T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    id: PhantomData<I>,
}

impl<I, T> Default for Slots<I, T> {
    fn default() -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
            id: PhantomData,
        }
    }
}

impl<I: Id, T> Slots<I, T> {
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
    pub(super) fn bound(&self) -> usize {
        self.slots.len()
    }
}

/// For ids that are known to be in use: whoever holds one also holds what keeps it there.
impl<I: Id, T> Index<I> for Slots<I, T> {
    type Output = T;

    #[allow(clippy::expect_used)]
    fn index(&self, id: I) -> &T {
        self.get(id).expect("an id in use")
    }
}

impl<I: Id, T> IndexMut<I> for Slots<I, T> {
    #[allow(clippy::expect_used)]
    fn index_mut(&mut self, id: I) -> &mut T {
        self.get_mut(id).expect("an id in use")
    }
}

//! A set of ids that usually has at most one member.

use std::hash::Hash;

use crate::hashing::IdSet;

/// A set of ids. A single id is stored inline without allocation, since most sets have at most one.
#[derive(Debug, Default)]
pub enum SmallIdSet<I> {
    #[default]
    Empty,
    One(I),
    Many(Box<IdSet<I>>),
}

impl<I: Copy + Eq + Hash> SmallIdSet<I> {
    pub fn insert(&mut self, id: I) {
        match self {
            SmallIdSet::Empty => *self = SmallIdSet::One(id),
            SmallIdSet::One(one) if *one == id => {}
            SmallIdSet::One(one) => {
                *self = SmallIdSet::Many(Box::new(IdSet::from_iter([*one, id])));
            }
            SmallIdSet::Many(many) => _ = many.insert(id),
        }
    }

    pub fn remove(&mut self, id: I) {
        match self {
            SmallIdSet::One(one) if *one == id => *self = SmallIdSet::Empty,
            SmallIdSet::Empty | SmallIdSet::One(_) => {}
            SmallIdSet::Many(many) => {
                many.remove(&id);
                if many.is_empty() {
                    *self = SmallIdSet::Empty;
                }
            }
        }
    }

    pub fn contains(&self, id: I) -> bool {
        match self {
            SmallIdSet::Empty => false,
            SmallIdSet::One(one) => *one == id,
            SmallIdSet::Many(many) => many.contains(&id),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, SmallIdSet::Empty)
    }

    pub fn len(&self) -> usize {
        match self {
            SmallIdSet::Empty => 0,
            SmallIdSet::One(_) => 1,
            SmallIdSet::Many(many) => many.len(),
        }
    }

    /// Appends all members to `ids`, in unspecified order. Faster than [`SmallIdSet::iter`].
    pub fn append_to(&self, ids: &mut Vec<I>) {
        match self {
            SmallIdSet::Empty => {}
            SmallIdSet::One(one) => ids.push(*one),
            SmallIdSet::Many(many) => ids.extend(many.iter().copied()),
        }
    }

    /// In unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = I> {
        let (one, many) = match self {
            SmallIdSet::Empty => (None, None),
            SmallIdSet::One(one) => (Some(*one), None),
            SmallIdSet::Many(many) => (None, Some(many.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_behaves_like_a_set() {
        let (mut few, mut set) = (SmallIdSet::default(), BTreeSet::new());
        // Positive ids are inserted, negative ones removed, with repetitions.
        let steps = [1, 1, 2, 3, 2, -1, -1, -3, -2, -2, 7, -7, 5, 6, -5, -6];
        for step in steps {
            let id = i32::abs(step);
            if step > 0 {
                few.insert(id);
                set.insert(id);
            } else {
                few.remove(id);
                set.remove(&id);
            }
            assert_eq!(few.iter().collect::<BTreeSet<_>>(), set);
            assert_eq!((few.len(), few.is_empty()), (set.len(), set.is_empty()));
            assert!((0..9).all(|id| few.contains(id) == set.contains(&id)));
        }
    }
}

//! Sets that mostly have one member.

use std::hash::Hash;

use super::hashing::IdSet;

/// A set of numbers. Most pods and policies meet in selections of their own: so one costs no more room than none.
#[derive(Debug, Default)]
pub(crate) enum Few<I> {
    #[default]
    None,
    One(I),
    Many(Box<IdSet<I>>),
}

impl<I: Copy + Eq + Hash> Few<I> {
    pub(crate) fn insert(&mut self, id: I) {
        match self {
            Few::None => *self = Few::One(id),
            Few::One(one) if *one == id => {}
            Few::One(one) => *self = Few::Many(Box::new(IdSet::from_iter([*one, id]))),
            Few::Many(many) => _ = many.insert(id),
        }
    }

    pub(crate) fn remove(&mut self, id: I) {
        match self {
            Few::One(one) if *one == id => *self = Few::None,
            Few::None | Few::One(_) => {}
            Few::Many(many) => {
                many.remove(&id);
                if many.is_empty() {
                    *self = Few::None;
                }
            }
        }
    }

    pub(crate) fn contains(&self, id: I) -> bool {
        match self {
            Few::None => false,
            Few::One(one) => *one == id,
            Few::Many(many) => many.contains(&id),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Few::None)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Few::None => 0,
            Few::One(_) => 1,
            Few::Many(many) => many.len(),
        }
    }

    /// In any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = I> {
        let (one, many) = match self {
            Few::None => (None, None),
            Few::One(one) => (Some(*one), None),
            Few::Many(many) => (None, Some(many.iter().copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set() {
        let (mut few, mut set) = (Few::default(), BTreeSet::new());
        // Up and down again, with repetitions.
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

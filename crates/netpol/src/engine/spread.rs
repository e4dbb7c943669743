//! On which nodes the members of a selection are.

use super::hashing::IdMap;
use super::text::Text;

/// How many are on each node; `None` is for those that are on no node yet.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    counts: IdMap<Option<Text>, usize>,
}

impl Spread {
    /// Tells whether it is a node where nobody was before.
    pub(crate) fn add(&mut self, node: &Option<Text>) -> bool {
        match self.counts.get_mut(node) {
            Some(count) => {
                *count += 1;
                false
            }
            None => {
                self.counts.insert(node.clone(), 1);
                node.is_some()
            }
        }
    }

    /// Tells whether it is a node where nobody is any more.
    pub(crate) fn take(&mut self, node: &Option<Text>) -> bool {
        let Some(count) = self.counts.get_mut(node) else {
            return false;
        };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.counts.remove(node);
        node.is_some()
    }

    pub(crate) fn unplaced(&self) -> usize {
        self.counts.get(&None).copied().unwrap_or_default()
    }

    /// In any order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, usize)> {
        let counts = self.counts.iter();
        counts.filter_map(|(node, count)| Some((node.as_ref()?.as_ref(), *count)))
    }
}

//! Dense integer ids, which are indexes into [`SlotMap`](crate::SlotMap).

use std::fmt::Debug;
use std::hash::Hash;

/// A small integer that identifies one value of a [`SlotMap`](crate::SlotMap). Declared with [`ids!`](crate::ids).
pub trait Id: Copy + Debug + Eq + Ord + Hash {
    /// The id of index 0.
    const FIRST: Self;

    fn from_index(index: usize) -> Self;
    fn index(self) -> usize;
}

/// Declares id types, each with its visibility and documentation: `ids! { pub PodId, pub(crate) NodeId }`.
#[macro_export]
macro_rules! ids {
    ($($(#[$doc:meta])* $visibility:vis $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visibility struct $name(u32);

        impl $crate::Id for $name {
            const FIRST: Self = $name(0);

            #[inline]
            fn from_index(index: usize) -> Self {
                // Cannot overflow: so many values do not fit into memory.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

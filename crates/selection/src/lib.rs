//! Label selection by index: which selectors may match an object ([`SelectorIndex`]), and which objects a selector may
//! match ([`PostingIndex`]). Both return candidates; the caller evaluates the selector unless a candidate is exact.
//!
//! Upstream has parts of this only: `indexedWatchers` of the watch cache, and informer indexers. The crate also owns
//! what the indexes and their users are built from: interned strings ([`Interner`]), dense ids ([`ids!`]) with
//! [`SlotMap`], and fast maps and sets keyed by them. It is pure, and knows neither kinds nor caches.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod hashing;
mod id;
mod index_term;
mod interner;
mod posting_index;
mod required_label;
mod selector_index;
mod slot_map;
mod small_id_set;
mod term_map;
#[cfg(test)]
mod tests;

pub use hashing::{
    FxIdHasher, IdMap, IdSet, UntrustedKeyHasherBuilder, UntrustedKeyMap, UntrustedKeySet,
};
pub use id::Id;
pub use index_term::IndexTerm;
pub use interner::{InternedLabel, InternedString, Interner, ResolvedLabel};
pub use posting_index::PostingIndex;
pub use required_label::{RequiredLabel, required_labels};
pub use selector_index::{SelectorCandidate, SelectorIndex};
pub use slot_map::SlotMap;
pub use small_id_set::SmallIdSet;

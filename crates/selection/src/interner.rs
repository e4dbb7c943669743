//! String interner: label keys and values and other texts that occur in many objects are stored once and compared by
//! pointer.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;

use crate::hashing::UntrustedKeyHasherBuilder;

/// An interned string, compared and hashed by pointer. Only comparable within one [`Interner`].
#[derive(Debug, Clone)]
pub struct InternedString(Arc<str>);

impl InternedString {
    /// The address of the string, which is unique as long as this value exists.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<u8>() as usize
    }
}

impl PartialEq for InternedString {
    #[inline]
    fn eq(&self, other: &InternedString) -> bool {
        self.address() == other.address()
    }
}

impl Eq for InternedString {}

impl Hash for InternedString {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.address());
    }
}

impl AsRef<str> for InternedString {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Key and value of a label.
pub type InternedLabel = (InternedString, InternedString);

/// A label of which the key is interned, and the value may be.
pub type ResolvedLabel<'i> = (&'i InternedString, Option<&'i InternedString>);

/// The number of strings from which on unused ones are swept.
const SWEEP_THRESHOLD: usize = 4096;

/// Strings that are stored once. Those that are only referenced by the interner itself are removed from time to time.
#[derive(Debug, Default)]
pub struct Interner {
    strings: HashTable<InternedString>,
    hasher_builder: UntrustedKeyHasherBuilder,
    used_at_sweep: usize,
}

impl Interner {
    pub fn intern(&mut self, string: &str) -> InternedString {
        if let Some(known) = self.get(string) {
            return known.clone();
        }
        self.sweep();
        let symbol = InternedString(string.into());
        let builder = &self.hasher_builder;
        self.strings
            .insert_unique(builder.hash_one(string), symbol.clone(), |other| {
                builder.hash_one(other.as_ref())
            });
        symbol
    }

    /// The symbol of a string, if it is interned. An index that uses the same interner has no entry for other strings.
    #[inline]
    pub fn get(&self, string: &str) -> Option<&InternedString> {
        let hash = self.hasher_builder.hash_one(string);
        self.strings.find(hash, |known| *known.0 == *string)
    }

    pub fn intern_labels<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Box<[InternedLabel]> {
        let labels = labels.into_iter();
        labels
            .map(|(key, value)| (self.intern(key.as_ref()), self.intern(value.as_ref())))
            .collect()
    }

    /// Looks up the strings of labels without interning them. Labels whose key is not interned are left out.
    pub fn resolve_labels<'i, K: AsRef<str>, V: AsRef<str>>(
        &'i self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> impl Iterator<Item = ResolvedLabel<'i>> {
        let labels = labels.into_iter();
        labels.filter_map(|(key, value)| Some((self.get(key.as_ref())?, self.get(value.as_ref()))))
    }

    pub fn len(&self) -> usize {
        self.strings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    /// Drops unused strings once there are twice as many as after the last sweep, so that the amortized cost is
    /// constant.
    fn sweep(&mut self) {
        if self.strings.len() < SWEEP_THRESHOLD.max(2 * self.used_at_sweep) {
            return;
        }
        self.strings
            .retain(|string| Arc::strong_count(&string.0) > 1);
        self.used_at_sweep = self.strings.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_equal_ids() {
        let mut interner = Interner::default();
        let app = interner.intern("app");
        assert_eq!(interner.intern("app"), app);
        assert_ne!(interner.intern("web"), app);
        assert_eq!(interner.get("app"), Some(&app));
        assert_eq!(interner.get("never"), None);
    }

    #[test]
    fn unused_strings_are_removed() {
        let mut interner = Interner::default();
        let kept: Vec<InternedString> = (0..10)
            .map(|string| interner.intern(&format!("kept {string}")))
            .collect();
        for string in 0..100_000 {
            interner.intern(&string.to_string());
        }
        assert!(interner.len() <= SWEEP_THRESHOLD);
        for (string, text) in kept.iter().enumerate() {
            assert_eq!(interner.get(&format!("kept {string}")), Some(text));
        }
    }

    #[test]
    fn labels_without_an_interned_key_are_not_resolved() {
        let mut interner = Interner::default();
        let (app, web) = (interner.intern("app"), interner.intern("web"));
        let labels = [("app", "web"), ("web", "other"), ("other", "web")];
        let resolved: Vec<ResolvedLabel<'_>> = interner.resolve_labels(labels).collect();
        assert_eq!(resolved, [(&app, Some(&web)), (&web, None)]);
        assert_eq!(interner.len(), 2);
    }
}

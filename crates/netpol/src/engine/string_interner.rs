//! String interner: label keys and values, node names and port names that occur in many objects are stored once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::hashing::UntrustedKeySet;

/// An interned string, compared and hashed by pointer. Only comparable within one [`StringInterner`].
#[derive(Debug, Clone)]
pub(crate) struct InternedStr(Arc<str>);

impl InternedStr {
    /// The address of the string, which is unique as long as this value exists.
    pub(crate) fn pointer(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<u8>() as usize
    }
}

impl PartialEq for InternedStr {
    fn eq(&self, other: &InternedStr) -> bool {
        self.pointer() == other.pointer()
    }
}

impl Eq for InternedStr {}

impl Hash for InternedStr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.pointer());
    }
}

impl AsRef<str> for InternedStr {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Key and value of a label.
pub(crate) type InternedLabel = (InternedStr, InternedStr);

/// The number of strings from which on unused ones are swept.
const SWEEP_THRESHOLD: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct StringInterner {
    strings: UntrustedKeySet<Arc<str>>,
    used_at_sweep: usize,
}

impl StringInterner {
    pub(crate) fn intern(&mut self, string: &str) -> InternedStr {
        if let Some(known) = self.strings.get(string) {
            return InternedStr(known.clone());
        }
        self.sweep();
        let string: Arc<str> = string.into();
        self.strings.insert(string.clone());
        InternedStr(string)
    }

    /// The interned string, if it exists.
    pub(crate) fn get(&self, string: &str) -> Option<InternedStr> {
        self.strings.get(string).cloned().map(InternedStr)
    }

    pub(crate) fn intern_labels<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Box<[InternedLabel]> {
        let labels = labels.into_iter();
        labels
            .map(|(key, value)| (self.intern(key), self.intern(value)))
            .collect()
    }

    /// Drops unused strings once there are twice as many as after the last sweep, so that the amortized cost is
    /// constant.
    fn sweep(&mut self) {
        if self.strings.len() < SWEEP_THRESHOLD.max(2 * self.used_at_sweep) {
            return;
        }
        self.strings.retain(|string| Arc::strong_count(string) > 1);
        self.used_at_sweep = self.strings.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_have_equal_ids() {
        let mut interner = StringInterner::default();
        let app = interner.intern("app");
        assert_eq!(interner.intern("app"), app);
        assert_ne!(interner.intern("web"), app);
        assert_eq!(interner.get("app"), Some(app));
        assert_eq!(interner.get("never"), None);
    }

    #[test]
    fn unused_strings_are_removed() {
        let mut interner = StringInterner::default();
        let kept: Vec<InternedStr> = (0..10)
            .map(|string| interner.intern(&format!("kept {string}")))
            .collect();
        for string in 0..100_000 {
            interner.intern(&string.to_string());
        }
        assert!(interner.strings.len() <= SWEEP_THRESHOLD);
        for (string, text) in kept.iter().enumerate() {
            assert_eq!(interner.get(&format!("kept {string}")).as_ref(), Some(text));
        }
    }
}

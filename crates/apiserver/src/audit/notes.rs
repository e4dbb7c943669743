//! What others have to say in an event: webhooks and policies choose keys and values.

use std::collections::BTreeMap;

use rhumb_meta::validation::qualified_name;

pub(super) const TRUNCATED: &str = "audit.k8s.io/truncated";
pub(super) const DECISION: &str = "authorization.k8s.io/decision";
pub(super) const REASON: &str = "authorization.k8s.io/reason";

/// What the notes of one event may take in memory.
const BYTES_MAX: usize = 256 * 1024;
/// What a note takes beside its text.
const NOTE_BYTES: usize = size_of::<(String, String)>();

/// The notes of one event. What does not fit is dropped, and the event says so.
#[derive(Debug, Default)]
pub struct Notes {
    of_key: BTreeMap<String, String>,
    bytes: usize,
    is_truncated: bool,
}

impl Notes {
    /// Adds a note. The first value of a key stays; what has a bad key is dropped.
    pub fn add(&mut self, key: impl Into<String>, value: impl AsRef<str> + Into<String>) {
        let key = key.into();
        if !is_free(&key) || self.of_key.contains_key(&key) {
            return;
        }
        let bytes = key.len() + value.as_ref().len() + NOTE_BYTES;
        if bytes > BYTES_MAX - self.bytes {
            self.is_truncated = true;
            return;
        }
        self.bytes += bytes;
        self.of_key.insert(key, value.into());
    }

    /// All of them, with one that says if others are missing.
    pub fn into_list(self) -> Vec<(String, String)> {
        let missing = self
            .is_truncated
            .then(|| (TRUNCATED.to_owned(), "true".to_owned()));
        self.of_key.into_iter().chain(missing).collect()
    }
}

/// Whether others may use the key: it has a prefix, as upstream wants it, and is none of those by which the server
/// itself speaks.
fn is_free(key: &str) -> bool {
    key.contains('/')
        && ![TRUNCATED, DECISION, REASON].contains(&key)
        && qualified_name(key).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(notes: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all = Notes::default();
        for (key, value) in notes {
            all.add(*key, *value);
        }
        all.into_list()
    }

    #[test]
    fn keys_are_qualified_names_that_the_server_does_not_use() {
        for (key, is_kept) in [
            ("w.example.com/key", true),
            ("policy/Key_1", true),
            ("authorization.k8s.io/other", true),
            (DECISION, false),
            (REASON, false),
            (TRUNCATED, false),
            ("key", false),
            ("", false),
            ("w.example.com/", false),
            ("/key", false),
            ("w.example.com/a/b", false),
            ("w.example.com/with blanks", false),
            ("Not A Name/key", false),
        ] {
            assert_eq!(listed(&[(key, "v")]).len(), usize::from(is_kept), "{key}");
        }
        let long = format!("w.example.com/{}", "k".repeat(64));
        assert_eq!(listed(&[(&long, "v")]), []);
    }

    #[test]
    fn the_first_value_stays() {
        let kept = listed(&[("w/k", "one"), ("w/k", "two")]);
        assert_eq!(kept, [("w/k".to_owned(), "one".to_owned())]);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_it_is_said() {
        let half = "x".repeat(BYTES_MAX / 2);
        let kept = listed(&[("w/a", &half), ("w/b", &half), ("w/c", "short")]);
        let keys: Vec<&str> = kept.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["w/a", "w/c", TRUNCATED]);

        let mut many = Notes::default();
        for n in 0..100_000 {
            many.add(format!("w/{n}"), "");
        }
        assert!(many.bytes <= BYTES_MAX);
        assert!(many.of_key.len() < BYTES_MAX / NOTE_BYTES);
        assert!(many.is_truncated);
    }
}

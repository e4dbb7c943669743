//! Audit annotations added by admission webhooks and policies, limited in keys and size.

use std::collections::BTreeMap;

use rhumb_meta::validation::qualified_name;

pub const TRUNCATED_KEY: &str = "audit.k8s.io/truncated";
pub const DECISION_KEY: &str = "authorization.k8s.io/decision";
pub const REASON_KEY: &str = "authorization.k8s.io/reason";

/// Memory limit of the annotations of one event.
const BYTES_MAX: usize = 256 * 1024;
/// Memory of an annotation beside its text.
const ANNOTATION_OVERHEAD_BYTES: usize = size_of::<(String, String)>();

/// The annotations of one event. Those that exceed the limit are dropped, and the event is marked as truncated.
#[derive(Debug, Default)]
pub struct AuditAnnotations {
    by_key: BTreeMap<String, String>,
    bytes: usize,
    is_truncated: bool,
}

impl AuditAnnotations {
    /// Adds an annotation. The first value of a key is kept; invalid keys are dropped.
    pub fn add(&mut self, key: impl Into<String>, value: impl AsRef<str> + Into<String>) {
        let key = key.into();
        if !is_allowed_key(&key) || self.by_key.contains_key(&key) {
            return;
        }
        let bytes = key.len() + value.as_ref().len() + ANNOTATION_OVERHEAD_BYTES;
        if bytes > BYTES_MAX - self.bytes {
            self.is_truncated = true;
            return;
        }
        self.bytes += bytes;
        self.by_key.insert(key, value.into());
    }

    /// All annotations, with `audit.k8s.io/truncated` if some were dropped.
    pub fn into_list(self) -> Vec<(String, String)> {
        let missing = self
            .is_truncated
            .then(|| (TRUNCATED_KEY.to_owned(), "true".to_owned()));
        self.by_key.into_iter().chain(missing).collect()
    }
}

/// Whether webhooks and policies may use the key: it has a prefix, as upstream requires, and is not reserved for the
/// server.
fn is_allowed_key(key: &str) -> bool {
    key.contains('/')
        && ![TRUNCATED_KEY, DECISION_KEY, REASON_KEY].contains(&key)
        && qualified_name(key).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(annotations: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all = AuditAnnotations::default();
        for (key, value) in annotations {
            all.add(*key, *value);
        }
        all.into_list()
    }

    #[test]
    fn annotation_keys_must_be_qualified_and_not_reserved() {
        for (key, is_kept) in [
            ("w.example.com/key", true),
            ("policy/Key_1", true),
            ("authorization.k8s.io/other", true),
            (DECISION_KEY, false),
            (REASON_KEY, false),
            (TRUNCATED_KEY, false),
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
    fn the_first_value_of_a_key_wins() {
        let listed = listed(&[("w/k", "one"), ("w/k", "two")]);
        assert_eq!(listed, [("w/k".to_owned(), "one".to_owned())]);
    }

    #[test]
    fn annotations_above_the_size_limit_are_dropped_and_reported() {
        let half = "x".repeat(BYTES_MAX / 2);
        let listed = listed(&[("w/a", &half), ("w/b", &half), ("w/c", "short")]);
        let keys: Vec<&str> = listed.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["w/a", "w/c", TRUNCATED_KEY]);

        let mut many = AuditAnnotations::default();
        for n in 0..100_000 {
            many.add(format!("w/{n}"), "");
        }
        assert!(many.bytes <= BYTES_MAX);
        assert!(many.by_key.len() < BYTES_MAX / ANNOTATION_OVERHEAD_BYTES);
        assert!(many.is_truncated);
    }
}

//! Object keys (`namespace/name`) and storage keys (`/registry/pods/namespace/name`).
//!
//! Storage keys have upstream's etcd layout, so that an upstream server can use the same data. A name is a path
//! segment in storage keys and URLs. Names that could escape their segment are rejected when an [`ObjectKey`] is
//! built, so that every [`ObjectKey`] is safe to use in a path.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Upstream's default `--etcd-prefix`.
pub const DEFAULT_ROOT: &str = "/registry";

/// Why a string is not a valid part of a key, or not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeyError {
    #[error("{what} may not be empty")]
    Empty { what: &'static str },
    #[error("{what} may not be '{segment}'")]
    Reserved {
        what: &'static str,
        segment: &'static str,
    },
    #[error("{what} may not contain {character:?}")]
    Forbidden { what: &'static str, character: char },
    #[error("storage key {key:?} is not an object under {prefix:?}")]
    Foreign { key: String, prefix: String },
}

/// The name of an object, and its namespace if the resource is namespaced.
///
/// Stored as the text `namespace/name` (neither part can contain a slash), so that keys sort in the order of the
/// store, which lists and their pages follow. Clones share the text, because caches and watches clone keys often.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    pub fn new(namespace: Option<&str>, name: &str) -> Result<Self, InvalidKeyError> {
        check_segment("name", name)?;
        match namespace {
            None => Ok(ObjectKey(name.into())),
            Some(namespace) => {
                check_segment("namespace", namespace)?;
                Ok(ObjectKey([namespace, "/", name].concat().into()))
            }
        }
    }

    pub fn namespaced(namespace: &str, name: &str) -> Result<Self, InvalidKeyError> {
        Self::new(Some(namespace), name)
    }

    pub fn cluster(name: &str) -> Result<Self, InvalidKeyError> {
        Self::new(None, name)
    }

    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// `namespace/name`, or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Allows lookups and ranges by text in maps of keys.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The storage prefix of a resource: `/registry/pods/`.
///
/// Every prefix ends in `/`, so that a range over `pods` does not include `podsets`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoragePrefix(Box<str>);

impl StoragePrefix {
    /// `resource` is upstream's storage path: `pods`, `services/specs`, `minions`, `example.com/widgets`.
    pub fn new(resource: &str) -> Result<Self, InvalidKeyError> {
        Self::under(DEFAULT_ROOT, resource)
    }

    /// A prefix under another root, for clusters that share an etcd.
    pub fn under(root: &str, resource: &str) -> Result<Self, InvalidKeyError> {
        for segment in resource.split('/') {
            check_segment("resource", segment)?;
        }
        let root = root.trim_end_matches('/');
        Ok(StoragePrefix(format!("{root}/{resource}/").into()))
    }

    /// The prefix of all objects of the resource.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix of all objects of the resource in one namespace.
    pub fn namespace(&self, namespace: &str) -> Result<String, InvalidKeyError> {
        check_segment("namespace", namespace)?;
        Ok(format!("{}{namespace}/", self.0))
    }

    /// The storage key of one object.
    pub fn object(&self, key: &ObjectKey) -> String {
        [&self.0, key.as_str()].concat()
    }

    /// Parses a storage key. One segment after the prefix is a cluster-scoped name, two are namespace and name.
    pub fn parse(&self, storage_key: &str) -> Result<ObjectKey, InvalidKeyError> {
        let Some(rest) = storage_key.strip_prefix(&*self.0) else {
            return Err(InvalidKeyError::Foreign {
                key: storage_key.to_owned(),
                prefix: self.0.to_string(),
            });
        };
        // The rest has the text format of ObjectKey.
        match rest.split_once('/') {
            None => check_segment("name", rest)?,
            Some((namespace, name)) => {
                check_segment("name", name)?;
                check_segment("namespace", namespace)?;
            }
        }
        Ok(ObjectKey(rest.into()))
    }
}

impl fmt::Display for StoragePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Rejects segments that could change the path (`/`, `%`, `.`, `..`) or that contain NUL.
fn check_segment(what: &'static str, segment: &str) -> Result<(), InvalidKeyError> {
    match segment {
        "" => Err(InvalidKeyError::Empty { what }),
        "." => Err(InvalidKeyError::Reserved { what, segment: "." }),
        ".." => Err(InvalidKeyError::Reserved {
            what,
            segment: "..",
        }),
        _ => {
            let mut bytes = segment.bytes();
            match bytes.find(|byte| matches!(byte, b'/' | b'%' | b'\0')) {
                Some(byte) => Err(InvalidKeyError::Forbidden {
                    what,
                    character: byte.into(),
                }),
                None => Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn storage_keys_have_upstreams_layout() {
        let table = [
            (
                "pods",
                Some("default"),
                "web-0",
                "/registry/pods/default/web-0",
            ),
            (
                "services/specs",
                Some("kube-system"),
                "dns",
                "/registry/services/specs/kube-system/dns",
            ),
            ("minions", None, "node-1", "/registry/minions/node-1"),
            (
                "example.com/widgets",
                Some("a"),
                "b.c",
                "/registry/example.com/widgets/a/b.c",
            ),
        ];
        for (resource, namespace, name, want) in table {
            let prefix = StoragePrefix::new(resource).expect(resource);
            let key = ObjectKey::new(namespace, name).expect(name);
            assert_eq!(prefix.object(&key), want);
            assert_eq!(prefix.parse(want).as_ref(), Ok(&key));
        }
        assert_eq!(
            StoragePrefix::under("/clusters/a/", "pods")
                .expect("valid")
                .as_str(),
            "/clusters/a/pods/"
        );
    }

    #[test]
    fn a_prefix_never_matches_a_longer_name() {
        let pods = StoragePrefix::new("pods").expect("valid");
        assert_eq!(pods.as_str(), "/registry/pods/");
        assert!(pods.parse("/registry/podsets/default/a").is_err());
        assert!(!"/registry/pods/team-a/x".starts_with(&pods.namespace("team").expect("valid")));
    }

    #[test]
    fn unsafe_path_segments_are_rejected() {
        for bad in ["", ".", "..", "a/b", "/", "a%2fb", "%", "a\0"] {
            assert!(
                ObjectKey::cluster(bad).is_err(),
                "name {bad:?} was accepted"
            );
            assert!(
                ObjectKey::namespaced(bad, "a").is_err(),
                "namespace {bad:?} was accepted"
            );
            assert!(
                StoragePrefix::new("pods")
                    .expect("valid")
                    .namespace(bad)
                    .is_err()
            );
        }
        for bad in ["", "/", "/pods", "pods/", "a//b", "a/../b", "a%"] {
            assert!(
                StoragePrefix::new(bad).is_err(),
                "resource {bad:?} was accepted"
            );
        }
        for good in ["...", "a..b", ".a", "system:controller:x", "A b"] {
            assert!(
                ObjectKey::cluster(good).is_ok(),
                "name {good:?} was refused"
            );
        }
        let pods = StoragePrefix::new("pods").expect("valid");
        for bad in [
            "",
            "/registry/pods",
            "/registry/pods/",
            "/registry/pods/a/",
            "/registry/pods/a/b/c",
            "/other/pods/a",
        ] {
            assert!(pods.parse(bad).is_err(), "storage key {bad:?} was accepted");
        }
    }

    proptest! {
        #![proptest_config(crate::testing::config())]

        #[test]
        fn a_storage_key_round_trips(namespace in proptest::option::of(".{0,8}"), name in ".{0,8}") {
            let prefix = StoragePrefix::new("pods").expect("valid");
            if let Ok(key) = ObjectKey::new(namespace.as_deref(), &name) {
                prop_assert_eq!(prefix.parse(&prefix.object(&key)), Ok(key));
            }
        }

        #[test]
        fn keys_sort_in_storage_order(keys in proptest::collection::vec("[a.-]{1,3}(/[a.-]{1,3})?", 2)) {
            let prefix = StoragePrefix::new("pods").expect("valid");
            let stored: Vec<String> = keys.iter().map(|key| format!("{prefix}{key}")).collect();
            if let (Ok(a), Ok(b)) = (prefix.parse(&stored[0]), prefix.parse(&stored[1])) {
                prop_assert_eq!(a.cmp(&b), stored[0].cmp(&stored[1]));
                prop_assert_eq!(&ObjectKey::new(a.namespace(), a.name()), &Ok(a));
            }
        }

        #[test]
        fn a_storage_key_that_parses_is_canonical(tail in "[a./%\0]{0,8}") {
            let prefix = StoragePrefix::new("pods").expect("valid");
            let storage_key = format!("{prefix}{tail}");
            if let Ok(key) = prefix.parse(&storage_key) {
                prop_assert_eq!(prefix.object(&key), storage_key);
            }
        }
    }
}

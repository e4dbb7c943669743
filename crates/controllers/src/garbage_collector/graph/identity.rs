//! Compact object identities: binary uids, and interned kinds and namespaces.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// The uid of an object. Servers generate UUIDs, but a reference may contain any text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ObjectUid {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl ObjectUid {
    pub(crate) fn new(text: &str) -> ObjectUid {
        match parse_uuid(text) {
            Some(bytes) => ObjectUid::Uuid(bytes),
            None => ObjectUid::Text(text.into()),
        }
    }
}

/// Parses a UUID in canonical lowercase form only, so that it formats back to the same text.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = 0;
    for (position, &character) in text.iter().enumerate() {
        if matches!(position, 8 | 13 | 18 | 23) {
            if character != b'-' {
                return None;
            }
            continue;
        }
        let digit = match character {
            b'0'..=b'9' => character - b'0',
            b'a'..=b'f' => character - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

impl fmt::Display for ObjectUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectUid::Text(text) => formatter.write_str(text),
            ObjectUid::Uuid(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    if matches!(index, 4 | 6 | 8 | 10) {
                        formatter.write_str("-")?;
                    }
                    write!(formatter, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for ObjectUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// apiVersion and kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ApiVersionKind {
    pub(crate) kind: Box<str>,
    pub(crate) api_version: Box<str>,
}

impl ApiVersionKind {
    pub(crate) fn new(api_version: &str, kind: &str) -> ApiVersionKind {
        ApiVersionKind {
            kind: kind.into(),
            api_version: api_version.into(),
        }
    }

    fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Whether group and kind are equal, ignoring the version.
    pub(crate) fn is_version_of(&self, other: &ApiVersionKind) -> bool {
        self.kind == other.kind && self.group() == other.group()
    }
}

/// Kind, namespace, name and uid of an object, or of an owner as a reference claims it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectIdentity {
    pub(crate) kind: Arc<ApiVersionKind>,
    /// Empty if the object is cluster-scoped.
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: ObjectUid,
}

impl ObjectIdentity {
    /// Whether both identify the same object, ignoring the API version.
    pub(super) fn is_version_of(&self, other: &ObjectIdentity) -> bool {
        self.kind.is_version_of(&other.kind)
            && self.namespace == other.namespace
            && self.name == other.name
            && self.uid == other.uid
    }
}

/// Upstream's format, which occurs in event messages.
impl fmt::Display for ObjectIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ApiVersionKind { kind, api_version } = &*self.kind;
        write!(
            formatter,
            "[{api_version}/{kind}, namespace: {}, name: {}, uid: {}]",
            self.namespace, self.name, self.uid
        )
    }
}

impl fmt::Debug for ObjectIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Interner that shares equal values while they are in use.
#[derive(Debug)]
pub(super) struct IdentityInterner<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    swept_at: usize,
}

/// Minimum number of values before unused ones are swept.
const SWEPT_MIN: usize = 64;

impl<T: ?Sized + Eq + Hash> IdentityInterner<T> {
    pub(super) fn new() -> Self {
        IdentityInterner {
            values: HashSet::new(),
            swept_at: SWEPT_MIN,
        }
    }

    /// The shared value that equals `value`.
    pub(super) fn get(&mut self, value: &T) -> Arc<T>
    where
        for<'a> Arc<T>: From<&'a T>,
    {
        if let Some(known) = self.values.get(value) {
            return known.clone();
        }
        if self.values.len() >= self.swept_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.swept_at = (self.values.len() * 2).max(SWEPT_MIN);
        }
        let value: Arc<T> = value.into();
        self.values.insert(value.clone());
        value
    }
}

impl From<&ApiVersionKind> for Arc<ApiVersionKind> {
    fn from(kind: &ApiVersionKind) -> Self {
        Arc::new(kind.clone())
    }
}

/// Bounded cache of owners that the server reported as absent (upstream's `absentOwnerCache`). A uid is never reused,
/// so entries stay valid; an evicted entry costs one more lookup.
#[derive(Debug, Default)]
pub(super) struct AbsentOwnerCache {
    known: HashSet<ObjectIdentity>,
    order: VecDeque<ObjectIdentity>,
}

const ABSENT_MAX: usize = 500;

impl AbsentOwnerCache {
    pub(super) fn add(&mut self, identity: ObjectIdentity) {
        if !self.known.insert(identity.clone()) {
            return;
        }
        self.order.push_back(identity);
        if self.order.len() > ABSENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(super) fn has(&self, identity: &ObjectIdentity) -> bool {
        self.known.contains(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_round_trip() {
        let uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert!(matches!(ObjectUid::new(uuid), ObjectUid::Uuid(_)));
        let upper = uuid.to_uppercase();
        for text in [
            uuid,
            &upper,
            "",
            "no-uuid",
            &uuid[..35],
            &uuid.replace('-', "0"),
        ] {
            assert_eq!(ObjectUid::new(text).to_string(), text);
        }
    }

    #[test]
    fn interned_values_are_kept_while_used() {
        let mut interned: IdentityInterner<str> = IdentityInterner::new();
        let kept = interned.get("kept");
        for number in 0..10_000 {
            interned.get(&number.to_string());
        }
        assert!(Arc::ptr_eq(&kept, &interned.get("kept")));
        assert!(interned.values.len() <= SWEPT_MIN + 1);
    }

    #[test]
    fn the_oldest_absent_owner_is_evicted() {
        let identity = |number: usize| ObjectIdentity {
            kind: Arc::new(ApiVersionKind::new("v1", "Pod")),
            namespace: "n".into(),
            name: number.to_string().into(),
            uid: ObjectUid::new("u"),
        };
        let mut absent = AbsentOwnerCache::default();
        (0..=ABSENT_MAX).for_each(|number| absent.add(identity(number)));
        assert!(!absent.has(&identity(0)));
        assert!((1..=ABSENT_MAX).all(|number| absent.has(&identity(number))));
    }
}

//! Names of objects, kept small: what many share is kept once.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// The uid of an object. A server gives UUIDs; a reference may say anything.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Uid {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Uid {
        match parse_uuid(text) {
            Some(bytes) => Uid::Uuid(bytes),
            None => Uid::Text(text.into()),
        }
    }
}

/// The bytes of a UUID in the one form from which the same text comes back.
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

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Text(text) => formatter.write_str(text),
            Uid::Uuid(bytes) => {
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

impl fmt::Debug for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A kind in one version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KindName {
    pub(crate) kind: Box<str>,
    pub(crate) api_version: Box<str>,
}

impl KindName {
    pub(crate) fn new(api_version: &str, kind: &str) -> KindName {
        KindName {
            kind: kind.into(),
            api_version: api_version.into(),
        }
    }

    fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// Whether both are the same kind, in whatever versions.
    pub(crate) fn is_version_of(&self, other: &KindName) -> bool {
        self.kind == other.kind && self.group() == other.group()
    }
}

/// Where an object is, or where a reference says that it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) kind: Arc<KindName>,
    /// Empty if the object is in none.
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Uid,
}

impl Identity {
    /// Whether both are the same object at the same place, in whatever versions.
    pub(super) fn is_version_of(&self, other: &Identity) -> bool {
        self.kind.is_version_of(&other.kind)
            && self.namespace == other.namespace
            && self.name == other.name
            && self.uid == other.uid
    }
}

/// As upstream writes it, which is what the events say.
impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KindName { kind, api_version } = &*self.kind;
        write!(
            formatter,
            "[{api_version}/{kind}, namespace: {}, name: {}, uid: {}]",
            self.namespace, self.name, self.uid
        )
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Values that are kept once, for as long as somebody has them.
#[derive(Debug)]
pub(super) struct Interned<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    swept_at: usize,
}

/// Fewer than this are not worth a look.
const SWEPT_MIN: usize = 64;

impl<T: ?Sized + Eq + Hash> Interned<T> {
    pub(super) fn new() -> Self {
        Interned {
            values: HashSet::new(),
            swept_at: SWEPT_MIN,
        }
    }

    /// The one value that equals this.
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

impl From<&KindName> for Arc<KindName> {
    fn from(kind: &KindName) -> Self {
        Arc::new(kind.clone())
    }
}

/// Owners that the server said are not there. A uid never comes back, so the answer stays right; the oldest go
/// when there are too many, and cost a question if they are met again.
#[derive(Debug, Default)]
pub(super) struct AbsentOwners {
    known: HashSet<Identity>,
    order: VecDeque<Identity>,
}

const ABSENT_MAX: usize = 500;

impl AbsentOwners {
    pub(super) fn add(&mut self, identity: Identity) {
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

    pub(super) fn has(&self, identity: &Identity) -> bool {
        self.known.contains(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_come_back_as_they_were() {
        let uuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert!(matches!(Uid::new(uuid), Uid::Uuid(_)));
        let upper = uuid.to_uppercase();
        for text in [
            uuid,
            &upper,
            "",
            "no-uuid",
            &uuid[..35],
            &uuid.replace('-', "0"),
        ] {
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }

    #[test]
    fn shared_values_are_kept_while_they_are_used() {
        let mut interned: Interned<str> = Interned::new();
        let kept = interned.get("kept");
        for number in 0..10_000 {
            interned.get(&number.to_string());
        }
        assert!(Arc::ptr_eq(&kept, &interned.get("kept")));
        assert!(interned.values.len() <= SWEPT_MIN + 1);
    }

    #[test]
    fn the_oldest_absent_owner_is_forgotten() {
        let identity = |number: usize| Identity {
            kind: Arc::new(KindName::new("v1", "Pod")),
            namespace: "n".into(),
            name: number.to_string().into(),
            uid: Uid::new("u"),
        };
        let mut absent = AbsentOwners::default();
        (0..=ABSENT_MAX).for_each(|number| absent.add(identity(number)));
        assert!(!absent.has(&identity(0)));
        assert!((1..=ABSENT_MAX).all(|number| absent.has(&identity(number))));
    }
}

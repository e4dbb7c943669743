//! A cached object: its served JSON, its watch frame, and the labels and fields that selectors match.
//! Corresponds to upstream's `storeElement`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use rhumb_meta::fields::{self, Fields};
use rhumb_meta::{ObjectKey, Revision, labels};

use crate::EventKind;

/// The bytes after the object in a watch frame.
const FRAME_END: &[u8] = b"}\n";

/// An object as of one revision. Immutable; shared by snapshots, history and watchers.
#[derive(Clone)]
pub struct CacheEntry {
    key: ObjectKey,
    revision: Revision,
    /// The kind of event that produced this entry, for watchers that matched the object before and after.
    kind: EventKind,
    /// That event's frame. The object's JSON is a slice of it, so that one buffer serves reads and watches.
    frame: Bytes,
    pub(crate) labels: Arc<[(Arc<str>, Arc<str>)]>,
    pub(crate) fields: Arc<[Arc<str>]>,
}

impl CacheEntry {
    pub(crate) fn new(
        key: ObjectKey,
        revision: Revision,
        kind: EventKind,
        json: &[u8],
        labels: Arc<[(Arc<str>, Arc<str>)]>,
        fields: Arc<[Arc<str>]>,
    ) -> Self {
        CacheEntry {
            key,
            revision,
            kind,
            frame: frame(kind, json),
            labels,
            fields,
        }
    }

    /// The last state of this object as a DELETED event carries it.
    pub(crate) fn to_deleted(&self, revision: Revision, json: &[u8]) -> Self {
        CacheEntry {
            revision,
            kind: EventKind::Deleted,
            frame: frame(EventKind::Deleted, json),
            ..self.clone()
        }
    }

    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The revision of its last change: its resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The object as it is sent to clients. Shares the entry's memory.
    pub fn json(&self) -> Bytes {
        self.frame.slice(self.json_range())
    }

    pub fn json_slice(&self) -> &[u8] {
        &self.frame[self.json_range()]
    }

    /// Sorted by key.
    pub fn labels(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.labels
    }

    pub fn label(&self, key: &str) -> Option<&Arc<str>> {
        let place = self
            .labels
            .binary_search_by(|(known, _)| (**known).cmp(key));
        self.labels.get(place.ok()?).map(|(_, value)| value)
    }

    /// The value of a selectable field by its index in [`crate::ObjectProjector::field_names`].
    pub fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |value| value)
    }

    /// The watch frame: `{"type":"ADDED","object":…}` and a line feed.
    ///
    /// Copies the object unless `kind` is the entry's own kind; [`crate::WatchEvent::frame`] shares the copy.
    pub fn frame(&self, kind: EventKind) -> Bytes {
        if kind == self.kind {
            self.frame.clone()
        } else {
            frame(kind, self.json_slice())
        }
    }

    /// `names` are those of the resource's selectable fields.
    pub(crate) fn matches(
        &self,
        labels: &labels::Selector,
        fields: &fields::Selector,
        names: &[Arc<str>],
    ) -> bool {
        let of = SelectableFields { entry: self, names };
        labels.matches(self.labels()) && (fields.is_everything() || fields.matches(&of))
    }

    pub(crate) fn kind(&self) -> EventKind {
        self.kind
    }

    /// Bytes of the frame, which includes the JSON.
    pub(crate) fn bytes(&self) -> usize {
        self.frame.len()
    }

    fn json_range(&self) -> std::ops::Range<usize> {
        self.kind.frame_start().len()..self.frame.len() - FRAME_END.len()
    }
}

/// Prints the length of an object, never its contents: objects may hold secrets.
impl std::fmt::Debug for CacheEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("json_bytes", &self.json_slice().len())
            .finish_non_exhaustive()
    }
}

fn frame(kind: EventKind, json: &[u8]) -> Bytes {
    let start = kind.frame_start();
    let mut frame = BytesMut::with_capacity(start.len() + json.len() + FRAME_END.len());
    frame.put_slice(start);
    frame.put_slice(json);
    frame.put_slice(FRAME_END);
    frame.freeze()
}

/// Looks up selectable fields of an entry by name, for field selectors.
struct SelectableFields<'a> {
    entry: &'a CacheEntry,
    names: &'a [Arc<str>],
}

impl Fields for SelectableFields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "metadata.name" => Some(self.entry.key.name()),
            "metadata.namespace" => self.entry.key.namespace(),
            _ => {
                let index = self.names.iter().position(|name| &**name == key)?;
                Some(self.entry.field(index))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_buffer_holds_the_object_and_its_frame() {
        let key = ObjectKey::namespaced("a", "b").expect("valid");
        let entry = CacheEntry::new(
            key,
            Revision::new(7),
            EventKind::Modified,
            b"{\"x\":1}",
            [].into(),
            [].into(),
        );
        let check = |kind, want: &str| assert_eq!(entry.frame(kind), want);
        check(
            EventKind::Added,
            "{\"type\":\"ADDED\",\"object\":{\"x\":1}}\n",
        );
        check(
            EventKind::Modified,
            "{\"type\":\"MODIFIED\",\"object\":{\"x\":1}}\n",
        );
        check(
            EventKind::Deleted,
            "{\"type\":\"DELETED\",\"object\":{\"x\":1}}\n",
        );
        assert_eq!(entry.json(), "{\"x\":1}");
        let own = entry.frame(EventKind::Modified).as_ptr() as usize;
        let json = entry.json().as_ptr() as usize;
        assert_eq!(json - own, EventKind::Modified.frame_start().len());
        assert!(!format!("{entry:?}").contains('x'));
    }
}

//! The bytes of an object.
//!
//! An object is encoded once, when it is written, its type and metadata first. So every encoding of a kind begins
//! with the same bytes, up to the opening brace of the metadata. Where those are found, a resourceVersion is put
//! in and an item of a list is cut out without reading the rest.

use bytes::{Bytes, BytesMut};
use rhumb_api::Object;
use rhumb_meta::Revision;
use rhumb_schema::{InForm, Table, TypeId, json};

use super::MetadataMut;

/// Knows how encodings of one kind in one version begin.
#[derive(Debug, Clone)]
pub struct Encoder {
    /// `{"apiVersion":"v1","kind":"Pod","metadata":{`
    head: Box<str>,
    /// How much of the head names the kind: all but its first byte, up to `"metadata"`.
    type_bytes: usize,
}

/// Room for most objects, so that few have to be moved while they are written.
const ENCODED_BYTES: usize = 2048;

const HEAD_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const RESOURCE_VERSION: &str = "\"resourceVersion\":\"";

impl Encoder {
    pub fn new(api_version: &str, kind: &str) -> Encoder {
        let types = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",");
        Encoder {
            type_bytes: types.len(),
            head: format!("{types}\"metadata\":{{").into(),
        }
    }

    /// The bytes that are stored: without a resourceVersion, which the store gives.
    pub fn stored(&self, object: &mut Object) -> Bytes {
        object.clear_meta("resourceVersion");
        let mut bytes = Vec::with_capacity(ENCODED_BYTES);
        bytes.extend_from_slice(self.head.as_bytes());
        // The head has the metadata's opening brace already.
        bytes.pop();
        json::write(&object["metadata"], &mut bytes);
        let others = object.iter();
        for (name, value) in others.filter(|(name, _)| !HEAD_FIELDS.contains(&name.as_str())) {
            bytes.push(b',');
            json::write_field(name, value, &mut bytes);
        }
        bytes.push(b'}');
        bytes.into()
    }

    /// The same of an object that is brought into upstream's form on the way.
    pub fn stored_in_form(&self, table: &Table, of: TypeId, object: &mut Object) -> Bytes {
        object.clear_meta("resourceVersion");
        let in_form = InForm::new(table, of, object);
        let mut bytes = Vec::with_capacity(ENCODED_BYTES);
        bytes.extend_from_slice(&self.head.as_bytes()[..self.type_bytes]);
        let metadata = object.get_mut("metadata");
        if !metadata.is_some_and(|it| in_form.write_field("metadata", it, &mut bytes)) {
            bytes.extend_from_slice(b"\"metadata\":{}");
        }
        let mut surplus = false;
        for (name, value) in object.iter_mut() {
            if HEAD_FIELDS.contains(&name.as_str()) {
                continue;
            }
            let begin = bytes.len();
            bytes.push(b',');
            if !in_form.write_field(name, value, &mut bytes) {
                surplus = true;
                bytes.truncate(begin);
            }
        }
        bytes.push(b'}');
        if surplus {
            in_form.leave_out(object);
            object.edit_metadata(|_| {});
        }
        bytes.into()
    }

    /// Stored bytes with their revision in place; `None` if they do not begin as they should.
    pub fn served(&self, stored: &[u8], revision: Revision) -> Option<Bytes> {
        let rest = stored.strip_prefix(self.head.as_bytes())?;
        if rest.starts_with(RESOURCE_VERSION.as_bytes()) {
            return None;
        }
        let number = revision.to_string();
        let mut bytes =
            BytesMut::with_capacity(stored.len() + RESOURCE_VERSION.len() + number.len() + 2);
        bytes.extend_from_slice(self.head.as_bytes());
        bytes.extend_from_slice(RESOURCE_VERSION.as_bytes());
        bytes.extend_from_slice(number.as_bytes());
        bytes.extend_from_slice(if rest.starts_with(b"}") {
            b"\""
        } else {
            b"\","
        });
        bytes.extend_from_slice(rest);
        Some(bytes.freeze())
    }

    /// What follows the opening brace of a served object without its apiVersion and kind: an item of a list.
    pub fn item<'a>(&self, served: &'a [u8]) -> &'a [u8] {
        if served.starts_with(&self.head.as_bytes()[..self.type_bytes]) {
            &served[self.type_bytes..]
        } else {
            served.get(1..).unwrap_or_default()
        }
    }
}

/// Served bytes with another revision: how a deleted object is told.
pub fn with_revision(encoder: &Encoder, served: &[u8], revision: Revision) -> Option<Bytes> {
    let rest = served
        .strip_prefix(encoder.head.as_bytes())?
        .strip_prefix(RESOURCE_VERSION.as_bytes())?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    let number = revision.to_string();
    let mut bytes = BytesMut::with_capacity(served.len() + number.len());
    bytes.extend_from_slice(encoder.head.as_bytes());
    bytes.extend_from_slice(RESOURCE_VERSION.as_bytes());
    bytes.extend_from_slice(number.as_bytes());
    bytes.extend_from_slice(&rest[end..]);
    Some(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn encoder() -> Encoder {
        Encoder::new("v1", "Pod")
    }

    fn stored(value: Value) -> Bytes {
        let Value::Object(mut object) = value else {
            panic!()
        };
        encoder().stored(&mut object)
    }

    #[test]
    fn an_object_is_brought_into_form_as_it_is_stored() {
        let table = Table::builtin();
        let of = table.named("io.k8s.api.core.v1.ConfigMap").expect("a type");
        for value in [
            json!({"data": {"a": "b"}, "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}}),
            json!({"binaryData": {}, "immutable": false, "metadata": {"resourceVersion": "3"}}),
            json!({"data": null, "other": [1]}),
        ] {
            let mut object = crate::testing::object(value);
            let mut apart = object.clone();
            let encoder = Encoder::new("v1", "ConfigMap");
            let stored = encoder.stored_in_form(table, of, &mut object);
            rhumb_schema::conform(table, of, &mut apart);
            assert_eq!(stored, encoder.stored(&mut apart));
            assert_eq!(object, apart);
        }
    }

    fn parse(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_revision_is_put_in_and_replaced() {
        for metadata in [
            json!({}),
            json!({"name": "a"}),
            json!({"name": "a", "resourceVersion": "3"}),
        ] {
            let stored = stored(
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}),
            );
            assert!(
                !stored
                    .windows(15)
                    .any(|window| window == b"resourceVersion")
            );
            let served = encoder().served(&stored, Revision::new(7)).unwrap();
            assert_eq!(parse(&served)["metadata"]["resourceVersion"], "7");
            let later = with_revision(&encoder(), &served, Revision::new(123)).unwrap();
            assert_eq!(parse(&later)["metadata"]["resourceVersion"], "123");
            assert_eq!(parse(&later)["spec"], json!({}));
        }
    }

    #[test]
    fn whatever_an_object_holds_it_begins_the_same() {
        let stored =
            stored(json!({"aggregationRule": 1, "kind": "Pod", "apiVersion": "v1", "lead": 2}));
        let served = encoder().served(&stored, Revision::new(7)).unwrap();
        let metadata = json!({"resourceVersion": "7"});
        let expect = json!({"aggregationRule": 1, "kind": "Pod", "apiVersion": "v1", "lead": 2, "metadata": metadata});
        assert_eq!(parse(&served), expect);
    }

    #[test]
    fn an_item_has_no_type() {
        let stored = stored(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}),
        );
        let served = encoder().served(&stored, Revision::new(7)).unwrap();
        let item = [b"{", encoder().item(&served)].concat();
        assert_eq!(
            parse(&item),
            json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}})
        );
    }

    #[test]
    fn foreign_bytes_are_not_touched() {
        assert_eq!(
            encoder().served(br#"{"kind":"Pod","apiVersion":"v1"}"#, Revision::new(7)),
            None
        );
        assert_eq!(encoder().served(b"", Revision::new(7)), None);
    }
}

//! The storage encoding of objects: JSON with `apiVersion`, `kind` and `metadata` first.
//!
//! An object is encoded once, when it is written. All encodings of a kind start with the same bytes (the prefix), up to
//! the opening brace of the metadata. So a resourceVersion can be inserted, and a list item cut out, without parsing.

use bytes::{Bytes, BytesMut};
use rhumb_api::JsonObject;
use rhumb_meta::Revision;
use rhumb_schema::{CanonicalWriter, SchemaRef, json};

use super::ObjectMetadataMut;

/// Encodes objects of one kind in one version, and edits the prefix of encoded ones.
#[derive(Debug, Clone)]
pub struct ObjectEncoder {
    /// `{"apiVersion":"v1","kind":"Pod","metadata":{`
    prefix: Box<str>,
    /// The length of the prefix up to `"metadata"`.
    type_bytes: usize,
}

/// Initial buffer size, enough for most objects to be encoded without reallocation.
const INITIAL_CAPACITY_BYTES: usize = 2048;

const HEAD_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const RESOURCE_VERSION: &str = "\"resourceVersion\":\"";

impl ObjectEncoder {
    pub fn new(api_version: &str, kind: &str) -> ObjectEncoder {
        let types = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",");
        ObjectEncoder {
            type_bytes: types.len(),
            prefix: format!("{types}\"metadata\":{{").into(),
        }
    }

    /// Encodes an object for the store, without its resourceVersion, which is the revision of the commit.
    pub fn encode_stored(&self, object: &mut JsonObject) -> Bytes {
        object.clear_meta("resourceVersion");
        let mut bytes = Vec::with_capacity(INITIAL_CAPACITY_BYTES);
        bytes.extend_from_slice(self.prefix.as_bytes());
        // The prefix already has the opening brace of the metadata.
        bytes.pop();
        json::write(&object["metadata"], &mut bytes);
        let other_fields = object.iter();
        for (name, value) in other_fields.filter(|(name, _)| !HEAD_FIELDS.contains(&name.as_str()))
        {
            bytes.push(b',');
            json::write_field(name, value, &mut bytes);
        }
        bytes.push(b'}');
        bytes.into()
    }

    /// Encodes an object for the store, and canonicalizes it (as a Go round trip would) at the same time.
    pub fn encode_canonical(&self, schema: &SchemaRef, object: &mut JsonObject) -> Bytes {
        object.clear_meta("resourceVersion");
        let canonical = CanonicalWriter::new(schema.table(), schema.id(), object);
        let mut bytes = Vec::with_capacity(INITIAL_CAPACITY_BYTES);
        bytes.extend_from_slice(&self.prefix.as_bytes()[..self.type_bytes]);
        let metadata = object.get_mut("metadata");
        if !metadata.is_some_and(|metadata| canonical.write_field("metadata", metadata, &mut bytes))
        {
            bytes.extend_from_slice(b"\"metadata\":{}");
        }
        let mut has_omitted = false;
        for (name, value) in object.iter_mut() {
            if HEAD_FIELDS.contains(&name.as_str()) {
                continue;
            }
            let begin = bytes.len();
            bytes.push(b',');
            if !canonical.write_field(name, value, &mut bytes) {
                has_omitted = true;
                bytes.truncate(begin);
            }
        }
        bytes.push(b'}');
        if has_omitted {
            canonical.remove_omitted(object);
            object.edit_metadata(|_| {});
        }
        bytes.into()
    }

    /// Inserts the revision as resourceVersion into stored bytes; `None` if they do not start with the prefix.
    pub fn insert_resource_version(&self, stored: &[u8], revision: Revision) -> Option<Bytes> {
        let rest = stored.strip_prefix(self.prefix.as_bytes())?;
        if rest.starts_with(RESOURCE_VERSION.as_bytes()) {
            return None;
        }
        let number = revision.to_string();
        let mut bytes =
            BytesMut::with_capacity(stored.len() + RESOURCE_VERSION.len() + number.len() + 2);
        bytes.extend_from_slice(self.prefix.as_bytes());
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

    /// Whether served bytes are these stored bytes with a resourceVersion.
    pub fn is_served_encoding(&self, served: &[u8], stored: &[u8]) -> bool {
        let prefix = self.prefix.as_bytes();
        let without_version = || {
            let rest = served.strip_prefix(prefix)?;
            let rest = rest.strip_prefix(RESOURCE_VERSION.as_bytes())?;
            let end = rest.iter().position(|&byte| byte == b'"')?;
            let rest = &rest[end + 1..];
            Some(rest.strip_prefix(b",").unwrap_or(rest))
        };
        let fields = stored.strip_prefix(prefix);
        fields.is_some() && fields == without_version()
    }

    /// A served object as a list item: without its opening brace, apiVersion and kind.
    pub fn list_item<'a>(&self, served: &'a [u8]) -> &'a [u8] {
        if served.starts_with(&self.prefix.as_bytes()[..self.type_bytes]) {
            &served[self.type_bytes..]
        } else {
            served.get(1..).unwrap_or_default()
        }
    }
}

/// Replaces the resourceVersion of served bytes, for the DELETED event of an object.
pub fn replace_resource_version(
    encoder: &ObjectEncoder,
    served: &[u8],
    revision: Revision,
) -> Option<Bytes> {
    let rest = served
        .strip_prefix(encoder.prefix.as_bytes())?
        .strip_prefix(RESOURCE_VERSION.as_bytes())?;
    let end = rest.iter().position(|&byte| byte == b'"')?;
    let number = revision.to_string();
    let mut bytes = BytesMut::with_capacity(served.len() + number.len());
    bytes.extend_from_slice(encoder.prefix.as_bytes());
    bytes.extend_from_slice(RESOURCE_VERSION.as_bytes());
    bytes.extend_from_slice(number.as_bytes());
    bytes.extend_from_slice(&rest[end..]);
    Some(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use rhumb_schema::Table;

    use super::*;

    fn encoder() -> ObjectEncoder {
        ObjectEncoder::new("v1", "Pod")
    }

    fn stored(value: Value) -> Bytes {
        let Value::Object(mut object) = value else {
            panic!()
        };
        encoder().encode_stored(&mut object)
    }

    #[test]
    fn encoding_canonically_equals_canonicalizing_then_encoding() {
        let table = Table::builtin();
        let schema = SchemaRef::find(table, "io.k8s.api.core.v1.ConfigMap");
        let schema = schema.expect("schema type exists");
        for value in [
            json!({"data": {"a": "b"}, "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}}),
            json!({"binaryData": {}, "immutable": false, "metadata": {"resourceVersion": "3"}}),
            json!({"data": null, "other": [1]}),
        ] {
            let mut object = crate::testing::object(value);
            let mut canonicalized = object.clone();
            let encoder = ObjectEncoder::new("v1", "ConfigMap");
            let stored = encoder.encode_canonical(&schema, &mut object);
            rhumb_schema::canonicalize(table, schema.id(), &mut canonicalized);
            assert_eq!(stored, encoder.encode_stored(&mut canonicalized));
            assert_eq!(object, canonicalized);
        }
    }

    fn parse(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_resource_version_is_inserted_and_replaced() {
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
            let served = encoder()
                .insert_resource_version(&stored, Revision::new(7))
                .unwrap();
            assert_eq!(parse(&served)["metadata"]["resourceVersion"], "7");
            assert!(encoder().is_served_encoding(&served, &stored));
            let other = served.strip_suffix(b"}").expect("ends with a brace");
            assert!(!encoder().is_served_encoding(other, &stored));
            assert!(!encoder().is_served_encoding(&stored, &stored));
            let replaced =
                replace_resource_version(&encoder(), &served, Revision::new(123)).unwrap();
            assert_eq!(parse(&replaced)["metadata"]["resourceVersion"], "123");
            assert_eq!(parse(&replaced)["spec"], json!({}));
        }
    }

    #[test]
    fn every_encoding_starts_with_the_same_prefix() {
        let stored =
            stored(json!({"aggregationRule": 1, "kind": "Pod", "apiVersion": "v1", "lead": 2}));
        let served = encoder()
            .insert_resource_version(&stored, Revision::new(7))
            .unwrap();
        let metadata = json!({"resourceVersion": "7"});
        let expect = json!({"aggregationRule": 1, "kind": "Pod", "apiVersion": "v1", "lead": 2, "metadata": metadata});
        assert_eq!(parse(&served), expect);
    }

    #[test]
    fn a_list_item_has_no_type_meta() {
        let stored = stored(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}),
        );
        let served = encoder()
            .insert_resource_version(&stored, Revision::new(7))
            .unwrap();
        let item = [b"{", encoder().list_item(&served)].concat();
        assert_eq!(
            parse(&item),
            json!({"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {}})
        );
    }

    #[test]
    fn bytes_without_the_expected_prefix_are_declined() {
        assert_eq!(
            encoder()
                .insert_resource_version(br#"{"kind":"Pod","apiVersion":"v1"}"#, Revision::new(7)),
            None
        );
        assert_eq!(
            encoder().insert_resource_version(b"", Revision::new(7)),
            None
        );
    }
}

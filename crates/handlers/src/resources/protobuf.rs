//! Encodes responses as protobuf, in the `k8s\0` envelope (`runtime.Unknown`), from decoded JSON.

use std::collections::VecDeque;

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_schema::protobuf::{self, UnknownEnvelope};
use rhumb_schema::{SchemaRef, Table};
use serde_json::Value;

use crate::http::BodyChunks;
use rhumb_registry::{Registry, RequestContext};

const PARTIAL_OBJECT_METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

/// Kinds that are returned by other resources than their own, with their schema types.
const RESPONSE_TYPES: [(&str, &str); 4] = [
    ("Status", protobuf::STATUS_TYPE),
    ("PartialObjectMetadata", PARTIAL_OBJECT_METADATA),
    ("Scale", "io.k8s.api.autoscaling.v1.Scale"),
    ("TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
];

/// The schema type of `PartialObjectMetadata`.
pub(super) fn partial_object_metadata_type(registry: &Registry) -> Result<SchemaRef, Status> {
    registry.schema_type(PARTIAL_OBJECT_METADATA)
}

/// Encodes a response object or list of any kind that this resource returns, with its envelope.
pub(super) fn encode_response(
    context: &RequestContext<'_>,
    value: &Value,
) -> Result<Bytes, Status> {
    let Value::Object(object) = value else {
        return Err(Status::internal_error("the response is not a JSON object"));
    };
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let own_kind = &*context.resource.kind.name;
    if kind.strip_suffix("List") == Some(own_kind) {
        let mut list = ProtobufListBuilder::default();
        for item in object
            .get("items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Value::Object(item) = item {
                list.push(&context.version.schema, item)?;
            }
        }
        return Ok(list.finish(&context.registry.table, object)?.into_bytes());
    }
    let object_type = match RESPONSE_TYPES.iter().find(|(name, _)| *name == kind) {
        Some((_, name)) => &context.registry.schema_type(name)?,
        None if kind == own_kind => &context.version.schema,
        None => {
            return Err(Status::internal_error(format_args!(
                "kind {kind} has no protobuf encoding"
            )));
        }
    };
    encode_with_envelope(object_type, object)
}

/// Encodes an object with its envelope.
pub(super) fn encode_with_envelope(
    schema: &SchemaRef,
    object: &JsonObject,
) -> Result<Bytes, Status> {
    protobuf::encode_with_envelope(schema.table(), schema.id(), object)
        .map(Bytes::from)
        .map_err(Status::internal_error)
}

/// Collects the encoded items of a list.
#[derive(Debug, Default)]
pub(super) struct ProtobufListBuilder {
    items: VecDeque<Bytes>,
    items_bytes: usize,
}

impl ProtobufListBuilder {
    pub(super) fn push(&mut self, schema: &SchemaRef, item: &JsonObject) -> Result<(), Status> {
        let item = protobuf::encode_list_item(schema.table(), schema.id(), item)
            .map_err(Status::internal_error)?;
        self.items_bytes += item.len();
        self.items.push_back(item.into());
        Ok(())
    }

    /// Adds the envelope and the list metadata; `outer` holds kind, apiVersion and metadata of the list.
    pub(super) fn finish(
        self,
        table: &Table,
        outer: &JsonObject,
    ) -> Result<ProtobufListBody, Status> {
        let text = |name: &str| outer.get(name).and_then(Value::as_str).unwrap_or_default();
        let none = JsonObject::new();
        let metadata = outer.get("metadata").and_then(Value::as_object);
        let metadata = protobuf::encode_list_metadata(table, metadata.unwrap_or(&none))
            .map_err(Status::internal_error)?;
        let (mut prefix, tail) = UnknownEnvelope::prefix_and_suffix(
            text("apiVersion"),
            text("kind"),
            metadata.len() + self.items_bytes,
        );
        prefix.extend_from_slice(&metadata);
        let bytes_total = prefix.len() + self.items_bytes + tail.len();
        let mut parts = self.items;
        parts.push_front(prefix.into());
        parts.push_back(tail.into());
        Ok(ProtobufListBody { parts, bytes_total })
    }
}

/// A complete encoded list, sent in chunks.
#[derive(Debug)]
pub(super) struct ProtobufListBody {
    parts: VecDeque<Bytes>,
    pub(super) bytes_total: usize,
}

impl ProtobufListBody {
    fn into_bytes(mut self) -> Bytes {
        self.next_parts(usize::MAX).unwrap_or_default()
    }

    /// Joins the next parts into one chunk of about `bytes` bytes.
    fn next_parts(&mut self, bytes: usize) -> Option<Bytes> {
        let mut chunk = self.parts.pop_front()?.to_vec();
        while chunk.len() < bytes {
            let Some(part) = self.parts.pop_front() else {
                break;
            };
            chunk.extend_from_slice(&part);
        }
        Some(chunk.into())
    }
}

impl BodyChunks for ProtobufListBody {
    fn next_chunk(&mut self) -> Option<Bytes> {
        const CHUNK_BYTES: usize = 64 * 1024;
        self.next_parts(CHUNK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn a_list_is_metadata_and_items_in_one_envelope() {
        let table = Table::builtin();
        let schema = SchemaRef::find(table, "io.k8s.api.core.v1.ConfigMap").unwrap();
        let mut list = ProtobufListBuilder::default();
        for name in ["a", "b"] {
            let item = object(json!({"metadata": {"name": name}, "data": {"x": "y"}}));
            list.push(&schema, &item).unwrap();
        }
        let outer = object(
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}),
        );
        let sealed = list.finish(table, &outer).unwrap();
        let bytes_total = sealed.bytes_total;
        let bytes = sealed.into_bytes();
        assert_eq!(bytes.len(), bytes_total);
        let envelope = UnknownEnvelope::decode(&bytes).unwrap();
        assert_eq!(
            (&*envelope.api_version, &*envelope.kind),
            ("v1", "ConfigMapList")
        );
        let prefix = b"\x0a\x07\x0a\0\x12\x017\x1a\0";
        let item = |name: &[u8]| {
            let metadata = [
                b"\x0a\x11\x0a\x01",
                name,
                b"\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0",
            ]
            .concat();
            [
                b"\x12\x1b".as_slice(),
                &metadata,
                b"\x12\x06\x0a\x01x\x12\x01y",
            ]
            .concat()
        };
        assert_eq!(
            envelope.raw,
            [prefix.as_slice(), &item(b"a"), &item(b"b")].concat()
        );
    }
}

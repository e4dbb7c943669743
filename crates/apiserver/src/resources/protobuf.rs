//! Answers in protobuf, made from JSON when they are wanted.

use std::collections::VecDeque;

use bytes::Bytes;
use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_schema::protobuf::{self, Envelope};
use rhumb_schema::{Table, TypeId};
use serde_json::Value;

use super::Call;
use crate::http::Chunks;

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";

/// Kinds that are answers of other resources than their own.
const ANSWERS: [(&str, &str); 3] = [
    ("Status", protobuf::STATUS),
    ("Scale", "io.k8s.api.autoscaling.v1.Scale"),
    ("TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
];

/// The type of objects that are sent as no more than their metadata.
pub(super) fn metadata_type(table: &Table) -> Result<TypeId, Status> {
    table.named(METADATA).ok_or_else(|| {
        Status::internal_error(format_args!("the schema table has no type {METADATA}"))
    })
}

/// An answer of whatever kind, with its envelope.
pub(super) fn answer(call: &Call<'_>, value: &Value) -> Result<Bytes, Status> {
    let Value::Object(object) = value else {
        return Err(Status::internal_error("an answer that is no object"));
    };
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let own = &*call.resource.kind.name;
    if kind.strip_suffix("List") == Some(own) {
        let mut list = List::default();
        for item in object
            .get("items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Value::Object(item) = item {
                list.push(call.api.table, call.version.schema, item)?;
            }
        }
        return Ok(list.seal(call.api.table, object)?.into_bytes());
    }
    let of = match ANSWERS.iter().find(|(name, _)| *name == kind) {
        Some((_, name)) => call.api.type_named(name)?,
        None if kind == own => call.version.schema,
        None => {
            return Err(Status::internal_error(format_args!(
                "{kind} has no protobuf form"
            )));
        }
    };
    seal(call.api.table, of, object)
}

/// An object with its envelope.
pub(super) fn seal(table: &Table, of: TypeId, object: &Object) -> Result<Bytes, Status> {
    protobuf::seal(table, of, object)
        .map(Bytes::from)
        .map_err(Status::internal_error)
}

/// The items of a list, each as it is sent.
#[derive(Debug, Default)]
pub(super) struct List {
    items: VecDeque<Bytes>,
    items_bytes: usize,
}

impl List {
    pub(super) fn push(&mut self, table: &Table, of: TypeId, item: &Object) -> Result<(), Status> {
        let item = protobuf::list_item(table, of, item).map_err(Status::internal_error)?;
        self.items_bytes += item.len();
        self.items.push_back(item.into());
        Ok(())
    }

    /// The whole list; `outer` has its kind and metadata.
    pub(super) fn seal(self, table: &Table, outer: &Object) -> Result<SealedList, Status> {
        let text = |name: &str| outer.get(name).and_then(Value::as_str).unwrap_or_default();
        let none = Object::new();
        let metadata = outer.get("metadata").and_then(Value::as_object);
        let metadata = protobuf::list_head(table, metadata.unwrap_or(&none))
            .map_err(Status::internal_error)?;
        let (mut head, tail) = Envelope::around(
            text("apiVersion"),
            text("kind"),
            metadata.len() + self.items_bytes,
        );
        head.extend_from_slice(&metadata);
        let bytes_total = head.len() + self.items_bytes + tail.len();
        let mut parts = self.items;
        parts.push_front(head.into());
        parts.push_back(tail.into());
        Ok(SealedList { parts, bytes_total })
    }
}

/// A list with its envelope, on its way out.
#[derive(Debug)]
pub(super) struct SealedList {
    parts: VecDeque<Bytes>,
    pub(super) bytes_total: usize,
}

impl SealedList {
    fn into_bytes(mut self) -> Bytes {
        self.gather(usize::MAX).unwrap_or_default()
    }

    /// The next parts together, up to about that many bytes.
    fn gather(&mut self, bytes: usize) -> Option<Bytes> {
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

impl Chunks for SealedList {
    fn next(&mut self) -> Option<Bytes> {
        const CHUNK_BYTES: usize = 64 * 1024;
        self.gather(CHUNK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn a_list_is_its_metadata_and_its_items_in_one_envelope() {
        let table = Table::builtin();
        let of = table.named("io.k8s.api.core.v1.ConfigMap").unwrap();
        let mut list = List::default();
        for name in ["a", "b"] {
            let item = object(json!({"metadata": {"name": name}, "data": {"x": "y"}}));
            list.push(table, of, &item).unwrap();
        }
        let outer = object(
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}),
        );
        let sealed = list.seal(table, &outer).unwrap();
        let bytes_total = sealed.bytes_total;
        let bytes = sealed.into_bytes();
        assert_eq!(bytes.len(), bytes_total);
        let envelope = Envelope::open(&bytes).unwrap();
        assert_eq!(
            (&*envelope.api_version, &*envelope.kind),
            ("v1", "ConfigMapList")
        );
        let head = b"\x0a\x07\x0a\0\x12\x017\x1a\0";
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
            [head.as_slice(), &item(b"a"), &item(b"b")].concat()
        );
    }
}

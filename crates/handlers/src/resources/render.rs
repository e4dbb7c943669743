//! Renders objects in the negotiated format: media type, representation (object, table, partial metadata) and version
//! (upstream: `handlers/response.go`).

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, USER_AGENT};
use rhumb_api::table::TablePrinter;
use rhumb_api::{JsonObject, VersionConversion};
use rhumb_meta::{Status, Timestamp};
use rhumb_schema::{SchemaRef, Table};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ResourceRequest, protobuf};
use crate::http::{AuditedBody, Reply, ResponseBody};
use crate::request::{
    ALL_REPRESENTATIONS, MEDIA_TYPE_NAMES, MediaType, NegotiatedAccept, ObjectRepresentation,
};
use rhumb_registry::Resource;
use rhumb_registry::write::{WriteOutcome, WriteResult, WrittenObject};

/// What the rows of a table contain beside their cells: the `includeObject` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IncludeObjectPolicy {
    None,
    Metadata,
    Object,
}

/// The negotiated format of a response: media type, representation, version, and how to print tables.
#[derive(Debug, Clone)]
pub(super) struct ResponseFormat {
    pub(super) accept: NegotiatedAccept,
    api_version: String,
    conversion: Option<VersionConversion>,
    printer: TablePrinter,
    include_object: IncludeObjectPolicy,
    pretty: bool,
    /// The schema type of the response.
    schema: SchemaRef,
    resource: Arc<Resource>,
    /// Whether the audit log records the response.
    pub(super) is_audited: bool,
}

/// Deserializes only the metadata of an object, as raw JSON.
#[derive(Deserialize)]
struct RawObjectMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

impl ResponseFormat {
    /// Negotiates the format by the Accept header and the query.
    pub(super) fn negotiate(
        request: &ResourceRequest<'_>,
        representations: &[ObjectRepresentation],
    ) -> Result<ResponseFormat, Status> {
        let negotiate = match request.verb {
            "watch" => NegotiatedAccept::negotiate_stream,
            _ => NegotiatedAccept::negotiate,
        };
        let accept = negotiate(request.header(ACCEPT), representations)?;
        let row_object = match request.query.text("includeObject") {
            "" | "Metadata" => IncludeObjectPolicy::Metadata,
            "None" => IncludeObjectPolicy::None,
            "Object" => IncludeObjectPolicy::Object,
            other if accept.representation == ObjectRepresentation::Table => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => IncludeObjectPolicy::None,
        };
        Ok(ResponseFormat {
            accept,
            api_version: request.version.api_version.clone(),
            conversion: request.version.served.conversion,
            printer: request.resource.kind.printer(),
            include_object: row_object,
            pretty: wants_pretty(request),
            schema: match accept.representation {
                ObjectRepresentation::PartialObjectMetadata => {
                    protobuf::partial_object_metadata_type(request.registry)?
                }
                _ => request.version.schema.clone(),
            },
            resource: request.resource.clone(),
            is_audited: request.audits_response_body(),
        })
    }

    /// A key that is equal for all requests that encode an object to the same bytes.
    pub(super) fn encoding_key(&self) -> String {
        let accept = &self.accept;
        let (media, representation) = (accept.media.name(), accept.representation);
        format!(
            "{media} {representation:?} {} {}",
            accept.meta_version, self.api_version
        )
    }

    /// Whether the cached JSON can be sent unchanged.
    pub(super) fn sends_cached_bytes(&self) -> bool {
        self.accept.representation == ObjectRepresentation::Object && self.conversion.is_none()
    }

    /// Renders a stored object as JSON in the negotiated representation.
    pub(super) fn render_json(&self, json: &Bytes, now: Timestamp) -> Result<Bytes, Status> {
        match self.accept.representation {
            ObjectRepresentation::Object if self.sends_cached_bytes() => Ok(json.clone()),
            ObjectRepresentation::Object => to_bytes(&Value::Object(self.converted(json)?)),
            ObjectRepresentation::PartialObjectMetadata => self.metadata_only(json),
            ObjectRepresentation::Table => to_bytes(&self.single_row_table(json, now, true)?),
        }
    }

    /// Decodes a stored object and converts it to the version of the request.
    pub(super) fn converted(&self, json: &[u8]) -> Result<JsonObject, Status> {
        let mut object: JsonObject =
            serde_json::from_slice(json).map_err(Status::internal_error)?;
        if let Some(conversion) = &self.conversion {
            (conversion.from_stored)(&mut object);
            object.insert("apiVersion".into(), self.api_version.clone().into());
            self.schema.canonicalize(&mut object);
        }
        Ok(object)
    }

    /// Decodes a stored object in the negotiated representation, for encoding as protobuf.
    pub(super) fn decoded(&self, json: &[u8]) -> Result<JsonObject, Status> {
        match self.accept.representation {
            ObjectRepresentation::PartialObjectMetadata => {
                serde_json::from_slice(&self.metadata_only(json)?).map_err(Status::internal_error)
            }
            _ => self.converted(json),
        }
    }

    /// Encodes an object as protobuf, with its envelope.
    pub(super) fn encode_protobuf(&self, object: &JsonObject) -> Result<Bytes, Status> {
        protobuf::encode_with_envelope(&self.schema, object)
    }

    /// The response with a list of stored objects as protobuf; `outer` holds kind, apiVersion and metadata of the list.
    pub(super) fn protobuf_list<'e>(
        &self,
        outer: &JsonObject,
        items: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Reply, Status> {
        let mut list = protobuf::ProtobufListBuilder::default();
        for json in items {
            list.push(&self.schema, &self.decoded(json)?)?;
        }
        let list = list.finish(Table::builtin(), outer)?;
        let total = list.bytes_total as u64;
        let body = ResponseBody::chunks(list, Some(total));
        Ok(Reply::new(StatusCode::OK, MediaType::Protobuf.name(), body))
    }

    /// The response with a stored object.
    pub(super) fn respond(
        &self,
        code: StatusCode,
        json: &Bytes,
        now: Timestamp,
    ) -> Result<Reply, Status> {
        if self.accept.is_metadata_list {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                self.resource.go_type()
            )));
        }
        if self.accept.media == MediaType::Protobuf {
            let body = ResponseBody::full(self.encode_protobuf(&self.decoded(json)?)?);
            let mut reply = Reply::new(code, MediaType::Protobuf.name(), body);
            if self.is_audited {
                reply.audited_body = AuditedBody::Json(self.render_json(json, now)?);
            }
            return Ok(reply);
        }
        self.reply(code, self.render_json(json, now)?)
    }

    /// The table row of a stored object.
    pub(super) fn row(&self, json: &Bytes, now: Timestamp) -> Result<Value, Status> {
        let object: JsonObject = serde_json::from_slice(json).map_err(Status::internal_error)?;
        let mut row = json!({"cells": self.printer.cells(&object, now)});
        if let Some(conditions) = self.printer.conditions(&object) {
            row["conditions"] = conditions;
        }
        match self.include_object {
            IncludeObjectPolicy::None => row["object"] = Value::Null,
            IncludeObjectPolicy::Metadata => {
                row["object"] = json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": self.accept.meta_version,
                    "metadata": object.get("metadata"),
                });
            }
            IncludeObjectPolicy::Object => row["object"] = Value::Object(self.converted(json)?),
        }
        Ok(row)
    }

    pub(super) fn table(&self, metadata: Value, rows: &[Value], with_columns: bool) -> Value {
        // Upstream's default table convertor, for kinds without own columns, renders empty rows as null.
        let is_generic = !self.resource.kind.has_own_printer();
        let has_rows = !(rows.is_empty() && is_generic);
        json!({
            "kind": "Table",
            "apiVersion": self.accept.meta_version,
            "metadata": metadata,
            "columnDefinitions": with_columns.then(|| self.printer.column_definitions()),
            "rows": has_rows.then_some(rows),
        })
    }

    /// A table with one object, which has the resourceVersion of the object.
    pub(super) fn single_row_table(
        &self,
        json: &Bytes,
        now: Timestamp,
        with_columns: bool,
    ) -> Result<Value, Status> {
        let metadata: Value =
            serde_json::from_slice(&self.metadata_only(json)?).map_err(Status::internal_error)?;
        let metadata = match metadata["metadata"].get("resourceVersion") {
            Some(version) => json!({"resourceVersion": version}),
            None => json!({}),
        };
        Ok(self.table(metadata, &[self.row(json, now)?], with_columns))
    }

    /// Fails if the client requested `PartialObjectMetadata` of a list instead of `PartialObjectMetadataList`.
    pub(super) fn check_list(&self) -> Result<(), Status> {
        if self.accept.representation == ObjectRepresentation::PartialObjectMetadata
            && !self.accept.is_metadata_list
        {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                self.resource.go_type()
            )));
        }
        Ok(())
    }

    fn metadata_only(&self, json: &[u8]) -> Result<Bytes, Status> {
        let object: RawObjectMetadata<'_> =
            serde_json::from_slice(json).map_err(Status::internal_error)?;
        Ok(format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{}\",\"metadata\":{}}}",
            self.accept.meta_version,
            object.metadata.get()
        )
        .into())
    }

    /// The response with this JSON, in the negotiated media type.
    pub(super) fn reply(&self, code: StatusCode, json: Bytes) -> Result<Reply, Status> {
        serialize(self.accept.media, self.pretty, self.is_audited, code, json)
    }

    /// Whether JSON can be streamed in chunks without re-encoding it as a whole.
    pub(super) fn is_streamable(&self) -> bool {
        self.accept.media == MediaType::Json && !self.pretty
    }
}

/// The response to a create, update or patch.
pub(super) fn write_response(
    request: &ResourceRequest<'_>,
    result: WriteResult,
) -> Result<Reply, Status> {
    let code = match result.outcome {
        WriteOutcome::Created => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    let (bytes, revision) = match result.object {
        WrittenObject::Decoded(object) => return object_response(request, code, object),
        WrittenObject::Encoded { bytes, revision } => (bytes, revision),
    };
    let encoder = &request.storage()?.encoder;
    let json = match revision {
        Some(revision) => encoder.insert_resource_version(&bytes, revision),
        None => Some(bytes),
    };
    let json = json.ok_or_else(|| {
        Status::internal_error("the stored bytes do not start with apiVersion, kind and metadata")
    })?;
    ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?.respond(code, &json, request.now)
}

/// The response with an object in the storage version.
pub(super) fn object_response(
    request: &ResourceRequest<'_>,
    code: StatusCode,
    object: JsonObject,
) -> Result<Reply, Status> {
    let format = ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?;
    let json = to_bytes(&Value::Object(object))?;
    format.respond(code, &json, request.now)
}

/// The response with an object that is not stored: a Status, a scale. Only kinds with columns are rendered as a table.
pub(super) fn value_response(
    request: &ResourceRequest<'_>,
    code: StatusCode,
    value: &Value,
) -> Result<Reply, Status> {
    let accept = NegotiatedAccept::negotiate(request.header(ACCEPT), ALL_REPRESENTATIONS)?;
    if accept.representation == ObjectRepresentation::Table
        && let Some(printer) = printer_for(value)
    {
        let format = ResponseFormat {
            printer,
            conversion: None,
            ..ResponseFormat::negotiate(request, ALL_REPRESENTATIONS)?
        };
        return format.respond(code, &to_bytes(value)?, request.now);
    }
    encode_value(request, accept, code, value)
}

/// Negotiates the format of a response that has no columns: a review, a token, the Status of a binding or an eviction.
/// As upstream does, a request that accepts only a table is rejected, and so before it has any effect.
pub(super) fn negotiate_without_table(
    request: &ResourceRequest<'_>,
) -> Result<NegotiatedAccept, Status> {
    const WITHOUT_TABLE: &[ObjectRepresentation] = &[
        ObjectRepresentation::Object,
        ObjectRepresentation::PartialObjectMetadata,
    ];
    NegotiatedAccept::negotiate(request.header(ACCEPT), WITHOUT_TABLE)
}

/// The response with a value in the negotiated media type, reduced to its metadata if that is requested.
pub(super) fn encode_value(
    request: &ResourceRequest<'_>,
    accept: NegotiatedAccept,
    code: StatusCode,
    value: &Value,
) -> Result<Reply, Status> {
    let kind = value["kind"].as_str().unwrap_or_default();
    let is_partial = accept.representation == ObjectRepresentation::PartialObjectMetadata
        && kind != "Status"
        && !kind.ends_with("List");
    let metadata = value.get("metadata").filter(|_| is_partial);
    let partial = metadata.map(|metadata| {
        json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": accept.meta_version,
            "metadata": metadata,
        })
    });
    let value = partial.as_ref().unwrap_or(value);
    if accept.media == MediaType::Protobuf {
        let body = ResponseBody::full(protobuf::encode_response(request, value)?);
        let mut reply = Reply::new(code, MediaType::Protobuf.name(), body);
        if request.audits_response_body() {
            reply.audited_body = AuditedBody::Json(to_bytes(value)?);
        }
        return Ok(reply);
    }
    let (pretty, is_audited) = (wants_pretty(request), request.audits_response_body());
    serialize(accept.media, pretty, is_audited, code, to_bytes(value)?)
}

/// Serializes JSON in the media type, and keeps it for the audit log.
fn serialize(
    media: MediaType,
    pretty: bool,
    is_audited: bool,
    code: StatusCode,
    json: Bytes,
) -> Result<Reply, Status> {
    let is_audited = if is_audited {
        AuditedBody::Json(json.clone())
    } else {
        AuditedBody::Nothing
    };
    let body = match media {
        MediaType::Json if !pretty => with_newline(json),
        MediaType::Json => {
            let value: Value = serde_json::from_slice(&json).map_err(Status::internal_error)?;
            let mut text = serde_json::to_vec_pretty(&value).map_err(Status::internal_error)?;
            text.push(b'\n');
            text.into()
        }
        MediaType::Yaml => {
            let value: Value = serde_json::from_slice(&json).map_err(Status::internal_error)?;
            rhumb_schema::write_yaml(&value)
                .map_err(Status::internal_error)?
                .into()
        }
        // Protobuf needs the schema type, so callers encode it themselves.
        MediaType::Protobuf => return Err(Status::not_acceptable(&MEDIA_TYPE_NAMES)),
    };
    let mut reply = Reply::new(code, media.name(), ResponseBody::full(body));
    reply.audited_body = is_audited;
    Ok(reply)
}

/// Compact JSON with a newline at the end, as upstream writes it.
fn with_newline(json: Bytes) -> Bytes {
    match json.ends_with(b"\n") {
        true => json,
        false => [&*json, b"\n"].concat().into(),
    }
}

fn printer_for(value: &Value) -> Option<TablePrinter> {
    let (group, _) = value["apiVersion"].as_str()?.split_once('/')?;
    rhumb_api::printers::for_kind(group, value["kind"].as_str()?)
}

fn to_bytes(value: &Value) -> Result<Bytes, Status> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(Status::internal_error)
}

fn not_acceptable(message: String) -> Status {
    let mut status = Status::not_acceptable(&MEDIA_TYPE_NAMES);
    status.message = message;
    status
}

/// Whether JSON is indented: as the `pretty` parameter says, else for browsers, curl and wget, as upstream does.
fn wants_pretty(request: &ResourceRequest<'_>) -> bool {
    match request.query.get("pretty") {
        Some("") | None => request.header(USER_AGENT).is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|name| agent.starts_with(name))
        }),
        Some(_) => request.query.flag("pretty"),
    }
}

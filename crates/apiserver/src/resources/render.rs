//! Objects in the form in which a client wants them.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, USER_AGENT};
use rhumb_api::table::Printer;
use rhumb_api::{Conversion, Object};
use rhumb_meta::{ObjectKey, Status, Timestamp};
use rhumb_schema::{Table, TypeId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::create::Created;
use super::write::Written;
use super::{Call, Resource, protobuf};
use crate::http::{Body, Logged, Reply};
use crate::objects::Metadata;
use crate::request::{ALL_FORMS, Accept, Form, MEDIA_NAMES, Media};

/// What the rows of a table carry beside their cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowObject {
    None,
    Metadata,
    Object,
}

/// The form of an answer: what of an object is sent, and how it is written.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) accept: Accept,
    api_version: String,
    conversion: Option<Conversion>,
    printer: Printer,
    row_object: RowObject,
    pretty: bool,
    table: &'static Table,
    /// The type of what is sent.
    schema: TypeId,
    resource: Arc<Resource>,
    /// Whether the audit log has the answer.
    pub(super) is_logged: bool,
}

/// The one part of an object that its metadata-only form needs.
#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

impl Shape {
    pub(super) fn of(call: &Call<'_>, forms: &[Form]) -> Result<Shape, Status> {
        let negotiate = match call.verb {
            "watch" => Accept::negotiate_stream,
            _ => Accept::negotiate,
        };
        let accept = negotiate(call.header(ACCEPT), forms)?;
        let row_object = match call.query.text("includeObject") {
            "" | "Metadata" => RowObject::Metadata,
            "None" => RowObject::None,
            "Object" => RowObject::Object,
            other if accept.form == Form::Table => {
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => RowObject::None,
        };
        Ok(Shape {
            accept,
            api_version: call.version.api_version.clone(),
            conversion: call.version.served.conversion,
            printer: call.resource.kind.printer(),
            row_object,
            pretty: wants_pretty(call),
            table: call.api.table,
            schema: match accept.form {
                Form::Metadata => protobuf::metadata_type(call.api.table)?,
                _ => call.version.schema,
            },
            resource: call.resource.clone(),
            is_logged: call.is_answer_logged(),
        })
    }

    /// The same for all requests that get an object in the same bytes.
    pub(super) fn form_name(&self) -> String {
        let accept = &self.accept;
        let (media, form) = (accept.media.name(), accept.form);
        format!(
            "{media} {form:?} {} {}",
            accept.meta_version, self.api_version
        )
    }

    /// Whether cached bytes can be sent as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.accept.form == Form::Object && self.conversion.is_none()
    }

    /// A stored object as one JSON value of the wanted form.
    pub(super) fn object(&self, json: &Bytes, now: Timestamp) -> Result<Bytes, Status> {
        match self.accept.form {
            Form::Object if self.is_plain() => Ok(json.clone()),
            Form::Object => to_bytes(&Value::Object(self.converted(json)?)),
            Form::Metadata => self.metadata_only(json),
            Form::Table => to_bytes(&self.table_of_one(json, now, true)?),
        }
    }

    /// A stored object in the version of the request.
    pub(super) fn converted(&self, json: &[u8]) -> Result<Object, Status> {
        let mut object: Object = serde_json::from_slice(json).map_err(Status::internal_error)?;
        if let Some(conversion) = &self.conversion {
            (conversion.from_stored)(&mut object);
            object.insert("apiVersion".into(), self.api_version.clone().into());
            rhumb_schema::conform(self.table, self.schema, &mut object);
        }
        Ok(object)
    }

    /// A stored object in the wanted form, to be written as protobuf.
    pub(super) fn tree(&self, json: &[u8]) -> Result<Object, Status> {
        match self.accept.form {
            Form::Metadata => {
                serde_json::from_slice(&self.metadata_only(json)?).map_err(Status::internal_error)
            }
            _ => self.converted(json),
        }
    }

    /// An object of the wanted form as protobuf, with its envelope.
    pub(super) fn seal(&self, object: &Object) -> Result<Bytes, Status> {
        protobuf::seal(self.table, self.schema, object)
    }

    /// A list of stored objects as protobuf; `outer` has its kind and metadata.
    pub(super) fn seal_list<'e>(
        &self,
        outer: &Object,
        items: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Reply, Status> {
        let mut list = protobuf::List::default();
        for json in items {
            list.push(self.table, self.schema, &self.tree(json)?)?;
        }
        let list = list.seal(self.table, outer)?;
        let total = list.bytes_total as u64;
        let body = Body::chunks(list, Some(total));
        Ok(Reply::new(StatusCode::OK, Media::Protobuf.name(), body))
    }

    /// The answer that is this stored object.
    pub(super) fn whole(
        &self,
        code: StatusCode,
        json: &Bytes,
        now: Timestamp,
    ) -> Result<Reply, Status> {
        if self.accept.of_list {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                self.resource.go_type()
            )));
        }
        if self.accept.media == Media::Protobuf {
            let body = Body::full(self.seal(&self.tree(json)?)?);
            let mut reply = Reply::new(code, Media::Protobuf.name(), body);
            if self.is_logged {
                reply.logged = Logged::Json(self.object(json, now)?);
            }
            return Ok(reply);
        }
        self.reply(code, self.object(json, now)?)
    }

    /// A row of a table.
    pub(super) fn row(&self, json: &Bytes, now: Timestamp) -> Result<Value, Status> {
        let object: Object = serde_json::from_slice(json).map_err(Status::internal_error)?;
        let mut row = json!({"cells": self.printer.cells(&object, now)});
        if let Some(conditions) = self.printer.conditions(&object) {
            row["conditions"] = conditions;
        }
        match self.row_object {
            RowObject::None => row["object"] = Value::Null,
            RowObject::Metadata => {
                row["object"] = json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": self.accept.meta_version,
                    "metadata": object.get("metadata"),
                });
            }
            RowObject::Object => row["object"] = Value::Object(self.converted(json)?),
        }
        Ok(row)
    }

    pub(super) fn table(&self, metadata: Value, rows: &[Value], with_columns: bool) -> Value {
        // Upstream's way to print kinds without columns of their own has null for no rows.
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

    /// A table with one object, whose version is also the table's.
    pub(super) fn table_of_one(
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

    /// Whether the metadata of a list can be sent as what the client calls it.
    pub(super) fn check_list(&self) -> Result<(), Status> {
        if self.accept.form == Form::Metadata && !self.accept.of_list {
            return Err(not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                self.resource.go_type()
            )));
        }
        Ok(())
    }

    fn metadata_only(&self, json: &[u8]) -> Result<Bytes, Status> {
        let object: OnlyMetadata<'_> =
            serde_json::from_slice(json).map_err(Status::internal_error)?;
        Ok(format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{}\",\"metadata\":{}}}",
            self.accept.meta_version,
            object.metadata.get()
        )
        .into())
    }

    /// The bytes of an answer, written as the client wants.
    pub(super) fn reply(&self, code: StatusCode, json: Bytes) -> Result<Reply, Status> {
        spelled(self.accept.media, self.pretty, self.is_logged, code, json)
    }

    /// Whether bytes can be streamed without being looked at as a whole.
    pub(super) fn is_streamable(&self) -> bool {
        self.accept.media == Media::Json && !self.pretty
    }
}

/// The answer to a creation.
pub(super) fn created(call: &Call<'_>, created: Created) -> Result<Reply, Status> {
    let code = StatusCode::CREATED;
    match created {
        Created::Draft(object) => self::object(call, code, object),
        Created::Stored(bytes, revision) => {
            let served = call.storage()?.encoder.served(&bytes, revision);
            let json =
                served.ok_or_else(|| Status::internal_error("what was stored has no metadata"))?;
            Shape::of(call, ALL_FORMS)?.whole(code, &json, call.now)
        }
    }
}

/// The answer to a change.
pub(super) fn written(call: &Call<'_>, written: Written, dry_run: bool) -> Result<Reply, Status> {
    // A change that took away what held an object is answered with the version from before it.
    if dry_run || written.deleted {
        return object(call, StatusCode::OK, written.object);
    }
    stored(call, StatusCode::OK, written.object)
}

/// An object that is stored as it is, with its version. The cache has its bytes by now, unless somebody else was quick
/// to write it again.
fn stored(call: &Call<'_>, code: StatusCode, object: Object) -> Result<Reply, Status> {
    let key = ObjectKey::new(call.namespace(), object.name());
    let entry = key.ok().and_then(|key| {
        let entry = call.storage().ok()?.cache.get(&key).ok()??;
        let version = object.resource_version().parse();
        version
            .is_ok_and(|version| entry.revision() == version)
            .then_some(entry)
    });
    match entry {
        Some(entry) => Shape::of(call, ALL_FORMS)?.whole(code, &entry.json(), call.now),
        None => self::object(call, code, object),
    }
}

/// An object in stored form.
pub(super) fn object(call: &Call<'_>, code: StatusCode, object: Object) -> Result<Reply, Status> {
    let shape = Shape::of(call, ALL_FORMS)?;
    let json = to_bytes(&Value::Object(object))?;
    shape.whole(code, &json, call.now)
}

/// An object that is not stored: a Status, a review, a scale, a token. Only what has columns becomes a table.
pub(super) fn value(call: &Call<'_>, code: StatusCode, value: &Value) -> Result<Reply, Status> {
    let accept = Accept::negotiate(call.header(ACCEPT), ALL_FORMS)?;
    if accept.form == Form::Table
        && let Some(printer) = printer_of(value)
    {
        let shape = Shape {
            printer,
            conversion: None,
            ..Shape::of(call, ALL_FORMS)?
        };
        return shape.whole(code, &to_bytes(value)?, call.now);
    }
    if accept.media == Media::Protobuf {
        let body = Body::full(protobuf::answer(call, value)?);
        let mut reply = Reply::new(code, Media::Protobuf.name(), body);
        if call.is_answer_logged() {
            reply.logged = Logged::Json(to_bytes(value)?);
        }
        return Ok(reply);
    }
    let (pretty, logged) = (wants_pretty(call), call.is_answer_logged());
    spelled(accept.media, pretty, logged, code, to_bytes(value)?)
}

fn spelled(
    media: Media,
    pretty: bool,
    logged: bool,
    code: StatusCode,
    json: Bytes,
) -> Result<Reply, Status> {
    let logged = if logged {
        Logged::Json(json.clone())
    } else {
        Logged::Nothing
    };
    let body = match media {
        Media::Json if !pretty => json,
        Media::Json => {
            let value: Value = serde_json::from_slice(&json).map_err(Status::internal_error)?;
            let mut text = serde_json::to_vec_pretty(&value).map_err(Status::internal_error)?;
            text.push(b'\n');
            text.into()
        }
        Media::Yaml => {
            let value: Value = serde_json::from_slice(&json).map_err(Status::internal_error)?;
            rhumb_schema::write_yaml(&value)
                .map_err(Status::internal_error)?
                .into()
        }
        // It needs to know the type, which JSON alone does not tell.
        Media::Protobuf => return Err(Status::not_acceptable(&MEDIA_NAMES)),
    };
    let mut reply = Reply::new(code, media.name(), Body::full(body));
    reply.logged = logged;
    Ok(reply)
}

fn printer_of(value: &Value) -> Option<Printer> {
    let (group, _) = value["apiVersion"].as_str()?.split_once('/')?;
    rhumb_api::printers::of(group, value["kind"].as_str()?)
}

fn to_bytes(value: &Value) -> Result<Bytes, Status> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(Status::internal_error)
}

fn not_acceptable(message: String) -> Status {
    let mut status = Status::not_acceptable(&MEDIA_NAMES);
    status.message = message;
    status
}

/// People with a browser or curl get line breaks; programs do not.
fn wants_pretty(call: &Call<'_>) -> bool {
    match call.query.get("pretty") {
        Some("") | None => call.header(USER_AGENT).is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|name| agent.starts_with(name))
        }),
        Some(_) => call.query.flag("pretty"),
    }
}

//! Decodes request bodies (JSON, YAML, protobuf) into objects of the expected type, with field validation and
//! upstream's error messages (upstream: the codecs and `transformDecodeError`).
//!
//! Entry point: `ResourceRequest::decode`.

use bytes::Bytes;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_schema::protobuf::{self, UnknownEnvelope};
use rhumb_schema::{DecodeOptions, DecodeOutput, SchemaRef};
use serde::Deserialize;
use serde_json::Value;

use super::ResourceRequest;
use super::decode_failure::DecodeFailure;
use super::kept_spec::SentUnknownFields;
use crate::request::{FieldValidation, MEDIA_TYPE_NAMES, MediaType};
use rhumb_registry::objects::SPEC;
use rhumb_registry::write::UpdateScope;
use rhumb_registry::{RequestContext, ServedVersion};

/// Why unknown fields are errors in types that reject them.
const UNKNOWN_FIELDS_REJECTION: &str = "fields that are not known here are never ignored: without them the object would mean something else";

/// `apiVersion` and `kind` of a body.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeMeta {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
}

/// The type that a body must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExpectedType<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) schema: &'a SchemaRef,
}

impl ResourceRequest<'_> {
    /// Decodes the object in the body.
    pub(super) fn decode(
        &self,
        expected: ExpectedType<'_>,
        validation: FieldValidation,
    ) -> Result<JsonObject, Status> {
        let decoded = self.decode_body(expected, validation)?;
        self.report_unknown_fields(&decoded.problems, &decoded.rejected, validation)
            .map_err(|text| {
                DecodeFailure::cannot_handle(expected.kind, expected.api_version, text)
                    .status(expected.kind, &self.body)
            })?;
        self.audit_request_object(&decoded.object, expected);
        Ok(decoded.object)
    }

    /// Decodes the object in the body of an update. Unknown fields of kinds that reject these may be those of the object
    /// that it replaces, so they are returned.
    pub(super) fn decode_update(
        &self,
        validation: FieldValidation,
    ) -> Result<(JsonObject, Option<SentUnknownFields>), Status> {
        let expected = self.expected_type();
        if !matches!(validation, FieldValidation::ForcedStrict(_)) {
            return Ok((self.decode(expected, validation)?, None));
        }
        let decoded = self.decode_body(expected, validation)?;
        self.audit_request_object(&decoded.object, expected);
        let body = SentUnknownFields {
            problems: decoded.problems,
            spec: self.sent_spec(),
            validation,
        };
        Ok((decoded.object, Some(body)))
    }

    /// The spec in the body, with unknown fields.
    fn sent_spec(&self) -> Option<Value> {
        let media = body_media_type(self.header(http::header::CONTENT_TYPE)).ok()?;
        let mut body: Value = match media {
            MediaType::Json => serde_json::from_slice(&self.body).ok()?,
            MediaType::Yaml => rhumb_schema::read_yaml(&self.body).ok()?,
            MediaType::Protobuf => return None,
        };
        body.get_mut(SPEC).map(Value::take)
    }

    /// Decodes the object in the body, without reporting unknown fields.
    fn decode_body(
        &self,
        expected: ExpectedType<'_>,
        validation: FieldValidation,
    ) -> Result<DecodeOutput, Status> {
        let media = body_media_type(self.header(http::header::CONTENT_TYPE))?;
        let options = decode_options(validation);
        let decoded = match media {
            MediaType::Json => self.decode_json(&self.body, expected, options),
            MediaType::Yaml => self.decode_yaml(expected, options),
            MediaType::Protobuf => self.decode_protobuf(expected, validation),
        };
        let mut decoded = decoded.map_err(|failure| failure.status(expected.kind, &self.body))?;
        self.warn_all(std::mem::take(&mut decoded.alias_warnings));
        decoded.object = with_type_meta(decoded.object, expected);
        Ok(decoded)
    }

    /// Records the request object for the audit log, if the policy asks for it: with defaults, as upstream does.
    fn audit_request_object(&self, object: &JsonObject, expected: ExpectedType<'_>) {
        if let Some(recorder) = self.audit_recorder {
            recorder.record(|| {
                let mut object = object.clone();
                self.defaults_of(expected.schema)
                    .apply(expected.schema, &mut object);
                if *expected.schema == self.version.schema
                    && self.version.served.conversion.is_none()
                {
                    self.resource.kind.strategy.apply_defaults(&mut object);
                }
                Value::Object(object).to_string().into()
            });
        }
    }

    /// Records a patch for the audit log as it was sent. It is copied, as it may be part of a larger buffer.
    pub(super) fn audit_patch(&self) {
        if let Some(recorder) = self.audit_recorder {
            recorder.record(|| Bytes::copy_from_slice(&self.body));
        }
    }

    fn decode_yaml(
        &self,
        expected: ExpectedType<'_>,
        options: DecodeOptions,
    ) -> Result<DecodeOutput, DecodeFailure> {
        let decode = |schema: &SchemaRef| {
            rhumb_schema::decode_yaml(schema.table(), schema.id(), &self.body, options)
                .map_err(|error| error.to_string())
        };
        let value = rhumb_schema::read_yaml(&self.body)
            .map_err(|error| DecodeFailure::Unrecognized(error.to_string()))?;
        let is_object = value.is_object();
        let type_meta = match serde_json::from_value::<TypeMeta>(value) {
            Ok(type_meta) if is_object => type_meta,
            _ => return decode(expected.schema).map_err(DecodeFailure::Unrecognized),
        };
        check_type(self, &type_meta, expected, decode)?;
        decode(expected.schema).map_err(|text| type_meta.decode_failure(expected, text))
    }

    /// Like upstream, this reports no unknown fields of protobuf bodies, except where the kind rejects them.
    fn decode_protobuf(
        &self,
        expected: ExpectedType<'_>,
        validation: FieldValidation,
    ) -> Result<DecodeOutput, DecodeFailure> {
        let (type_meta, raw) = open_envelope(&self.body).map_err(DecodeFailure::Unrecognized)?;
        let decode = |schema: &SchemaRef| {
            let mut decoded = protobuf::decode_strict(schema.table(), schema.id(), raw)
                .map_err(|error| error.to_string())?;
            if !matches!(validation, FieldValidation::ForcedStrict(_)) {
                decoded.problems.clear();
            }
            Ok(decoded)
        };
        check_type(self, &type_meta, expected, decode)?;
        decode(expected.schema).map_err(|text| type_meta.decode_failure(expected, text))
    }
}

/// Decodes bodies with the types and the field validation of the requested resource.
pub(super) trait DecodeBody {
    /// The kind of this resource, in the version of the request.
    fn expected_type(&self) -> ExpectedType<'_>;

    /// Decodes JSON as the expected type.
    fn decode_json(
        &self,
        body: &[u8],
        expected: ExpectedType<'_>,
        options: DecodeOptions,
    ) -> Result<DecodeOutput, DecodeFailure>;

    /// The field validation for objects of this kind: as requested, unless the kind always rejects unknown fields.
    /// That does not apply to status updates.
    fn effective_field_validation(
        &self,
        requested: FieldValidation,
        part: UpdateScope,
    ) -> FieldValidation;

    /// Warns of unknown and duplicate fields, or fails because of them.
    /// `rejected` are the unknown fields that are errors whatever the field validation.
    fn report_unknown_fields(
        &self,
        problems: &[String],
        rejected: &[String],
        validation: FieldValidation,
    ) -> Result<(), String>;
}

impl DecodeBody for RequestContext<'_> {
    fn expected_type(&self) -> ExpectedType<'_> {
        let ServedVersion {
            api_version,
            schema,
            ..
        } = self.version;
        ExpectedType {
            api_version,
            kind: &self.resource.kind.name,
            schema,
        }
    }

    fn decode_json(
        &self,
        body: &[u8],
        expected: ExpectedType<'_>,
        options: DecodeOptions,
    ) -> Result<DecodeOutput, DecodeFailure> {
        let decode_as = |schema: &SchemaRef| {
            rhumb_schema::decode_json(schema.table(), schema.id(), body, options)
        };
        // Fast path: nearly all bodies are of the expected type, so they are parsed once.
        match decode_as(expected.schema) {
            Ok(decoded) if names_expected_type(&decoded.object, expected) => return Ok(decoded),
            _ => {}
        }
        let decode = |schema: &SchemaRef| decode_as(schema).map_err(|error| error.to_string());
        // For bodies that are not objects, the schema decoder reports the error with Go's message.
        let type_meta = match serde_json::from_slice::<TypeMeta>(body) {
            Ok(type_meta) if body.trim_ascii_start().starts_with(b"{") => type_meta,
            _ => return decode(expected.schema).map_err(DecodeFailure::Unrecognized),
        };
        check_type(self, &type_meta, expected, decode)?;
        decode(expected.schema).map_err(|text| type_meta.decode_failure(expected, text))
    }

    fn effective_field_validation(
        &self,
        requested: FieldValidation,
        part: UpdateScope,
    ) -> FieldValidation {
        let forced = self
            .resource
            .kind
            .unknown_fields_rejection(&self.registry.gates)
            .filter(|_| part.is_main());
        forced.map_or(requested, FieldValidation::ForcedStrict)
    }

    fn report_unknown_fields(
        &self,
        problems: &[String],
        rejected: &[String],
        validation: FieldValidation,
    ) -> Result<(), String> {
        if !rejected.is_empty() {
            return Err(format!(
                "strict decoding error: {} ({UNKNOWN_FIELDS_REJECTION})",
                rejected.join(", ")
            ));
        }
        let message = || format!("strict decoding error: {}", problems.join(", "));
        match validation {
            _ if problems.is_empty() => Ok(()),
            FieldValidation::Strict => Err(message()),
            FieldValidation::ForcedStrict(reason) => Err(format!("{} ({reason})", message())),
            FieldValidation::Warn => {
                problems
                    .iter()
                    .for_each(|problem| self.warn(problem.clone()));
                Ok(())
            }
            FieldValidation::Ignore => Ok(()),
        }
    }
}

/// Checks the `apiVersion` and `kind` of a body. Absent ones are taken as the expected ones.
fn check_type(
    context: &RequestContext<'_>,
    type_meta: &TypeMeta,
    expected: ExpectedType<'_>,
    decode: impl Fn(&SchemaRef) -> Result<DecodeOutput, String>,
) -> Result<(), DecodeFailure> {
    let (kind, api_version) = (type_meta.kind(expected), type_meta.api_version(expected));
    if (kind, api_version) == (expected.kind, expected.api_version) {
        return Ok(());
    }
    if api_version.matches('/').count() > 1 {
        let text = format!("unexpected GroupVersion string: {api_version}");
        return Err(DecodeFailure::Unrecognized(text));
    }
    let schema = registered_type(context, kind, api_version).ok_or_else(|| {
            type_meta.decode_failure(
                expected,
                format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""),
            )
        })?;
    let (group, version) = split_api_version(api_version);
    let (expected_group, _) = split_api_version(expected.api_version);
    if kind == expected.kind && group == expected_group {
        return Err(DecodeFailure::WrongVersion(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            expected.api_version
        )));
    }
    // Decode as the named type first, as upstream does: its decoding errors come before the conversion error.
    if let Some(schema) = schema {
        decode(schema).map_err(|text| type_meta.decode_failure(expected, text))?;
    }
    let package = match expected_group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    Err(type_meta.decode_failure(
        expected,
        format!(
            "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
            expected.kind
        ),
    ))
}

/// The schema of a kind in upstream's scheme; `Some(None)` for lists and option kinds, which have none here.
fn registered_type<'a>(
    context: &'a RequestContext<'_>,
    kind: &str,
    api_version: &str,
) -> Option<Option<&'a SchemaRef>> {
    let mut registered = None;
    for resource in context.resources.iter() {
        let Some(version) = resource
            .versions
            .iter()
            .find(|version| version.api_version == api_version)
        else {
            continue;
        };
        if resource.kind.name == kind {
            return Some(Some(&version.schema));
        }
        if KINDS_OF_EVERY_VERSION.contains(&kind)
            || kind.strip_suffix("List") == Some(&resource.kind.name)
        {
            registered = Some(None);
        }
    }
    registered
}

/// Whether a decoded object names the expected type, or none.
fn names_expected_type(object: &JsonObject, expected: ExpectedType<'_>) -> bool {
    let matches = |field: &str, expected_value: &str| match object.get(field) {
        None => true,
        Some(Value::String(value)) => value.is_empty() || value == expected_value,
        Some(_) => false,
    };
    matches("kind", expected.kind) && matches("apiVersion", expected.api_version)
}

/// Kinds that upstream registers in every group version.
const KINDS_OF_EVERY_VERSION: [&str; 8] = [
    "Status",
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
];

/// Splits `apps/v1` into group and version.
pub(super) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Sets `apiVersion` and `kind` of the expected type.
pub(super) fn with_type_meta(mut object: JsonObject, expected: ExpectedType<'_>) -> JsonObject {
    let types = [
        ("apiVersion", expected.api_version),
        ("kind", expected.kind),
    ];
    for (field, name) in types {
        if object.get(field).and_then(Value::as_str) != Some(name) {
            object.insert(field.into(), name.into());
        }
    }
    object
}

impl TypeMeta {
    fn kind<'a>(&'a self, expected: ExpectedType<'a>) -> &'a str {
        match self.kind.as_deref() {
            None | Some("") => expected.kind,
            Some(kind) => kind,
        }
    }

    fn api_version<'a>(&'a self, expected: ExpectedType<'a>) -> &'a str {
        match self.api_version.as_deref() {
            None | Some("") => expected.api_version,
            Some(api_version) => api_version,
        }
    }

    fn decode_failure(&self, expected: ExpectedType<'_>, text: String) -> DecodeFailure {
        DecodeFailure::cannot_handle(self.kind(expected), self.api_version(expected), text)
    }
}

pub(super) fn decode_options(validation: FieldValidation) -> DecodeOptions {
    DecodeOptions {
        strict: validation != FieldValidation::Ignore,
        top_level: true,
    }
}

/// The media type of a body by its Content-Type header; JSON if absent.
pub(super) fn body_media_type(content_type: Option<&str>) -> Result<MediaType, Status> {
    let (media, parameters) = content_type.unwrap_or_default().split_once(';').map_or(
        (content_type.unwrap_or_default(), None),
        |(media, raw_parameters)| (media, Some(raw_parameters)),
    );
    let media = media.trim();
    if media.is_empty() {
        return Ok(MediaType::Json);
    }
    if !parameters.is_none_or(are_parameters) {
        return Err(Status::unsupported_media_type(&MEDIA_TYPE_NAMES));
    }
    [MediaType::Json, MediaType::Yaml, MediaType::Protobuf]
        .into_iter()
        .find(|candidate| candidate.name() == media)
        .ok_or_else(|| Status::unsupported_media_type(&MEDIA_TYPE_NAMES))
}

/// Whether the text is a list of media type parameters; the last may be empty.
fn are_parameters(text: &str) -> bool {
    let mut parts: Vec<&str> = text.split(';').map(str::trim).collect();
    parts.pop_if(|last_part| last_part.is_empty());
    parts.iter().all(|part| {
        part.split_once('=')
            .is_some_and(|(name, _)| !name.trim().is_empty())
    })
}

/// Opens the envelope of a protobuf body: its type and the encoded object.
pub(super) fn open_envelope(body: &[u8]) -> Result<(TypeMeta, &[u8]), String> {
    let UnknownEnvelope {
        api_version,
        kind,
        raw,
    } = UnknownEnvelope::decode(body).map_err(|error| error.to_string())?;
    let type_meta = TypeMeta {
        api_version: Some(api_version),
        kind: Some(kind),
    };
    Ok((type_meta, raw))
}

#[cfg(test)]
mod tests;

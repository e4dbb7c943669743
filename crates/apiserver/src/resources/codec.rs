//! Bodies become objects: by media type, by schema, and as strictly as the client asks.

use bytes::Bytes;
use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_schema::protobuf::{self, Envelope};
use rhumb_schema::{Decoded, Options, TypeId};
use serde::Deserialize;
use serde_json::Value;

use super::prepare::Part;
use super::{Call, Version};
use crate::request::{FieldValidation, MEDIA_NAMES, Media};

/// What names the kind of a body.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeMeta {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
}

/// A kind that a body should hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) schema: TypeId,
}

impl Call<'_> {
    /// The kind of this resource, in the version of the path.
    pub(super) fn expected(&self) -> Expected<'_> {
        let Version {
            api_version,
            schema,
            ..
        } = self.version;
        Expected {
            api_version,
            kind: &self.resource.kind.name,
            schema: *schema,
        }
    }

    /// The object in the body.
    pub(super) fn decode(
        &self,
        expected: Expected<'_>,
        validation: FieldValidation,
    ) -> Result<Object, Status> {
        let media = body_media(self.header(http::header::CONTENT_TYPE))?;
        let options = strictness(validation);
        let decoded = match media {
            Media::Json => self.decode_json(&self.body, expected, options),
            Media::Yaml => self.decode_yaml(expected, options),
            Media::Protobuf => self.decode_protobuf(expected, validation),
        };
        let decoded = decoded.map_err(|misfit| misfit.status(expected.kind, &self.body))?;
        self.tell(decoded.respelled);
        match self.strictly(&decoded.problems, validation) {
            Ok(()) => {
                let object = named(decoded.object, expected);
                self.record(&object, expected);
                Ok(object)
            }
            Err(text) => Err(Misfit::unfit(expected.kind, expected.api_version, text)
                .status(expected.kind, &self.body)),
        }
    }

    /// Keeps an object for the audit log, if that has it: with its defaults, as upstream logs it.
    fn record(&self, object: &Object, expected: Expected<'_>) {
        if let Some(recorder) = self.recorder {
            recorder.record(|| {
                let mut object = object.clone();
                self.api.defaults.apply(expected.schema, &mut object);
                if expected.schema == self.version.schema
                    && self.version.served.conversion.is_none()
                {
                    self.resource.kind.rules.default(&mut object);
                }
                Value::Object(object).to_string().into()
            });
        }
    }

    /// Keeps a patch for the audit log, as it was sent. It is copied, as it may be part of a larger buffer.
    pub(super) fn record_patch(&self) {
        if let Some(recorder) = self.recorder {
            recorder.record(|| Bytes::copy_from_slice(&self.body));
        }
    }

    /// An object that should be of a kind, or the reason why it is not.
    pub(super) fn decode_json(
        &self,
        body: &[u8],
        expected: Expected<'_>,
        options: Options,
    ) -> Result<Decoded, Misfit> {
        let decode_as =
            |schema: TypeId| rhumb_schema::decode_json(self.api.table, schema, body, options);
        // Nearly all bodies are what they should be, and say so: then one look is enough.
        match decode_as(expected.schema) {
            Ok(decoded) if says_it_is(&decoded.object, expected) => return Ok(decoded),
            _ => {}
        }
        let decode = |schema: TypeId| decode_as(schema).map_err(|error| error.to_string());
        // What is wrong with a body that names no kind, the decoder says in Go's words.
        let found = match serde_json::from_slice::<TypeMeta>(body) {
            Ok(found) if body.trim_ascii_start().starts_with(b"{") => found,
            _ => return decode(expected.schema).map_err(Misfit::Unrecognized),
        };
        self.check_type(&found, expected, decode)?;
        decode(expected.schema).map_err(|text| found.misfit(expected, text))
    }

    fn decode_yaml(&self, expected: Expected<'_>, options: Options) -> Result<Decoded, Misfit> {
        let decode = |schema: TypeId| {
            rhumb_schema::decode_yaml(self.api.table, schema, &self.body, options)
                .map_err(|error| error.to_string())
        };
        let value = rhumb_schema::read_yaml(&self.body)
            .map_err(|error| Misfit::Unrecognized(error.to_string()))?;
        let is_object = value.is_object();
        let found = match serde_json::from_value::<TypeMeta>(value) {
            Ok(found) if is_object => found,
            _ => return decode(expected.schema).map_err(Misfit::Unrecognized),
        };
        self.check_type(&found, expected, decode)?;
        decode(expected.schema).map_err(|text| found.misfit(expected, text))
    }

    /// Upstream looks for unknown fields in texts only, so that here too only those are told of that are refused.
    fn decode_protobuf(
        &self,
        expected: Expected<'_>,
        validation: FieldValidation,
    ) -> Result<Decoded, Misfit> {
        let (found, raw) = open(&self.body).map_err(Misfit::Unrecognized)?;
        let decode = |schema: TypeId| {
            let mut decoded = protobuf::decode_strictly(self.api.table, schema, raw)
                .map_err(|error| error.to_string())?;
            if !matches!(validation, FieldValidation::Refuse(_)) {
                decoded.problems.clear();
            }
            Ok(decoded)
        };
        self.check_type(&found, expected, decode)?;
        decode(expected.schema).map_err(|text| found.misfit(expected, text))
    }

    /// What is done about unknown fields in objects of this resource's own kind: what the client asks for, unless
    /// the kind knows better. A status decides about nothing.
    pub(super) fn validation(&self, asked: FieldValidation, part: Part) -> FieldValidation {
        let refused = self
            .resource
            .kind
            .refuses_unknown_fields(&self.api.gates)
            .filter(|_| part.is_main());
        refused.map_or(asked, FieldValidation::Refuse)
    }

    /// Tells of unknown and duplicate fields, or refuses them.
    pub(super) fn strictly(
        &self,
        problems: &[String],
        validation: FieldValidation,
    ) -> Result<(), String> {
        let refusal = || format!("strict decoding error: {}", problems.join(", "));
        match validation {
            _ if problems.is_empty() => Ok(()),
            FieldValidation::Strict => Err(refusal()),
            FieldValidation::Refuse(reason) => Err(format!("{} ({reason})", refusal())),
            FieldValidation::Warn => {
                problems
                    .iter()
                    .for_each(|problem| self.warn(problem.clone()));
                Ok(())
            }
            FieldValidation::Ignore => Ok(()),
        }
    }

    /// Whether a body says that it is what it should be. A body that says nothing is taken for it.
    fn check_type(
        &self,
        found: &TypeMeta,
        expected: Expected<'_>,
        decode: impl Fn(TypeId) -> Result<Decoded, String>,
    ) -> Result<(), Misfit> {
        let (kind, api_version) = (found.kind(expected), found.api_version(expected));
        if (kind, api_version) == (expected.kind, expected.api_version) {
            return Ok(());
        }
        if api_version.matches('/').count() > 1 {
            let text = format!("unexpected GroupVersion string: {api_version}");
            return Err(Misfit::Unrecognized(text));
        }
        let schema = self.registered(kind, api_version).ok_or_else(|| {
            found.misfit(
                expected,
                format!("no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""),
            )
        })?;
        let (group, version) = split(api_version);
        let (wanted_group, _) = split(expected.api_version);
        if kind == expected.kind && group == wanted_group {
            return Err(Misfit::OtherVersion(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                expected.api_version
            )));
        }
        // It is read as what it says it is, and cannot become anything else.
        if let Some(schema) = schema {
            decode(schema).map_err(|text| found.misfit(expected, text))?;
        }
        let package = match wanted_group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        Err(found.misfit(
            expected,
            format!(
                "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
                expected.kind
            ),
        ))
    }

    /// The type of a kind that the server knows; `Some(None)` for one that is only part of other things.
    fn registered(&self, kind: &str, api_version: &str) -> Option<Option<TypeId>> {
        let mut known = None;
        for resource in self.api.registry.iter() {
            let Some(version) = resource
                .versions
                .iter()
                .find(|version| version.api_version == api_version)
            else {
                continue;
            };
            if resource.kind.name == kind {
                return Some(Some(version.schema));
            }
            if EVERYWHERE.contains(&kind) || kind.strip_suffix("List") == Some(&resource.kind.name)
            {
                known = Some(None);
            }
        }
        known
    }
}

/// Whether a body that was read as a kind names that kind, or none.
fn says_it_is(object: &Object, expected: Expected<'_>) -> bool {
    let says = |field: &str, wanted: &str| match object.get(field) {
        None => true,
        Some(Value::String(said)) => said.is_empty() || said == wanted,
        Some(_) => false,
    };
    says("kind", expected.kind) && says("apiVersion", expected.api_version)
}

/// Kinds that every version of every group has.
const EVERYWHERE: [&str; 8] = [
    "Status",
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
];

/// The group and the version of `apps/v1`.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// An object by the name of its kind, whatever it called itself.
pub(super) fn named(mut object: Object, expected: Expected<'_>) -> Object {
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

/// Why a body is not the object that it should be.
#[derive(Debug)]
pub(super) enum Misfit {
    /// It does not even say what it is.
    Unrecognized(String),
    /// It says so, but does not hold it, or it is something else.
    Unfit {
        kind: String,
        version: String,
        text: String,
    },
    /// It is the right kind in another version.
    OtherVersion(String),
}

impl Misfit {
    fn unfit(kind: &str, api_version: &str, text: String) -> Misfit {
        Misfit::Unfit {
            kind: kind.to_owned(),
            version: split(api_version).1.to_owned(),
            text,
        }
    }

    /// What is wrong, by itself.
    pub(super) fn into_text(self) -> String {
        match self {
            Misfit::Unrecognized(text)
            | Misfit::Unfit { text, .. }
            | Misfit::OtherVersion(text) => text,
        }
    }

    /// The answer to a request with such a body.
    fn status(self, wanted: &str, body: &[u8]) -> Status {
        Status::bad_request(match self {
            Misfit::Unrecognized(text) => format!(
                "the object provided is unrecognized (must be of type {wanted}): {text} ({})",
                summarize(body)
            ),
            Misfit::Unfit {
                kind,
                version,
                text,
            } => format!("{kind} in version {version:?} cannot be handled as a {wanted}: {text}"),
            Misfit::OtherVersion(text) => text,
        })
    }
}

impl TypeMeta {
    fn kind<'a>(&'a self, expected: Expected<'a>) -> &'a str {
        match self.kind.as_deref() {
            None | Some("") => expected.kind,
            Some(kind) => kind,
        }
    }

    fn api_version<'a>(&'a self, expected: Expected<'a>) -> &'a str {
        match self.api_version.as_deref() {
            None | Some("") => expected.api_version,
            Some(api_version) => api_version,
        }
    }

    fn misfit(&self, expected: Expected<'_>, text: String) -> Misfit {
        Misfit::unfit(self.kind(expected), self.api_version(expected), text)
    }
}

pub(super) fn strictness(validation: FieldValidation) -> Options {
    Options {
        strict: validation != FieldValidation::Ignore,
        whole: true,
    }
}

/// How a body is written; JSON unless it says otherwise.
pub(super) fn body_media(content_type: Option<&str>) -> Result<Media, Status> {
    let (media, parameters) = content_type
        .unwrap_or_default()
        .split_once(';')
        .map_or((content_type.unwrap_or_default(), None), |(media, rest)| {
            (media, Some(rest))
        });
    let media = media.trim();
    if media.is_empty() {
        return Ok(Media::Json);
    }
    if !parameters.is_none_or(are_parameters) {
        return Err(Status::unsupported_media_type(&MEDIA_NAMES));
    }
    [Media::Json, Media::Yaml, Media::Protobuf]
        .into_iter()
        .find(|known| known.name() == media)
        .ok_or_else(|| Status::unsupported_media_type(&MEDIA_NAMES))
}

/// Whether all of this are parameters; the last may be empty.
fn are_parameters(text: &str) -> bool {
    let mut parts: Vec<&str> = text.split(';').map(str::trim).collect();
    parts.pop_if(|last| last.is_empty());
    parts.iter().all(|part| {
        part.split_once('=')
            .is_some_and(|(name, _)| !name.trim().is_empty())
    })
}

/// The object in a protobuf body and what its envelope says of it.
pub(super) fn open(body: &[u8]) -> Result<(TypeMeta, &[u8]), String> {
    let Envelope {
        api_version,
        kind,
        raw,
    } = Envelope::open(body).map_err(|error| error.to_string())?;
    let found = TypeMeta {
        api_version: Some(api_version),
        kind: Some(kind),
    };
    Ok((found, raw))
}

/// The beginning of a body that nobody can read.
fn summarize(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 30;
    let shown = &body[..body.len().min(SHOWN_BYTES)];
    let rest = if body.len() > SHOWN_BYTES { " ..." } else { "" };
    match shown.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{rest}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{rest}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_read_with_their_parameters() {
        for (content_type, expect) in [
            (None, Some(Media::Json)),
            (Some(""), Some(Media::Json)),
            (Some("application/json"), Some(Media::Json)),
            (Some("application/yaml; charset=utf-8"), Some(Media::Yaml)),
            (
                Some("application/vnd.kubernetes.protobuf"),
                Some(Media::Protobuf),
            ),
            (Some("application/json;"), Some(Media::Json)),
            (Some("application/json;;"), None),
            (Some("application/json; x"), None),
            (Some("application/cbor"), None),
            (Some("text/plain"), None),
        ] {
            assert_eq!(body_media(content_type).ok(), expect, "{content_type:?}");
        }
    }

    #[test]
    fn bodies_that_nobody_can_read_are_shown_in_part() {
        for (body, expect) in [
            ("", "<empty>"),
            ("{", "{"),
            ("[]", "5b5d"),
            (
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}",
                "{\"apiVersion\":\"v1\",\"kind\":\"Con ...",
            ),
        ] {
            assert_eq!(summarize(body.as_bytes()), expect);
        }
    }

    #[test]
    fn a_body_that_is_no_protobuf_is_refused_in_upstreams_words() {
        let check = |body: &[u8], expect: &str| {
            let misfit = Misfit::Unrecognized(open(body).err().unwrap());
            let status = misfit.status("Pod", body);
            let message =
                format!("the object provided is unrecognized (must be of type Pod): {expect}");
            assert_eq!((status.code, status.message), (400, message));
        };
        check(b"", "empty data (<empty>)");
        check(b"k8s\0", "empty body (6b387300)");
        check(b"k8s\0\x0a\x05", "unexpected EOF (6b3873000a05)");
        let prefix = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        check(
            br#"{"apiVersion":"v1","kind":"Pod"}"#,
            &format!(r#"{prefix} ({{"apiVersion":"v1","kind":"Pod ...)"#),
        );
    }
}

//! Bodies become objects: by media type, by schema, and as strictly as the client asks.

use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_schema::protobuf::{self, Envelope};
use rhumb_schema::{Decoded, TypeId};
use serde::Deserialize;

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
        let table = self.api.table;
        let options = strictness(validation);
        let decoded = match media {
            Media::Json => {
                check_type(&json_type(&self.body)?, expected)?;
                rhumb_schema::decode_json(table, expected.schema, &self.body, options)
            }
            Media::Yaml => {
                check_type(&yaml_type(&self.body)?, expected)?;
                rhumb_schema::decode_yaml(table, expected.schema, &self.body, options)
            }
            Media::Protobuf => {
                let (found, raw) = open(&self.body, expected.kind)?;
                check_type(&found, expected)?;
                protobuf::decode(table, expected.schema, raw).map(|object| Decoded {
                    object,
                    problems: Vec::new(),
                })
            }
        };
        let decoded = decoded.map_err(|error| cannot_be_handled(expected, &error))?;
        self.strictly(decoded, expected, validation)
    }

    /// An object that is already a tree of values: the outcome of a patch.
    pub(super) fn decode_value(
        &self,
        value: serde_json::Value,
        expected: Expected<'_>,
        validation: FieldValidation,
    ) -> Result<Object, Status> {
        let decoded = rhumb_schema::decode_value(
            self.api.table,
            expected.schema,
            &value,
            strictness(validation),
        )
        .map_err(|error| cannot_be_handled(expected, &error))?;
        self.strictly(decoded, expected, validation)
    }

    fn strictly(
        &self,
        decoded: Decoded,
        expected: Expected<'_>,
        validation: FieldValidation,
    ) -> Result<Object, Status> {
        if !decoded.problems.is_empty() {
            match validation {
                FieldValidation::Ignore => {}
                FieldValidation::Warn => decoded
                    .problems
                    .iter()
                    .for_each(|problem| self.warn(problem.clone())),
                FieldValidation::Strict => {
                    let problems = decoded.problems.join(", ");
                    return Err(cannot_be_handled(
                        expected,
                        &format_args!("strict decoding error: {problems}"),
                    ));
                }
            }
        }
        let mut object = decoded.object;
        object.insert("apiVersion".into(), expected.api_version.into());
        object.insert("kind".into(), expected.kind.into());
        Ok(object)
    }
}

fn strictness(validation: FieldValidation) -> rhumb_schema::Options {
    rhumb_schema::Options {
        strict: validation != FieldValidation::Ignore,
        whole: true,
    }
}

fn cannot_be_handled(expected: Expected<'_>, error: &dyn std::fmt::Display) -> Status {
    let version = expected.api_version.rsplit('/').next().unwrap_or_default();
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: {error}",
        kind = expected.kind,
    ))
}

/// How a body is written; JSON unless it says otherwise.
pub(super) fn body_media(content_type: Option<&str>) -> Result<Media, Status> {
    let media = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if media.is_empty() {
        return Ok(Media::Json);
    }
    [Media::Json, Media::Yaml, Media::Protobuf]
        .into_iter()
        .find(|known| known.name() == media)
        .ok_or_else(|| Status::unsupported_media_type(&MEDIA_NAMES))
}

/// The object in a protobuf body and what its envelope says of it.
pub(super) fn open<'b>(body: &'b [u8], wanted: &str) -> Result<(TypeMeta, &'b [u8]), Status> {
    let Envelope {
        api_version,
        kind,
        raw,
    } = Envelope::open(body).map_err(|error| {
        let summary = summarize(body);
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {wanted}): {error} ({summary})"
        ))
    })?;
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

fn json_type(body: &[u8]) -> Result<TypeMeta, Status> {
    serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {error}"
        ))
    })
}

fn yaml_type(body: &[u8]) -> Result<TypeMeta, Status> {
    rhumb_schema::read_yaml(body)
        .map(|value| serde_json::from_value(value).unwrap_or_default())
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Whether the body says that it is what it should be. A body that says nothing is taken for it.
fn check_type(found: &TypeMeta, expected: Expected<'_>) -> Result<(), Status> {
    let api_version = found.api_version.as_deref().filter(|text| !text.is_empty());
    let kind = found.kind.as_deref().filter(|text| !text.is_empty());
    if kind.is_some_and(|kind| kind != expected.kind) {
        return Err(Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: converting ({}) to ({}): unknown conversion",
            kind.unwrap_or_default(),
            api_version
                .unwrap_or(expected.api_version)
                .rsplit('/')
                .next()
                .unwrap_or_default(),
            expected.kind,
            kind.unwrap_or_default(),
            expected.kind,
        )));
    }
    match api_version {
        Some(api_version) if api_version != expected.api_version => {
            Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                expected.api_version
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_told_apart_by_their_media_type() {
        let check = |content_type: &str, expect: Option<Media>| {
            assert_eq!(
                body_media(Some(content_type)).ok(),
                expect,
                "{content_type}"
            );
        };
        check("", Some(Media::Json));
        check("application/json; charset=utf-8", Some(Media::Json));
        check("application/yaml", Some(Media::Yaml));
        check("application/vnd.kubernetes.protobuf", Some(Media::Protobuf));
        check("application/cbor", None);
        check("text/plain", None);
    }

    #[test]
    fn a_body_that_is_no_protobuf_is_refused_in_upstreams_words() {
        let check = |body: &[u8], expect: &str| {
            let status = open(body, "Pod").err().unwrap();
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

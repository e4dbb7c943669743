//! Bodies become objects: by media type, by schema, and as strictly as the client asks.

use rhumb_api::Object;
use rhumb_meta::Status;
use rhumb_schema::{Decoded, TypeId};
use serde::Deserialize;

use super::{Call, Version};
use crate::request::{FieldValidation, Media};

/// What names the kind of a body.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: Option<String>,
    kind: Option<String>,
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
        check_type(&self.body, media, expected)?;
        let table = self.api.table;
        let options = strictness(validation);
        let decoded = match media {
            Media::Json => rhumb_schema::decode_json(table, expected.schema, &self.body, options),
            Media::Yaml => rhumb_schema::decode_yaml(table, expected.schema, &self.body, options),
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
    match media {
        "" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        _ => Err(Status::unsupported_media_type(&[
            "application/json",
            "application/yaml",
        ])),
    }
}

/// Whether the body says that it is what it should be. A body that says nothing is taken for it.
fn check_type(body: &[u8], media: Media, expected: Expected<'_>) -> Result<(), Status> {
    let found = match media {
        Media::Json => serde_json::from_slice::<TypeMeta>(body).map_err(|error| {
            Status::bad_request(format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        })?,
        Media::Yaml => rhumb_schema::read_yaml(body)
            .map(|value| serde_json::from_value(value).unwrap_or_default())
            .map_err(|error| Status::bad_request(error.to_string()))?,
    };
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

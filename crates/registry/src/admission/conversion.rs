//! Converts objects to the version that a webhook or policy matched, and decodes what they return (upstream:
//! `VersionedAttributes`).

use std::borrow::Cow;

use rhumb_admission::ResourceAndKind;
use rhumb_api::JsonObject;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{GroupKind, GroupVersionKind, Status};
use rhumb_schema::{
    AliasResolver, JSON_PATCH_OPERATIONS_MAX, JsonPatch, JsonPatchError, SchemaRef,
};
use serde_json::Value;

use super::AdmissionAttributes;
use crate::Registry;
use crate::objects::{ObjectMetadata, SPEC, copy_spec};
use crate::{Resource, ResourceStorage, ServedVersion};

/// Kinds that are only sent to subresources, with their schema names.
const SUBRESOURCE_KINDS: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "Binding", "io.k8s.api.core.v1.Binding"),
    ("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction"),
    (
        "autoscaling",
        "v1",
        "Scale",
        "io.k8s.api.autoscaling.v1.Scale",
    ),
    (
        "authentication.k8s.io",
        "v1",
        "TokenRequest",
        "io.k8s.api.authentication.v1.TokenRequest",
    ),
    (
        "",
        "v1",
        "NodeProxyOptions",
        "io.k8s.api.core.v1.NodeProxyOptions",
    ),
    (
        "",
        "v1",
        "PodAttachOptions",
        "io.k8s.api.core.v1.PodAttachOptions",
    ),
    (
        "",
        "v1",
        "PodExecOptions",
        "io.k8s.api.core.v1.PodExecOptions",
    ),
    (
        "",
        "v1",
        "PodPortForwardOptions",
        "io.k8s.api.core.v1.PodPortForwardOptions",
    ),
    (
        "",
        "v1",
        "PodProxyOptions",
        "io.k8s.api.core.v1.PodProxyOptions",
    ),
    (
        "",
        "v1",
        "ServiceProxyOptions",
        "io.k8s.api.core.v1.ServiceProxyOptions",
    ),
];

/// How the problems of unknown fields of the spec begin.
const UNKNOWN_FIELD_OF_SPEC: &str = "unknown field \"spec.";

/// What happens to unknown fields that a mutation adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddedUnknownFields {
    /// They are dropped, or invalid for kinds that reject them.
    Dropped,
    /// They are an internal error (upstream: for JSON patches of policies).
    InternalError,
}

/// How objects are converted to a resource and kind.
enum ResolvedKind<'a> {
    /// A stored resource: convert between the storage version and this version.
    Stored(&'a Resource, &'a ServedVersion, &'a ResourceStorage),
    /// A request body that is not stored: no conversion.
    SchemaOnly(SchemaRef),
}

impl AdmissionAttributes<'_> {
    /// The object in the version of `names`.
    pub fn converted<'o>(
        &self,
        names: &ResourceAndKind,
        object: &'o JsonObject,
    ) -> Result<Cow<'o, JsonObject>, Status> {
        let version = match self.conversion_target(names)? {
            ResolvedKind::Stored(_, version, _) if version.served.conversion.is_some() => version,
            _ => return Ok(Cow::Borrowed(object)),
        };
        let mut object = object.clone();
        self.context
            .registry
            .convert_to_served(version, &mut object);
        Ok(Cow::Owned(object))
    }

    /// Decodes an object that a webhook or policy returned in the version of `names`: applies defaults and converts it
    /// back to the version in which it is admitted. `original` is the object before the mutation: unknown fields in its
    /// spec stay if the mutation leaves the spec alone.
    pub fn decode_mutated(
        &self,
        names: &ResourceAndKind,
        patched: &Value,
        original: &JsonObject,
        unknown_fields: AddedUnknownFields,
    ) -> Result<JsonObject, Status> {
        let registry = self.context.registry;
        let target = self.conversion_target(names)?;
        let rejection = match &target {
            ResolvedKind::Stored(resource, ..) => {
                resource.kind.unknown_fields_rejection(&registry.gates)
            }
            ResolvedKind::SchemaOnly(_) => None,
        };
        let is_internal_error = unknown_fields == AddedUnknownFields::InternalError;
        let options = rhumb_schema::DecodeOptions {
            strict: rejection.is_some() || is_internal_error,
            top_level: true,
        };
        let decode = |schema: &SchemaRef| {
            let decoded = rhumb_schema::decode_value(schema.table(), schema.id(), patched, options)
                .map_err(Status::internal_error)?;
            let mut object = with_type_meta(decoded.object, &names.kind);
            let mut problems = match options.strict {
                true => decoded.problems,
                false => Vec::new(),
            };
            if !problems.is_empty() && original.get(SPEC) == patched.get(SPEC) {
                problems.retain(|problem| !problem.starts_with(UNKNOWN_FIELD_OF_SPEC));
                copy_spec(original, &mut object);
            }
            problems.extend(decoded.rejected);
            match problems.is_empty() {
                true => Ok(object),
                false if is_internal_error => Err(Status::internal_error(format_args!(
                    "strict decoding error: {}",
                    problems.join(", ")
                ))),
                false => Err(invalid_after_mutation(&object, names, &problems, rejection)),
            }
        };
        let kind = &names.kind;
        for (field, expected) in [
            ("apiVersion", kind.group_version().to_string()),
            ("kind", kind.kind.to_string()),
        ] {
            if patched[field] != expected {
                return Err(Status::internal_error(format_args!(
                    "mutating admission must not change {field} of the object from {expected} to {}",
                    patched[field]
                )));
            }
        }
        match target {
            ResolvedKind::Stored(resource, version, storage) => {
                let mut object = decode(&version.schema)?;
                registry.convert_to_stored(resource, version, storage, &mut object)?;
                Ok(object)
            }
            ResolvedKind::SchemaOnly(schema) => {
                let mut object = decode(&schema)?;
                self.context
                    .defaults_of(&schema)
                    .apply(&schema, &mut object);
                Ok(object)
            }
        }
    }

    /// Merges an apply configuration into an object, both in the version of `names`.
    pub fn apply(
        &self,
        names: &ResourceAndKind,
        original: &JsonObject,
        configuration: JsonObject,
    ) -> Result<Value, String> {
        let schema = self.schema(names).map_err(|status| status.message)?;
        rhumb_schema::merge_apply_configuration(
            schema.table(),
            schema.id(),
            original,
            configuration,
        )
        .map(Value::Object)
        .map_err(|error| error.to_string())
    }

    /// Applies a JSON patch to an object in the version of `names`.
    pub fn patch(
        &self,
        names: &ResourceAndKind,
        patch: &JsonPatch,
        original: JsonObject,
    ) -> Result<Result<Value, JsonPatchError>, Status> {
        let schema = self.schema(names)?;
        let mut alias_resolver = AliasResolver::new(schema.table(), schema.id());
        Ok(patch.apply(Value::Object(original), &mut alias_resolver))
    }

    fn schema(&self, names: &ResourceAndKind) -> Result<SchemaRef, Status> {
        Ok(match self.conversion_target(names)? {
            ResolvedKind::Stored(_, version, _) => version.schema.clone(),
            ResolvedKind::SchemaOnly(schema) => schema,
        })
    }

    fn conversion_target(&self, names: &ResourceAndKind) -> Result<ResolvedKind<'_>, Status> {
        let registry: &Registry = self.context.registry;
        let unknown = || {
            Status::internal_error(format_args!(
                "unable to convert to {}: unknown kind",
                names.kind
            ))
        };
        let has_own_object = self
            .context
            .subresource
            .is_some_and(|subresource| subresource.object.is_some());
        if has_own_object {
            let GroupVersionKind {
                group,
                version,
                kind,
            } = &names.kind;
            let entry = SUBRESOURCE_KINDS
                .iter()
                .find(|entry| (entry.0, entry.1, entry.2) == (&**group, &**version, &**kind));
            let (_, _, _, schema) = entry.ok_or_else(unknown)?;
            return registry.schema_type(schema).map(ResolvedKind::SchemaOnly);
        }
        let requested = &names.resource;
        let resource = self
            .context
            .resources
            .find(&requested.group, &requested.resource)
            .ok_or_else(unknown)?;
        let version = resource.version(&requested.version).ok_or_else(unknown)?;
        Ok(match &resource.storage {
            Some(storage) => ResolvedKind::Stored(resource, version, storage),
            None => ResolvedKind::SchemaOnly(version.schema.clone()),
        })
    }
}

/// Parses the JSON patch of a webhook or policy.
pub fn parse_json_patch(bytes: &[u8]) -> Result<JsonPatch, String> {
    let patch = JsonPatch::parse(bytes)?;
    if patch.len() > JSON_PATCH_OPERATIONS_MAX {
        return Err(format!("more than {JSON_PATCH_OPERATIONS_MAX} operations"));
    }
    Ok(patch)
}

/// Sets `apiVersion` and `kind`.
fn with_type_meta(mut object: JsonObject, kind: &GroupVersionKind) -> JsonObject {
    object.insert("apiVersion".into(), kind.group_version().to_string().into());
    object.insert("kind".into(), kind.kind.to_string().into());
    object
}

/// The error for a mutation that adds unknown fields to an object of a kind that rejects these.
fn invalid_after_mutation(
    object: &JsonObject,
    names: &ResourceAndKind,
    problems: &[String],
    reason: Option<&str>,
) -> Status {
    let problems = problems.join(", ");
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    let detail = format!("strict decoding error after mutating admission: {problems}{reason}");
    let mut errors = ErrorList::new();
    errors.push(Error::invalid(&Path::new("object"), object.name(), detail));
    let kind = GroupKind::new(names.kind.group.clone(), names.kind.kind.clone());
    Status::invalid(&kind, object.name(), &errors)
}

#[cfg(test)]
mod tests {
    use rhumb_api::SubresourceKind;

    use super::*;

    #[test]
    fn all_subresource_object_kinds_are_listed() {
        for kind in rhumb_api::kinds::all() {
            for subresource in &kind.subresources {
                let Some(object_kind) = &subresource.object else {
                    continue;
                };
                let is_known = SUBRESOURCE_KINDS.iter().any(|entry| {
                    (entry.0, entry.1, entry.2)
                        == (
                            &*object_kind.group,
                            &*object_kind.version,
                            &*object_kind.kind,
                        )
                });
                // Subresources served by the kubelet take no object.
                assert!(
                    is_known || subresource.kind == SubresourceKind::NodeProxied,
                    "{object_kind}"
                );
            }
        }
    }
}

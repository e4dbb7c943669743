//! Objects in the version in which somebody outside wants to see them, and back.

use std::borrow::Cow;

use rhumb_admission::Names;
use rhumb_api::Object;
use rhumb_meta::{GroupVersionKind, Status};
use rhumb_schema::TypeId;
use serde_json::Value;

use super::Attributes;
use crate::Api;
use crate::resources::{JsonPatch, PatchFailure, Resource, Storage, Version};

/// Kinds that are sent to subresources and are no resources themselves.
const SENT_TO_SUBRESOURCES: &[(&str, &str, &str, &str)] = &[
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
];

/// How an object is shown under some names.
enum Shape<'a> {
    /// It is stored, in this version or in another.
    Stored(&'a Resource, &'a Version, &'a Storage),
    /// It is what was sent.
    Sent(TypeId),
}

impl Attributes<'_> {
    /// The object under these names.
    pub(super) fn shown<'o>(
        &self,
        names: &Names,
        object: &'o Object,
    ) -> Result<Cow<'o, Object>, Status> {
        let version = match self.shape(names)? {
            Shape::Stored(_, version, _) if version.served.conversion.is_some() => version,
            _ => return Ok(Cow::Borrowed(object)),
        };
        let mut object = object.clone();
        self.call.api.to_served(version, &mut object);
        Ok(Cow::Owned(object))
    }

    /// What somebody made of the object under these names, with its defaults, in the form in which it was admitted.
    pub(super) fn taken_back(&self, names: &Names, patched: &Value) -> Result<Object, Status> {
        let api = self.call.api;
        let shape = self.shape(names)?;
        let refusal = match &shape {
            Shape::Stored(resource, ..) => resource.kind.refuses_unknown_fields(&api.gates),
            Shape::Sent(_) => None,
        };
        let options = rhumb_schema::Options {
            strict: refusal.is_some(),
            whole: true,
        };
        let decode = |schema: TypeId| {
            let decoded = rhumb_schema::decode_value(api.table, schema, patched, options)
                .map_err(Status::internal_error)?;
            match refusal.filter(|_| !decoded.problems.is_empty()) {
                Some(reason) => Err(Status::internal_error(format_args!(
                    "what admission made of the object is refused: {} ({reason})",
                    decoded.problems.join(", ")
                ))),
                None => Ok(named(decoded.object, &names.kind)),
            }
        };
        let kind = &names.kind;
        for (field, own) in [
            ("apiVersion", kind.group_version().to_string()),
            ("kind", kind.kind.to_string()),
        ] {
            if patched[field] != own {
                return Err(Status::internal_error(format_args!(
                    "the {field} {own} of the object cannot become {}",
                    patched[field]
                )));
            }
        }
        match shape {
            Shape::Stored(resource, version, storage) => {
                let mut object = decode(version.schema)?;
                api.to_stored(resource, version, storage, &mut object)?;
                Ok(object)
            }
            Shape::Sent(schema) => {
                let mut object = decode(schema)?;
                api.defaults.apply(schema, &mut object);
                Ok(object)
            }
        }
    }

    /// An apply configuration laid over an object, both under these names.
    pub(super) fn apply(
        &self,
        names: &Names,
        before: &Object,
        configuration: Object,
    ) -> Result<Value, String> {
        let schema = self.schema(names).map_err(|status| status.message)?;
        rhumb_schema::overlay(self.call.api.table, schema, before, configuration)
            .map(Value::Object)
            .map_err(|error| error.to_string())
    }

    /// What a patch makes of an object, both under these names.
    pub(super) fn patch(
        &self,
        names: &Names,
        patch: &JsonPatch,
        before: Object,
    ) -> Result<Result<Value, PatchFailure>, Status> {
        let schema = self.schema(names)?;
        Ok(patch.apply(self.call.api.table, schema, Value::Object(before)))
    }

    fn schema(&self, names: &Names) -> Result<TypeId, Status> {
        Ok(match self.shape(names)? {
            Shape::Stored(_, version, _) => version.schema,
            Shape::Sent(schema) => schema,
        })
    }

    fn shape(&self, names: &Names) -> Result<Shape<'_>, Status> {
        let api: &Api = self.call.api;
        let unknown = || {
            Status::internal_error(format_args!(
                "unable to convert to {}: unknown kind",
                names.kind
            ))
        };
        let sends_another = self.call.subresource.is_some_and(|it| it.object.is_some());
        if sends_another {
            let GroupVersionKind {
                group,
                version,
                kind,
            } = &names.kind;
            let known = SENT_TO_SUBRESOURCES
                .iter()
                .find(|known| (known.0, known.1, known.2) == (&**group, &**version, &**kind));
            let (_, _, _, schema) = known.ok_or_else(unknown)?;
            return api.type_named(schema).map(Shape::Sent);
        }
        let wanted = &names.resource;
        let resource = api
            .registry
            .find(&wanted.group, &wanted.resource)
            .ok_or_else(unknown)?;
        let version = resource.version(&wanted.version).ok_or_else(unknown)?;
        Ok(match &resource.storage {
            Some(storage) => Shape::Stored(resource, version, storage),
            None => Shape::Sent(version.schema),
        })
    }
}

/// Whatever it calls itself, it is what it was shown as.
fn named(mut object: Object, kind: &GroupVersionKind) -> Object {
    object.insert("apiVersion".into(), kind.group_version().to_string().into());
    object.insert("kind".into(), kind.kind.to_string().into());
    object
}

#[cfg(test)]
mod tests {
    use rhumb_api::SubresourceKind;

    use super::*;

    #[test]
    fn what_is_sent_to_subresources_is_known() {
        for kind in rhumb_api::kinds::all() {
            for subresource in &kind.subresources {
                let Some(sent) = &subresource.object else {
                    continue;
                };
                let is_known = SENT_TO_SUBRESOURCES.iter().any(|known| {
                    (known.0, known.1, known.2) == (&*sent.group, &*sent.version, &*sent.kind)
                });
                // Nothing is sent to what only a node can answer.
                assert!(
                    is_known || subresource.kind == SubresourceKind::Node,
                    "{sent}"
                );
            }
        }
    }
}

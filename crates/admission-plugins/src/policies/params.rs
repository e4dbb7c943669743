//! Looks up the parameter objects of policy bindings (`paramKind`, `paramRef`).

use std::sync::Arc;

use rhumb_admission::{ParamKind, ParamRef, ParamSelection};
use rhumb_api::JsonObject;
use rhumb_cache::{CacheEntry, ListQuery};
use rhumb_meta::labels::Selector;
use rhumb_meta::{GroupVersionKind, ObjectKey, fields};
use serde_json::Value;

use rhumb_registry::Registry;
use rhumb_registry::admission::AdmissionAttributes;
use rhumb_registry::{Resource, ResourceStorage, ResourceTable, ServedVersion};

/// Maximum number of parameter objects of a binding.
const MAX_PARAMS: usize = 1000;

/// The resource and storage of a param kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParamSource<'a> {
    resource: &'a Resource,
    version: &'a ServedVersion,
    storage: &'a ResourceStorage,
}

/// A parameter object, or none if the policy is evaluated without parameters.
#[derive(Debug)]
pub(super) struct PolicyParam {
    pub(super) value: Option<Value>,
    /// The key of the object.
    pub(super) key: String,
}

impl PolicyParam {
    fn none() -> PolicyParam {
        PolicyParam {
            value: None,
            key: String::new(),
        }
    }
}

/// Finds the resource of a param kind.
pub(super) fn find_param_source<'a>(
    resources: &'a ResourceTable,
    kind: &ParamKind,
) -> Result<ParamSource<'a>, String> {
    let gvk = GroupVersionKind::from_type_meta(&kind.api_version, &kind.kind)
        .map_err(|error| format!("failed to parse paramKind APIVersion: {error}"))?;
    let source = resources.iter().find_map(|resource| {
        let is_param_kind = resource.kind.group == gvk.group && resource.kind.name == gvk.kind;
        let version = resource.version(&gvk.version).filter(|_| is_param_kind)?;
        Some(ParamSource {
            resource,
            version,
            storage: resource.storage.as_ref()?,
        })
    });
    source.ok_or_else(|| format!("failed to find resource referenced by paramKind: '{gvk}'"))
}

/// The parameters of a binding. An empty list means that the policy is not evaluated.
pub(super) fn collect_params(
    attributes: &AdmissionAttributes<'_>,
    object: Option<&JsonObject>,
    source: Option<ParamSource<'_>>,
    reference: Option<&ParamRef>,
) -> Result<Vec<PolicyParam>, String> {
    let (Some(source), Some(reference)) = (source, reference) else {
        return Ok(vec![PolicyParam::none()]);
    };
    let namespace = source.namespace(attributes, object, reference)?;
    let entries = match &reference.selection {
        ParamSelection::Name(name) => source.named(namespace, name)?.into_iter().collect(),
        ParamSelection::Selector(selector) => {
            source.selected(namespace, selector.as_ref().map_err(Clone::clone)?)
        }
        ParamSelection::Unspecified => {
            return Err("one of name or selector must be provided".to_owned());
        }
    };
    if entries.len() > MAX_PARAMS {
        return Err(format!(
            "more than {MAX_PARAMS} params found for policy binding"
        ));
    }
    if entries.is_empty() && reference.deny_if_not_found {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }
    entries
        .iter()
        .map(|entry| source.param(attributes.context.registry, entry))
        .collect()
}

impl ParamSource<'_> {
    /// The namespace that `paramRef` names, else that of the request.
    fn namespace<'a>(
        &self,
        attributes: &'a AdmissionAttributes<'_>,
        object: Option<&'a JsonObject>,
        reference: &'a ParamRef,
    ) -> Result<Option<&'a str>, String> {
        let requested = &*reference.namespace;
        if !self.resource.kind.is_namespaced() {
            return match requested {
                "" => Ok(None),
                _ => Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                ),
            };
        }
        match (requested, attributes.request_namespace(object)) {
            ("", "") => Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            ),
            ("", request_namespace) => Ok(Some(request_namespace)),
            (requested, _) => Ok(Some(requested)),
        }
    }

    fn named(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<CacheEntry>>, String> {
        let key = ObjectKey::new(namespace, name).map_err(|error| error.to_string())?;
        let cache = &self.storage.cache;
        cache.get(&key).map_err(|error| error.to_string())
    }

    fn selected(&self, namespace: Option<&str>, labels: &Selector) -> Vec<Arc<CacheEntry>> {
        let cache = &self.storage.cache;
        let snapshot = cache.snapshot();
        let all_fields = fields::Selector::everything();
        let query = ListQuery {
            namespace,
            labels,
            fields: &all_fields,
            after: None,
            limit: MAX_PARAMS + 1,
        };
        let selected = cache.list(&snapshot, &query);
        selected.take(MAX_PARAMS + 1).cloned().collect()
    }

    fn param(&self, registry: &Registry, entry: &CacheEntry) -> Result<PolicyParam, String> {
        let mut object: JsonObject =
            serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
        registry.convert_to_served(self.version, &mut object);
        Ok(PolicyParam {
            value: Some(Value::Object(object)),
            key: entry.key().as_str().to_owned(),
        })
    }
}

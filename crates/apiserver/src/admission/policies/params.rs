//! The objects that a policy has as parameters.

use std::sync::Arc;

use rhumb_admission::{ParamChoice, ParamKind, ParamRef};
use rhumb_api::Object;
use rhumb_cache::{Asked, Entry};
use rhumb_meta::labels::Selector;
use rhumb_meta::{GroupVersionKind, ObjectKey, fields};
use serde_json::Value;

use crate::Api;
use crate::admission::Attributes;
use crate::resources::{Resource, Storage, Version};

/// How many sets of parameters a binding may have.
const PARAMS_MAX: usize = 1000;

/// Where parameters of a kind are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    resource: &'a Resource,
    version: &'a Version,
    storage: &'a Storage,
}

/// One set of parameters: an object, or nothing where a policy has to do without.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) value: Option<Value>,
    /// What tells it from others.
    pub(super) id: String,
}

impl Param {
    fn none() -> Param {
        Param {
            value: None,
            id: String::new(),
        }
    }
}

/// Finds the resource of a kind of parameters.
pub(super) fn source<'a>(api: &'a Api, kind: &ParamKind) -> Result<Source<'a>, String> {
    let gvk = GroupVersionKind::from_type_meta(&kind.api_version, &kind.kind)
        .map_err(|error| format!("failed to parse paramKind APIVersion: {error}"))?;
    let found = api.registry.iter().find_map(|resource| {
        let is_it = resource.kind.group == gvk.group && resource.kind.name == gvk.kind;
        let version = resource.version(&gvk.version).filter(|_| is_it)?;
        Some(Source {
            resource,
            version,
            storage: resource.storage.as_ref()?,
        })
    });
    found.ok_or_else(|| format!("failed to find resource referenced by paramKind: '{gvk}'"))
}

/// The parameters of a binding. None at all means that the policy is not to be asked.
pub(super) fn collect(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
    source: Option<Source<'_>>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Param>, String> {
    let (Some(source), Some(reference)) = (source, reference) else {
        return Ok(vec![Param::none()]);
    };
    let namespace = source.namespace(attributes, object, reference)?;
    let found = match &reference.choice {
        ParamChoice::Name(name) => source.named(namespace, name)?.into_iter().collect(),
        ParamChoice::Selector(selector) => {
            source.selected(namespace, selector.as_ref().map_err(Clone::clone)?)
        }
        ParamChoice::Nothing => return Err("one of name or selector must be provided".to_owned()),
    };
    if found.len() > PARAMS_MAX {
        return Err(format!(
            "more than {PARAMS_MAX} params found for policy binding"
        ));
    }
    if found.is_empty() && reference.must_exist {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }
    found
        .iter()
        .map(|entry| source.param(attributes.call.api, entry))
        .collect()
}

impl Source<'_> {
    /// The namespace that the binding names, or that of the write.
    fn namespace<'a>(
        &self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Object>,
        reference: &'a ParamRef,
    ) -> Result<Option<&'a str>, String> {
        let named = &*reference.namespace;
        if !self.resource.kind.is_namespaced() {
            return match named {
                "" => Ok(None),
                _ => Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                        .to_owned(),
                ),
            };
        }
        match (named, attributes.own_namespace(object)) {
            ("", "") => Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            ),
            ("", own) => Ok(Some(own)),
            (named, _) => Ok(Some(named)),
        }
    }

    fn named(&self, namespace: Option<&str>, name: &str) -> Result<Option<Arc<Entry>>, String> {
        let key = ObjectKey::new(namespace, name).map_err(|error| error.to_string())?;
        let cache = &self.storage.cache;
        cache.get(&key).map_err(|error| error.to_string())
    }

    fn selected(&self, namespace: Option<&str>, labels: &Selector) -> Vec<Arc<Entry>> {
        let cache = &self.storage.cache;
        let snapshot = cache.snapshot();
        let everything = fields::Selector::everything();
        let asked = Asked {
            namespace,
            labels,
            fields: &everything,
            after: None,
            limit: PARAMS_MAX + 1,
        };
        let selected = cache.select(&snapshot, &asked);
        selected.take(PARAMS_MAX + 1).cloned().collect()
    }

    fn param(&self, api: &Api, entry: &Entry) -> Result<Param, String> {
        let mut object: Object =
            serde_json::from_slice(entry.json_slice()).map_err(|error| error.to_string())?;
        api.to_served(self.version, &mut object);
        Ok(Param {
            value: Some(Value::Object(object)),
            id: entry.key().as_str().to_owned(),
        })
    }
}

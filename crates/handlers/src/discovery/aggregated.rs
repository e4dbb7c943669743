//! Aggregated discovery: all groups, versions and resources in one `apidiscovery.k8s.io/v2` document.

use serde_json::{Value, json};

use super::{group_names, group_versions, resources_of, verb_names};
use rhumb_registry::{Resource, ResourceTable};

pub(super) const CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether the Accept header prefers aggregated discovery to plain JSON.
pub(super) fn is_requested(accept: &str) -> bool {
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let json = parts.next() == Some("application/json");
        let parameters: Vec<&str> = parts.collect();
        let has_parameter = |parameter: &str| parameters.contains(&parameter);
        if json
            && has_parameter("g=apidiscovery.k8s.io")
            && has_parameter("v=v2")
            && has_parameter("as=APIGroupDiscoveryList")
        {
            return true;
        }
        if json
            && !parameters
                .iter()
                .any(|parameter| parameter.starts_with("as="))
        {
            return false;
        }
    }
    false
}

pub(super) fn document(registry: &ResourceTable, legacy: bool) -> Value {
    let groups = if legacy {
        vec![""]
    } else {
        group_names(registry)
    };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|group| describe_group(registry, group))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn describe_group(registry: &ResourceTable, group: &str) -> Value {
    let versions: Vec<Value> = group_versions(registry, group)
        .into_iter()
        .map(|version| {
            let resources: Vec<Value> = resources_of(registry, group, version)
                .into_iter()
                .map(describe_resource)
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({"name": group})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn describe_resource(resource: &Resource) -> Value {
    let kind = &resource.kind;
    let own_kind = json!({"group": "", "version": "", "kind": kind.name});
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": own_kind,
        "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verb_names(kind.verbs),
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    let mut subresources: Vec<_> = kind.subresources.iter().collect();
    subresources.sort_by_key(|subresource| subresource.name);
    let subresources: Vec<Value> = subresources
        .into_iter()
        .map(|subresource| {
            let response = match &subresource.object {
                None => own_kind.clone(),
                Some(object) if object.group.is_empty() => {
                    json!({"group": "", "version": "", "kind": object.kind.as_ref()})
                }
                Some(object) => json!({
                    "group": object.group.as_ref(),
                    "version": object.version.as_ref(),
                    "kind": object.kind.as_ref(),
                }),
            };
            json!({
                "subresource": subresource.name,
                "responseKind": response,
                "verbs": verb_names(subresource.verbs),
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

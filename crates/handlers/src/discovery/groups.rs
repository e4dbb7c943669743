//! Unaggregated discovery: APIVersions, APIGroupList, APIGroup and APIResourceList documents.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{group_names, group_versions, resources_of, sha256, verb_names};
use rhumb_registry::{Resource, ResourceTable};

pub(super) fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

pub(super) fn group_list(registry: &ResourceTable) -> Value {
    let groups: Vec<Value> = group_names(registry)
        .into_iter()
        .map(|group| describe_group(registry, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub(super) fn single_group(registry: &ResourceTable, group: &str) -> Option<Value> {
    if !group_names(registry).contains(&group) {
        return None;
    }
    let mut document = describe_group(registry, group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

fn describe_group(registry: &ResourceTable, group: &str) -> Value {
    let versions: Vec<Value> = group_versions(registry, group)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

pub(super) fn resource_list(registry: &ResourceTable, group: &str, version: &str) -> Option<Value> {
    let resources = resources_of(registry, group, version);
    let first = resources.first()?;
    let listed: Vec<Value> = resources
        .iter()
        .flat_map(|resource| resource_entries(resource))
        .collect();
    let group_version = &first.version(version)?.api_version;
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": listed,
    });
    // Upstream omits apiVersion in the resource list of the core group.
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}

/// The APIResource entries of a resource and its subresources.
fn resource_entries(resource: &Resource) -> Vec<Value> {
    let kind = &resource.kind;
    let mut main_entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced(),
        "kind": kind.name,
        "verbs": verb_names(kind.verbs),
    });
    if !kind.short_names.is_empty() {
        main_entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        main_entry["categories"] = json!(kind.categories);
    }
    if let Some(storage) = &resource.storage {
        let stored = format!("{}/{}", storage.api_version, kind.name);
        let stored = if storage.api_version.contains('/') {
            stored
        } else {
            format!("/{stored}")
        };
        main_entry["storageVersionHash"] = STANDARD.encode(&sha256(stored.as_bytes())[..8]).into();
    }
    let mut entries = vec![main_entry];
    let mut subresources: Vec<_> = kind.subresources.iter().collect();
    subresources.sort_by_key(|subresource| subresource.name);
    for subresource in subresources {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.name),
            "singularName": "",
            "namespaced": kind.is_namespaced(),
            "kind": subresource.object.as_ref().map_or(&*kind.name, |object| object.kind.as_ref()),
            "verbs": verb_names(subresource.verbs),
        });
        if let Some(object) = subresource
            .object
            .as_ref()
            .filter(|object| !object.group.is_empty())
        {
            entry["group"] = object.group.to_string().into();
            entry["version"] = object.version.to_string().into();
        }
        entries.push(entry);
    }
    entries
}

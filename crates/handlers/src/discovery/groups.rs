//! Unaggregated discovery: APIVersions, APIGroupList, APIGroup and APIResourceList documents. The fields are declared in
//! the order in which upstream writes them, since scripts search the text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::{group_names, group_versions, resources_of, sha256, verb_names};
use rhumb_api::{Kind, Subresource};
use rhumb_registry::{Resource, ResourceTable};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions<'a> {
    kind: &'static str,
    versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    server_addresses: [ServerAddressByClientCidr<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerAddressByClientCidr<'a> {
    #[serde(rename = "clientCIDR")]
    client_cidr: &'static str,
    server_address: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList<'a> {
    kind: &'static str,
    api_version: &'static str,
    groups: Vec<ApiGroup<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    name: &'a str,
    versions: Vec<GroupVersionForDiscovery<'a>>,
    preferred_version: Option<GroupVersionForDiscovery<'a>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersionForDiscovery<'a> {
    group_version: String,
    version: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList<'a> {
    kind: &'static str,
    /// Upstream omits it in the resource list of the core group.
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    group_version: &'a str,
    resources: Vec<ApiResource<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource<'a> {
    name: String,
    singular_name: &'a str,
    namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    kind: &'a str,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_version_hash: Option<String>,
}

pub(super) fn api_versions(server_address: &str) -> ApiVersions<'_> {
    ApiVersions {
        kind: "APIVersions",
        versions: ["v1"],
        server_addresses: [ServerAddressByClientCidr {
            client_cidr: "0.0.0.0/0",
            server_address,
        }],
    }
}

pub(super) fn group_list(registry: &ResourceTable) -> ApiGroupList<'_> {
    let groups = group_names(registry).into_iter();
    ApiGroupList {
        kind: "APIGroupList",
        api_version: "v1",
        groups: groups
            .map(|group| describe_group(registry, group))
            .collect(),
    }
}

pub(super) fn single_group<'a>(registry: &'a ResourceTable, group: &str) -> Option<ApiGroup<'a>> {
    let mut names = group_names(registry).into_iter();
    let group = names.find(|name| *name == group)?;
    Some(ApiGroup {
        kind: "APIGroup",
        api_version: "v1",
        ..describe_group(registry, group)
    })
}

fn describe_group<'a>(registry: &'a ResourceTable, group: &'a str) -> ApiGroup<'a> {
    let versions = group_versions(registry, group).into_iter();
    let versions: Vec<_> = versions
        .map(|version| GroupVersionForDiscovery {
            group_version: format!("{group}/{version}"),
            version,
        })
        .collect();
    ApiGroup {
        kind: "",
        api_version: "",
        name: group,
        preferred_version: versions.first().cloned(),
        versions,
    }
}

pub(super) fn resource_list<'a>(
    registry: &'a ResourceTable,
    group: &str,
    version: &str,
) -> Option<ApiResourceList<'a>> {
    let resources = resources_of(registry, group, version);
    let group_version = &resources.first()?.version(version)?.api_version;
    let entries = resources.into_iter().flat_map(resource_entries);
    Some(ApiResourceList {
        kind: "APIResourceList",
        api_version: if group.is_empty() { "" } else { "v1" },
        group_version,
        resources: entries.collect(),
    })
}

/// The entries of a resource and its subresources.
fn resource_entries(resource: &Resource) -> Vec<ApiResource<'_>> {
    let kind = &resource.kind;
    let main_entry = ApiResource {
        name: kind.plural.to_string(),
        singular_name: &kind.singular,
        namespaced: kind.is_namespaced(),
        group: "",
        version: "",
        kind: &kind.name,
        verbs: verb_names(kind.verbs),
        short_names: kind.short_names.iter().map(|name| &**name).collect(),
        categories: kind.categories.iter().map(|name| &**name).collect(),
        storage_version_hash: storage_version_hash(resource),
    };
    let mut subresources: Vec<_> = kind.subresources.iter().collect();
    subresources.sort_by_key(|subresource| &*subresource.name);
    let subresources = subresources.into_iter();
    let entries = subresources.map(|subresource| subresource_entry(kind, subresource));
    std::iter::once(main_entry).chain(entries).collect()
}

fn subresource_entry<'a>(kind: &'a Kind, subresource: &'a Subresource) -> ApiResource<'a> {
    let object = subresource.object.as_ref();
    let foreign = object.filter(|object| !object.group.is_empty());
    ApiResource {
        name: format!("{}/{}", kind.plural, subresource.name),
        singular_name: "",
        namespaced: kind.is_namespaced(),
        group: foreign.map_or("", |object| &object.group),
        version: foreign.map_or("", |object| &object.version),
        kind: object.map_or(&kind.name, |object| &object.kind),
        verbs: verb_names(subresource.verbs),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: None,
    }
}

fn storage_version_hash(resource: &Resource) -> Option<String> {
    let storage = resource.storage.as_ref()?;
    let stored = format!("{}/{}", storage.api_version, resource.kind.name);
    let stored = match storage.api_version.contains('/') {
        true => stored,
        false => format!("/{stored}"),
    };
    let hash = sha256(stored.as_bytes());
    Some(STANDARD.encode(hash.get(..8)?))
}

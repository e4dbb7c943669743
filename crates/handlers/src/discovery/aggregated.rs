//! Aggregated discovery: all groups, versions and resources in one `apidiscovery.k8s.io/v2` document.

use rhumb_api::{Kind, Subresource};
use serde::Serialize;

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

// The fields are declared in the order in which upstream writes them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupDiscoveryList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: GroupMetadata<'a>,
    items: Vec<ApiGroupDiscovery<'a>>,
}

#[derive(Debug, Serialize)]
struct ApiGroupDiscovery<'a> {
    metadata: GroupMetadata<'a>,
    versions: Vec<ApiVersionDiscovery<'a>>,
}

#[derive(Debug, Serialize)]
struct GroupMetadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct ApiVersionDiscovery<'a> {
    version: &'a str,
    resources: Vec<ApiResourceDiscovery<'a>>,
    freshness: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceDiscovery<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<ApiSubresourceDiscovery<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiSubresourceDiscovery<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

pub(super) fn document(registry: &ResourceTable, legacy: bool) -> ApiGroupDiscoveryList<'_> {
    let groups = if legacy {
        vec![""]
    } else {
        group_names(registry)
    };
    ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: GroupMetadata { name: "" },
        items: groups
            .into_iter()
            .map(|group| describe_group(registry, group))
            .collect(),
    }
}

fn describe_group<'a>(registry: &'a ResourceTable, group: &'a str) -> ApiGroupDiscovery<'a> {
    let versions = group_versions(registry, group).into_iter();
    let versions = versions.map(|version| ApiVersionDiscovery {
        version,
        resources: resources_of(registry, group, version)
            .into_iter()
            .map(describe_resource)
            .collect(),
        freshness: "Current",
    });
    ApiGroupDiscovery {
        metadata: GroupMetadata { name: group },
        versions: versions.collect(),
    }
}

fn describe_resource(resource: &Resource) -> ApiResourceDiscovery<'_> {
    let kind = &resource.kind;
    let mut subresources: Vec<_> = kind.subresources.iter().collect();
    subresources.sort_by_key(|subresource| &*subresource.name);
    ApiResourceDiscovery {
        resource: &kind.plural,
        response_kind: own_response_kind(kind),
        scope: if kind.is_namespaced() {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: &kind.singular,
        verbs: verb_names(kind.verbs),
        short_names: kind.short_names.iter().map(|name| &**name).collect(),
        categories: kind.categories.iter().map(|name| &**name).collect(),
        subresources: subresources
            .into_iter()
            .map(|subresource| describe_subresource(kind, subresource))
            .collect(),
    }
}

fn own_response_kind(kind: &Kind) -> ResponseKind<'_> {
    ResponseKind {
        group: "",
        version: "",
        kind: &kind.name,
    }
}

fn describe_subresource<'a>(
    kind: &'a Kind,
    subresource: &'a Subresource,
) -> ApiSubresourceDiscovery<'a> {
    let response_kind = match &subresource.object {
        None => own_response_kind(kind),
        Some(object) if object.group.is_empty() => ResponseKind {
            group: "",
            version: "",
            kind: &object.kind,
        },
        Some(object) => ResponseKind {
            group: &object.group,
            version: &object.version,
            kind: &object.kind,
        },
    };
    ApiSubresourceDiscovery {
        subresource: &subresource.name,
        response_kind,
        verbs: verb_names(subresource.verbs),
    }
}

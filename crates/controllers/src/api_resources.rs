//! Discovery of the resources that the API server serves, and collection requests that kube-rs lacks.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use http::header::{ACCEPT, CONTENT_TYPE};
use kube::api::{ListParams, ObjectList, PartialObjectMeta};
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use kube::core::gvk::GroupVersion;
use kube::core::{DynamicObject, Version};
use kube::discovery::ApiResource;
use kube::{Api, Client, Resource};

use crate::Error;

/// Objects per page, small enough that no single request takes long.
const PAGE_SIZE: u32 = 500;
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A resource in one served version.
#[derive(Debug, Clone)]
pub(crate) struct DiscoveredResource {
    pub(crate) api: ApiResource,
    pub(crate) is_namespaced: bool,
    verbs: Vec<String>,
}

impl DiscoveredResource {
    fn new(version: &GroupVersion, found: APIResourceDiscovery) -> DiscoveredResource {
        let kind = found.response_kind.and_then(|kind| kind.kind);
        DiscoveredResource {
            api: ApiResource {
                group: version.group.clone(),
                version: version.version.clone(),
                api_version: version.api_version(),
                kind: kind.unwrap_or_default(),
                plural: found.resource.unwrap_or_default(),
            },
            is_namespaced: found.scope.as_deref() == Some("Namespaced"),
            verbs: found.verbs,
        }
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// `pods`, `deployments.apps`.
    pub(crate) fn name(&self) -> String {
        match self.api.group.as_str() {
            "" => self.api.plural.clone(),
            group => format!("{}.{group}", self.api.plural),
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.api.group == group && self.api.plural == plural
    }

    pub(crate) fn in_namespace(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.api)
    }
}

/// Result of API discovery.
#[derive(Debug, Default)]
pub(crate) struct DiscoveryResult {
    /// Sorted by group resource, then by version priority, highest first.
    pub(crate) kinds: Vec<DiscoveredResource>,
    /// Aggregated group versions whose API server is unavailable. Their resources are unknown: that one is missing from
    /// the list does not mean that it is not served.
    pub(crate) stale: BTreeSet<String>,
}

impl DiscoveryResult {
    /// Each resource in its preferred version.
    pub(crate) fn best(&self) -> impl Iterator<Item = &DiscoveredResource> {
        let versions = self.kinds.chunk_by(|one, next| one.name() == next.name());
        versions.filter_map(|versions| versions.first())
    }

    /// Upstream's error message if some group versions could not be discovered.
    pub(crate) fn failure(&self) -> Option<String> {
        let stale = self.stale.iter();
        let each: Vec<String> = stale
            .map(|version| format!("{version}: stale GroupVersion discovery: {version}"))
            .collect();
        (!each.is_empty()).then(|| {
            format!(
                "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server \
                 APIs: {}",
                each.len(),
                each.join(", ")
            )
        })
    }

    fn add(&mut self, group: APIGroupDiscovery) {
        let name = group.metadata.and_then(|metadata| metadata.name);
        let name = name.unwrap_or_default();
        for found in group.versions {
            let version = GroupVersion::gv(&name, &found.version.unwrap_or_default());
            if found.freshness.as_deref() == Some("Stale") {
                self.stale.insert(version.api_version());
                continue;
            }
            let kinds = found.resources.into_iter();
            self.kinds
                .extend(kinds.map(|kind| DiscoveredResource::new(&version, kind)));
        }
    }
}

/// Discovers all resources. Fails if the core group is empty, which no working server reports.
pub(crate) async fn discover(client: &Client) -> Result<DiscoveryResult, Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    let mut discovered = DiscoveryResult::default();
    core.items
        .into_iter()
        .for_each(|group| discovered.add(group));
    if discovered.kinds.is_empty() {
        return Err(Error::Other(
            "discovery returned no resources of the core group".to_owned(),
        ));
    }
    groups
        .items
        .into_iter()
        .for_each(|group| discovered.add(group));
    discovered.kinds.sort_by_cached_key(|kind| {
        (
            kind.name(),
            Reverse(Version::parse(&kind.api.version).priority()),
        )
    });
    Ok(discovered)
}

/// Deletes all objects of a resource in a namespace by `deletecollection`, page by page.
pub(crate) async fn delete_all(
    client: &Client,
    kind: &DiscoveredResource,
    namespace: &str,
) -> Result<(), Error> {
    let path = DynamicObject::url_path(&kind.api, Some(namespace));
    let mut rest = String::new();
    loop {
        let request = http::Request::delete(format!("{path}?limit={PAGE_SIZE}{rest}"))
            .header(ACCEPT, METADATA_LIST)
            .header(CONTENT_TYPE, "application/json")
            .body(
                br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#
                    .to_vec(),
            )
            .map_err(|error| Error::Other(error.to_string()))?;
        let page: ObjectList<PartialObjectMeta> = client.request(request).await?;
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => rest = format!("&continue={token}"),
            _ => return Ok(()),
        }
    }
}

/// Calls `each` for the metadata of every object.
pub(crate) async fn each_metadata(
    objects: &Api<DynamicObject>,
    mut each: impl FnMut(&PartialObjectMeta<DynamicObject>),
) -> Result<(), Error> {
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = objects.list_metadata(&params).await?;
        page.items.iter().for_each(&mut each);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            _ => return Ok(()),
        }
    }
}

/// Whether the collection has no objects.
pub(crate) async fn is_empty(objects: &Api<DynamicObject>) -> Result<bool, Error> {
    let page = objects
        .list_metadata(&ListParams::default().limit(1))
        .await?;
    Ok(page.items.is_empty())
}

//! Which resources a server has, and what kube-rs has no call for.

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

/// Objects in a page: few enough that no request takes long.
const PAGE: u32 = 500;
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// One kind that a server has, at one version.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) api: ApiResource,
    pub(crate) is_namespaced: bool,
    verbs: Vec<String>,
}

impl Kind {
    fn new(version: &GroupVersion, found: APIResourceDiscovery) -> Kind {
        let kind = found.response_kind.and_then(|kind| kind.kind);
        Kind {
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

/// What a server shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Discovered {
    /// By name, and the versions of each from the best to the least.
    pub(crate) kinds: Vec<Kind>,
    /// Group versions that the server has from another one, which does not answer. What kinds they have is not
    /// known; that a kind of theirs is not among `kinds` says nothing.
    pub(crate) stale: BTreeSet<String>,
}

impl Discovered {
    /// Each kind at its best version.
    pub(crate) fn best(&self) -> impl Iterator<Item = &Kind> {
        let versions = self.kinds.chunk_by(|one, next| one.name() == next.name());
        versions.filter_map(|versions| versions.first())
    }

    /// What is wrong if not all group versions answered, in upstream's words.
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
                .extend(kinds.map(|kind| Kind::new(&version, kind)));
        }
    }
}

/// Asks a server for all its kinds. Those of the core group are its own, so there is no server without them.
pub(crate) async fn discover(client: &Client) -> Result<Discovered, Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    let mut discovered = Discovered::default();
    core.items
        .into_iter()
        .for_each(|group| discovered.add(group));
    if discovered.kinds.is_empty() {
        return Err(Error::Other("the server shows no kinds".to_owned()));
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

/// Deletes all objects of a kind in a namespace, page by page, in the way that is the kind's own.
pub(crate) async fn delete_all(client: &Client, kind: &Kind, namespace: &str) -> Result<(), Error> {
    let path = DynamicObject::url_path(&kind.api, Some(namespace));
    let mut rest = String::new();
    loop {
        let request = http::Request::delete(format!("{path}?limit={PAGE}{rest}"))
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
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = objects.list_metadata(&params).await?;
        page.items.iter().for_each(&mut each);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params.continue_token = Some(token),
            _ => return Ok(()),
        }
    }
}

/// Whether there is none.
pub(crate) async fn is_empty(objects: &Api<DynamicObject>) -> Result<bool, Error> {
    let page = objects
        .list_metadata(&ListParams::default().limit(1))
        .await?;
    Ok(page.items.is_empty())
}

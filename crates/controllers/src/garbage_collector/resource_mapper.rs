//! Maps kinds to served resources (upstream's `RESTMapper`), and selects those to watch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::discovery::{ApiResource, verbs};
use kube::{Api, Client};

use super::graph::{ApiVersionKind, ObjectIdentity};
use super::objects::{PartialMetadata, TargetObject};
use crate::Error;
use crate::api_resources::{self, DiscoveredResource, DiscoveryResult};

/// Resources that are too short-lived and too many to watch, as upstream.
const IGNORED_RESOURCES: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// All served resources by kind.
#[derive(Debug, Default)]
pub(super) struct ResourceMapper {
    kinds: HashMap<ApiVersionKind, DiscoveredResource>,
    /// The watched version of each resource, by group and plural name.
    watched: BTreeMap<(String, String), ApiResource>,
}

/// Why an object identity cannot be resolved to a request.
#[derive(Debug)]
pub(super) enum ResolveError {
    /// The kind is not served (yet).
    UnknownKind(Arc<ApiVersionKind>),
    /// The kind is namespaced but the referring object is cluster-scoped. This can never be resolved.
    NoNamespace,
}

impl ResourceMapper {
    /// Runs discovery. Resources of unavailable aggregated API servers are kept as they were `before`.
    pub(super) async fn discover(
        client: &Client,
        before: &ResourceMapper,
    ) -> Result<ResourceMapper, Error> {
        let discovered = api_resources::discover(client).await?;
        let mut mapper = ResourceMapper::new(&discovered);
        for (key, resource) in &before.watched {
            if discovered.stale.contains(&resource.api_version) {
                let watched = mapper.watched.entry(key.clone());
                watched.or_insert_with(|| resource.clone());
            }
        }
        for (name, kind) in &before.kinds {
            if discovered.stale.contains(&kind.api.api_version) {
                mapper.kinds.insert(name.clone(), kind.clone());
            }
        }
        Ok(mapper)
    }

    fn new(discovered: &DiscoveryResult) -> ResourceMapper {
        let watched = discovered.best().filter(|kind| is_watched(kind));
        let named = discovered.kinds.iter();
        ResourceMapper {
            watched: watched
                .map(|kind| {
                    let key = (kind.api.group.clone(), kind.api.plural.clone());
                    (key, kind.api.clone())
                })
                .collect(),
            kinds: named
                .map(|kind| (kind_name(&kind.api), kind.clone()))
                .collect(),
        }
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = &ApiResource> {
        self.watched.values()
    }

    pub(super) fn is_watched(&self, kind: &ApiVersionKind) -> bool {
        self.kinds.get(kind).is_some_and(is_watched)
    }

    pub(super) fn is_namespaced(&self, kind: &ApiVersionKind) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.is_namespaced)
    }

    /// API of a kind's objects in all namespaces.
    pub(super) fn api_in_all_namespaces(
        &self,
        client: &Client,
        kind: &ApiVersionKind,
    ) -> Option<Api<PartialMetadata>> {
        let kind = self.kinds.get(kind)?;
        Some(Api::all_with(client.clone(), &kind.api))
    }

    /// Resolves an identity. For cluster-scoped kinds, clears the namespace taken over from the referring object.
    pub(super) fn resolve(
        &self,
        client: &Client,
        identity: &mut ObjectIdentity,
    ) -> Result<TargetObject, ResolveError> {
        let Some(kind) = self.kinds.get(&*identity.kind) else {
            return Err(ResolveError::UnknownKind(identity.kind.clone()));
        };
        let client = client.clone();
        let api = if !kind.is_namespaced {
            identity.namespace = "".into();
            Api::all_with(client, &kind.api)
        } else if identity.namespace.is_empty() {
            return Err(ResolveError::NoNamespace);
        } else {
            Api::namespaced_with(client, &identity.namespace, &kind.api)
        };
        Ok(TargetObject {
            api,
            name: identity.name.to_string(),
            uid: identity.uid.to_string(),
        })
    }
}

fn is_watched(kind: &DiscoveredResource) -> bool {
    let is_ignored = IGNORED_RESOURCES
        .iter()
        .any(|&(group, plural)| kind.is(group, plural));
    !is_ignored
        && [verbs::DELETE, verbs::LIST, verbs::WATCH]
            .iter()
            .all(|verb| kind.can(verb))
}

pub(super) fn kind_name(resource: &ApiResource) -> ApiVersionKind {
    ApiVersionKind::new(&resource.api_version, &resource.kind)
}

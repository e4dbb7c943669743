//! Which kinds the server has, in which versions, and which of them are watched.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::discovery::{ApiCapabilities, ApiResource, Discovery, Scope, verbs};
use kube::{Api, Client};

use super::graph::{Identity, KindName};
use super::objects::{Meta, Target};
use crate::Error;

/// What is too short-lived and too much to follow, as upstream has it.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// All kinds that a server has.
#[derive(Debug, Default)]
pub(super) struct Served {
    kinds: HashMap<KindName, Kind>,
    /// Of each kind the one version in which it is watched, by group and plural name.
    watched: BTreeMap<(String, String), ApiResource>,
}

#[derive(Debug, Clone)]
struct Kind {
    resource: ApiResource,
    is_namespaced: bool,
    is_watched: bool,
}

/// Why an identity leads to no object.
#[derive(Debug)]
pub(super) enum Unresolved {
    /// The server does not have the kind, or not yet.
    UnknownKind(Arc<KindName>),
    /// An object without a namespace named it, but the kind is in namespaces. That never leads anywhere.
    NoNamespace,
}

impl Served {
    pub(super) async fn discover(client: &Client) -> Result<Served, Error> {
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        let mut served = Served::default();
        for group in discovery.groups() {
            let preferred = group.resources_by_stability().into_iter();
            let watched = preferred.filter(|(resource, can)| is_watched(resource, can));
            served.watched.extend(watched.map(|(resource, _)| {
                let key = (resource.group.clone(), resource.plural.clone());
                (key, resource)
            }));
            for version in group.versions() {
                for (resource, can) in group.versioned_resources(version) {
                    let kind = Kind {
                        is_namespaced: can.scope == Scope::Namespaced,
                        is_watched: is_watched(&resource, &can),
                        resource,
                    };
                    served.kinds.insert(kind_name(&kind.resource), kind);
                }
            }
        }
        if served.watched.is_empty() {
            return Err(Error::Other("the server shows no kinds".to_owned()));
        }
        Ok(served)
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = &ApiResource> {
        self.watched.values()
    }

    pub(super) fn is_watched(&self, kind: &KindName) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.is_watched)
    }

    pub(super) fn is_namespaced(&self, kind: &KindName) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.is_namespaced)
    }

    /// The objects of a kind in all namespaces.
    pub(super) fn everywhere(&self, client: &Client, kind: &KindName) -> Option<Api<Meta>> {
        let kind = self.kinds.get(kind)?;
        Some(Api::all_with(client.clone(), &kind.resource))
    }

    /// The object that an identity names. Kinds that are in no namespace take none from whoever named them.
    pub(super) fn resolve(
        &self,
        client: &Client,
        identity: &mut Identity,
    ) -> Result<Target, Unresolved> {
        let Some(kind) = self.kinds.get(&*identity.kind) else {
            return Err(Unresolved::UnknownKind(identity.kind.clone()));
        };
        let client = client.clone();
        let api = if !kind.is_namespaced {
            identity.namespace = "".into();
            Api::all_with(client, &kind.resource)
        } else if identity.namespace.is_empty() {
            return Err(Unresolved::NoNamespace);
        } else {
            Api::namespaced_with(client, &identity.namespace, &kind.resource)
        };
        Ok(Target {
            api,
            name: identity.name.to_string(),
            uid: identity.uid.to_string(),
        })
    }
}

fn is_watched(resource: &ApiResource, can: &ApiCapabilities) -> bool {
    let is_ignored = IGNORED
        .iter()
        .any(|&(group, plural)| resource.group == group && resource.plural == plural);
    !is_ignored
        && [verbs::DELETE, verbs::LIST, verbs::WATCH]
            .iter()
            .all(|verb| can.supports_operation(verb))
}

pub(super) fn kind_name(resource: &ApiResource) -> KindName {
    KindName::new(&resource.api_version, &resource.kind)
}

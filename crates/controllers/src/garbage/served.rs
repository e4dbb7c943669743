//! Which kinds the server has, in which versions, and which of them are watched.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::discovery::{ApiResource, verbs};
use kube::{Api, Client};

use super::graph::{Identity, KindName};
use super::objects::{Meta, Target};
use crate::Error;
use crate::resources::{self, Discovered, Kind};

/// What is too short-lived and too much to follow, as upstream has it.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// All kinds that a server has.
#[derive(Debug, Default)]
pub(super) struct Served {
    kinds: HashMap<KindName, Kind>,
    /// Of each kind the one version in which it is watched, by group and plural name.
    watched: BTreeMap<(String, String), ApiResource>,
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
    /// Asks the server. Kinds whose server does not answer are taken to be as they were `before`.
    pub(super) async fn discover(client: &Client, before: &Served) -> Result<Served, Error> {
        let discovered = resources::discover(client).await?;
        let mut served = Served::new(&discovered);
        for (key, resource) in &before.watched {
            if discovered.stale.contains(&resource.api_version) {
                let watched = served.watched.entry(key.clone());
                watched.or_insert_with(|| resource.clone());
            }
        }
        for (name, kind) in &before.kinds {
            if discovered.stale.contains(&kind.api.api_version) {
                served.kinds.insert(name.clone(), kind.clone());
            }
        }
        Ok(served)
    }

    fn new(discovered: &Discovered) -> Served {
        let watched = discovered.best().filter(|kind| is_watched(kind));
        let named = discovered.kinds.iter();
        Served {
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

    pub(super) fn is_watched(&self, kind: &KindName) -> bool {
        self.kinds.get(kind).is_some_and(is_watched)
    }

    pub(super) fn is_namespaced(&self, kind: &KindName) -> bool {
        self.kinds.get(kind).is_some_and(|kind| kind.is_namespaced)
    }

    /// The objects of a kind in all namespaces.
    pub(super) fn everywhere(&self, client: &Client, kind: &KindName) -> Option<Api<Meta>> {
        let kind = self.kinds.get(kind)?;
        Some(Api::all_with(client.clone(), &kind.api))
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
            Api::all_with(client, &kind.api)
        } else if identity.namespace.is_empty() {
            return Err(Unresolved::NoNamespace);
        } else {
            Api::namespaced_with(client, &identity.namespace, &kind.api)
        };
        Ok(Target {
            api,
            name: identity.name.to_string(),
            uid: identity.uid.to_string(),
        })
    }
}

fn is_watched(kind: &Kind) -> bool {
    let is_ignored = IGNORED
        .iter()
        .any(|&(group, plural)| kind.is(group, plural));
    !is_ignored
        && [verbs::DELETE, verbs::LIST, verbs::WATCH]
            .iter()
            .all(|verb| kind.can(verb))
}

pub(super) fn kind_name(resource: &ApiResource) -> KindName {
    KindName::new(&resource.api_version, &resource.kind)
}

//! The kinds that the API server serves, with their schemas (upstream: `RESTMapper` and `ClientDiscoveryResolver`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rhumb_admission::SchemaResolver;
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use rhumb_schema::{SchemaRef, Table};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Error;
use crate::api_resources::{self, DiscoveryResult};

/// How long a result of discovery is used, as upstream.
const DISCOVERY_TTL: Duration = Duration::from_secs(30);

/// Caches the result of discovery.
pub(super) struct ServedKindCache {
    client: Client,
    cached: Mutex<Option<(Instant, Arc<ServedKinds>)>>,
}

impl ServedKindCache {
    pub(super) fn new(client: Client) -> ServedKindCache {
        ServedKindCache {
            client,
            cached: Mutex::default(),
        }
    }

    pub(super) async fn get(&self) -> Result<Arc<ServedKinds>, Error> {
        let mut cached = self.cached.lock().await;
        if let Some((discovered_at, kinds)) = &*cached
            && discovered_at.elapsed() < DISCOVERY_TTL
        {
            return Ok(Arc::clone(kinds));
        }
        let discovered = api_resources::discover(&self.client).await?;
        let kinds = Arc::new(ServedKinds::new(&discovered));
        *cached = Some((Instant::now(), Arc::clone(&kinds)));
        Ok(kinds)
    }
}

/// The served kinds by resource, and the schemas of those that are built in.
pub(super) struct ServedKinds {
    kinds: HashMap<GroupVersionResource, GroupVersionKind>,
    schemas: HashMap<GroupVersionKind, SchemaRef>,
}

impl ServedKinds {
    pub(super) fn new(discovered: &DiscoveryResult) -> ServedKinds {
        let kinds = discovered.kinds.iter().map(|resource| {
            let api = resource.api.clone();
            (
                GroupVersionResource::new(api.group.clone(), api.version.clone(), api.plural),
                GroupVersionKind::new(api.group, api.version, api.kind),
            )
        });
        let kinds: HashMap<GroupVersionResource, GroupVersionKind> = kinds.collect();
        let served: HashSet<&GroupVersionKind> = kinds.values().collect();
        let (table, built_in) = (Table::builtin(), rhumb_api::kinds::all());
        let versions = built_in
            .iter()
            .flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)));
        let schemas = versions.filter_map(|(kind, version)| {
            let name = GroupVersionKind::new(
                kind.group.clone(),
                version.version.clone(),
                kind.name.clone(),
            );
            let schema = SchemaRef::find(table, &version.schema)?;
            served.contains(&name).then_some((name, schema))
        });
        ServedKinds {
            schemas: schemas.collect(),
            kinds,
        }
    }
}

impl SchemaResolver for ServedKinds {
    fn kind_of(&self, resource: &GroupVersionResource) -> Option<GroupVersionKind> {
        self.kinds.get(resource).cloned()
    }

    fn schema_of(&self, kind: &GroupVersionKind) -> Option<SchemaRef> {
        self.schemas.get(kind).cloned()
    }
}

//! The registry of served resources: their versions, storage paths, caches, encoders and decoders.
//!
//! Entry point: `ResourceTable::new`, from the kinds of `rhumb_api`; lookup by group and plural name with `find`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_api::{FeatureGates, Kind, KindVersion};
use rhumb_cache::{IndexedAttribute, ResourceCache, ResourceCacheConfig};
use rhumb_meta::{GroupKind, GroupResource, GroupVersionKind, StoragePrefix};
use rhumb_quota::Evaluator;
use rhumb_schema::{ObjectDefaulter, SchemaRef, Table};

use super::equivalent_resources::{self, EquivalentResources};
use super::{KindSet, OpenApiSchemas, WatchEventCounters};
use crate::objects::{
    ApiObjectProjector, DecodableVersion, DecodedObjectCache, ObjectEncoder, StoredDecoder,
};

/// A served resource: its kind, its versions, and where its objects are stored.
#[derive(Debug)]
pub struct Resource {
    pub kind: Kind,
    pub group_resource: GroupResource,
    pub versions: Vec<ServedVersion>,
    /// `None` for virtual kinds, such as reviews.
    pub storage: Option<Arc<ResourceStorage>>,
    /// The defaults of the types of all versions.
    pub defaults: Arc<ObjectDefaulter>,
    /// OpenAPI schemas that are published instead of those of the schema table.
    pub openapi_schemas: Arc<OpenApiSchemas>,
    /// Unlike that of every other resource, also of earlier ones with the same name.
    pub registration: u64,
    /// Computes the quota usage of an object; `None` if quotas do not cover the resource.
    pub quota_evaluator: Option<Evaluator>,
}

/// A version in which a resource is served.
#[derive(Debug)]
pub struct ServedVersion {
    pub served: KindVersion,
    /// `v1`, `apps/v1`
    pub api_version: String,
    pub schema: SchemaRef,
    pub encoder: ObjectEncoder,
    pub watch_event_counters: Arc<WatchEventCounters>,
    /// Names and equivalents of the object endpoint, then of the subresources in their order.
    pub equivalent_resources: Vec<EquivalentResources>,
}

/// Where and how the objects of a resource are stored and cached.
#[derive(Debug)]
pub struct ResourceStorage {
    pub prefix: StoragePrefix,
    pub cache: ResourceCache,
    pub api_version: String,
    pub schema: SchemaRef,
    pub encoder: ObjectEncoder,
    pub decoder: StoredDecoder,
    /// Decoded objects that admission reads often.
    pub decoded_objects: DecodedObjectCache,
}

impl Resource {
    pub fn version(&self, version: &str) -> Option<&ServedVersion> {
        self.versions
            .iter()
            .find(|served| served.served.version == version)
    }

    /// The group and kind for error messages: those of the storage version.
    pub fn group_kind(&self) -> GroupKind {
        if let Some(stored) = &self.kind.stored_as {
            return GroupKind::new(stored.group.clone(), stored.kind.clone());
        }
        GroupKind::new(self.kind.group.clone(), self.kind.name.clone())
    }

    /// The internal Go type that upstream names in errors, such as `core.Pod`. The package is the first part of the
    /// group.
    pub fn go_type(&self) -> String {
        let kind = self.group_kind();
        let package = match kind.group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        format!("{package}.{}", kind.kind)
    }

    /// Names and equivalents of the endpoint for this version and subresource.
    pub fn equivalent_resources<'a>(
        &self,
        version: &'a ServedVersion,
        subresource: &str,
    ) -> Option<&'a EquivalentResources> {
        version
            .equivalent_resources
            .get(equivalent_resources::subresource_index(
                &self.kind,
                subresource,
            )?)
    }

    pub fn gvk(&self, version: &ServedVersion) -> GroupVersionKind {
        equivalent_resources::gvk(&self.kind, &version.served)
    }
}

/// Source of the numbers of tables and resources.
static LAST_REGISTRATION: AtomicU64 = AtomicU64::new(0);

fn next_registration() -> u64 {
    LAST_REGISTRATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// The resources by group and plural name. Immutable: a change makes another table.
#[derive(Debug, Default)]
pub struct ResourceTable {
    generation: u64,
    resources: Vec<Arc<Resource>>,
    /// The same resources by plural name; few plurals occur in more than one group.
    by_plural: HashMap<String, Vec<Arc<Resource>>>,
}

/// A kind cannot be registered, because its declaration does not match the schema table.
#[derive(Debug, thiserror::Error)]
#[error("cannot register kind {kind}: {reason}")]
pub struct KindRegistrationError {
    pub kind: String,
    pub reason: String,
}

/// The storage version of a kind.
#[derive(Debug)]
struct StorageVersion<'a> {
    kind: &'a Kind,
    api_version: String,
    schema: &'a str,
}

/// The storage version of each storage path. Where kinds share a path (events are served in two groups), it is the
/// version without a conversion.
fn storage_versions(kinds: &[Kind]) -> Vec<(&str, StorageVersion<'_>)> {
    kinds
        .iter()
        .filter_map(|kind| {
            let served = kind.storage_version()?;
            let stored = StorageVersion {
                kind,
                api_version: api_version(&kind.group, &served.version),
                schema: &served.schema,
            };
            Some((kind.storage.as_deref()?, stored))
        })
        .collect()
}

/// A cache for each storage path of the kinds. `indexes` returns what lists of a kind are indexed by.
pub fn cache_configs(
    kinds: &[Kind],
    table: &Arc<Table>,
    gates: &FeatureGates,
    indexes: impl Fn(&Kind, &str) -> Vec<IndexedAttribute>,
) -> Result<Vec<ResourceCacheConfig>, KindRegistrationError> {
    storage_versions(kinds)
        .into_iter()
        .map(|(path, stored)| {
            let decoder = stored_object_decoder(path, kinds, table, gates)?;
            let prefix = StoragePrefix::new(path).map_err(|error| KindRegistrationError {
                kind: stored.kind.name.to_string(),
                reason: error.to_string(),
            })?;
            Ok(ResourceCacheConfig {
                prefix,
                projector: Arc::new(ApiObjectProjector::new(
                    stored.kind,
                    &stored.api_version,
                    decoder,
                )),
                indexes: indexes(stored.kind, path),
            })
        })
        .collect()
}

/// A decoder for the objects below a storage path, which other servers may have stored in any version of its kinds.
fn stored_object_decoder(
    path: &str,
    kinds: &[Kind],
    table: &Arc<Table>,
    gates: &FeatureGates,
) -> Result<StoredDecoder, KindRegistrationError> {
    let mut stored = None;
    let mut fixup = None;
    let mut other_versions = Vec::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.storage.as_deref() == Some(path))
    {
        fixup = fixup.or(kind.read_fixup);
        for served in &kind.versions {
            let version = DecodableVersion {
                api_version: api_version(&kind.group, &served.version).into(),
                kind: (&*kind.name).into(),
                schema: schema_type(table, kind, &served.schema)?,
                conversion: served.conversion,
            };
            match (&stored, version.conversion) {
                (None, None) => stored = Some(version),
                _ => other_versions.push(version),
            }
        }
    }
    let stored = stored.ok_or_else(|| KindRegistrationError {
        kind: path.to_owned(),
        reason: format!("no storage version for {path}"),
    })?;
    let decoder = StoredDecoder::new(stored, other_versions);
    Ok(match fixup {
        Some(fixup) => decoder.with_fixup(fixup, *gates),
        None => decoder,
    })
}

fn schema_type(
    table: &Arc<Table>,
    kind: &Kind,
    name: &str,
) -> Result<SchemaRef, KindRegistrationError> {
    SchemaRef::find(table, name).ok_or_else(|| KindRegistrationError {
        kind: kind.name.to_string(),
        reason: format!("the schema table has no type {name}"),
    })
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

impl ResourceTable {
    /// Registers all kinds. `cache` returns the cache of a storage path.
    pub fn new(
        set: KindSet,
        gates: &FeatureGates,
        cache: impl Fn(&StoragePrefix) -> Option<ResourceCache>,
    ) -> Result<ResourceTable, KindRegistrationError> {
        let KindSet {
            kinds,
            table,
            defaults,
            openapi_schemas,
        } = set;
        let table = &table;
        let stored = storage_versions(&kinds);
        let mut resources = Vec::with_capacity(kinds.len());
        for (kind, equivalents) in kinds
            .iter()
            .zip(equivalent_resources::equivalents_by_kind(&kinds))
        {
            let fail = |reason: String| KindRegistrationError {
                kind: kind.name.to_string(),
                reason,
            };
            let storage = match kind.storage.as_deref() {
                None => None,
                Some(path) => {
                    let (_, stored) = stored
                        .iter()
                        .find(|(other, _)| *other == path)
                        .ok_or_else(|| fail(format!("no storage version for {path}")))?;
                    let prefix =
                        StoragePrefix::new(path).map_err(|error| fail(error.to_string()))?;
                    Some(Arc::new(ResourceStorage {
                        cache: cache(&prefix)
                            .ok_or_else(|| fail(format!("no cache for {path}")))?,
                        prefix,
                        schema: schema_type(table, kind, stored.schema)?,
                        decoder: stored_object_decoder(path, &kinds, table, gates)?,
                        encoder: ObjectEncoder::new(&stored.api_version, &stored.kind.name),
                        api_version: stored.api_version.clone(),
                        decoded_objects: DecodedObjectCache::default(),
                    }))
                }
            };
            let versions = kind
                .versions
                .iter()
                .zip(equivalents)
                .map(|(served, equivalents)| {
                    let api_version = api_version(&kind.group, &served.version);
                    Ok(ServedVersion {
                        served: served.clone(),
                        schema: schema_type(table, kind, &served.schema)?,
                        encoder: ObjectEncoder::new(&api_version, &kind.name),
                        api_version,
                        watch_event_counters: Arc::default(),
                        equivalent_resources: equivalents,
                    })
                })
                .collect::<Result<Vec<ServedVersion>, KindRegistrationError>>()?;
            let is_namespaced_object = kind.is_namespaced() && storage.is_some();
            resources.push(Resource {
                quota_evaluator: Evaluator::for_resource(&kind.group, &kind.plural)
                    .filter(|_| is_namespaced_object),
                group_resource: kind.group_resource(),
                defaults: Arc::clone(&defaults),
                openapi_schemas: Arc::clone(&openapi_schemas),
                registration: next_registration(),
                kind: kind.clone(),
                versions,
                storage,
            });
        }
        Ok(ResourceTable::from_resources(
            resources.into_iter().map(Arc::new),
        ))
    }

    /// These resources and further ones.
    pub fn with(&self, added: &ResourceTable) -> ResourceTable {
        ResourceTable::from_resources(self.iter().chain(added.iter()).cloned())
    }

    /// All resources but one.
    pub fn without(&self, removed: &Resource) -> ResourceTable {
        let remaining = self
            .iter()
            .filter(|resource| resource.registration != removed.registration);
        ResourceTable::from_resources(remaining.cloned())
    }

    fn from_resources(resources: impl Iterator<Item = Arc<Resource>>) -> ResourceTable {
        let mut table = ResourceTable {
            generation: next_registration(),
            ..ResourceTable::default()
        };
        for resource in resources {
            table.insert(resource);
        }
        table
    }

    /// What is derived from a table is current while the generation is the same.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        let plural = resource.kind.plural.to_string();
        let of_plural = self.by_plural.entry(plural).or_default();
        of_plural.push(Arc::clone(&resource));
        self.resources.push(resource);
    }

    pub fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        let mut of_plural = self.by_plural.get(plural)?.iter();
        of_plural.find(|resource| resource.kind.group == group)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    /// Whether any resource is served in this group and version.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.resources
            .iter()
            .any(|resource| resource.kind.group == group && resource.version(version).is_some())
    }
}

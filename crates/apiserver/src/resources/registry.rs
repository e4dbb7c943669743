//! All resources of the server, found by the names that paths use.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_api::{Gates, Kind, Served};
use rhumb_cache::Cache;
use rhumb_meta::{GroupKind, GroupResource, GroupVersionKind, StoragePrefix};
use rhumb_quota::Meter;
use rhumb_schema::{Table, TypeId};

use super::WatchEvents;
use super::naming::{self, Asked};
use crate::objects::{Encoder, Form, Forms, Trees};

/// A kind, and where its objects are.
#[derive(Debug)]
pub struct Resource {
    pub kind: Kind,
    pub group_resource: GroupResource,
    pub versions: Vec<Version>,
    /// `None` for kinds that are only asked, never stored.
    pub storage: Option<Storage>,
    /// How quotas measure the objects; `None` if none looks at them.
    pub meter: Option<Meter>,
}

/// A version that a resource is served in.
#[derive(Debug)]
pub struct Version {
    pub served: Served,
    /// `v1`, `apps/v1`
    pub api_version: String,
    pub schema: TypeId,
    pub encoder: Encoder,
    pub watch_events: Arc<WatchEvents>,
    /// What may be asked for: the object, then its subresources in their order.
    pub asked: Vec<Asked>,
}

#[derive(Debug)]
pub struct Storage {
    pub prefix: StoragePrefix,
    pub cache: Cache,
    pub api_version: String,
    pub schema: TypeId,
    pub encoder: Encoder,
    pub forms: Forms,
    /// Those that admission asks for.
    pub trees: Trees,
}

impl Resource {
    pub fn version(&self, version: &str) -> Option<&Version> {
        self.versions
            .iter()
            .find(|served| served.served.version == version)
    }

    /// The kind as errors name it: the one that is stored.
    pub fn group_kind(&self) -> GroupKind {
        if let Some(stored) = &self.kind.stored_as {
            return GroupKind::new(stored.group.clone(), stored.kind.clone());
        }
        GroupKind::new(self.kind.group.clone(), self.kind.name.clone())
    }

    /// What upstream calls the type of its objects: they are in packages that are called like the first part of
    /// their group.
    pub fn go_type(&self) -> String {
        let kind = self.group_kind();
        let package = match kind.group.split('.').next() {
            None | Some("") => "core",
            Some(package) => package,
        };
        format!("{package}.{}", kind.kind)
    }

    /// What a path with this version and subresource asks for.
    pub fn asked<'a>(&self, version: &'a Version, subresource: &str) -> Option<&'a Asked> {
        version.asked.get(naming::place(&self.kind, subresource)?)
    }

    pub fn gvk(&self, version: &Version) -> GroupVersionKind {
        naming::gvk(&self.kind, &version.served)
    }
}

/// The resources by group and plural name.
#[derive(Debug, Default)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    /// The same by their plurals, which tell nearly all of them apart.
    by_plural: HashMap<String, Vec<Arc<Resource>>>,
}

/// Why a kind cannot be served: its declaration and the schema table do not fit together.
#[derive(Debug, thiserror::Error)]
#[error("the kind {kind} cannot be served: {reason}")]
pub struct RegistryError {
    pub kind: String,
    pub reason: String,
}

/// The version in which the objects of each stored kind are kept, by the path they are kept under.
#[derive(Debug)]
pub struct StoredAs<'a> {
    pub kind: &'a Kind,
    pub api_version: String,
    pub schema: &'a str,
}

/// For each path below the store's root, the kind that says how its objects are kept. Kinds that share a path
/// (events are served in two groups) are kept as the one that has a version without a conversion.
pub fn stored_kinds(kinds: &[Kind]) -> Vec<(&str, StoredAs<'_>)> {
    kinds
        .iter()
        .filter_map(|kind| {
            let served = kind.stored()?;
            let stored = StoredAs {
                kind,
                api_version: api_version(&kind.group, &served.version),
                schema: &served.schema,
            };
            Some((kind.storage.as_deref()?, stored))
        })
        .collect()
}

/// The forms in which other servers may have stored the objects below a path: all versions of all its kinds.
pub fn forms(
    path: &str,
    kinds: &[Kind],
    table: &'static Table,
    gates: &Gates,
) -> Result<Forms, RegistryError> {
    let mut stored = None;
    let mut mend = None;
    let mut others = Vec::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.storage.as_deref() == Some(path))
    {
        mend = mend.or(kind.mend);
        for served in &kind.versions {
            let form = Form {
                api_version: api_version(&kind.group, &served.version).into(),
                kind: (&*kind.name).into(),
                schema: type_of(table, kind, &served.schema)?,
                conversion: served.conversion,
            };
            match (&stored, form.conversion) {
                (None, None) => stored = Some(form),
                _ => others.push(form),
            }
        }
    }
    let stored = stored.ok_or_else(|| RegistryError {
        kind: path.to_owned(),
        reason: format!("no version is stored under {path}"),
    })?;
    let forms = Forms::new(table, stored, others);
    Ok(match mend {
        Some(mend) => forms.mended(mend, *gates),
        None => forms,
    })
}

fn type_of(table: &Table, kind: &Kind, name: &str) -> Result<TypeId, RegistryError> {
    table.named(name).ok_or_else(|| RegistryError {
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

impl Registry {
    /// `cache` finds the cache of a path below the store's root.
    pub fn new(
        kinds: Vec<Kind>,
        table: &'static Table,
        gates: &Gates,
        cache: impl Fn(&StoragePrefix) -> Option<Cache>,
    ) -> Result<Registry, RegistryError> {
        let mut registry = Registry::default();
        let stored = stored_kinds(&kinds);
        let mut resources = Vec::with_capacity(kinds.len());
        for (kind, asked) in kinds.iter().zip(naming::name_all(&kinds)) {
            let fail = |reason: String| RegistryError {
                kind: kind.name.to_string(),
                reason,
            };
            let storage = match kind.storage.as_deref() {
                None => None,
                Some(path) => {
                    let (_, stored) = stored
                        .iter()
                        .find(|(other, _)| *other == path)
                        .ok_or_else(|| fail(format!("no version is stored under {path}")))?;
                    let prefix =
                        StoragePrefix::new(path).map_err(|error| fail(error.to_string()))?;
                    Some(Storage {
                        cache: cache(&prefix)
                            .ok_or_else(|| fail(format!("nothing caches {path}")))?,
                        prefix,
                        schema: type_of(table, kind, stored.schema)?,
                        forms: forms(path, &kinds, table, gates)?,
                        encoder: Encoder::new(&stored.api_version, &stored.kind.name),
                        api_version: stored.api_version.clone(),
                        trees: Trees::default(),
                    })
                }
            };
            let versions = kind
                .versions
                .iter()
                .zip(asked)
                .map(|(served, asked)| {
                    let api_version = api_version(&kind.group, &served.version);
                    Ok(Version {
                        served: served.clone(),
                        schema: type_of(table, kind, &served.schema)?,
                        encoder: Encoder::new(&api_version, &kind.name),
                        api_version,
                        watch_events: Arc::default(),
                        asked,
                    })
                })
                .collect::<Result<Vec<Version>, RegistryError>>()?;
            let is_kept = kind.is_namespaced() && storage.is_some();
            resources.push(Resource {
                meter: Meter::of(&kind.group, &kind.plural).filter(|_| is_kept),
                group_resource: kind.group_resource(),
                kind: kind.clone(),
                versions,
                storage,
            });
        }
        for resource in resources {
            registry.add(resource);
        }
        Ok(registry)
    }

    fn add(&mut self, resource: Resource) {
        let resource = Arc::new(resource);
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

//! The LimitRanger plugin: checks pods and PersistentVolumeClaims against the LimitRanges of their namespace, and sets
//! default requests and limits of containers.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_cache::{CacheEntry, CacheSnapshot, ResourceCache};
use rhumb_meta::{Revision, Status};
use rhumb_quota::LimitRange;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

#[derive(Debug, Default)]
pub(super) struct LimitRangerPlugin {
    /// The cache of LimitRanges; `None` if they are not served.
    cache: OnceLock<Option<ResourceCache>>,
    ranges: LimitRangeCache,
}

/// The kinds that LimitRanges apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitedObjectKind {
    Pod,
    Claim,
}

impl LimitedObjectKind {
    /// The kind to check, if the request must be checked. The resources of existing pods change only by a resize.
    /// Objects that are being deleted are not checked.
    fn for_request(attributes: &AdmissionAttributes<'_>) -> Option<LimitedObjectKind> {
        let kind = match (attributes.operation, attributes.subresource()) {
            (Operation::Create, "") if attributes.is_resource_or_subresource("", "pods") => {
                LimitedObjectKind::Pod
            }
            (Operation::Update, "resize") if attributes.is_resource_or_subresource("", "pods") => {
                LimitedObjectKind::Pod
            }
            (Operation::Create | Operation::Update, "")
                if attributes.is_resource_or_subresource("", "persistentvolumeclaims") =>
            {
                LimitedObjectKind::Claim
            }
            _ => return None,
        };
        let is_deleting = attributes
            .old_object
            .is_some_and(ObjectMetadata::is_deleting);
        (!is_deleting).then_some(kind)
    }
}

impl LimitRangerPlugin {
    /// The LimitRanges of the namespace, by name.
    fn ranges(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Option<Arc<[CachedLimitRange]>>, Status> {
        let resources = attributes.context.resources;
        let cache = self.cache.get_or_init(|| {
            let resource = resources.find("", "limitranges")?;
            Some(resource.storage.as_ref()?.cache.clone())
        });
        let (Some(cache), Some(namespace)) = (cache, attributes.context.namespace()) else {
            return Ok(None);
        };
        self.ranges.for_namespace(&cache.snapshot(), namespace).map_err(|error| {
            tracing::error!(namespace, error, "failed to parse limit range; rejecting the request");
            let operation = attributes.operation.as_str();
            match attributes.equivalent_resources() {
                Ok(request) => attributes.forbidden(
                    None,
                    format_args!(
                        "unable to {operation} {} at this time because there was an error enforcing limit ranges",
                        request.names.resource
                    ),
                ),
                Err(status) => status,
            }
        })
    }
}

#[async_trait]
impl AdmissionPlugin for LimitRangerPlugin {
    fn handles(&self, _step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        LimitedObjectKind::for_request(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        if let (Some(LimitedObjectKind::Pod), Some(pod)) =
            (LimitedObjectKind::for_request(attributes), object)
        {
            let ranges = self.ranges(attributes)?;
            for limit_range in ranges.iter().flat_map(|all| all.iter()) {
                limit_range.range.apply_defaults(pod);
            }
            // Pod-level resources are defaulted from those of the containers, which may have changed.
            if ranges.is_some() && fields::get(pod, "spec.resources").is_some() {
                let context = attributes.context;
                let schema = &context.storage()?.schema;
                context.resource.defaults.apply(schema, pod);
            }
        }
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let (Some(kind), Some(new_object)) = (LimitedObjectKind::for_request(attributes), object)
        else {
            return Ok(());
        };
        for limit_range in self.ranges(attributes)?.iter().flat_map(|all| all.iter()) {
            let checked = match kind {
                LimitedObjectKind::Pod => limit_range.range.check_pod(new_object),
                LimitedObjectKind::Claim => limit_range.range.check_claim(new_object),
            };
            checked.map_err(|violations| attributes.forbidden(object, violations))?;
        }
        Ok(())
    }
}

/// Parsed LimitRanges by namespace. A change is noticed on the next access to that namespace; other namespaces are
/// unaffected.
#[derive(Debug, Default)]
struct LimitRangeCache(RwLock<HashMap<Box<str>, Arc<[CachedLimitRange]>>>);

/// A parsed LimitRange and the revision that it was parsed from.
#[derive(Debug)]
struct CachedLimitRange {
    name: Box<str>,
    revision: Revision,
    range: Arc<LimitRange>,
}

impl CachedLimitRange {
    fn is_current(&self, entry: &CacheEntry) -> bool {
        self.revision == entry.revision() && *self.name == *entry.key().name()
    }
}

impl LimitRangeCache {
    /// The LimitRanges of a namespace; `None` if it has none.
    fn for_namespace(
        &self,
        snapshot: &CacheSnapshot,
        namespace: &str,
    ) -> Result<Option<Arc<[CachedLimitRange]>>, String> {
        let entries = || snapshot.range(Some(namespace), None);
        if entries().next().is_none() {
            return Ok(None);
        }
        let cached = self.cached(namespace);
        if let Some(cached) = cached.as_ref()
            && entries().count() == cached.len()
            && entries()
                .zip(cached.iter())
                .all(|(entry, cached)| cached.is_current(entry))
        {
            return Ok(Some(cached.clone()));
        }
        let previous = cached.as_deref().unwrap_or_default();
        let parsed: Result<Arc<[CachedLimitRange]>, String> = entries()
            .map(|entry| reuse_or_parse(entry, previous))
            .collect();
        let parsed = parsed?;
        self.store(snapshot, namespace, parsed.clone());
        Ok(Some(parsed))
    }

    fn cached(&self, namespace: &str) -> Option<Arc<[CachedLimitRange]>> {
        let ranges = self.0.read();
        ranges.get(namespace).cloned()
    }

    /// Stores parsed ranges. Once most entries must belong to namespaces without ranges, those are pruned.
    fn store(&self, snapshot: &CacheSnapshot, namespace: &str, parsed: Arc<[CachedLimitRange]>) {
        let mut ranges = self.0.write();
        if ranges.len() > 2 * snapshot.len() {
            ranges.retain(|namespace, _| snapshot.range(Some(namespace), None).next().is_some());
        }
        ranges.insert(namespace.into(), parsed);
    }
}

/// Parses an entry, or reuses the previous result if the revision is the same.
fn reuse_or_parse(
    entry: &Arc<CacheEntry>,
    previous: &[CachedLimitRange],
) -> Result<CachedLimitRange, String> {
    let range = match previous.iter().find(|cached| cached.is_current(entry)) {
        Some(cached) => cached.range.clone(),
        None => Arc::new(parse(entry)?),
    };
    Ok(CachedLimitRange {
        name: entry.key().name().into(),
        revision: entry.revision(),
        range,
    })
}

fn parse(entry: &CacheEntry) -> Result<LimitRange, String> {
    let message = |error: &dyn std::fmt::Display| format!("{}: {error}", entry.key().name());
    let object: JsonObject =
        serde_json::from_slice(entry.json_slice()).map_err(|error| message(&error))?;
    LimitRange::read(&object).map_err(|error| message(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::TestCaches;

    async fn put(caches: &TestCaches, namespace: &str, name: &str) {
        let range = json!({
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": name, "namespace": namespace, "uid": "1"},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]},
        });
        let path = format!("limitranges/{namespace}/{name}");
        caches.put(&path, &range).await;
    }

    #[tokio::test]
    async fn only_changed_limit_ranges_are_parsed_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let caches = TestCaches::open(directory.path()).await;
        let resource = caches
            .resources
            .find("", "limitranges")
            .expect("limit ranges are served");
        let cache = &resource
            .storage
            .as_ref()
            .expect("limit ranges are stored")
            .cache;
        let ranges = LimitRangeCache::default();
        let ranges_of = |namespace: &str| {
            ranges
                .for_namespace(&cache.snapshot(), namespace)
                .expect("limit ranges can be parsed")
        };
        assert!(ranges_of("default").is_none());
        for namespace in ["default", "kube-system", "kube-public"] {
            put(&caches, namespace, "b").await;
        }
        let before = ranges_of("default").expect("a limit range");
        assert!(ranges_of("kube-system").is_some());
        assert!(ranges_of("kube-public").is_some());
        put(&caches, "kube-system", "c").await;
        let unchanged = ranges_of("default").expect("a limit range");
        assert!(Arc::ptr_eq(&before, &unchanged));
        put(&caches, "default", "a").await;
        let now = ranges_of("default").expect("limit ranges");
        let names: Vec<&str> = now.iter().map(|range| &*range.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(Arc::ptr_eq(&now[1].range, &before[0].range));
        // Namespaces without ranges are pruned.
        for path in [
            "kube-system/b",
            "kube-system/c",
            "kube-public/b",
            "default/b",
        ] {
            caches.delete(&format!("limitranges/{path}")).await;
        }
        assert!(ranges_of("kube-system").is_none());
        assert_eq!(ranges_of("default").map(|all| all.len()), Some(1));
        let cached_namespaces: Vec<Box<str>> = ranges.0.read().keys().cloned().collect();
        assert_eq!(cached_namespaces, ["default".into()]);
        caches.close().await;
    }
}

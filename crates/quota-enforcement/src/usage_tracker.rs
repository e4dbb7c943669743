//! Tracks the usage of one namespace: cache watches on every counted resource feed a [`NamespaceUsage`], and
//! reservations of committed writes are released once the watches have reached the commit.

use std::sync::Arc;

use rhumb_cache::{
    CacheContentsTag, CacheEntry, EventKind, ResourceCache, WatchMessage, WatchNotifier,
    WatchScope, WatchStart,
};
use rhumb_cache::{CacheWatcher, WatchEnd, WatchRequest};
use rhumb_meta::{ObjectKey, Revision, Timestamp, fields, labels};
use rhumb_quota::{Evaluator, NamespaceUsage, ReservationId, ResourceQuota};
use serde::Deserialize;

use crate::device_classes::DeviceClasses;
use rhumb_registry::{Resource, ResourceTable};

/// Usage of one namespace, kept in sync with the caches. [`UsageTracker::catch_up`] applies pending watch events.
#[derive(Debug)]
pub(super) struct UsageTracker {
    namespace: Box<str>,
    quota_cache: ResourceCache,
    device_classes: Arc<DeviceClasses>,
    /// Version of the quota cache at the last `sync_quotas`.
    quota_cache_version: Option<CacheContentsTag>,
    quotas: Vec<ParsedQuota>,
    /// Whether the usage has to be rebuilt: the quotas count other things now, or a watch has expired.
    needs_rebuild: bool,
    /// Generation of the table of resources that the watches are of.
    resources_generation: u64,
    observed_revision: Revision,
    pub(super) usage: NamespaceUsage,
    /// Indexed as the resources of the usage.
    watches: Vec<ResourceWatch>,
    /// Reservations of committed writes, released once the watches have reached the revision.
    committed: Vec<(ReservationId, Revision)>,
}

/// A quota as parsed from the cache at a revision.
#[derive(Debug, Clone)]
struct ParsedQuota {
    key: ObjectKey,
    revision: Revision,
    quota: ResourceQuota,
}

/// Watches the objects of one resource that quotas count.
#[derive(Debug)]
struct ResourceWatch {
    /// The registration of the resource.
    registration: u64,
    evaluator: Evaluator,
    watcher: Option<CacheWatcher>,
}

impl UsageTracker {
    pub(super) fn new(
        namespace: &str,
        quota_cache: ResourceCache,
        device_classes: Arc<DeviceClasses>,
    ) -> UsageTracker {
        UsageTracker {
            namespace: namespace.into(),
            quota_cache,
            device_classes,
            quota_cache_version: None,
            quotas: Vec::new(),
            needs_rebuild: false,
            resources_generation: 0,
            observed_revision: Revision::ZERO,
            usage: NamespaceUsage::default(),
            watches: Vec::new(),
            committed: Vec::new(),
        }
    }

    /// Parses quotas that have changed in the cache. Returns whether the usage has to be rebuilt because the quotas
    /// count other resources or scopes now.
    pub(super) fn sync_quotas(&mut self) -> bool {
        let version = self.quota_cache.version();
        if self.quota_cache_version == Some(version) {
            return self.needs_rebuild;
        }
        let snapshot = self.quota_cache.snapshot();
        let entries = snapshot.range(Some(&self.namespace), None);
        let mut previous = std::mem::take(&mut self.quotas).into_iter().peekable();
        let (mut needs_rebuild, mut is_changed) = (false, false);
        for entry in entries {
            // Merge join: both sides are sorted by key.
            while previous
                .next_if(|cached| cached.key < *entry.key())
                .is_some()
            {
                needs_rebuild = true;
            }
            let old = previous.next_if(|cached| cached.key == *entry.key());
            let cached = match old {
                Some(old) if old.revision == entry.revision() => old,
                old => {
                    let Some(cached) = parse_quota(entry) else {
                        needs_rebuild |= old.is_some();
                        continue;
                    };
                    is_changed = true;
                    needs_rebuild |= old.is_none_or(|old| !old.quota.tracks_same_as(&cached.quota));
                    cached
                }
            };
            self.quotas.push(cached);
        }
        needs_rebuild |= previous.next().is_some();
        self.quota_cache_version = Some(version);
        self.needs_rebuild |= needs_rebuild;
        if is_changed && !self.needs_rebuild {
            let quotas = self.quotas.iter().map(|cached| cached.quota.clone());
            self.usage.set_quotas(quotas.collect());
        }
        self.needs_rebuild
    }

    /// Compares the resources that quotas count with those that are served. Returns whether the usage has to be rebuilt.
    pub(super) fn sync_resources(&mut self, resources: &ResourceTable) -> bool {
        if self.resources_generation != resources.generation() {
            self.resources_generation = resources.generation();
            let counted = counted_resources(resources, &self.quotas);
            let counted = counted.map(|resource| resource.registration);
            let watched = self.watches.iter().map(|watch| watch.registration);
            self.needs_rebuild |= !counted.eq(watched);
        }
        self.needs_rebuild
    }

    /// Whether the usage has to be rebuilt before it can be used.
    pub(super) fn needs_rebuild(&self) -> bool {
        self.needs_rebuild
    }

    /// Restarts the usage and its watches for what the quotas count now. Reservations are kept.
    pub(super) fn rebuild(&mut self, registry: &ResourceTable) {
        let quotas: Vec<ResourceQuota> = self
            .quotas
            .iter()
            .map(|cached| cached.quota.clone())
            .collect();
        self.resources_generation = registry.generation();
        self.watches = counted_resources(registry, &self.quotas)
            .filter_map(|resource| ResourceWatch::new(resource, &self.namespace))
            .collect();
        let evaluators = self.watches.iter().map(|watch| watch.evaluator.clone());
        let usage = NamespaceUsage::new(quotas, evaluators.collect());
        self.usage = usage.with_reservations_of(std::mem::take(&mut self.usage));
        self.needs_rebuild = false;
    }

    /// Applies all pending watch events. Afterwards `needs_rebuild` may be set, because a watch has expired.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        self.observed_revision = Revision::MAX;
        for (index, watch) in self.watches.iter_mut().enumerate() {
            match watch.catch_up(&mut self.usage, index) {
                Some(reached) => self.observed_revision = self.observed_revision.min(reached),
                None => self.needs_rebuild = true,
            }
        }
        self.usage
            .set_device_classes(&self.device_classes.mapping());
        self.usage.advance_time(now);
        let (usage, observed_revision) = (&mut self.usage, self.observed_revision);
        self.committed.retain(|&(id, revision)| {
            let is_shown = revision <= observed_revision;
            if is_shown {
                usage.release(id);
            }
            !is_shown
        });
    }

    /// The revision that all watches had reached at the last `catch_up`.
    pub(super) fn observed_revision(&self) -> Revision {
        self.observed_revision
    }

    /// Releases the reservation of a committed write once the watches have reached its revision.
    pub(super) fn release_after(&mut self, id: ReservationId, revision: Revision) {
        self.committed.push((id, revision));
    }

    /// The keys of the quotas, indexed as in the usage.
    pub(super) fn quota_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.quotas.iter().map(|cached| &cached.key)
    }

    pub(super) fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Notifiers of the watches on counted resources.
    pub(super) fn watch_notifiers(&self) -> Vec<WatchNotifier> {
        let watchers = self.watches.iter();
        let watchers = watchers.filter_map(|watch| watch.watcher.as_ref());
        watchers.map(CacheWatcher::notifier).collect()
    }
}

/// The resources that any of the quotas counts.
fn counted_resources<'a>(
    resources: &'a ResourceTable,
    quotas: &'a [ParsedQuota],
) -> impl Iterator<Item = &'a Resource> {
    let is_counted = |evaluator: &Evaluator| {
        let mut names = quotas.iter().flat_map(|cached| cached.quota.hard.names());
        names.any(|name| evaluator.covers(name))
    };
    resources
        .iter()
        .map(|resource| &**resource)
        .filter(move |resource| resource.quota_evaluator.as_ref().is_some_and(is_counted))
}

fn parse_quota(entry: &CacheEntry) -> Option<ParsedQuota> {
    let object = serde_json::from_slice(entry.json_slice()).ok()?;
    Some(ParsedQuota {
        key: entry.key().clone(),
        revision: entry.revision(),
        quota: ResourceQuota::parse(&object),
    })
}

impl ResourceWatch {
    fn new(resource: &Resource, namespace: &str) -> Option<ResourceWatch> {
        let storage = resource.storage.as_ref()?;
        let request = WatchRequest {
            start: WatchStart::InitialList,
            scope: WatchScope::Namespace(namespace.into()),
            labels: labels::Selector::everything(),
            fields: fields::Selector::everything(),
        };
        Some(ResourceWatch {
            registration: resource.registration,
            evaluator: resource.quota_evaluator.clone()?,
            // Fails if the resource was removed meanwhile, and during shutdown, when nothing is written any more.
            watcher: storage.cache.watch(request).ok(),
        })
    }

    /// Applies pending events and returns the revision reached; `None` if the watch has expired and events were lost.
    fn catch_up(&mut self, usage: &mut NamespaceUsage, index: usize) -> Option<Revision> {
        let Some(watcher) = &mut self.watcher else {
            return Some(Revision::ZERO);
        };
        loop {
            match watcher.try_next() {
                Ok(Some(WatchMessage::Event(event))) => {
                    let is_deleted = event.kind() == EventKind::Deleted;
                    apply_entry(&self.evaluator, usage, index, event.entry(), is_deleted);
                }
                Ok(Some(WatchMessage::InitialEventsEnd(_))) => {}
                Ok(None) => {
                    if let Some(reached) = watcher.progress() {
                        return Some(reached);
                    }
                }
                Err(WatchEnd::Expired) => return None,
                Err(WatchEnd::Closing) => return Some(Revision::ZERO),
                Err(WatchEnd::Removed) => {
                    usage.clear_resource(index);
                    return Some(Revision::MAX);
                }
            }
        }
    }
}

/// Decodes only `metadata.uid` of an object.
#[derive(Deserialize)]
struct ObjectWithUid<'a> {
    #[serde(borrow)]
    metadata: MetadataWithUid<'a>,
}

#[derive(Deserialize)]
struct MetadataWithUid<'a> {
    #[serde(default)]
    uid: &'a str,
}

fn apply_entry(
    evaluator: &Evaluator,
    usage: &mut NamespaceUsage,
    index: usize,
    entry: &CacheEntry,
    is_deleted: bool,
) {
    let name = entry.key().name();
    if is_deleted {
        return usage.set_object(index, name, None);
    }
    let json = entry.json_slice();
    if usage.awaits_new_objects()
        && let Ok(object) = serde_json::from_slice::<ObjectWithUid<'_>>(json)
    {
        usage.release_new_object(object.metadata.uid);
    }
    // Objects that cannot be decoded are not served, so they are not counted either.
    usage.set_object(index, name, evaluator.usage_from_json(json).ok());
}

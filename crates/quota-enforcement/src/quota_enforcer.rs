//! [`QuotaEnforcer`]: the quotas of all namespaces.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_cache::ResourceCache;
use rhumb_quota::NamespaceUsage;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use rhumb_registry::{ReadHook, RequestContext, ResourceTable};

use crate::device_classes::DeviceClasses;
use crate::epoch::QuotaEpochs;
use crate::metrics::QuotaMetrics;
use crate::namespace_quota::NamespaceQuota;
use crate::status;
use crate::usage_tracker::UsageTracker;

/// How long a read of quotas waits for their status to be refreshed.
const STATUS_REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// How many namespaces may recompute their usage concurrently.
const CONCURRENT_REBUILDS_MAX: usize = 4;

/// Quota registry of all namespaces that have quotas.
#[derive(Debug)]
pub struct QuotaEnforcer {
    pub(crate) quota_cache: Option<ResourceCache>,
    device_classes: Arc<DeviceClasses>,
    namespaces: Mutex<HashMap<Box<str>, Arc<NamespaceQuota>>>,
    pub(crate) epochs: Arc<QuotaEpochs>,
    pub(crate) metrics: QuotaMetrics,
    /// Limits concurrent rebuilds: each one reads all counted objects of its namespace.
    rebuild_permits: Arc<Semaphore>,
}

impl QuotaEnforcer {
    pub fn new(registry: &ResourceTable, epochs: Arc<QuotaEpochs>) -> QuotaEnforcer {
        let quotas = registry
            .find("", "resourcequotas")
            .and_then(|resource| resource.storage.as_ref());
        QuotaEnforcer {
            quota_cache: quotas.map(|storage| storage.cache.clone()),
            device_classes: Arc::new(DeviceClasses::new(registry)),
            namespaces: Mutex::default(),
            epochs,
            metrics: QuotaMetrics::default(),
            rebuild_permits: Arc::new(Semaphore::new(CONCURRENT_REBUILDS_MAX)),
        }
    }

    pub fn metrics(&self) -> &QuotaMetrics {
        &self.metrics
    }

    /// The quota registry of a namespace; `None` if the namespace has no quotas.
    pub(crate) fn for_namespace(&self, namespace: &str) -> Option<Arc<NamespaceQuota>> {
        let quotas = self.quota_cache.as_ref()?;
        if let Some(namespace_quota) = self.lock_namespaces().get(namespace) {
            return Some(Arc::clone(namespace_quota));
        }
        quotas.snapshot().range(Some(namespace), None).next()?;
        let mut namespaces = self.lock_namespaces();
        let namespace_quota = namespaces.entry(namespace.into()).or_insert_with(|| {
            let tracker =
                UsageTracker::new(namespace, quotas.clone(), Arc::clone(&self.device_classes));
            let permits = Arc::clone(&self.rebuild_permits);
            Arc::new(NamespaceQuota::new(tracker, permits))
        });
        Some(Arc::clone(namespace_quota))
    }

    /// The usage of a namespace without quotas, by which only the configuration limits writes.
    pub(crate) fn usage_without_quotas(&self) -> NamespaceUsage {
        let mut usage = NamespaceUsage::default();
        usage.set_device_classes(&self.device_classes.mapping());
        usage
    }

    /// Removes the registry of a namespace that has neither quotas nor reservations. The caller holds the tracker's lock,
    /// so no reservation can be added meanwhile.
    pub(crate) fn remove_if_idle(&self, namespace: &str, tracker: &UsageTracker) -> bool {
        let is_idle = !tracker.has_quotas() && !tracker.usage.has_reservations();
        if is_idle {
            self.lock_namespaces().remove(namespace);
        }
        is_idle
    }

    /// Whether this is still the registered registry of the namespace.
    pub(crate) fn is_current(
        &self,
        namespace: &str,
        namespace_quota: &Arc<NamespaceQuota>,
    ) -> bool {
        let namespaces = self.lock_namespaces();
        namespaces
            .get(namespace)
            .is_some_and(|current| Arc::ptr_eq(current, namespace_quota))
    }

    fn lock_namespaces(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<NamespaceQuota>>> {
        self.namespaces.lock()
    }

    /// Refreshes the status of a namespace's quotas before a get or list of them. On timeout the stored status is
    /// served.
    async fn refresh_status(&self, context: &RequestContext<'_>) {
        let Some(namespace) = context.namespace() else {
            return;
        };
        let requested_at = Instant::now();
        let refreshed = async {
            // Other servers may have admitted writes that this cache does not show yet.
            context.registry.await_consistent(context).await?;
            match self.for_namespace(namespace) {
                Some(namespace_quota) => {
                    status::refresh(context.registry, &namespace_quota, requested_at).await
                }
                None => Ok(()),
            }
        };
        let _ = timeout(STATUS_REFRESH_TIMEOUT, refreshed).await;
    }
}

/// Refreshes the status of quotas before they are read.
#[derive(Debug)]
pub struct QuotaReadHook(pub Arc<QuotaEnforcer>);

#[async_trait]
impl ReadHook for QuotaReadHook {
    async fn before_read(&self, context: &RequestContext<'_>) {
        self.0.refresh_status(context).await;
    }
}

#[cfg(test)]
mod tests {
    use rhumb_quota::ObjectUsage;
    use rhumb_registry::testing::TestCaches;

    use super::*;

    /// Otherwise the next write would start with usage that lacks the reservation in progress.
    #[tokio::test]
    async fn quota_state_with_reservations_is_not_removed() {
        let directory = tempfile::tempdir().expect("create temporary directory");
        let caches = TestCaches::open(directory.path()).await;
        let quotas = caches.resources.find("", "resourcequotas");
        let storage = quotas.and_then(|quotas| quotas.storage.clone());
        let cache = storage.expect("quotas are stored").cache.clone();
        let epochs = Arc::new(QuotaEpochs::new(cache.clone(), false));
        let enforcer = QuotaEnforcer::new(&caches.resources, epochs);
        let quota = serde_json::json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default", "uid": "1"},
            "spec": {"hard": {"pods": "1"}},
        });
        caches.put("resourcequotas/default/q", &quota).await;
        let namespace_quota = enforcer.for_namespace("default").expect("a quota");
        let device_classes = Arc::new(DeviceClasses::new(&caches.resources));
        let mut tracker = UsageTracker::new("default", cache, device_classes);
        let id = tracker.usage.reserve(ObjectUsage::default(), None, None);
        assert!(!enforcer.remove_if_idle("default", &tracker));
        assert!(enforcer.is_current("default", &namespace_quota));
        tracker.usage.release(id);
        assert!(enforcer.remove_if_idle("default", &tracker));
        assert!(!enforcer.is_current("default", &namespace_quota));
        caches.close().await;
    }
}

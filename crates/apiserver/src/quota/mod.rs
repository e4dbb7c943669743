//! ResourceQuota enforcement (upstream: the ResourceQuota admission plugin and the resource quota controller).
//!
//! Entry point: [`QuotaEnforcer::reserve`]. Each namespace with quotas has a [`NamespaceQuota`]: usage computed from
//! the caches plus reservations of writes in progress. A write reserves its usage before the commit and releases it
//! once the cache shows the object or the write has failed, so a crash leaves nothing to correct. Every commit carries
//! a precondition on the namespace's epoch key (`epoch.rs`), which fails if another server changed the quotas or took
//! over admission. `status.used` is derived and written shortly afterwards (`status.rs`).

mod epoch;
mod metrics;
mod namespace_quota;
mod reservation;
mod status;
#[cfg(test)]
mod tests;
mod usage_tracker;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_cache::ResourceCache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::resources::{RequestContext, ResourceTable};

pub use epoch::{EPOCHS_PATH, EpochSideEffects, QuotaEpochs};
pub use metrics::QuotaMetrics;
pub use namespace_quota::QuotaGrant;
pub(crate) use namespace_quota::{CountedObject, QuotaRequest, ReservationError};
pub(crate) use reservation::QuotaReservation;
pub(crate) use status::spawn_status_tasks;

use namespace_quota::NamespaceQuota;
use usage_tracker::UsageTracker;

/// How long a read of quotas waits for their status to be refreshed.
const STATUS_REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// How many namespaces may recompute their usage concurrently.
const CONCURRENT_REBUILDS_MAX: usize = 4;

/// Quota registry of all namespaces that have quotas.
#[derive(Debug)]
pub struct QuotaEnforcer {
    quota_cache: Option<ResourceCache>,
    namespaces: Mutex<HashMap<Box<str>, Arc<NamespaceQuota>>>,
    epochs: Arc<QuotaEpochs>,
    metrics: QuotaMetrics,
    /// Limits concurrent rebuilds: each one reads all counted objects of its namespace.
    rebuild_permits: Arc<Semaphore>,
    /// Whether this server writes `status` of ResourceQuotas.
    writes_status: AtomicBool,
}

impl QuotaEnforcer {
    pub fn new(registry: &ResourceTable, epochs: Arc<QuotaEpochs>) -> QuotaEnforcer {
        let quotas = registry
            .find("", "resourcequotas")
            .and_then(|resource| resource.storage.as_ref());
        QuotaEnforcer {
            quota_cache: quotas.map(|storage| storage.cache.clone()),
            namespaces: Mutex::default(),
            epochs,
            metrics: QuotaMetrics::default(),
            rebuild_permits: Arc::new(Semaphore::new(CONCURRENT_REBUILDS_MAX)),
            writes_status: AtomicBool::new(false),
        }
    }

    pub fn metrics(&self) -> &QuotaMetrics {
        &self.metrics
    }

    /// The quota registry of a namespace; `None` if the namespace has no quotas.
    fn for_namespace(&self, namespace: &str) -> Option<Arc<NamespaceQuota>> {
        let quotas = self.quota_cache.as_ref()?;
        if let Some(namespace_quota) = self.lock_namespaces().get(namespace) {
            return Some(Arc::clone(namespace_quota));
        }
        quotas.snapshot().range(Some(namespace), None).next()?;
        let mut namespaces = self.lock_namespaces();
        let namespace_quota = namespaces.entry(namespace.into()).or_insert_with(|| {
            let permits = Arc::clone(&self.rebuild_permits);
            Arc::new(NamespaceQuota::new(namespace, quotas.clone(), permits))
        });
        Some(Arc::clone(namespace_quota))
    }

    /// Removes the registry of a namespace that has neither quotas nor reservations. The caller holds the tracker's lock,
    /// so no reservation can be added meanwhile.
    fn remove_if_idle(&self, namespace: &str, tracker: &UsageTracker) -> bool {
        let is_idle = !tracker.has_quotas() && !tracker.usage.has_reservations();
        if is_idle {
            self.lock_namespaces().remove(namespace);
        }
        is_idle
    }

    /// Whether this is still the registered registry of the namespace.
    fn is_current(&self, namespace: &str, namespace_quota: &Arc<NamespaceQuota>) -> bool {
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
    pub(crate) async fn refresh_status(&self, context: &RequestContext<'_>) {
        let resource = &context.resource.group_resource;
        let is_quota = resource.group.is_empty() && resource.resource == "resourcequotas";
        let namespace = context
            .namespace()
            .filter(|_| is_quota && self.writes_status());
        let Some(namespace) = namespace else {
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

    fn writes_status(&self) -> bool {
        self.writes_status.load(Ordering::Relaxed)
    }
}

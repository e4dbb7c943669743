//! Refreshes `status.hard` and `status.used` of a namespace's ResourceQuotas before they are read.
//!
//! Entry point: [`refresh`]. Writes are checked against the tracked usage and not against the status, so the status may
//! lag: between reads, the resourcequota-controller writes it.

use std::sync::Arc;
use std::time::Duration;

use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Revision, Status};
use rhumb_quota::{ResourceQuantities, updated_status};
use tokio::time::Instant;

use super::namespace_quota::NamespaceQuota;
use super::usage_tracker::UsageTracker;
use rhumb_registry::Registry;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::{BatchChange, BatchObjectRef, BatchOutcome, WriteBatch};

/// Maximum number of quotas written in one transaction.
const BATCH_MAX: usize = 100;

/// How often a status is recomputed after a conflicting write.
const ATTEMPTS_MAX: u32 = 8;

/// How long to wait until the cache shows a conflicting write.
const CATCH_UP_MAX: Duration = Duration::from_secs(3);

/// Writes the tracked usage into each quota whose status differs. A refresh that started after `requested_at` serves all
/// callers that were waiting for it.
pub(super) async fn refresh(
    registry: &Arc<Registry>,
    namespace_quota: &NamespaceQuota,
    requested_at: Instant,
) -> Result<(), Status> {
    let mut refreshed_at = namespace_quota.status_refreshed_at.lock().await;
    if refreshed_at.is_some_and(|refresh_started| refresh_started > requested_at) {
        return Ok(());
    }
    for attempt in 0..ATTEMPTS_MAX {
        let refresh_started = Instant::now();
        let snapshot = UsageSnapshot::from_tracker(&*namespace_quota.lock_tracker(registry).await?);
        if snapshot.write(registry, batch_max(attempt)).await? {
            *refreshed_at = Some(refresh_started);
            break;
        }
        // Wait until the cache shows the conflicting write, then recompute.
        let caught_up = registry
            .cache_manager
            .wait_until_consistent(Instant::now() + CATCH_UP_MAX)
            .await;
        caught_up.map_err(Status::internal_error)?;
    }
    Ok(())
}

/// The maximum number of quotas in one transaction: fewer after each conflict, because the resourcequota-controller may be
/// writing the same quotas one by one.
fn batch_max(attempt: u32) -> usize {
    (BATCH_MAX >> (3 * attempt)).max(1)
}

/// Usage of each quota of a namespace as of a revision.
struct UsageSnapshot {
    used: Vec<(ObjectKey, ResourceQuantities)>,
    as_of: Revision,
}

impl UsageSnapshot {
    fn from_tracker(tracker: &UsageTracker) -> UsageSnapshot {
        let used = |(index, key): (usize, &ObjectKey)| (key.clone(), tracker.usage.used(index));
        UsageSnapshot {
            used: tracker.quota_keys().enumerate().map(used).collect(),
            as_of: tracker.observed_revision(),
        }
    }

    /// Returns whether all quotas have this status now; `false` after a conflict with another write.
    async fn write(&self, registry: &Arc<Registry>, batch_max: usize) -> Result<bool, Status> {
        let mut is_done = true;
        for batch in self.used.chunks(batch_max) {
            match self.write_batch(registry, batch).await {
                Ok(is_written) => is_done &= is_written,
                // One quota may be at fault, or the transaction is too large: write them one by one.
                Err(_) if batch.len() > 1 => {
                    for quota_usage in batch {
                        let written = self
                            .write_batch(registry, std::slice::from_ref(quota_usage))
                            .await;
                        is_done &= written.unwrap_or_else(|error| {
                            tracing::warn!(
                                namespace = quota_usage.0.namespace(),
                                quota = quota_usage.0.name(),
                                error,
                                "failed to write quota status; retrying with the next refresh"
                            );
                            true
                        });
                    }
                }
                Err(error) => return Err(Status::internal_error(error)),
            }
        }
        Ok(is_done)
    }

    async fn write_batch(
        &self,
        registry: &Arc<Registry>,
        batch: &[(ObjectKey, ResourceQuantities)],
    ) -> Result<bool, String> {
        let mut was_newer = false;
        let mut writes = WriteBatch::new(registry);
        for (key, used) in batch {
            let reference = BatchObjectRef {
                group: "",
                plural: "resourcequotas",
                namespace: key.namespace(),
                name: key.name(),
            };
            let update = |quota: Option<&JsonObject>| {
                let quota = quota?;
                // The stored quota is newer than this usage: another server may have counted more objects.
                let version = quota.resource_version().parse::<u64>();
                let is_newer = version.is_ok_and(|version| version > self.as_of.get());
                was_newer |= is_newer;
                let status = updated_status(quota, used).filter(|_| !is_newer)?;
                let mut quota = quota.clone();
                quota.insert("status".into(), status);
                Some(BatchChange::UpdateStatus(quota))
            };
            writes.add(reference, update).await?;
        }
        let written = writes.commit().await?;
        Ok(written != BatchOutcome::Conflict && !was_newer)
    }
}

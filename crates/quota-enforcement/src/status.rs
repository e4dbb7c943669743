//! Writes `status.hard` and `status.used` of ResourceQuotas (upstream: the resource quota controller).
//!
//! Entry point: [`spawn_status_tasks`]. Writes are checked against the tracked usage and not against the status, so the
//! status may lag: it is written soon after the first change, then at most once a second. Reads of a namespace's
//! quotas refresh it first.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use rhumb_api::JsonObject;
use rhumb_cache::{ResourceCache, RestartingWatchMessage, WatchNotifier, WatchRequest, WatchStart};
use rhumb_meta::{ObjectKey, Revision, Status, Timestamp};
use rhumb_quota::ResourceQuantities;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::namespace_quota::NamespaceQuota;
use super::usage_tracker::UsageTracker;
use crate::quota_enforcer::QuotaEnforcer;
use rhumb_registry::Registry;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::{BatchOutcome, ObjectReference, ServerChange, WriteBatch};

/// Changes within this time of the first are written together.
const BATCH_DELAY: Duration = Duration::from_millis(30);

/// Minimum time between two writes of the same status.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// How long servers that do not hold the epoch wait before they write a status that is still stale.
const NON_HOLDER_DELAY: Duration = Duration::from_secs(2);

/// How often the status is checked without a change.
const RESYNC: Duration = Duration::from_secs(300);

/// Maximum number of quotas written in one transaction.
const BATCH_MAX: usize = 100;

/// How often a status is recomputed after a conflicting write.
const ATTEMPTS_MAX: usize = 4;

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
    for _ in 0..ATTEMPTS_MAX {
        let refresh_started = Instant::now();
        let snapshot = UsageSnapshot::from_tracker(&*namespace_quota.lock_tracker(registry).await?);
        if snapshot.write(registry).await? {
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
    async fn write(&self, registry: &Arc<Registry>) -> Result<bool, Status> {
        let mut is_done = true;
        for batch in self.used.chunks(BATCH_MAX) {
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
            let reference = ObjectReference {
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
                let quota = with_updated_status(quota.clone(), used).filter(|_| !is_newer);
                quota.map(ServerChange::UpdateStatus)
            };
            writes.add(reference, update).await?;
        }
        let written = writes.commit().await?;
        Ok(written != BatchOutcome::Conflict && !was_newer)
    }
}

/// The quota with `used` in its status; `None` if the status is already right.
fn with_updated_status(mut quota: JsonObject, used: &ResourceQuantities) -> Option<JsonObject> {
    let hard = quota.get("spec").map_or(&Value::Null, |spec| &spec["hard"]);
    let hard = if hard.is_object() {
        hard.clone()
    } else {
        json!({})
    };
    let status = json!({"hard": hard, "used": used.to_json()});
    let is_same = |field: &str| {
        let old = quota.get("status").map_or(&Value::Null, |old| &old[field]);
        old == &status[field] || (old.is_null() && status[field] == json!({}))
    };
    if is_same("hard") && is_same("used") {
        return None;
    }
    quota.insert("status".into(), status);
    Some(quota)
}

/// Spawns the tasks that track usage in all namespaces with quotas and, with `writes_status`, write the status of
/// quotas. They end with the server.
pub fn spawn_status_tasks(
    registry: &Arc<Registry>,
    enforcer: &Arc<QuotaEnforcer>,
    writes_status: bool,
) {
    if let Some(quotas) = enforcer.quota_cache.clone() {
        enforcer
            .writes_status
            .store(writes_status, Ordering::Relaxed);
        let context = QuotaStatusContext {
            registry: Arc::downgrade(registry),
            enforcer: Arc::clone(enforcer),
        };
        tokio::spawn(watch_quotas(context, quotas));
    }
}

/// What the tasks work on.
#[derive(Clone)]
struct QuotaStatusContext {
    registry: Weak<Registry>,
    enforcer: Arc<QuotaEnforcer>,
}

/// The task of each namespace with quotas, by the notifier that signals changed quotas.
type NamespaceTasks = HashMap<Box<str>, Arc<Notify>>;

async fn watch_quotas(context: QuotaStatusContext, quotas: ResourceCache) {
    let (finished_sender, mut finished) = mpsc::unbounded_channel();
    let mut tasks = NamespaceTasks::new();
    let mut watcher = quotas.watch_with_restarts(WatchRequest::everything(WatchStart::InitialList));
    loop {
        tokio::select! {
            message = watcher.next() => match message {
                Some(RestartingWatchMessage::Event(event)) => {
                    let namespace = event.entry().key().namespace().unwrap_or_default();
                    notify_or_spawn_task(&context, &finished_sender, &mut tasks, namespace);
                }
                Some(_) => {}
                None => return,
            },
            Some(namespace) = finished.recv() => {
                tasks.remove::<str>(&namespace);
                // A quota may have been created while the task was about to end.
                if quotas.snapshot().range(Some(&namespace), None).next().is_some() {
                    notify_or_spawn_task(&context, &finished_sender, &mut tasks, &namespace);
                }
            }
        }
    }
}

fn notify_or_spawn_task(
    context: &QuotaStatusContext,
    finished_sender: &mpsc::UnboundedSender<Box<str>>,
    tasks: &mut NamespaceTasks,
    namespace: &str,
) {
    if let Some(changed) = tasks.get(namespace) {
        changed.notify_one();
        return;
    }
    let changed = Arc::new(Notify::new());
    let task = run_namespace(
        context.clone(),
        namespace.into(),
        Arc::clone(&changed),
        finished_sender.clone(),
    );
    tokio::spawn(task);
    tasks.insert(namespace.into(), changed);
}

/// What wakes the task of a namespace.
struct WakeConditions {
    notifiers: Vec<WatchNotifier>,
    next_lapse: Option<Timestamp>,
}

async fn run_namespace(
    context: QuotaStatusContext,
    namespace: Box<str>,
    changed: Arc<Notify>,
    finished_sender: mpsc::UnboundedSender<Box<str>>,
) {
    let QuotaStatusContext { registry, enforcer } = context;
    while let Some(running) = registry
        .upgrade()
        .filter(|registry| !registry.is_shutting_down())
    {
        let Some(namespace_quota) = enforcer.for_namespace(&namespace) else {
            break;
        };
        let wake = match refresh_once(&running, &enforcer, &namespace, &namespace_quota).await {
            Ok(Some(wake)) => wake,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%namespace, error = error.message, "failed to refresh quota status; retrying");
                sleep(NON_HOLDER_DELAY).await;
                continue;
            }
        };
        let earliest = Instant::now() + WRITE_INTERVAL_MIN;
        let until_deadline = wake
            .next_lapse
            .map(|deadline| deadline.saturating_duration_since(running.clock.wall()));
        let holds_epoch = enforcer.epochs.is_held_here(&namespace);
        drop((running, namespace_quota));
        tokio::select! {
            () = any_notified(&wake.notifiers) => {}
            () = changed.notified() => {}
            () = sleep(until_deadline.unwrap_or(RESYNC).min(RESYNC)) => {}
        }
        sleep(if holds_epoch {
            BATCH_DELAY
        } else {
            NON_HOLDER_DELAY
        })
        .await;
        // The first change after an idle period is written at once, later ones at most once per interval.
        sleep_until(earliest).await;
    }
    let _ = finished_sender.send(namespace);
}

/// Refreshes the status once. Returns `None` if the namespace's state was removed: no quotas and no reservations left.
async fn refresh_once(
    registry: &Arc<Registry>,
    enforcer: &QuotaEnforcer,
    namespace: &str,
    namespace_quota: &NamespaceQuota,
) -> Result<Option<WakeConditions>, Status> {
    if enforcer.writes_status() {
        refresh(registry, namespace_quota, Instant::now()).await?;
    }
    let tracker = namespace_quota.lock_tracker(registry).await?;
    if enforcer.remove_if_idle(namespace, &tracker) {
        return Ok(None);
    }
    let until_deadline = match tracker.has_quotas() {
        true => tracker.usage.next_lapse(),
        false => Some(registry.clock.wall().saturating_add(WRITE_INTERVAL_MIN)),
    };
    Ok(Some(WakeConditions {
        notifiers: tracker.watch_notifiers(),
        next_lapse: until_deadline,
    }))
}

async fn any_notified(bells: &[WatchNotifier]) {
    if bells.is_empty() {
        return std::future::pending().await;
    }
    select_all(bells.iter().map(|notifier| Box::pin(notifier.notified()))).await;
}

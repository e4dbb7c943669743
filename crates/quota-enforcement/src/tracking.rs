//! Keeps the usage of namespaces with quotas up to date between writes, so that neither the next write nor a read has
//! to catch up with many changes, and drops the state of namespaces without quotas.
//!
//! Entry point: [`spawn_tracking`].

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::select_all;
use rhumb_cache::{ResourceCache, RestartingWatchMessage, WatchNotifier, WatchRequest, WatchStart};
use rhumb_meta::Status;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::namespace_quota::NamespaceQuota;
use crate::quota_enforcer::QuotaEnforcer;
use rhumb_registry::Registry;

/// Minimum time between two updates of the usage of a namespace.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// How often the usage is updated without a change.
const RESYNC: Duration = Duration::from_secs(300);

/// Spawns the tasks that track usage in all namespaces with quotas. They end with the server.
pub fn spawn_tracking(registry: &Arc<Registry>, enforcer: &Arc<QuotaEnforcer>) {
    if let Some(quotas) = enforcer.quota_cache.clone() {
        let context = TrackingContext {
            registry: Arc::downgrade(registry),
            enforcer: Arc::clone(enforcer),
        };
        tokio::spawn(watch_quotas(context, quotas));
    }
}

/// What the tasks work on.
#[derive(Clone)]
struct TrackingContext {
    registry: Weak<Registry>,
    enforcer: Arc<QuotaEnforcer>,
}

/// The task of each namespace with quotas, by the notifier that signals changed quotas.
type NamespaceTasks = HashMap<Box<str>, Arc<Notify>>;

async fn watch_quotas(context: TrackingContext, quotas: ResourceCache) {
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
    context: &TrackingContext,
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
    timeout: Duration,
}

async fn run_namespace(
    context: TrackingContext,
    namespace: Box<str>,
    changed: Arc<Notify>,
    finished_sender: mpsc::UnboundedSender<Box<str>>,
) {
    let TrackingContext { registry, enforcer } = context;
    while let Some(running) = registry
        .upgrade()
        .filter(|registry| !registry.is_shutting_down())
    {
        let Some(namespace_quota) = enforcer.for_namespace(&namespace) else {
            break;
        };
        match update_usage(&running, &enforcer, &namespace, &namespace_quota).await {
            Ok(Some(wake)) => {
                drop((running, namespace_quota));
                tokio::select! {
                    () = any_notified(&wake.notifiers) => {}
                    () = changed.notified() => {}
                    () = sleep(wake.timeout) => {}
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%namespace, error = error.message, "failed to update the usage of quotas; retrying");
            }
        }
        sleep(INTERVAL_MIN).await;
    }
    let _ = finished_sender.send(namespace);
}

/// Updates the usage once. Returns `None` if the namespace's state was removed: no quotas and no reservations left.
async fn update_usage(
    registry: &Arc<Registry>,
    enforcer: &QuotaEnforcer,
    namespace: &str,
    namespace_quota: &NamespaceQuota,
) -> Result<Option<WakeConditions>, Status> {
    let tracker = namespace_quota.lock_tracker(registry).await?;
    if enforcer.remove_if_idle(namespace, &tracker) {
        return Ok(None);
    }
    Ok(Some(WakeConditions {
        notifiers: tracker.watch_notifiers(),
        // Reservations of namespaces without quotas end without a change of an object.
        timeout: match tracker.has_quotas() {
            true => RESYNC,
            false => INTERVAL_MIN,
        },
    }))
}

async fn any_notified(notifiers: &[WatchNotifier]) {
    if notifiers.is_empty() {
        return std::future::pending().await;
    }
    select_all(
        notifiers
            .iter()
            .map(|notifier| Box::pin(notifier.notified())),
    )
    .await;
}

//! Type-checks the expressions of ValidatingAdmissionPolicies and writes the warnings into their status (upstream: the
//! validatingadmissionpolicy-status controller).

use std::sync::{Arc, Weak};
use std::time::Duration;

use rhumb_admission::{SchemaResolver, expression_warnings};
use rhumb_api::JsonObject;
use rhumb_cache::{
    CacheWatcher, HistoryError, ResourceCache, WatchEnd, WatchMessage, WatchRequest, WatchStart,
};
use rhumb_expressions::SchemaTable;
use rhumb_meta::{Backoff, GroupVersionKind, GroupVersionResource, ObjectKey};
use rhumb_schema::{Table, TypeId};
use serde_json::{Value, json};

use rhumb_registry::Registry;
use rhumb_registry::ResourceTable;
use rhumb_registry::write::{ObjectReference, ServerChange, write_as_server};

const RESOURCE: (&str, &str) = (
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
);

/// Backoff of failed status writes.
const RETRY: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// Spawns the task that checks all policies, and again after each change. It ends with the server.
pub(super) fn spawn(registry: &Arc<Registry>) {
    let resource = registry.find(RESOURCE.0, RESOURCE.1);
    if let Some(storage) = resource.and_then(|resource| resource.storage.clone()) {
        tokio::spawn(run(Arc::downgrade(registry), storage.cache.clone()));
    }
}

async fn run(registry: Weak<Registry>, cache: ResourceCache) {
    let mut backoff = RETRY;
    loop {
        let snapshot = cache.snapshot();
        let outdated: Vec<ObjectKey> = snapshot
            .range(None, None)
            .filter(|entry| needs_type_checking(entry.json_slice()))
            .map(|entry| entry.key().clone())
            .collect();
        let revision = snapshot.revision();
        drop(snapshot);
        let mut has_failed = false;
        let retry_delay = backoff.next_delay();
        for key in outdated {
            let Some(registry) = registry
                .upgrade()
                .filter(|registry| !registry.is_shutting_down())
            else {
                return;
            };
            let reference = ObjectReference {
                group: RESOURCE.0,
                plural: RESOURCE.1,
                namespace: None,
                name: key.name(),
            };
            let check = |policy: Option<&JsonObject>| {
                let policy = with_type_checking_status(&registry, policy?.clone());
                Some(ServerChange::UpdateStatus(policy))
            };
            let checked = write_as_server(&registry, reference, check).await;
            if let Err(error) = checked {
                has_failed = true;
                tracing::warn!(
                    policy = key.name(),
                    error,
                    retry_in = ?retry_delay,
                    "failed to write the status of a ValidatingAdmissionPolicy; retrying"
                );
            }
        }
        let timeout = has_failed.then_some(retry_delay);
        if !has_failed {
            backoff.reset();
        }
        // Any change triggers a check of all policies: there are few.
        match cache.watch(WatchRequest::everything(WatchStart::After(revision))) {
            Ok(mut watcher) => {
                let next = next_within(&mut watcher, timeout).await;
                if matches!(next, Some(Err(WatchEnd::Closing | WatchEnd::Removed))) {
                    return;
                }
            }
            Err(HistoryError::Closed) => return,
            Err(_) => {}
        }
    }
}

/// The next watch message; `None` after the timeout.
async fn next_within(
    watcher: &mut CacheWatcher,
    time: Option<Duration>,
) -> Option<Result<WatchMessage, WatchEnd>> {
    match time {
        Some(time) => tokio::time::timeout(time, watcher.next()).await.ok(),
        None => Some(watcher.next().await),
    }
}

fn needs_type_checking(policy: &[u8]) -> bool {
    let Ok(policy) = serde_json::from_slice::<Value>(policy) else {
        return false;
    };
    policy["status"]["observedGeneration"] != policy["metadata"]["generation"]
}

/// The policy with `status.observedGeneration` and `status.typeChecking` set.
fn with_type_checking_status(registry: &Registry, mut policy: JsonObject) -> JsonObject {
    let kinds = ServedKinds {
        resources: &registry.resources(),
        table: registry.table,
    };
    let warnings = expression_warnings(&policy, &kinds);
    let generation = policy
        .get("metadata")
        .map_or(Value::Null, |metadata| metadata["generation"].clone());
    let mut status = match policy.remove("status") {
        Some(status @ Value::Object(_)) => status,
        _ => json!({}),
    };
    status["observedGeneration"] = generation;
    status["typeChecking"] = if warnings.is_empty() {
        json!({})
    } else {
        json!({"expressionWarnings": warnings})
    };
    policy.insert("status".into(), status);
    policy
}

/// Resolves kinds and schemas from the resource registry for the type checker.
struct ServedKinds<'a> {
    resources: &'a ResourceTable,
    table: &'static Table,
}

impl SchemaResolver for ServedKinds<'_> {
    fn kind_of(&self, resource: &GroupVersionResource) -> Option<GroupVersionKind> {
        let served = self.resources.find(&resource.group, &resource.resource)?;
        let version = served.version(&resource.version)?;
        Some(served.gvk(version))
    }

    fn schema_of(&self, kind: &GroupVersionKind) -> Option<(SchemaTable, TypeId)> {
        let mut resources = self.resources.iter();
        let version = resources.find_map(|resource| {
            let is_kind = resource.kind.group == kind.group && resource.kind.name == kind.kind;
            resource.version(&kind.version).filter(|_| is_kind)
        })?;
        Some((SchemaTable::Builtin(self.table), version.schema))
    }
}

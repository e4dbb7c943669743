//! Validating policies are told what a type checker thinks of them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use rhumb_admission::{Kinds, expression_warnings};
use rhumb_api::Object;
use rhumb_cache::{Cache, HistoryError, Message, Start, WatchEnd, WatchRequest, Watcher};
use rhumb_expressions::Schema;
use rhumb_meta::{GroupVersionKind, GroupVersionResource, ObjectKey};
use rhumb_schema::TypeId;
use serde_json::{Value, json};

use super::amend::amend;
use crate::Api;

const RESOURCE: (&str, &str) = (
    "admissionregistration.k8s.io",
    "validatingadmissionpolicies",
);

/// How long to wait before what failed is tried again; longer each time, up to the second.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Looks at all policies, and at each that changes, for as long as there is a server.
pub(super) fn keep(api: &Arc<Api>) {
    let storage = api
        .registry
        .find(RESOURCE.0, RESOURCE.1)
        .and_then(|resource| resource.storage.as_ref());
    if let Some(storage) = storage {
        tokio::spawn(follow(Arc::downgrade(api), storage.cache.clone()));
    }
}

async fn follow(api: Weak<Api>, cache: Cache) {
    let mut pause = PAUSE;
    loop {
        let snapshot = cache.snapshot();
        let outdated: Vec<ObjectKey> = snapshot
            .range(None, None)
            .filter(|entry| is_outdated(entry.json_slice()))
            .map(|entry| entry.key().clone())
            .collect();
        let revision = snapshot.revision();
        drop(snapshot);
        let mut has_failed = false;
        for key in outdated {
            let Some(api) = api.upgrade().filter(|api| !api.is_closing()) else {
                return;
            };
            let checked = amend(&api, RESOURCE, &key, |policy| Some(check(&api, policy))).await;
            if let Err(problem) = checked {
                has_failed = true;
                tracing::warn!(
                    policy = key.name(),
                    problem,
                    "a policy cannot be told what is wrong with it"
                );
            }
        }
        let patience = has_failed.then_some(pause);
        pause = match has_failed {
            true => (pause * 2).min(PAUSE_MAX),
            false => PAUSE,
        };
        // Whatever the change is, all are looked at again: there are few.
        match cache.watch(WatchRequest::everything(Start::After(revision))) {
            Ok(mut watcher) => {
                let next = next_within(&mut watcher, patience).await;
                if matches!(next, Some(Err(WatchEnd::Closing | WatchEnd::Removed))) {
                    return;
                }
            }
            Err(HistoryError::Closed) => return,
            Err(_) => {}
        }
    }
}

/// The next change, or nothing once the time is up.
async fn next_within(
    watcher: &mut Watcher,
    time: Option<Duration>,
) -> Option<Result<Message, WatchEnd>> {
    match time {
        Some(time) => tokio::time::timeout(time, watcher.next()).await.ok(),
        None => Some(watcher.next().await),
    }
}

fn is_outdated(policy: &[u8]) -> bool {
    let Ok(policy) = serde_json::from_slice::<Value>(policy) else {
        return false;
    };
    policy["status"]["observedGeneration"] != policy["metadata"]["generation"]
}

/// The policy with its new status.
fn check(api: &Api, mut policy: Object) -> Object {
    let warnings = expression_warnings(&policy, &Served(api));
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

/// The kinds that this server has.
struct Served<'a>(&'a Api);

impl Kinds for Served<'_> {
    fn kind_of(&self, resource: &GroupVersionResource) -> Option<GroupVersionKind> {
        let found = self.0.registry.find(&resource.group, &resource.resource)?;
        let version = found.version(&resource.version)?;
        Some(found.gvk(version))
    }

    fn schema_of(&self, kind: &GroupVersionKind) -> Option<(Schema, TypeId)> {
        let mut resources = self.0.registry.iter();
        let version = resources.find_map(|resource| {
            let is_it = resource.kind.group == kind.group && resource.kind.name == kind.kind;
            resource.version(&kind.version).filter(|_| is_it)
        })?;
        Some((Schema::Builtin(self.0.table), version.schema))
    }
}

//! Namespace controller: deletes the contents of a terminating namespace, then finalizes the namespace (upstream's
//! `NamespacedResourcesDeleter`).
//!
//! Pods are deleted first, and nothing else until they are gone, so that network policies and quotas stay in force
//! while pods run. What remains, and why, is reported in the namespace's conditions (`conditions`).

mod conditions;
#[cfg(test)]
mod tests;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::discovery::verbs;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};

use self::conditions::ContentDeletionOutcome;
use crate::api_resources::{self, DiscoveredResource};
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Namespaces that are processed concurrently.
const WORKERS: usize = 10;
/// Resources of one namespace that are deleted concurrently.
const KINDS_AT_ONCE: usize = 4;
/// The finalizer in `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";
/// Bounds of the delay before a namespace with remaining contents is checked again; grows with its waiting time.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(8);

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let queue = WorkQueue::new();
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(context.reader.clone());
    let config = Config::default();
    let watched = watch(namespaces, config, ResourceExt::name_any, |event| {
        if let Event::Applied(namespace) = event
            && namespace.metadata.deletion_timestamp.is_some()
        {
            queue.add(namespace.name_any());
        }
    });
    let pending = RemainingResourcesByNamespace::default();
    let work = queue.run_workers(WORKERS, |name| {
        process_namespace(&context.client, &pending, name)
    });
    tokio::select! {
        watched = watched => watched,
        worked = work => worked,
    }
}

/// Resources with remaining objects, by namespace. Nothing can be created in a terminating namespace, so the other
/// resources need not be checked again while these remain.
#[derive(Default)]
struct RemainingResourcesByNamespace(Mutex<HashMap<String, PendingNamespace>>);

/// What one namespace waits for; the uid tells it from a recreated namespace of the same name.
struct PendingNamespace {
    uid: Option<String>,
    kinds: Vec<DiscoveredResource>,
}

impl RemainingResourcesByNamespace {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, PendingNamespace>> {
        self.0.lock()
    }
}

/// Processes one namespace: deletes contents, updates conditions, finalizes it if nothing remains.
async fn process_namespace(
    client: &Client,
    pending: &RemainingResourcesByNamespace,
    name: String,
) -> Result<ReconcileAction, Error> {
    let pending_namespace = pending.lock().remove(&name);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(mut namespace) = none_if_not_found(namespaces.get(&name).await)? else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let Some(since) = namespace.metadata.deletion_timestamp.clone() else {
        return Ok(ReconcileAction::AwaitChange);
    };
    if !has_kubernetes_finalizer(&namespace) {
        return Ok(ReconcileAction::AwaitChange);
    }
    let content = NamespacedResourcesDeleter {
        client: client.clone(),
        namespace: name.clone(),
        uid: namespace.uid(),
    };
    let pending_kinds = pending_namespace
        .filter(|pending_namespace| pending_namespace.uid == content.uid)
        .map_or_else(Vec::new, |pending_namespace| pending_namespace.kinds);
    let Some(outcome) = content.delete(pending_kinds).await else {
        return Ok(ReconcileAction::AwaitChange);
    };
    if outcome.update(&mut namespace) {
        namespace = namespaces
            .replace_status(&name, &PostParams::default(), &namespace)
            .await?;
    }
    if let Some(error) = outcome.error() {
        return Err(error);
    }
    if !outcome.is_empty() {
        let pending_namespace = PendingNamespace {
            uid: content.uid,
            kinds: outcome.left,
        };
        pending.lock().insert(name, pending_namespace);
        let waited = Timestamp::now().duration_since(since.0).unsigned_abs();
        return Ok(ReconcileAction::RequeueAfter(
            (waited / 4).clamp(PAUSE_MIN, PAUSE_MAX),
        ));
    }
    finalize(client, namespace).await?;
    Ok(ReconcileAction::AwaitChange)
}

fn has_kubernetes_finalizer(namespace: &Namespace) -> bool {
    let finalizers = namespace
        .spec
        .as_ref()
        .and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|own| own == FINALIZER))
}

/// Objects of a resource that remain after the delete requests, with counts by finalizer.
#[derive(Debug, Default)]
struct RemainingObjects {
    objects: usize,
    /// Those that wait for a finalizer or for the end of their grace period.
    awaited: usize,
    finalizers: BTreeMap<String, usize>,
}

impl RemainingObjects {
    fn count(&mut self, object: &PartialObjectMeta<DynamicObject>) {
        self.objects += 1;
        let grace = object.metadata.deletion_grace_period_seconds;
        if grace.unwrap_or_default() > 0 || !object.finalizers().is_empty() {
            self.awaited += 1;
        }
        for finalizer in object.finalizers() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
}

/// Deletes everything in a terminating namespace.
struct NamespacedResourcesDeleter {
    client: Client,
    namespace: String,
    uid: Option<String>,
}

impl NamespacedResourcesDeleter {
    /// `None` if the namespace is gone: a new one of the same name keeps its contents. If objects of the resources
    /// in `pending_kinds` remain, only those resources are checked.
    async fn delete(
        &self,
        pending_kinds: Vec<DiscoveredResource>,
    ) -> Option<ContentDeletionOutcome> {
        if !pending_kinds.is_empty() {
            let mut outcome = ContentDeletionOutcome::default();
            self.delete_kinds(pending_kinds, &mut outcome).await?;
            if outcome.has_content() {
                return Some(outcome);
            }
        }
        self.delete_everything().await
    }

    async fn delete_everything(&self) -> Option<ContentDeletionOutcome> {
        let mut outcome = ContentDeletionOutcome::default();
        let discovered = match api_resources::discover(&self.client).await {
            Ok(discovered) => discovered,
            Err(error) => {
                outcome.add_discovery_failure(error.to_string());
                return Some(outcome);
            }
        };
        if let Some(failure) = discovered.failure() {
            outcome.add_discovery_failure(failure);
        }
        let kinds = discovered
            .best()
            .filter(|kind| kind.is_namespaced && kind.can(verbs::DELETE) && kind.can(verbs::LIST));
        let (pods, others): (Vec<DiscoveredResource>, Vec<DiscoveredResource>) =
            kinds.cloned().partition(|kind| kind.is("", "pods"));
        for kinds in [pods, others] {
            self.delete_kinds(kinds, &mut outcome).await?;
            if outcome.has_content() {
                break;
            }
        }
        Some(outcome)
    }

    async fn delete_kinds(
        &self,
        kinds: Vec<DiscoveredResource>,
        outcome: &mut ContentDeletionOutcome,
    ) -> Option<()> {
        let mut left = stream::iter(kinds)
            .map(|kind| async move {
                let left = self.delete_kind(&kind).await;
                (kind, left)
            })
            .buffer_unordered(KINDS_AT_ONCE);
        while let Some((kind, left)) = left.next().await {
            let left = left.transpose()?;
            outcome.add(kind, &self.namespace, left);
        }
        Some(())
    }

    /// `None` if the namespace is gone.
    async fn delete_kind(
        &self,
        kind: &DiscoveredResource,
    ) -> Result<Option<RemainingObjects>, Error> {
        let objects = kind.in_namespace(&self.client, &self.namespace);
        let mut left = RemainingObjects::default();
        if api_resources::is_empty(&objects).await? {
            return Ok(Some(left));
        }
        if !self.is_terminating().await? {
            return Ok(None);
        }
        if kind.can(verbs::DELETE_COLLECTION) {
            api_resources::delete_all(&self.client, kind, &self.namespace).await?;
        } else {
            self.delete_each(&objects).await?;
        }
        api_resources::each_metadata(&objects, |object| left.count(object)).await?;
        Ok(Some(left))
    }

    /// Whether this namespace still exists and is terminating. `deletecollection` has no precondition on a namespace's
    /// uid, so this is checked right before it: the namespace may have been recreated.
    async fn is_terminating(&self) -> Result<bool, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let now = none_if_not_found(namespaces.get_metadata(&self.namespace).await)?;
        Ok(now
            .is_some_and(|now| now.uid() == self.uid && now.metadata.deletion_timestamp.is_some()))
    }

    async fn delete_each(&self, objects: &Api<DynamicObject>) -> Result<(), Error> {
        let mut names = Vec::new();
        api_resources::each_metadata(objects, |object| {
            names.push((object.name_any(), object.uid()));
        })
        .await?;
        stream::iter(names.into_iter().map(Ok))
            .try_for_each_concurrent(KINDS_AT_ONCE, |(name, uid)| async move {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid,
                        resource_version: None,
                    }),
                    ..DeleteParams::background()
                };
                none_if_not_found(objects.delete(&name, &params).await).map(drop)
            })
            .await
    }
}

/// Removes this controller's finalizer; the server deletes the namespace when no other finalizers remain.
async fn finalize(client: &Client, mut namespace: Namespace) -> Result<(), Error> {
    if let Some(finalizers) = namespace
        .spec
        .as_mut()
        .and_then(|spec| spec.finalizers.as_mut())
    {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let body = serde_json::to_vec(&namespace).map_err(|error| Error::Other(error.to_string()))?;
    let request = http::Request::put(format!(
        "/api/v1/namespaces/{}/finalize",
        namespace.name_any()
    ))
    .header(http::header::CONTENT_TYPE, "application/json")
    .body(body)
    .map_err(|error| Error::Other(error.to_string()))?;
    none_if_not_found(client.request::<Namespace>(request).await).map(drop)
}

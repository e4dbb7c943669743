//! Ensures that one object of a fixed name exists, with the right content, in every namespace that is not terminating.
//! Used for the `default` ServiceAccount and the `kube-root-ca.crt` ConfigMap.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PartialObjectMeta, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ControllerContext, Error};
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Namespaces that are reconciled concurrently.
const WORKERS: usize = 4;

/// Describes the object that every namespace must contain.
pub(crate) trait PerNamespaceObject: Send + Sync {
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static;

    fn name(&self) -> &str;

    /// Whether the stored object needs no update.
    fn is_up_to_date(&self, object: &Self::Object) -> bool;

    /// The stored object with the desired content.
    fn with_desired_content(&self, object: Self::Object) -> Self::Object;

    /// An empty object without a name.
    fn new_object(&self) -> Self::Object;
}

/// Runs until dropped.
pub(crate) async fn run(
    context: &ControllerContext,
    desired: impl PerNamespaceObject,
) -> Result<(), Error> {
    let queue = WorkQueue::new();
    let known = NamespaceTracker::default();
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(context.reader.clone());
    let config = Config::default();
    let namespaces = watch(namespaces, config, ResourceExt::name_any, |event| {
        known.handle_namespace_event(event, &queue);
    });
    let config = Config::default().fields(&format!("metadata.name={}", desired.name()));
    let objects = Api::all(context.reader.clone());
    let objects = watch(objects, config, namespace_of, |event| {
        known.handle_object_event(event, &desired, &queue);
    });
    let work = queue.run_workers(WORKERS, |namespace: String| {
        let is_needed = known.needs(&namespace);
        let desired = &desired;
        async move {
            if is_needed {
                ensure(context, desired, &namespace).await?;
            }
            Ok(ReconcileAction::AwaitChange)
        }
    });
    tokio::select! {
        ended = namespaces => ended,
        ended = objects => ended,
        ended = work => ended,
    }
}

/// Tracks which namespaces exist, and which of them contain an up-to-date object.
#[derive(Default)]
struct NamespaceTracker {
    sets: Mutex<NamespaceSets>,
}

#[derive(Default)]
struct NamespaceSets {
    /// Namespaces that are not terminating.
    active: HashSet<String>,
    satisfied: HashSet<String>,
    are_objects_known: bool,
}

impl NamespaceTracker {
    fn lock(&self) -> MutexGuard<'_, NamespaceSets> {
        self.sets.lock()
    }

    /// False until the objects have been listed.
    fn needs(&self, namespace: &str) -> bool {
        let sets = self.lock();
        sets.are_objects_known
            && sets.active.contains(namespace)
            && !sets.satisfied.contains(namespace)
    }

    /// A list queues all namespaces again: one of them may have been deleted and recreated while the watch was
    /// interrupted.
    fn handle_namespace_event(
        &self,
        event: Event<PartialObjectMeta<Namespace>, String>,
        queue: &WorkQueue<String>,
    ) {
        let mut sets = self.lock();
        match event {
            Event::Applied(namespace) => {
                let name = namespace.name_any();
                if namespace.metadata.deletion_timestamp.is_some() {
                    sets.active.remove(&name);
                } else if sets.active.insert(name.clone()) {
                    queue.add(name);
                }
            }
            Event::Deleted(name) => {
                sets.active.remove(&name);
            }
            Event::Replaced(names) => {
                sets.active.retain(|name| names.contains(name));
                sets.active.iter().for_each(|name| queue.add(name.clone()));
            }
        }
    }

    /// The key of an object is its namespace, because its name is fixed.
    fn handle_object_event<W: PerNamespaceObject>(
        &self,
        event: Event<W::Object, String>,
        desired: &W,
        queue: &WorkQueue<String>,
    ) {
        let mut sets = self.lock();
        match event {
            Event::Applied(object) => {
                let namespace = namespace_of(&object);
                if desired.is_up_to_date(&object) {
                    sets.satisfied.insert(namespace);
                } else {
                    sets.satisfied.remove(&namespace);
                    queue.add(namespace);
                }
            }
            Event::Deleted(namespace) => {
                sets.satisfied.remove(&namespace);
                queue.add(namespace);
            }
            Event::Replaced(namespaces) => {
                sets.satisfied.retain(|name| namespaces.contains(name));
                sets.are_objects_known = true;
                for name in sets.active.difference(&sets.satisfied) {
                    queue.add(name.clone());
                }
            }
        }
    }
}

fn namespace_of(object: &impl ResourceExt) -> String {
    object.namespace().unwrap_or_default()
}

async fn ensure<W: PerNamespaceObject>(
    context: &ControllerContext,
    desired: &W,
    namespace: &str,
) -> Result<(), Error> {
    let objects: Api<W::Object> = Api::namespaced(context.client.clone(), namespace);
    let params = PostParams::default();
    let result = match read_object(context, desired, namespace).await? {
        Some(object) if desired.is_up_to_date(&object) => return Ok(()),
        Some(object) => {
            let object = desired.with_desired_content(object);
            objects.replace(desired.name(), &params, &object).await
        }
        None => {
            let mut object = desired.with_desired_content(desired.new_object());
            object.meta_mut().name = Some(desired.name().to_owned());
            objects.create(&params, &object).await
        }
    };
    match result {
        Err(kube::Error::Api(status)) if is_namespace_terminating(&status) => Ok(()),
        other => other.map(drop).map_err(Error::from),
    }
}

/// Reads the object by a list request: the reader identity may list but not get.
async fn read_object<W: PerNamespaceObject>(
    context: &ControllerContext,
    desired: &W,
    namespace: &str,
) -> Result<Option<W::Object>, Error> {
    let objects: Api<W::Object> = Api::namespaced(context.reader.clone(), namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", desired.name()));
    Ok(objects.list(&params).await?.items.pop())
}

/// Whether the write failed because the namespace is terminating or deleted; the namespace watch reports that too.
fn is_namespace_terminating(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let is_terminating = causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating");
    let is_namespace = status
        .details
        .as_ref()
        .is_some_and(|details| details.kind == "namespaces");
    is_terminating || (status.code == 404 && is_namespace)
}

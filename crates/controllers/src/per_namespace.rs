//! One object in every namespace that is not ending: made where it is missing, put right where it is not.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PartialObjectMeta, PostParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::queue::{Done, Queue};
use crate::{Context, Error};
use rhumb_client::watching::watch;

/// Namespaces that are looked after at the same time.
const WORKERS: usize = 4;

/// What every namespace is to have.
pub(crate) trait Wanted: Send + Sync {
    type Object: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static;

    fn name(&self) -> &str;

    /// Whether the object is as it should be.
    fn is_right(&self, object: &Self::Object) -> bool;

    /// The object as it should be, made from what is there.
    fn right(&self, object: Self::Object) -> Self::Object;

    /// A new one without a name.
    fn new_object(&self) -> Self::Object;
}

/// Sees to it until it is dropped.
pub(crate) async fn run(context: &Context, wanted: impl Wanted) -> Result<(), Error> {
    let queue = Queue::new();
    let known = Known::default();
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(context.reader.clone());
    let namespaces = watch(namespaces, Config::default(), |event| {
        known.namespace(event, &queue);
    });
    let config = Config::default().fields(&format!("metadata.name={}", wanted.name()));
    let objects = watch(Api::all(context.reader.clone()), config, |event| {
        known.object(event, &wanted, &queue);
    });
    let work = queue.work(WORKERS, |namespace: String| {
        let is_needed = known.needs(&namespace);
        let wanted = &wanted;
        async move {
            if is_needed {
                ensure(context, wanted, &namespace).await?;
            }
            Ok(Done::Yes)
        }
    });
    tokio::select! {
        ended = namespaces => ended,
        ended = objects => ended,
        ended = work => ended,
    }
}

/// Which namespaces there are, and which of them have what they should have.
#[derive(Default)]
struct Known {
    sets: Mutex<Sets>,
}

#[derive(Default)]
struct Sets {
    /// All that are not ending.
    active: HashSet<String>,
    satisfied: HashSet<String>,
    /// Those that a stream which begins anew has told so far.
    listed: HashSet<String>,
    are_objects_known: bool,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is needed before it is known what is there.
    fn needs(&self, namespace: &str) -> bool {
        let sets = self.lock();
        sets.are_objects_known
            && sets.active.contains(namespace)
            && !sets.satisfied.contains(namespace)
    }

    /// Namespaces that are not told again were deleted, and one of the same name may be new: all are looked at.
    fn namespace(&self, event: Event<PartialObjectMeta<Namespace>>, queue: &Queue<String>) {
        let mut sets = self.lock();
        match event {
            Event::Apply(namespace) | Event::InitApply(namespace) => {
                let name = namespace.name_any();
                if namespace.metadata.deletion_timestamp.is_some() {
                    sets.active.remove(&name);
                } else if sets.active.insert(name.clone()) {
                    queue.add(name);
                }
            }
            Event::Delete(namespace) => {
                sets.active.remove(&namespace.name_any());
            }
            Event::Init => sets.active.clear(),
            Event::InitDone => {}
        }
    }

    fn object<W: Wanted>(&self, event: Event<W::Object>, wanted: &W, queue: &Queue<String>) {
        let mut sets = self.lock();
        match event {
            Event::Init => sets.listed.clear(),
            Event::InitApply(object) => {
                if wanted.is_right(&object) {
                    sets.listed.extend(object.namespace());
                }
            }
            Event::InitDone => {
                sets.satisfied = std::mem::take(&mut sets.listed);
                sets.are_objects_known = true;
                for name in sets.active.difference(&sets.satisfied) {
                    queue.add(name.clone());
                }
            }
            Event::Apply(object) => {
                let Some(namespace) = object.namespace() else {
                    return;
                };
                if wanted.is_right(&object) {
                    sets.satisfied.insert(namespace);
                } else {
                    sets.satisfied.remove(&namespace);
                    queue.add(namespace);
                }
            }
            Event::Delete(object) => {
                if let Some(namespace) = object.namespace() {
                    sets.satisfied.remove(&namespace);
                    queue.add(namespace);
                }
            }
        }
    }
}

async fn ensure<W: Wanted>(context: &Context, wanted: &W, namespace: &str) -> Result<(), Error> {
    let objects: Api<W::Object> = Api::namespaced(context.client.clone(), namespace);
    let params = PostParams::default();
    let result = match found(context, wanted, namespace).await? {
        Some(object) if wanted.is_right(&object) => return Ok(()),
        Some(object) => {
            let object = wanted.right(object);
            objects.replace(wanted.name(), &params, &object).await
        }
        None => {
            let mut object = wanted.right(wanted.new_object());
            object.meta_mut().name = Some(wanted.name().to_owned());
            objects.create(&params, &object).await
        }
    };
    match result {
        Err(kube::Error::Api(status)) if is_ending(&status) => Ok(()),
        other => other.map(drop).map_err(Error::from),
    }
}

/// The object as it is now. The one who reads may list, not get.
async fn found<W: Wanted>(
    context: &Context,
    wanted: &W,
    namespace: &str,
) -> Result<Option<W::Object>, Error> {
    let objects: Api<W::Object> = Api::namespaced(context.reader.clone(), namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", wanted.name()));
    Ok(objects.list(&params).await?.items.pop())
}

/// The namespace is going or gone, which its own watch will tell.
fn is_ending(status: &kube::core::Status) -> bool {
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

//! Adds the protection finalizer to objects, and removes it from terminating ones that are no longer used.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client, Resource};

use super::protection_state::ProtectionState;
use super::{FinalizerChange, ProtectedKind, apply, required_change};
use crate::namespaced_name::{NamespacedName, namespaced_name};
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::Event;
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Namespaces that are processed concurrently.
const WORKERS: usize = 4;
/// Objects of one namespace that are read or written concurrently.
const CONCURRENCY: usize = 8;

pub(super) struct ProtectionController<P> {
    client: Client,
    reader: Client,
    /// Namespaces with objects to check.
    queue: WorkQueue<String>,
    state: Mutex<ProtectionState>,
    kind: PhantomData<P>,
}

/// Name of an object, and the uids of its remaining holders.
type ProcessedObject = (String, Result<HashSet<String>, Error>);

impl<P: ProtectedKind> ProtectionController<P> {
    pub(super) fn new(context: ControllerContext) -> ProtectionController<P> {
        ProtectionController {
            client: context.client,
            reader: context.reader,
            queue: WorkQueue::new(),
            state: Mutex::new(ProtectionState::default()),
            kind: PhantomData,
        }
    }

    fn state(&self) -> MutexGuard<'_, ProtectionState> {
        self.state.lock()
    }

    /// Handles an event of a protected object.
    pub(super) fn handle_event(&self, event: &Event<impl Resource, NamespacedName>) {
        match event {
            Event::Applied(object) => {
                if required_change(object.meta(), P::FINALIZER).is_some() {
                    let (namespace, name) = namespaced_name(object);
                    self.state().mark_due(&namespace, &name);
                    self.queue.add(namespace);
                }
            }
            Event::Deleted((namespace, name)) => self.state().forget(namespace, name),
            Event::Replaced(names) => self.state().retain_objects(names),
        }
    }

    /// A holder no longer uses an object.
    pub(super) fn remove_holder(&self, namespace: &str, name: &str, holder: &str) {
        if self.state().remove_holder(namespace, name, holder) {
            self.queue.add(namespace.to_owned());
        }
    }

    /// A holder uses only these objects.
    pub(super) fn retain_uses(&self, namespace: &str, names: &[&str], holder: &str) {
        if self.state().retain_held(namespace, names, holder) {
            self.queue.add(namespace.to_owned());
        }
    }

    /// Holders were relisted: some may have been deleted unnoticed, so all held objects are checked again.
    pub(super) fn handle_relist(&self) {
        for namespace in self.state().mark_all_held_due() {
            self.queue.add(namespace);
        }
    }

    pub(super) async fn run_workers(&self) -> Result<(), Error> {
        let handle = async |namespace: String| self.process_namespace(&namespace).await;
        self.queue.run_workers(WORKERS, handle).await
    }

    async fn process_namespace(&self, namespace: &str) -> Result<ReconcileAction, Error> {
        let names = self.state().take_batch(namespace);
        let processed = self.reconcile_finalizers(namespace, names).await;
        let mut state = self.state();
        let mut failure = None;
        for (name, holders) in processed {
            match holders {
                Ok(holders) => state.finish(namespace, &name, holders),
                Err(error) => {
                    state.mark_due(namespace, &name);
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None if state.is_due(namespace) => Ok(ReconcileAction::RequeueAfter(Duration::ZERO)),
            None => Ok(ReconcileAction::AwaitChange),
        }
    }

    /// Reads the objects first and their holders after that. A holder that appears later does not count: its node
    /// refuses to use a terminating object.
    async fn reconcile_finalizers(
        &self,
        namespace: &str,
        names: Vec<String>,
    ) -> Vec<ProcessedObject> {
        let api = P::api(self.client.clone(), namespace);
        let read = stream::iter(names)
            .map(|name| read(&api, name))
            .buffer_unordered(CONCURRENCY);
        let read: Vec<_> = read.collect().await;

        let mut processed = Vec::new();
        let mut changes = Vec::new();
        let mut terminating = HashMap::new();
        for (name, object) in read {
            let object = match object {
                Ok(object) => object,
                Err(error) => {
                    processed.push((name, Err(error)));
                    continue;
                }
            };
            let finalizer_change = object
                .as_ref()
                .and_then(|object| required_change(&object.metadata, P::FINALIZER));
            match (object, finalizer_change) {
                (Some(object), Some(FinalizerChange::Remove)) => {
                    drop(terminating.insert(name, object));
                }
                (Some(object), Some(FinalizerChange::Add)) => {
                    changes.push((name, object, FinalizerChange::Add));
                }
                _ => processed.push((name, Ok(HashSet::new()))),
            }
        }

        if !terminating.is_empty() {
            match P::holders(&self.reader, namespace, &terminating).await {
                Ok(mut holders) => {
                    for (name, object) in terminating {
                        match holders.remove(&name) {
                            Some(holders) => processed.push((name, Ok(holders))),
                            None => changes.push((name, object, FinalizerChange::Remove)),
                        }
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    let names = terminating.into_keys();
                    processed.extend(names.map(|name| (name, Err(Error::Other(why.clone())))));
                }
            }
        }

        let changed = stream::iter(changes)
            .map(|(name, object, finalizer_change)| {
                change::<P>(&api, name, object, finalizer_change)
            })
            .buffer_unordered(CONCURRENCY);
        processed.extend(changed.collect::<Vec<_>>().await);
        processed
    }
}

async fn read(
    api: &Api<DynamicObject>,
    name: String,
) -> (String, Result<Option<DynamicObject>, Error>) {
    let object = none_if_not_found(api.get(&name).await);
    (name, object)
}

/// Replaces the object as read; the server rejects the update if the object has changed since.
async fn change<P: ProtectedKind>(
    api: &Api<DynamicObject>,
    name: String,
    mut object: DynamicObject,
    finalizer_change: FinalizerChange,
) -> ProcessedObject {
    apply(finalizer_change, &mut object.metadata, P::FINALIZER);
    let replaced = api.replace(&name, &PostParams::default(), &object).await;
    let nobody = none_if_not_found(replaced).map(|_| HashSet::new());
    (name, nobody)
}

//! Looks at what is being deleted, and lets go what nobody uses.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use kube::api::{DynamicObject, PostParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt};

use super::state::State;
use super::{Protected, Task, apply, task};
use crate::queue::{Done, Queue};
use crate::{Context, Error};
use rhumb_client::error::found;

/// Namespaces that are looked at at the same time.
const WORKERS: usize = 4;
/// Objects of one namespace that are read or written at the same time.
const AT_ONCE: usize = 8;

pub(super) struct Keeper<P> {
    client: Client,
    reader: Client,
    /// Namespaces in which something is due.
    queue: Queue<String>,
    state: Mutex<State>,
    kind: PhantomData<P>,
}

/// An object, and who holds it still.
type Looked = (String, Result<HashSet<String>, Error>);

impl<P: Protected> Keeper<P> {
    pub(super) fn new(context: Context) -> Keeper<P> {
        Keeper {
            client: context.client,
            reader: context.reader,
            queue: Queue::new(),
            state: Mutex::new(State::default()),
            kind: PhantomData,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened to an object that is protected.
    pub(super) fn note(&self, event: &Event<impl Resource>) {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                if task(object.meta(), P::FINALIZER).is_some() {
                    let namespace = object.namespace().unwrap_or_default();
                    self.state().want(&namespace, &object.name_any());
                    self.queue.add(namespace);
                }
            }
            Event::Delete(object) => {
                let namespace = object.namespace().unwrap_or_default();
                self.state().forget(&namespace, &object.name_any());
            }
            Event::Init => self.state().forget_held(),
            Event::InitDone => {}
        }
    }

    /// Somebody does not use an object any more.
    pub(super) fn note_left(&self, namespace: &str, name: &str, holder: &str) {
        if self.state().leave(namespace, name, holder) {
            self.queue.add(namespace.to_owned());
        }
    }

    /// Somebody uses no other objects than these.
    pub(super) fn note_uses(&self, namespace: &str, names: &[&str], holder: &str) {
        if self.state().leave_others(namespace, names, holder) {
            self.queue.add(namespace.to_owned());
        }
    }

    /// Some of those who used objects may have left unseen.
    pub(super) fn note_gap(&self) {
        for namespace in self.state().want_all_held() {
            self.queue.add(namespace);
        }
    }

    pub(super) async fn work(&self) -> Result<(), Error> {
        let look = async |namespace: String| self.look(&namespace).await;
        self.queue.work(WORKERS, look).await
    }

    async fn look(&self, namespace: &str) -> Result<Done, Error> {
        let names = self.state().begin(namespace);
        let looked = self.put_right(namespace, names).await;
        let mut state = self.state();
        let mut failure = None;
        for (name, holders) in looked {
            match holders {
                Ok(holders) => state.finish(namespace, &name, holders),
                Err(error) => {
                    state.want(namespace, &name);
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None if state.is_due(namespace) => Ok(Done::Again(Duration::ZERO)),
            None => Ok(Done::Yes),
        }
    }

    /// Whoever begins to use an object that is being deleted is refused by its node. So the objects are read first,
    /// then those who use them, and who is not among these does not count.
    async fn put_right(&self, namespace: &str, names: Vec<String>) -> Vec<Looked> {
        let api = P::api(self.client.clone(), namespace);
        let read = stream::iter(names)
            .map(|name| read(&api, name))
            .buffer_unordered(AT_ONCE);
        let read: Vec<_> = read.collect().await;

        let mut looked = Vec::new();
        let mut changes = Vec::new();
        let mut going = HashMap::new();
        for (name, object) in read {
            let object = match object {
                Ok(object) => object,
                Err(error) => {
                    looked.push((name, Err(error)));
                    continue;
                }
            };
            let task = object
                .as_ref()
                .and_then(|object| task(&object.metadata, P::FINALIZER));
            match (object, task) {
                (Some(object), Some(Task::Remove)) => drop(going.insert(name, object)),
                (Some(object), Some(Task::Add)) => changes.push((name, object, Task::Add)),
                _ => looked.push((name, Ok(HashSet::new()))),
            }
        }

        if !going.is_empty() {
            match P::holders(&self.reader, namespace, &going).await {
                Ok(mut holders) => {
                    for (name, object) in going {
                        match holders.remove(&name) {
                            Some(holders) => looked.push((name, Ok(holders))),
                            None => changes.push((name, object, Task::Remove)),
                        }
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    let names = going.into_keys();
                    looked.extend(names.map(|name| (name, Err(Error::Other(why.clone())))));
                }
            }
        }

        let changed = stream::iter(changes)
            .map(|(name, object, task)| change::<P>(&api, name, object, task))
            .buffer_unordered(AT_ONCE);
        looked.extend(changed.collect::<Vec<_>>().await);
        looked
    }
}

async fn read(
    api: &Api<DynamicObject>,
    name: String,
) -> (String, Result<Option<DynamicObject>, Error>) {
    let object = found(api.get(&name).await);
    (name, object)
}

/// By an update of what was read, which the server refuses if somebody else has changed it meanwhile.
async fn change<P: Protected>(
    api: &Api<DynamicObject>,
    name: String,
    mut object: DynamicObject,
    task: Task,
) -> Looked {
    apply(task, &mut object.metadata, P::FINALIZER);
    let replaced = api.replace(&name, &PostParams::default(), &object).await;
    let nobody = found(replaced).map(|_| HashSet::new());
    (name, nobody)
}

//! Watches all kinds that scheduling depends on, and sends their changes to the scheduling thread (upstream: the
//! scheduler's informers and event handlers). Entry point: [`spawn_watches`].

use std::collections::HashSet;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::reflector;
use tokio::task::JoinSet;

use super::decode::{
    DecodableKind, DecodedSpreadOwner, ReplicaSetKind, ReplicationControllerKind, ServiceKind,
    SpreadOwnerResource, StatefulSetKind, WatchedNamespace, WatchedObject,
};
use super::inbox::SchedulerInbox;
use super::status_writes::PodStatusWrites;
use crate::engine::SchedulerEvent;
use crate::model::{DisruptionBudget, NamespacedName, Node, Pod, SpreadOwnerKey};

/// The number of watched kinds, each with an initial list.
pub(super) const LIST_COUNT: usize = 8;

/// Terminal pods use no resources and are not watched, as upstream.
const NON_TERMINAL_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Converts watch events of a kind into events of the scheduler core.
trait WatchedKind: DecodableKind {
    /// Identifies an object.
    type Id: Eq + Hash + Send;

    fn id(watched: &WatchedObject<Self>) -> Self::Id;
    /// Added or updated; `None` if the object could not be decoded.
    fn applied(watched: WatchedObject<Self>) -> Option<SchedulerEvent>;
    fn deleted(id: Self::Id) -> SchedulerEvent;
    /// A list is complete: all other objects are deleted.
    fn replaced(all: HashSet<Self::Id>) -> SchedulerEvent;
}

/// Spawns a watch task for every kind into `work`. They run until `work` is dropped.
pub(super) fn spawn_watches(
    client: &Client,
    inbox: &Arc<SchedulerInbox>,
    status_writes: &Arc<PodStatusWrites>,
    work: &mut JoinSet<()>,
) {
    let pods = Config::default().fields(NON_TERMINAL_PODS);
    let status_writes = status_writes.clone();
    work.spawn(run_watch::<Pod>(
        Api::all(client.clone()),
        pods,
        inbox.clone(),
        move |event, listed| forget_status_writes(&status_writes, event, listed),
    ));
    spawn_watch::<Node>(client, inbox, work);
    spawn_watch::<WatchedNamespace>(client, inbox, work);
    spawn_watch::<DisruptionBudget>(client, inbox, work);
    spawn_watch::<DecodedSpreadOwner<ServiceKind>>(client, inbox, work);
    spawn_watch::<DecodedSpreadOwner<ReplicationControllerKind>>(client, inbox, work);
    spawn_watch::<DecodedSpreadOwner<ReplicaSetKind>>(client, inbox, work);
    spawn_watch::<DecodedSpreadOwner<StatefulSetKind>>(client, inbox, work);
}

/// Watches all objects of a kind.
fn spawn_watch<K: WatchedKind>(
    client: &Client,
    inbox: &Arc<SchedulerInbox>,
    work: &mut JoinSet<()>,
) {
    let api = Api::all(client.clone());
    work.spawn(run_watch::<K>(
        api,
        Config::default(),
        inbox.clone(),
        |_, _| {},
    ));
}

/// Drops the status write state of pods that are assigned or deleted.
fn forget_status_writes(
    status_writes: &PodStatusWrites,
    event: &Event<WatchedObject<Pod>>,
    listed: &HashSet<Box<str>>,
) {
    match event {
        Event::Apply(pod) | Event::InitApply(pod) => {
            let is_placed = |pod: &Pod| pod.node_name.is_some();
            if pod.object.as_ref().is_some_and(is_placed) {
                status_writes.forget(pod.uid());
            }
        }
        Event::Delete(pod) => status_writes.forget(pod.uid()),
        Event::Init => {}
        Event::InitDone => status_writes.retain(listed),
    }
}

async fn run_watch<K: WatchedKind>(
    api: Api<WatchedObject<K>>,
    config: Config,
    inbox: Arc<SchedulerInbox>,
    inspect: impl Fn(&Event<WatchedObject<K>>, &HashSet<K::Id>) + Send,
) {
    let mut listed: HashSet<K::Id> = HashSet::new();
    let mut is_first = true;
    let mut events = pin!(reflector::watch_events(api, config));
    while let Some(event) = events.next().await {
        inspect(&event, &listed);
        let converted = match event {
            Event::Init => {
                listed.clear();
                None
            }
            Event::InitApply(watched) => {
                listed.insert(K::id(&watched));
                K::applied(watched)
            }
            Event::Apply(watched) => K::applied(watched),
            Event::Delete(watched) => Some(K::deleted(K::id(&watched))),
            Event::InitDone => {
                inbox.send(K::replaced(std::mem::take(&mut listed))).await;
                if std::mem::take(&mut is_first) {
                    inbox.list_synced();
                }
                None
            }
        };
        if let Some(event) = converted {
            inbox.send(event).await;
        }
    }
}

impl WatchedKind for Pod {
    type Id = Box<str>;

    fn id(watched: &WatchedObject<Pod>) -> Box<str> {
        watched.uid().into()
    }

    fn applied(watched: WatchedObject<Pod>) -> Option<SchedulerEvent> {
        watched
            .object
            .map(|pod| SchedulerEvent::PodApplied(Box::new(pod)))
    }

    fn deleted(uid: Box<str>) -> SchedulerEvent {
        SchedulerEvent::PodDeleted { uid }
    }

    fn replaced(all: HashSet<Box<str>>) -> SchedulerEvent {
        SchedulerEvent::PodsReplaced(all)
    }
}

impl WatchedKind for Node {
    type Id = Box<str>;

    fn id(watched: &WatchedObject<Node>) -> Box<str> {
        watched.name().into()
    }

    fn applied(watched: WatchedObject<Node>) -> Option<SchedulerEvent> {
        watched
            .object
            .map(|node| SchedulerEvent::NodeApplied(Box::new(node)))
    }

    fn deleted(name: Box<str>) -> SchedulerEvent {
        SchedulerEvent::NodeDeleted { name }
    }

    fn replaced(all: HashSet<Box<str>>) -> SchedulerEvent {
        SchedulerEvent::NodesReplaced(all)
    }
}

impl WatchedKind for WatchedNamespace {
    type Id = Box<str>;

    fn id(watched: &WatchedObject<WatchedNamespace>) -> Box<str> {
        watched.name().into()
    }

    fn applied(watched: WatchedObject<WatchedNamespace>) -> Option<SchedulerEvent> {
        let name = watched.name().into();
        let labels = watched.object?.labels;
        Some(SchedulerEvent::NamespaceApplied { name, labels })
    }

    fn deleted(name: Box<str>) -> SchedulerEvent {
        SchedulerEvent::NamespaceDeleted { name }
    }

    fn replaced(all: HashSet<Box<str>>) -> SchedulerEvent {
        SchedulerEvent::NamespacesReplaced(all)
    }
}

impl WatchedKind for DisruptionBudget {
    type Id = NamespacedName;

    fn id(watched: &WatchedObject<DisruptionBudget>) -> NamespacedName {
        NamespacedName {
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn applied(watched: WatchedObject<DisruptionBudget>) -> Option<SchedulerEvent> {
        watched
            .object
            .map(|budget| SchedulerEvent::DisruptionBudgetApplied(Box::new(budget)))
    }

    fn deleted(NamespacedName { namespace, name }: NamespacedName) -> SchedulerEvent {
        SchedulerEvent::DisruptionBudgetDeleted { namespace, name }
    }

    fn replaced(all: HashSet<NamespacedName>) -> SchedulerEvent {
        SchedulerEvent::DisruptionBudgetsReplaced(all)
    }
}

impl<G: SpreadOwnerResource> WatchedKind for DecodedSpreadOwner<G> {
    type Id = SpreadOwnerKey;

    fn id(watched: &WatchedObject<Self>) -> SpreadOwnerKey {
        SpreadOwnerKey {
            kind: G::GROUP_KIND,
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn applied(watched: WatchedObject<Self>) -> Option<SchedulerEvent> {
        watched
            .object
            .map(|object| SchedulerEvent::SpreadOwnerApplied(Box::new(object.group)))
    }

    fn deleted(key: SpreadOwnerKey) -> SchedulerEvent {
        SchedulerEvent::SpreadOwnerDeleted(key)
    }

    fn replaced(keys: HashSet<SpreadOwnerKey>) -> SchedulerEvent {
        SchedulerEvent::SpreadOwnersReplaced {
            kind: G::GROUP_KIND,
            keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_writes_of_unlisted_pods_are_forgotten() {
        let status_writes = PodStatusWrites::default();
        for uid in ["gone", "here"] {
            status_writes.ticket(uid);
        }
        let listed = HashSet::from(["here".into(), "other".into()]);
        forget_status_writes(&status_writes, &Event::Init, &HashSet::new());
        assert_eq!(status_writes.len(), 2);
        forget_status_writes(&status_writes, &Event::InitDone, &listed);
        assert_eq!(status_writes.len(), 1);
        assert!(status_writes.supersede("here").is_some());
    }
}

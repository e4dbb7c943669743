//! Watches all kinds that scheduling depends on, and sends their changes to the scheduling thread (upstream: the
//! scheduler's informers and event handlers). Entry point: [`spawn_watches`].

use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use rhumb_client::informer::{self, Event};
use tokio::task::JoinSet;

use super::decode::{
    DecodableKind, DecodedSpreadOwner, ReplicaSetKind, ReplicationControllerKind, ServiceKind,
    SpreadOwnerResource, StatefulSetKind, WatchedNamespace, WatchedObject,
};
use super::inbox::SchedulerInbox;
use super::status_writes::PodStatusWrites;
use crate::engine::{Namespace, SchedulerEvent};
use crate::model::{DisruptionBudget, NamespacedName, Node, Pod, SpreadOwnerKey};

/// The number of watched kinds, each with an initial list.
pub(super) const LIST_COUNT: usize = 8;

/// Terminal pods use no resources and are not watched, as upstream.
const NON_TERMINAL_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// A watched kind, and its events as the scheduler core takes them.
trait WatchedKind: DecodableKind {
    /// Identifies an object.
    type Key: Eq + Hash + Send;

    fn key(watched: &WatchedObject<Self>) -> Self::Key;
    /// `None` for an object that could not be decoded.
    fn scheduler_event(event: WatchedEvent<Self>) -> Option<SchedulerEvent>;
}

type WatchedEvent<K> = Event<WatchedObject<K>, <K as WatchedKind>::Key>;

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
        move |event| forget_status_writes(&status_writes, event),
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
        |_| {},
    ));
}

/// Drops the status write state of pods that are assigned or deleted.
fn forget_status_writes(status_writes: &PodStatusWrites, event: &WatchedEvent<Pod>) {
    match event {
        Event::Applied(pod) => {
            let is_placed = |pod: &Pod| pod.node_name.is_some();
            if pod.object.as_ref().is_some_and(is_placed) {
                status_writes.forget(pod.uid());
            }
        }
        Event::Deleted(uid) => status_writes.forget(uid),
        Event::Replaced(uids) => status_writes.retain(uids),
    }
}

async fn run_watch<K: WatchedKind>(
    api: Api<WatchedObject<K>>,
    config: Config,
    inbox: Arc<SchedulerInbox>,
    inspect: impl Fn(&WatchedEvent<K>) + Send,
) {
    let mut is_first = true;
    let mut events = pin!(informer::events(api, config, K::key));
    while let Some(event) = events.next().await {
        inspect(&event);
        let ends_list = matches!(event, Event::Replaced(_));
        if let Some(event) = K::scheduler_event(event) {
            inbox.send(event).await;
        }
        if ends_list && std::mem::take(&mut is_first) {
            inbox.list_synced();
        }
    }
}

impl WatchedKind for Pod {
    type Key = Box<str>;

    fn key(watched: &WatchedObject<Pod>) -> Box<str> {
        watched.uid().into()
    }

    fn scheduler_event(event: WatchedEvent<Pod>) -> Option<SchedulerEvent> {
        let event = event.filter_map(|watched| watched.object.map(Box::new))?;
        Some(SchedulerEvent::Pod(event))
    }
}

impl WatchedKind for Node {
    type Key = Box<str>;

    fn key(watched: &WatchedObject<Node>) -> Box<str> {
        watched.name().into()
    }

    fn scheduler_event(event: WatchedEvent<Node>) -> Option<SchedulerEvent> {
        let event = event.filter_map(|watched| watched.object.map(Box::new))?;
        Some(SchedulerEvent::Node(event))
    }
}

impl WatchedKind for WatchedNamespace {
    type Key = Box<str>;

    fn key(watched: &WatchedObject<WatchedNamespace>) -> Box<str> {
        watched.name().into()
    }

    fn scheduler_event(event: WatchedEvent<WatchedNamespace>) -> Option<SchedulerEvent> {
        let event = event.filter_map(|watched| {
            let name = watched.name().into();
            let labels = watched.object?.labels;
            Some(Namespace { name, labels })
        })?;
        Some(SchedulerEvent::Namespace(event))
    }
}

impl WatchedKind for DisruptionBudget {
    type Key = NamespacedName;

    fn key(watched: &WatchedObject<DisruptionBudget>) -> NamespacedName {
        NamespacedName {
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn scheduler_event(event: WatchedEvent<DisruptionBudget>) -> Option<SchedulerEvent> {
        let event = event.filter_map(|watched| watched.object.map(Box::new))?;
        Some(SchedulerEvent::DisruptionBudget(event))
    }
}

impl<G: SpreadOwnerResource> WatchedKind for DecodedSpreadOwner<G> {
    type Key = SpreadOwnerKey;

    fn key(watched: &WatchedObject<Self>) -> SpreadOwnerKey {
        SpreadOwnerKey {
            kind: G::GROUP_KIND,
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn scheduler_event(event: WatchedEvent<Self>) -> Option<SchedulerEvent> {
        let group = |object: DecodedSpreadOwner<G>| Box::new(object.group);
        let event = event.filter_map(|watched| watched.object.map(group))?;
        Some(SchedulerEvent::SpreadOwner(G::GROUP_KIND, event))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn status_writes_of_unlisted_pods_are_forgotten() {
        let status_writes = PodStatusWrites::default();
        for uid in ["gone", "here"] {
            status_writes.ticket(uid);
        }
        let listed = HashSet::from(["here".into(), "other".into()]);
        assert_eq!(status_writes.len(), 2);
        forget_status_writes(&status_writes, &Event::Replaced(listed));
        assert_eq!(status_writes.len(), 1);
        assert!(status_writes.supersede("here").is_some());
    }
}

//! What the server shows, told to the thread that decides.

use std::collections::HashSet;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::watching;
use tokio::task::JoinSet;

use super::lanes::Lanes;
use super::mailbox::Mailbox;
use super::watched::{
    Gathers, GroupOf, Kind, Namespace, ReplicaSet, ReplicationController, Service, StatefulSet,
    Watched,
};
use crate::engine::Change;
use crate::model::{Budget, GroupKey, Node, Pod, PodKey};

/// How many lists there are.
pub(super) const LISTS: usize = 8;

/// What has come to its end takes no room and is in nobody's way.
const NOT_FINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// How the objects of a kind become changes.
trait Told: Kind {
    /// What an object is known by.
    type Id: Eq + Hash + Send;

    fn id(watched: &Watched<Self>) -> Self::Id;
    /// `None` if it cannot be read.
    fn is(watched: Watched<Self>) -> Option<Change>;
    fn gone(id: Self::Id) -> Change;
    fn are(all: HashSet<Self::Id>) -> Change;
}

/// Follows everything. Ends only with whoever has the set.
pub(super) fn start(
    client: &Client,
    mailbox: &Arc<Mailbox>,
    lanes: &Arc<Lanes>,
    work: &mut JoinSet<()>,
) {
    let pods = Config::default().fields(NOT_FINISHED);
    let finished = lanes.clone();
    work.spawn(follow::<Pod>(
        Api::all(client.clone()),
        pods,
        mailbox.clone(),
        move |event, listed| forget_lanes(&finished, event, listed),
    ));
    all::<Node>(client, mailbox, work);
    all::<Namespace>(client, mailbox, work);
    all::<Budget>(client, mailbox, work);
    all::<GroupOf<Service>>(client, mailbox, work);
    all::<GroupOf<ReplicationController>>(client, mailbox, work);
    all::<GroupOf<ReplicaSet>>(client, mailbox, work);
    all::<GroupOf<StatefulSet>>(client, mailbox, work);
}

/// Follows all objects of a kind.
fn all<K: Told>(client: &Client, mailbox: &Arc<Mailbox>, work: &mut JoinSet<()>) {
    let api = Api::all(client.clone());
    work.spawn(follow::<K>(
        api,
        Config::default(),
        mailbox.clone(),
        |_, _| {},
    ));
}

/// Nothing more is written about a pod that has a node, or is gone.
fn forget_lanes(lanes: &Lanes, event: &Event<Watched<Pod>>, listed: &HashSet<Box<str>>) {
    match event {
        Event::Apply(pod) | Event::InitApply(pod) => {
            let is_placed = |pod: &Pod| pod.node_name.is_some();
            if pod.object.as_ref().is_some_and(is_placed) {
                lanes.forget(pod.uid());
            }
        }
        Event::Delete(pod) => lanes.forget(pod.uid()),
        Event::Init => {}
        Event::InitDone => lanes.retain(listed),
    }
}

async fn follow<K: Told>(
    api: Api<Watched<K>>,
    config: Config,
    mailbox: Arc<Mailbox>,
    look: impl Fn(&Event<Watched<K>>, &HashSet<K::Id>) + Send,
) {
    let mut listed: HashSet<K::Id> = HashSet::new();
    let mut is_first = true;
    let mut events = pin!(watching::events(api, config));
    while let Some(event) = events.next().await {
        look(&event, &listed);
        let change = match event {
            Event::Init => {
                listed.clear();
                None
            }
            Event::InitApply(watched) => {
                listed.insert(K::id(&watched));
                K::is(watched)
            }
            Event::Apply(watched) => K::is(watched),
            Event::Delete(watched) => Some(K::gone(K::id(&watched))),
            Event::InitDone => {
                mailbox.send(K::are(std::mem::take(&mut listed))).await;
                if std::mem::take(&mut is_first) {
                    mailbox.list_is_complete();
                }
                None
            }
        };
        if let Some(change) = change {
            mailbox.send(change).await;
        }
    }
}

impl Told for Pod {
    type Id = Box<str>;

    fn id(watched: &Watched<Pod>) -> Box<str> {
        watched.uid().into()
    }

    fn is(watched: Watched<Pod>) -> Option<Change> {
        watched.object.map(|pod| Change::Pod(Box::new(pod)))
    }

    fn gone(uid: Box<str>) -> Change {
        Change::PodGone { uid }
    }

    fn are(all: HashSet<Box<str>>) -> Change {
        Change::PodsAre(all)
    }
}

impl Told for Node {
    type Id = Box<str>;

    fn id(watched: &Watched<Node>) -> Box<str> {
        watched.name().into()
    }

    fn is(watched: Watched<Node>) -> Option<Change> {
        watched.object.map(|node| Change::Node(Box::new(node)))
    }

    fn gone(name: Box<str>) -> Change {
        Change::NodeGone { name }
    }

    fn are(all: HashSet<Box<str>>) -> Change {
        Change::NodesAre(all)
    }
}

impl Told for Namespace {
    type Id = Box<str>;

    fn id(watched: &Watched<Namespace>) -> Box<str> {
        watched.name().into()
    }

    fn is(watched: Watched<Namespace>) -> Option<Change> {
        let name = watched.name().into();
        let labels = watched.object?.labels;
        Some(Change::Namespace { name, labels })
    }

    fn gone(name: Box<str>) -> Change {
        Change::NamespaceGone { name }
    }

    fn are(all: HashSet<Box<str>>) -> Change {
        Change::NamespacesAre(all)
    }
}

impl Told for Budget {
    type Id = PodKey;

    fn id(watched: &Watched<Budget>) -> PodKey {
        PodKey {
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn is(watched: Watched<Budget>) -> Option<Change> {
        watched
            .object
            .map(|budget| Change::Budget(Box::new(budget)))
    }

    fn gone(PodKey { namespace, name }: PodKey) -> Change {
        Change::BudgetGone { namespace, name }
    }

    fn are(all: HashSet<PodKey>) -> Change {
        Change::BudgetsAre(all)
    }
}

impl<G: Gathers> Told for GroupOf<G> {
    type Id = GroupKey;

    fn id(watched: &Watched<Self>) -> GroupKey {
        GroupKey {
            kind: G::GROUP_KIND,
            namespace: watched.namespace().into(),
            name: watched.name().into(),
        }
    }

    fn is(watched: Watched<Self>) -> Option<Change> {
        watched
            .object
            .map(|object| Change::Group(Box::new(object.group)))
    }

    fn gone(key: GroupKey) -> Change {
        Change::GroupGone(key)
    }

    fn are(keys: HashSet<GroupKey>) -> Change {
        Change::GroupsAre {
            kind: G::GROUP_KIND,
            keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_any_more_has_no_lane() {
        let lanes = Lanes::default();
        for uid in ["gone", "here"] {
            lanes.enter(uid);
        }
        let listed = HashSet::from(["here".into(), "other".into()]);
        forget_lanes(&lanes, &Event::Init, &HashSet::new());
        assert_eq!(lanes.len(), 2);
        forget_lanes(&lanes, &Event::InitDone, &listed);
        assert_eq!(lanes.len(), 1);
        assert!(lanes.overtake("here").is_some());
    }
}

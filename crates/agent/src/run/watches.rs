//! Watches namespaces, pods, policies and the own node, and sends their events to the sync loop.
//! Corresponds to client-go reflectors.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::StreamExt as _;
use kube::api::ObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use rhumb_client::{reflector, view};
use rhumb_netpol::{Namespace, NamespacedName, NetworkPolicy, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Queued events. When the queue is full, the watches stop reading (backpressure).
pub(super) const EVENT_QUEUE_CAPACITY: usize = 4096;

/// An event with the time when it was received.
#[derive(Debug)]
pub(super) struct ReceivedEvent {
    pub(super) received_at: Instant,
    pub(super) event: AgentEvent,
}

/// A change of one object, or the end of a list.
#[derive(Debug)]
pub(super) enum AgentEvent {
    NamespaceApplied(Box<Namespace>),
    NamespaceDeleted(String),
    PodApplied(Box<Pod>),
    PodDeleted(NamespacedName),
    PolicyApplied(Box<NetworkPolicy>),
    PolicyDeleted(NamespacedName),
    NodeApplied(Box<Node>),
    NodeDeleted,
    /// All objects of a kind have been listed. Objects that are not in the list do not exist any more.
    ListCompleted(ListedNames),
}

/// The names of all objects of a kind.
#[derive(Debug)]
pub(super) enum ListedNames {
    Namespaces(BTreeSet<String>),
    Pods(BTreeSet<NamespacedName>),
    Policies(BTreeSet<NamespacedName>),
    Nodes(BTreeSet<String>),
}

/// The fields of a node that the agent uses.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Node {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

view!(Node, of k8s_openapi::api::core::v1::Node);

impl Node {
    /// The CIDRs that the node's pods get their addresses from.
    pub(super) fn pod_cidrs(&self) -> impl Iterator<Item = &str> {
        let all = self.spec.pod_cidrs.iter().flatten();
        let first = self.spec.pod_cidr.iter();
        all.chain(first).map(String::as_str)
    }
}

/// Converts the objects of a kind to events.
trait WatchedResource:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    type Id: Ord + Send;

    fn id(&self) -> Self::Id;
    fn into_applied_event(self) -> AgentEvent;
    fn deleted_event(id: Self::Id) -> AgentEvent;
    fn listed_names(ids: BTreeSet<Self::Id>) -> ListedNames;
}

/// Starts all watches. They run until `work` is dropped.
pub(super) fn start_watches(
    client: &Client,
    node: &str,
    work: &mut JoinSet<()>,
) -> mpsc::Receiver<ReceivedEvent> {
    let (sender, receiver) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let all = Config::default;
    work.spawn(watch_resource::<Namespace>(
        Api::all(client.clone()),
        all(),
        sender.clone(),
    ));
    work.spawn(watch_resource::<NetworkPolicy>(
        Api::all(client.clone()),
        all(),
        sender.clone(),
    ));
    work.spawn(watch_resource::<Pod>(
        Api::all(client.clone()),
        all(),
        sender.clone(),
    ));
    let own = Config::default().fields(&format!("metadata.name={node}"));
    work.spawn(watch_resource::<Node>(
        Api::all(client.clone()),
        own,
        sender,
    ));
    receiver
}

async fn watch_resource<K: WatchedResource>(
    api: Api<K>,
    config: Config,
    sender: mpsc::Sender<ReceivedEvent>,
) {
    let mut listed = BTreeSet::new();
    let mut events = pin!(reflector::watch_events(api, config));
    while let Some(event) = events.next().await {
        let agent_event = match event {
            Event::Init => {
                listed.clear();
                continue;
            }
            Event::InitApply(object) => {
                listed.insert(object.id());
                object.into_applied_event()
            }
            Event::Apply(object) => object.into_applied_event(),
            Event::Delete(object) => K::deleted_event(object.id()),
            Event::InitDone => {
                AgentEvent::ListCompleted(K::listed_names(std::mem::take(&mut listed)))
            }
        };
        let received = ReceivedEvent {
            received_at: Instant::now(),
            event: agent_event,
        };
        if sender.send(received).await.is_err() {
            return;
        }
    }
}

fn name_of(meta: &ObjectMeta) -> NamespacedName {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    NamespacedName::new(text(&meta.namespace), text(&meta.name))
}

impl WatchedResource for Namespace {
    type Id = String;

    fn id(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    fn into_applied_event(self) -> AgentEvent {
        AgentEvent::NamespaceApplied(Box::new(self))
    }

    fn deleted_event(id: String) -> AgentEvent {
        AgentEvent::NamespaceDeleted(id)
    }

    fn listed_names(ids: BTreeSet<String>) -> ListedNames {
        ListedNames::Namespaces(ids)
    }
}

impl WatchedResource for Pod {
    type Id = NamespacedName;

    fn id(&self) -> NamespacedName {
        name_of(&self.metadata)
    }

    fn into_applied_event(self) -> AgentEvent {
        AgentEvent::PodApplied(Box::new(self))
    }

    fn deleted_event(id: NamespacedName) -> AgentEvent {
        AgentEvent::PodDeleted(id)
    }

    fn listed_names(ids: BTreeSet<NamespacedName>) -> ListedNames {
        ListedNames::Pods(ids)
    }
}

impl WatchedResource for NetworkPolicy {
    type Id = NamespacedName;

    fn id(&self) -> NamespacedName {
        name_of(&self.metadata)
    }

    fn into_applied_event(self) -> AgentEvent {
        AgentEvent::PolicyApplied(Box::new(self))
    }

    fn deleted_event(id: NamespacedName) -> AgentEvent {
        AgentEvent::PolicyDeleted(id)
    }

    fn listed_names(ids: BTreeSet<NamespacedName>) -> ListedNames {
        ListedNames::Policies(ids)
    }
}

impl WatchedResource for Node {
    type Id = String;

    fn id(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    fn into_applied_event(self) -> AgentEvent {
        AgentEvent::NodeApplied(Box::new(self))
    }

    fn deleted_event(_: String) -> AgentEvent {
        AgentEvent::NodeDeleted
    }

    fn listed_names(ids: BTreeSet<String>) -> ListedNames {
        ListedNames::Nodes(ids)
    }
}

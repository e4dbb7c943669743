//! Informers of namespaces, pods, policies and the own node; their events go to the sync loop.

use std::hash::Hash;
use std::pin::pin;

use futures_util::StreamExt as _;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use rhumb_client::informer::{self, Event, InformerMessage};
use rhumb_client::view;
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
pub(super) struct ReceivedAgentEvent {
    pub(super) received_at: Instant,
    pub(super) event: AgentEvent,
}

/// An event of one of the informers.
#[derive(Debug)]
pub(super) enum AgentEvent {
    Namespace(Event<Box<Namespace>, String>),
    Pod(Event<Box<Pod>, NamespacedName>),
    /// A list of pods is in progress until `Pod(Replaced)`.
    PodListStart,
    Policy(Event<Box<NetworkPolicy>, NamespacedName>),
    Node(Event<Box<Node>, String>),
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

/// Starts all watches. They run until `work` is dropped.
pub(super) fn start_watches(
    client: &Client,
    node: &str,
    work: &mut JoinSet<()>,
) -> mpsc::Receiver<ReceivedAgentEvent> {
    let (sender, receiver) = mpsc::channel(EVENT_QUEUE_CAPACITY);
    let all = Config::default;
    let own = Config::default().fields(&format!("metadata.name={node}"));
    work.spawn(run_informer(
        Api::all(client.clone()),
        all(),
        |namespace: &Namespace| object_name(&namespace.metadata),
        |event| event_only(event, AgentEvent::Namespace),
        sender.clone(),
    ));
    work.spawn(run_informer(
        Api::all(client.clone()),
        all(),
        |policy: &NetworkPolicy| namespaced_name(&policy.metadata),
        |event| event_only(event, AgentEvent::Policy),
        sender.clone(),
    ));
    work.spawn(run_informer(
        Api::all(client.clone()),
        all(),
        |pod: &Pod| namespaced_name(&pod.metadata),
        |event| match event {
            InformerMessage::Event(event) => Some(AgentEvent::Pod(event.map(Box::new))),
            InformerMessage::ListStart => Some(AgentEvent::PodListStart),
        },
        sender.clone(),
    ));
    work.spawn(run_informer(
        Api::all(client.clone()),
        own,
        |node: &Node| object_name(&node.metadata),
        |event| event_only(event, AgentEvent::Node),
        sender,
    ));
    receiver
}

fn event_only<K, Key: Eq + Hash>(
    event: InformerMessage<K, Key>,
    agent_event: fn(Event<Box<K>, Key>) -> AgentEvent,
) -> Option<AgentEvent> {
    match event {
        InformerMessage::Event(event) => Some(agent_event(event.map(Box::new))),
        InformerMessage::ListStart => None,
    }
}

/// Sends the events of one kind until the receiver is dropped.
async fn run_informer<K, Key>(
    api: Api<K>,
    config: Config,
    key: fn(&K) -> Key,
    agent_event: fn(InformerMessage<K, Key>) -> Option<AgentEvent>,
    sender: mpsc::Sender<ReceivedAgentEvent>,
) where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
    Key: Eq + Hash + Send,
{
    let mut events = pin!(informer::events_and_list_starts(api, config, key));
    while let Some(event) = events.next().await {
        let Some(event) = agent_event(event) else {
            continue;
        };
        let received = ReceivedAgentEvent {
            received_at: Instant::now(),
            event,
        };
        if sender.send(received).await.is_err() {
            return;
        }
    }
}

fn object_name(meta: &ObjectMeta) -> String {
    meta.name.clone().unwrap_or_default()
}

fn namespaced_name(meta: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(
        meta.namespace.clone().unwrap_or_default(),
        object_name(meta),
    )
}

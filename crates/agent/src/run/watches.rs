//! What the server shows, told to the task that decides.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::StreamExt as _;
use kube::api::ObjectMeta;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource};
use rhumb_client::{view, watching};
use rhumb_netpol::{Name, Namespace, NetworkPolicy, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Changes that wait. When there are more, the server holds them.
pub(super) const WAITING_MAX: usize = 4096;

/// Something that the server said, and when it was heard.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) at: Instant,
    pub(super) told: Told,
}

#[derive(Debug)]
pub(super) enum Told {
    Namespace(Box<Namespace>),
    NamespaceGone(String),
    Pod(Box<Pod>),
    PodGone(Name),
    Policy(Box<NetworkPolicy>),
    PolicyGone(Name),
    Node(Box<Node>),
    NodeGone,
    /// All that there is of a kind was told. What is not among it is gone.
    All(Listed),
}

/// The names of all objects of a kind.
#[derive(Debug)]
pub(super) enum Listed {
    Namespaces(BTreeSet<String>),
    Pods(BTreeSet<Name>),
    Policies(BTreeSet<Name>),
    Nodes(BTreeSet<String>),
}

/// As much of a node as is looked at.
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
    /// The blocks that its pods have their addresses from.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &str> {
        let all = self.spec.pod_cidrs.iter().flatten();
        let first = self.spec.pod_cidr.iter();
        all.chain(first).map(String::as_str)
    }
}

/// How the objects of a kind are told.
trait Followed:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    type Id: Ord + Send;

    fn id(&self) -> Self::Id;
    fn told(self) -> Told;
    fn gone(id: Self::Id) -> Told;
    fn all(ids: BTreeSet<Self::Id>) -> Listed;
}

/// Follows everything. Ends only with whoever has the set.
pub(super) fn start(client: &Client, node: &str, work: &mut JoinSet<()>) -> mpsc::Receiver<Heard> {
    let (hearing, heard) = mpsc::channel(WAITING_MAX);
    let all = Config::default;
    work.spawn(follow::<Namespace>(
        Api::all(client.clone()),
        all(),
        hearing.clone(),
    ));
    work.spawn(follow::<NetworkPolicy>(
        Api::all(client.clone()),
        all(),
        hearing.clone(),
    ));
    work.spawn(follow::<Pod>(
        Api::all(client.clone()),
        all(),
        hearing.clone(),
    ));
    let own = Config::default().fields(&format!("metadata.name={node}"));
    work.spawn(follow::<Node>(Api::all(client.clone()), own, hearing));
    heard
}

async fn follow<K: Followed>(api: Api<K>, config: Config, hearing: mpsc::Sender<Heard>) {
    let mut listed = BTreeSet::new();
    let mut events = pin!(watching::events(api, config));
    while let Some(event) = events.next().await {
        let told = match event {
            Event::Init => {
                listed.clear();
                continue;
            }
            Event::InitApply(object) => {
                listed.insert(object.id());
                object.told()
            }
            Event::Apply(object) => object.told(),
            Event::Delete(object) => K::gone(object.id()),
            Event::InitDone => Told::All(K::all(std::mem::take(&mut listed))),
        };
        let heard = Heard {
            at: Instant::now(),
            told,
        };
        if hearing.send(heard).await.is_err() {
            return;
        }
    }
}

fn name_of(meta: &ObjectMeta) -> Name {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Name::new(text(&meta.namespace), text(&meta.name))
}

impl Followed for Namespace {
    type Id = String;

    fn id(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    fn told(self) -> Told {
        Told::Namespace(Box::new(self))
    }

    fn gone(id: String) -> Told {
        Told::NamespaceGone(id)
    }

    fn all(ids: BTreeSet<String>) -> Listed {
        Listed::Namespaces(ids)
    }
}

impl Followed for Pod {
    type Id = Name;

    fn id(&self) -> Name {
        name_of(&self.metadata)
    }

    fn told(self) -> Told {
        Told::Pod(Box::new(self))
    }

    fn gone(id: Name) -> Told {
        Told::PodGone(id)
    }

    fn all(ids: BTreeSet<Name>) -> Listed {
        Listed::Pods(ids)
    }
}

impl Followed for NetworkPolicy {
    type Id = Name;

    fn id(&self) -> Name {
        name_of(&self.metadata)
    }

    fn told(self) -> Told {
        Told::Policy(Box::new(self))
    }

    fn gone(id: Name) -> Told {
        Told::PolicyGone(id)
    }

    fn all(ids: BTreeSet<Name>) -> Listed {
        Listed::Policies(ids)
    }
}

impl Followed for Node {
    type Id = String;

    fn id(&self) -> String {
        self.metadata.name.clone().unwrap_or_default()
    }

    fn told(self) -> Told {
        Told::Node(Box::new(self))
    }

    fn gone(_: String) -> Told {
        Told::NodeGone
    }

    fn all(ids: BTreeSet<String>) -> Listed {
        Listed::Nodes(ids)
    }
}

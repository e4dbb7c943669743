//! Follows pods, namespaces and policies, and keeps what follows from them up to date.
//!
//! Objects are read into a [`world::World`] of small records. Whom policies are about and who their peers are is a
//! *selection*; policies that mean the same share one, and each knows its members ([`follow`]). So a changed object
//! touches only the selections that it enters or leaves, and what depends on those: summaries, or the rules of a
//! [`node`]. Nothing depends on the order of events, except for the numbers of sets, chains and groups.

mod change;
mod few;
mod follow;
mod hashing;
mod index;
mod meaning;
mod names;
mod namespaces;
mod node;
mod owners;
mod pods;
mod policies;
mod selections;
mod slots;
mod spread;
mod text;
mod touched;
mod verdicts;
mod world;

use std::collections::BTreeSet;
use std::net::IpAddr;

use self::node::Node;
use self::spread::Spread;
use self::text::Texts;
use self::touched::Touched;
use self::world::World;
use crate::judge::{Question, Verdict};
use crate::program::{Changes, Program};
use crate::summary::Summary;
use crate::{Name, Namespace, NetworkPolicy, Pod, versions};

pub(crate) use self::meaning::isolates;

/// What an engine is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All pods: for verdicts and summaries.
    Cluster,
    /// The rules of one node: policies that select no pod of it cost next to nothing. Verdicts and summaries know only
    /// the pods of the node as those that policies are about.
    Node(String),
}

/// What an implementation knows of policies: others are ignored as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    pub versions: BTreeSet<String>,
    /// Whether SCTP can be told apart; otherwise no rule about it allows anything.
    pub sctp: bool,
}

impl Knowledge {
    /// All that there is to know.
    pub fn all() -> Knowledge {
        Knowledge {
            versions: versions::ALL.map(str::to_owned).into(),
            sctp: true,
        }
    }
}

#[derive(Debug)]
pub struct Engine {
    knowledge: Knowledge,
    texts: Texts,
    world: World,
    node: Node,
    touched: Touched,
}

impl Engine {
    pub fn new(scope: Scope, knowledge: Knowledge) -> Engine {
        let mut texts = Texts::default();
        let name = match scope {
            Scope::Cluster => None,
            Scope::Node(name) => Some(texts.intern(&name)),
        };
        Engine {
            knowledge,
            texts,
            world: World::default(),
            node: Node::new(name),
            touched: Touched::default(),
        }
    }

    pub fn set_namespace(&mut self, namespace: &Namespace) {
        self.change_namespace(namespace);
    }

    pub fn remove_namespace(&mut self, name: &str) {
        self.forget_namespace(name);
    }

    /// A new pod, or what is known of one now.
    pub fn set_pod(&mut self, pod: &Pod) {
        self.change_pod(pod);
    }

    pub fn remove_pod(&mut self, name: &Name) {
        self.forget_pod(name);
    }

    pub fn set_policy(&mut self, policy: &NetworkPolicy) {
        self.change_policy(policy);
    }

    pub fn remove_policy(&mut self, name: &Name) {
        self.forget_policy(name);
    }

    /// Ranges of addresses, first and last included and each of one family, of which the program of the node is to know all
    /// that any pod has, whichever node that is on.
    pub fn set_ranges(&mut self, ranges: &[(IpAddr, IpAddr)]) {
        self.change_ranges(ranges);
    }

    /// The names of all that there is, for what is compared with a new list. Pods that have finished are as if they were
    /// not there.
    pub fn pods(&self) -> impl Iterator<Item = &Name> {
        self.world.pods.names()
    }

    pub fn policies(&self) -> impl Iterator<Item = &Name> {
        self.world.policies.names()
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.world.namespaces.known()
    }

    /// The pod that has an address: of several that claim it, the latest of those that are there to stay. Pods of the
    /// host network have none of their own.
    pub fn owner(&self, address: IpAddr) -> Option<&Name> {
        let pod = self.world.owners.of(address.to_canonical())?;
        Some(&self.world.pods[pod].name)
    }

    /// What is said of a connection, for each pair of the ends' addresses of one family. An address that another pod has
    /// by now is not an address of a pod any more. `None` if there is no pair: an end is a pod that is not there, or has
    /// no address, or none of the other's family.
    pub fn judge(&self, question: &Question) -> Option<Verdict> {
        self.world.judge(question)
    }

    /// Costs no more where many pods are selected: how many there are on each node is counted as they come and go.
    pub fn summary(&self, policy: &Name) -> Option<Summary> {
        let id = self.world.policies.find(policy)?;
        let meaning = &self.world.policies[id].meaning;
        let selections = &self.world.selections;
        let spread = selections[meaning.target].spread.as_ref();
        let nodes = spread.into_iter().flat_map(Spread::nodes);
        Some(Summary {
            uid: meaning.uid.to_string(),
            generation: meaning.generation,
            min_version: meaning.min_version.to_string(),
            nodes: nodes
                .map(|(node, count)| (node.to_owned(), count))
                .collect(),
            unplaced: spread.map_or(0, Spread::unplaced),
            traffic: meaning.traffic(|peer| !selections[peer].members.is_empty()),
            flaws: meaning.flaws.to_vec(),
        })
    }

    /// Policies of which a summary may have changed since it was last asked; those that are gone too. Nothing is noted
    /// for a single node.
    pub fn take_touched(&mut self) -> BTreeSet<Name> {
        self.touched.take(&self.world)
    }

    /// The same without those of which nothing has changed but how many pods there are on a node, or on none yet: so a pod
    /// that comes where others are costs nothing, however many policies select it.
    pub fn take_touched_beyond_counts(&mut self) -> BTreeSet<Name> {
        self.touched.take_beyond_counts(&self.world)
    }

    /// How the rules of the node have changed since this was last asked.
    pub fn take_changes(&mut self) -> Changes {
        let changes = self.node.catch_up(&self.world);
        self.forget_idle();
        changes
    }

    /// All rules of the node as of the last [`Engine::take_changes`].
    pub fn program(&self) -> &Program {
        &self.node.program
    }

    /// The policies that select pods of this node, with uid and generation, as of the last [`Engine::take_changes`].
    pub fn applied(&self) -> impl Iterator<Item = (&Name, &str, i64)> {
        let applied = self.node.applied.iter();
        applied.map(|(name, applied)| (&**name, &*applied.uid, applied.generation))
    }
}

#[cfg(test)]
mod tests;

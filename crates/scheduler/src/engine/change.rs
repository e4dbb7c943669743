//! What the engine is told.

use std::collections::HashSet;

use crate::model::{Budget, Group, GroupKey, GroupKind, Labels, Node, Pod, PodKey};

/// Something that the server said, or that became of what the engine decided.
#[derive(Debug, Clone)]
pub enum Change {
    Pod(Box<Pod>),
    PodGone {
        uid: Box<str>,
    },
    /// After a list that was begun anew: whatever is not among these is gone. Pods go by their uids, the others by
    /// their names.
    PodsAre(HashSet<Box<str>>),
    Node(Box<Node>),
    NodeGone {
        name: Box<str>,
    },
    NodesAre(HashSet<Box<str>>),
    Namespace {
        name: Box<str>,
        labels: Labels,
    },
    NamespaceGone {
        name: Box<str>,
    },
    NamespacesAre(HashSet<Box<str>>),
    Budget(Box<Budget>),
    BudgetGone {
        namespace: Box<str>,
        name: Box<str>,
    },
    BudgetsAre(HashSet<PodKey>),
    /// Services and controllers, which say what is to be spread where pods do not.
    Group(Box<Group>),
    GroupGone(GroupKey),
    GroupsAre {
        kind: GroupKind,
        keys: HashSet<GroupKey>,
    },
    /// Nothing is to be decided about these pods, by their uids, until they are released.
    Hold(HashSet<Box<str>>),
    Release {
        uid: Box<str>,
    },
    /// The server took the binding. The pod as the server has it now still comes as a [`Change::Pod`].
    Bound {
        uid: Box<str>,
    },
    /// The server did not take the binding because the pod is not what it was: it is tried again.
    NotBound {
        uid: Box<str>,
    },
    /// The server, or somebody whom it asks, does not want this binding: the pod is tried again, and its owner is told.
    BindingRefused {
        uid: Box<str>,
        problem: String,
    },
    /// The pods that were to make room for this one could not be evicted: it is tried again.
    NotEvicted {
        uid: Box<str>,
    },
}

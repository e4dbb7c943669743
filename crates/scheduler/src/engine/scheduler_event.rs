//! The input of the scheduler core: watch events and results of writes.

use std::collections::HashSet;

use crate::model::{
    DisruptionBudget, Labels, NamespacedName, Node, Pod, SpreadOwner, SpreadOwnerKey,
    SpreadOwnerKind,
};

/// An event from a watch, or the result of writing an outcome.
#[derive(Debug, Clone)]
pub enum SchedulerEvent {
    PodApplied(Box<Pod>),
    PodDeleted {
        uid: Box<str>,
    },
    /// After a relist: all pods except these were deleted. Pods are identified by uid, other kinds by name.
    PodsReplaced(HashSet<Box<str>>),
    NodeApplied(Box<Node>),
    NodeDeleted {
        name: Box<str>,
    },
    NodesReplaced(HashSet<Box<str>>),
    NamespaceApplied {
        name: Box<str>,
        labels: Labels,
    },
    NamespaceDeleted {
        name: Box<str>,
    },
    NamespacesReplaced(HashSet<Box<str>>),
    DisruptionBudgetApplied(Box<DisruptionBudget>),
    DisruptionBudgetDeleted {
        namespace: Box<str>,
        name: Box<str>,
    },
    DisruptionBudgetsReplaced(HashSet<NamespacedName>),
    /// A service or controller, whose selector the default spread constraints use.
    SpreadOwnerApplied(Box<SpreadOwner>),
    SpreadOwnerDeleted(SpreadOwnerKey),
    SpreadOwnersReplaced {
        kind: SpreadOwnerKind,
        keys: HashSet<SpreadOwnerKey>,
    },
    /// Do not schedule these pods (by uid) until they are released.
    HoldPods(HashSet<Box<str>>),
    ReleasePod {
        uid: Box<str>,
    },
    /// The binding was written. The bound pod still arrives as a [`SchedulerEvent::PodApplied`].
    BindingSucceeded {
        uid: Box<str>,
    },
    /// The binding failed because the pod has changed: the pod is requeued.
    BindingConflict {
        uid: Box<str>,
    },
    /// The API server or an admission webhook rejected the binding: the pod is requeued and its condition is updated.
    BindingRejected {
        uid: Box<str>,
        problem: String,
    },
    /// The victims of this pod's preemption could not be evicted: the pod is requeued.
    PreemptionFailed {
        uid: Box<str>,
    },
}

//! The input of the scheduler core: watch events and results of writes.

use std::collections::HashSet;

pub use rhumb_client::informer::Event;

use crate::model::{
    DisruptionBudget, Labels, NamespacedName, Node, Pod, SpreadOwner, SpreadOwnerKey,
    SpreadOwnerKind,
};

/// The fields of a namespace that affinity terms select by.
#[derive(Debug, Clone)]
pub struct Namespace {
    pub name: Box<str>,
    pub labels: Labels,
}

/// An event from a watch, or the result of writing an outcome.
#[derive(Debug, Clone)]
pub enum SchedulerEvent {
    /// Pods are identified by uid, other kinds by name.
    Pod(Event<Box<Pod>, Box<str>>),
    Node(Event<Box<Node>, Box<str>>),
    Namespace(Event<Namespace, Box<str>>),
    DisruptionBudget(Event<Box<DisruptionBudget>, NamespacedName>),
    /// A service or controller, whose selector the default spread constraints use.
    SpreadOwner(SpreadOwnerKind, Event<Box<SpreadOwner>, SpreadOwnerKey>),
    /// Do not schedule these pods (by uid) until they are released.
    HoldPods(HashSet<Box<str>>),
    ReleasePod {
        uid: Box<str>,
    },
    /// The binding was written. The bound pod still arrives as a [`SchedulerEvent::Pod`].
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

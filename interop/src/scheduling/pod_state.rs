//! Observed and expected scheduling state of pods.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Pods by name; pods of additional namespaces are prefixed with the namespace.
pub type PodStatesByName = BTreeMap<String, ObservedPodState>;

/// The state of a pod that a scheduler changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPodState {
    pub node: Option<String>,
    pub nominated_node: Option<String>,
    pub is_terminating: bool,
    /// Status, reason and message of its condition `PodScheduled`.
    pub condition: Option<[String; 3]>,
}

/// The expected state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum ExpectedPodState {
    /// The reason of its condition is `Unschedulable`.
    Unschedulable,
    /// The reason of its condition is `SchedulingGated`.
    Gated,
    /// No scheduler has set a condition.
    Ignored,
    /// The pod has a deletion timestamp.
    Terminating,
    /// The pod does not exist.
    Absent,
    /// The pod is bound to this node.
    BoundTo(String),
}

impl From<String> for ExpectedPodState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "unschedulable" => Self::Unschedulable,
            "gated" => Self::Gated,
            "ignored" => Self::Ignored,
            "terminating" => Self::Terminating,
            "absent" => Self::Absent,
            _ => Self::BoundTo(text),
        }
    }
}

impl ExpectedPodState {
    pub(super) fn matches(&self, observed: Option<&ObservedPodState>) -> bool {
        let Some(observed) = observed else {
            return *self == Self::Absent;
        };
        let reason = observed
            .condition
            .as_ref()
            .map(|[_, reason, _]| reason.as_str());
        match self {
            Self::Unschedulable => observed.node.is_none() && reason == Some("Unschedulable"),
            Self::Gated => reason == Some("SchedulingGated"),
            Self::Ignored => observed.node.is_none() && observed.condition.is_none(),
            Self::Terminating => observed.is_terminating,
            Self::Absent => false,
            Self::BoundTo(node) => observed.node.as_ref() == Some(node),
        }
    }
}

impl ObservedPodState {
    pub(super) fn from_pod(pod: &Value, namespace: &str) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let conditions = pod["status"]["conditions"].as_array();
        let condition = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "PodScheduled");
        Self {
            node: text(&pod["spec"]["nodeName"]),
            nominated_node: text(&pod["status"]["nominatedNodeName"]),
            is_terminating: pod["metadata"]["deletionTimestamp"].is_string(),
            condition: condition.map(|condition| {
                ["status", "reason", "message"].map(|field| {
                    let value = text(&condition[field]).unwrap_or_default();
                    value
                        .replace(namespace, "${ns}")
                        .replace(DYNAMIC_RESOURCES_MESSAGE, "")
                })
            }),
        }
    }
}

/// Text that upstream's dynamic resources plugin adds to every unschedulable message. rhumb has no such plugin.
const DYNAMIC_RESOURCES_MESSAGE: &str = "no new claims to deallocate, ";

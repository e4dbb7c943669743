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
    pub nominated: Option<String>,
    pub is_deleted: bool,
    /// Status, reason and message of its condition `PodScheduled`.
    pub scheduled: Option<[String; 3]>,
}

/// The expected state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum ExpectedPodState {
    Waits,
    Gated,
    /// No scheduler has set a condition.
    Ignored,
    /// The pod has a deletion timestamp.
    Deleted,
    Gone,
    On(String),
}

impl From<String> for ExpectedPodState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "waits" => Self::Waits,
            "gated" => Self::Gated,
            "ignored" => Self::Ignored,
            "deleted" => Self::Deleted,
            "gone" => Self::Gone,
            _ => Self::On(text),
        }
    }
}

impl ExpectedPodState {
    pub(super) fn is_seen(&self, seen: Option<&ObservedPodState>) -> bool {
        let Some(seen) = seen else {
            return *self == Self::Gone;
        };
        let reason = seen
            .scheduled
            .as_ref()
            .map(|[_, reason, _]| reason.as_str());
        match self {
            Self::Waits => seen.node.is_none() && reason == Some("Unschedulable"),
            Self::Gated => reason == Some("SchedulingGated"),
            Self::Ignored => seen.node.is_none() && seen.scheduled.is_none(),
            Self::Deleted => seen.is_deleted,
            Self::Gone => false,
            Self::On(node) => seen.node.as_ref() == Some(node),
        }
    }
}

impl ObservedPodState {
    pub(super) fn of(pod: &Value, namespace: &str) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let conditions = pod["status"]["conditions"].as_array();
        let scheduled = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "PodScheduled");
        Self {
            node: text(&pod["spec"]["nodeName"]),
            nominated: text(&pod["status"]["nominatedNodeName"]),
            is_deleted: pod["metadata"]["deletionTimestamp"].is_string(),
            scheduled: scheduled.map(|condition| {
                ["status", "reason", "message"].map(|field| {
                    let said = text(&condition[field]).unwrap_or_default();
                    said.replace(namespace, "${ns}").replace(DEVICES, "")
                })
            }),
        }
    }
}

/// Text that upstream's dynamic resources plugin adds to every unschedulable message. rhumb has no such plugin.
const DEVICES: &str = "no new claims to deallocate, ";

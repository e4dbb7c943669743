//! Nodes and pods with only the fields that the controllers use; other fields are skipped when decoding.

use k8s_openapi::api::core::v1::{NodeCondition, PodCondition, Taint, Toleration};
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: NodeStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct NodeSpec {
    #[serde(default)]
    pub(crate) unschedulable: bool,
    #[serde(default)]
    pub(crate) taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct NodeStatus {
    #[serde(default)]
    pub(crate) conditions: Vec<NodeCondition>,
}

/// Status of a node's `Ready` condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeReadiness {
    True,
    False,
    Unknown,
    /// The node has no `Ready` condition.
    Missing,
}

impl Node {
    pub(crate) fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_)
    }

    pub(crate) fn ready(&self) -> NodeReadiness {
        match self
            .condition("Ready")
            .map(|condition| condition.status.as_str())
        {
            Some("True") => NodeReadiness::True,
            Some("False") => NodeReadiness::False,
            Some(_) => NodeReadiness::Unknown,
            None => NodeReadiness::Missing,
        }
    }

    pub(crate) fn has_taint(&self, key: &str, effect: &str) -> bool {
        let mut taints = self.spec.taints.iter();
        taints.any(|taint| taint.key == key && taint.effect == effect)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec {
    /// Empty until the pod is scheduled.
    #[serde(default)]
    pub(crate) node_name: String,
    #[serde(default)]
    pub(crate) tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PodStatus {
    #[serde(default)]
    pub(crate) phase: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) conditions: Vec<PodCondition>,
}

impl Pod {
    pub(crate) fn key(&self) -> PodKey {
        PodKey {
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            name: self.metadata.name.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The `DisruptionTarget` condition: tells the pod's owner that the pod is deleted by a disruption, not by its own
    /// failure.
    pub(crate) fn disruption(&self, reason: &str, message: &str) -> Value {
        json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "observedGeneration": self.metadata.generation,
            "lastTransitionTime": Timestamp::now().strftime("%FT%TZ").to_string(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PodKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

rhumb_client::view!(Node, of k8s_openapi::api::core::v1::Node);

rhumb_client::view!(Pod, of k8s_openapi::api::core::v1::Pod);

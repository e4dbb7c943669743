//! Nodes and pods with only the fields that the simulation uses; other fields are skipped when decoding.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

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
    #[serde(default, rename = "podCIDR")]
    pub(crate) pod_cidr: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) capacity: BTreeMap<String, IgnoredAny>,
    pub(crate) allocatable: BTreeMap<String, IgnoredAny>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) last_transition_time: Option<Time>,
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
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) restart_policy: String,
    pub(crate) host_network: bool,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) readiness_gates: Vec<PodReadinessGate>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    /// `Always` makes an init container a sidecar.
    pub(crate) restart_policy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodReadinessGate {
    pub(crate) condition_type: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) start_time: Option<Time>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) ready: bool,
    pub(crate) restart_count: i32,
    pub(crate) state: ContainerState,
    pub(crate) last_state: ContainerState,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) running: Option<ContainerStateRunning>,
    pub(crate) terminated: Option<ContainerStateTerminated>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStateRunning {
    pub(crate) started_at: Option<Time>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStateTerminated {
    pub(crate) exit_code: i32,
    pub(crate) started_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
}

rhumb_client::view!(Node, of k8s_openapi::api::core::v1::Node);

rhumb_client::view!(Pod, of k8s_openapi::api::core::v1::Pod);

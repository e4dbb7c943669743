//! Nodes and pods as far as they are looked at: what is not named here is never read into memory.

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
    pub(crate) readiness_gates: Vec<Gate>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    /// `Always` makes a sidecar of an init container.
    pub(crate) restart_policy: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Gate {
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
    pub(crate) state: State,
    pub(crate) last_state: State,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) running: Option<Running>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    pub(crate) started_at: Option<Time>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) started_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
}

rhumb_client::view!(Node, of k8s_openapi::api::core::v1::Node);

rhumb_client::view!(Pod, of k8s_openapi::api::core::v1::Pod);

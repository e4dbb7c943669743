//! Partial views of Kubernetes objects: only the fields that policy evaluation needs are deserialized.
//!
//! The views implement kube-rs `Resource`, so they can be listed and watched; they can also be read from files.

use std::collections::BTreeMap;

use kube::api::ObjectMeta;
use rhumb_client::view;
use rhumb_meta::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use crate::Direction;

#[derive(Debug, Clone, Default, Deserialize)]
pub struct Namespace {
    pub metadata: ObjectMeta,
}

view!(Namespace, of k8s_openapi::api::core::v1::Namespace);

#[derive(Debug, Clone, Default, Deserialize)]
pub struct Pod {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

view!(Pod, of k8s_openapi::api::core::v1::Pod);

impl Pod {
    /// The node that the pod is bound to.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.spec.node_name.as_deref();
        node.filter(|node| !node.is_empty())
    }

    /// Whether the pod has an address, so that there may be traffic.
    pub fn has_address(&self) -> bool {
        let ips = self.status.pod_ips.iter().flatten();
        let mut ips = ips.map(|ip| &ip.ip).chain([&self.status.pod_ip]);
        ips.any(|ip| ip.as_deref().is_some_and(|ip| !ip.is_empty()))
    }

    /// Its resourceVersion as a number; 0 if it has none that is a number.
    pub fn version_number(&self) -> u64 {
        let version = self.metadata.resource_version.as_deref();
        version
            .and_then(|version| version.parse().ok())
            .unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub host_network: Option<bool>,
    pub containers: Option<Vec<Container>>,
    pub init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub ports: Option<Vec<ContainerPort>>,
    /// An init container with `Always` is a sidecar.
    pub restart_policy: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    pub name: Option<String>,
    pub protocol: Option<String>,
    pub container_port: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: Option<String>,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pub pod_ips: Option<Vec<StatusIp>>,
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    #[serde(rename = "hostIPs")]
    pub host_ips: Option<Vec<StatusIp>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatusIp {
    pub ip: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct NetworkPolicy {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NetworkPolicySpec,
    #[serde(default)]
    pub status: NetworkPolicyStatus,
}

view!(NetworkPolicy, of k8s_openapi::api::networking::v1::NetworkPolicy);

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    pub min_version: Option<String>,
    pub pod_selector: Option<LabelSelector>,
    pub policy_types: Option<Vec<String>>,
    pub ingress: Option<Vec<NetworkPolicyRule>>,
    pub egress: Option<Vec<NetworkPolicyRule>>,
}

impl NetworkPolicySpec {
    /// The rules of a direction, even if `policyTypes` excludes it.
    pub fn rules(&self, direction: Direction) -> &[NetworkPolicyRule] {
        let rules = match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        };
        rules.as_deref().unwrap_or_default()
    }
}

/// An ingress rule (with `from`) or an egress rule (with `to`).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NetworkPolicyRule {
    pub from: Option<Vec<NetworkPolicyPeer>>,
    pub to: Option<Vec<NetworkPolicyPeer>>,
    pub ports: Option<Vec<NetworkPolicyPort>>,
}

impl NetworkPolicyRule {
    /// `from` for ingress, `to` for egress.
    pub fn peers(&self, direction: Direction) -> &[NetworkPolicyPeer] {
        let peers = match direction {
            Direction::Ingress => &self.from,
            Direction::Egress => &self.to,
        };
        peers.as_deref().unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicyPeer {
    pub pod_selector: Option<LabelSelector>,
    pub namespace_selector: Option<LabelSelector>,
    pub ip_block: Option<IpBlock>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct IpBlock {
    pub cidr: Option<String>,
    pub except: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicyPort {
    pub protocol: Option<String>,
    /// A number or a name.
    pub port: Option<Value>,
    pub end_port: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NetworkPolicyStatus {
    pub conditions: Option<Vec<StatusCondition>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub observed_generation: Option<i64>,
    pub last_transition_time: Option<String>,
    pub reason: Option<String>,
    pub message: Option<String>,
}

pub type Labels = BTreeMap<String, String>;

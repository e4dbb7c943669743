//! The `NetworkPolicyNode` object (`networking.rhumb.dev/v1alpha1`): the policies that one node enforces.
//!
//! The agent writes one per node, with the node's name; the network policy controller reads them to set policy status.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "networking.rhumb.dev/v1alpha1";
const KIND: &str = "NetworkPolicyNode";

/// The most policies listed in one report, to bound the size of the object.
pub const MAX_APPLIED_POLICIES: usize = 10_000;

/// Heartbeats are delayed by up to this part of their interval, so that agents that started together do not stay in step.
/// They are never sent earlier, so that idle nodes write at most once per interval.
const HEARTBEAT_JITTER_MAX: f64 = 0.2;

/// The delay before the next heartbeat, for a random number from 0 to 1.
pub fn heartbeat_delay(interval: Duration, random: f64) -> Duration {
    interval + interval.mul_f64(HEARTBEAT_JITTER_MAX * random)
}

/// The longest delay between two heartbeats.
pub fn longest_heartbeat_delay(interval: Duration) -> Duration {
    heartbeat_delay(interval, 1.0)
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicyNode {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// The name of the agent that enforces the policies.
    pub agent: String,
    /// The boot that the report is about, as in the node's `status.nodeInfo.bootID`. Rules do not survive a reboot.
    #[serde(rename = "bootID", skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The policy versions that the agent supports, oldest first.
    pub versions: Vec<String>,
    /// Features that the agent supports but cannot enforce on this node.
    pub unimplemented: Vec<UnimplementedFeature>,
    /// Policies that select pods of this node, in the generation that the kernel enforces.
    pub applied: Vec<AppliedPolicy>,
    /// What the agent found wrong with policies, independently of the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_problems: Vec<PolicyProblem>,
    /// When the agent last wrote the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// How often the agent renews `last_heartbeat_time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_seconds: Option<u32>,
    /// The greatest resourceVersion of a pod that the agent had observed when it wrote the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_resource_version: Option<String>,
    /// Why the kernel's rules are not up to date; absent if there is no problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A feature that cannot be enforced on this node, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct UnimplementedFeature {
    pub feature: String,
    pub message: String,
}

/// A policy whose rules are in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppliedPolicy {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
}

/// What an agent found wrong with a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyProblem {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub reason: String,
    pub message: String,
}

impl NetworkPolicyNode {
    /// An empty report of a node.
    pub fn new(node: &str, agent: String, versions: Vec<String>) -> NetworkPolicyNode {
        NetworkPolicyNode {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: ObjectMeta {
                name: Some(node.to_owned()),
                ..ObjectMeta::default()
            },
            agent,
            versions,
            ..NetworkPolicyNode::default()
        }
    }

    /// Sets the heartbeat, and when the next one is due.
    pub fn set_heartbeat(&mut self, now: Timestamp, interval: Duration) {
        self.last_heartbeat_time = Some(Time(now));
        let seconds = interval.as_millis().div_ceil(1000);
        self.heartbeat_seconds = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
    }

    /// Makes the node the owner of the report, so that both are garbage collected together.
    pub fn set_owner_node(&mut self, node_uid: Option<&str>) {
        let name = self.metadata.name.clone().unwrap_or_default();
        self.metadata.owner_references = node_uid.map(|uid| {
            vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name,
                uid: uid.to_owned(),
                ..OwnerReference::default()
            }]
        });
    }
}

impl Resource for NetworkPolicyNode {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "networking.rhumb.dev".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "networkpolicynodes".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

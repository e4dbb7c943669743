//! What a node tells about the policies that it enforces: one object, named like the node.

use std::borrow::Cow;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "networking.rhumb.dev/v1alpha1";
const KIND: &str = "NetworkPolicyNode";

/// As many policies as one object has room for.
pub const POLICIES_MAX: usize = 10_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkPolicyNode {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    /// Who enforces.
    pub agent: String,
    /// Which run of the kernel it is about, as the node has it in `status.nodeInfo.bootID`: rules do not outlive it.
    #[serde(rename = "bootID", skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What it knows, in order, the newest last.
    pub versions: Vec<String>,
    /// What it knows, and cannot do on this node.
    pub unimplemented: Vec<Unimplemented>,
    /// Policies that select pods of this node, as they are in the kernel.
    pub applied: Vec<Applied>,
    /// Why the kernel could not be brought up to date; absent if all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A feature that cannot be had.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Unimplemented {
    pub feature: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Applied {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
}

impl NetworkPolicyNode {
    /// One that says nothing yet.
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

    /// The report goes with its node.
    pub fn belongs_to(&mut self, node_uid: Option<&str>) {
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

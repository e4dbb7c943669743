//! Nodes as far as reports are compared with them.

use kube::api::ObjectMeta;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Node {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    status: Status,
}

rhumb_client::view!(Node, of k8s_openapi::api::core::v1::Node);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    node_info: NodeInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

impl Node {
    /// Which run of the kernel the node says it is in; empty if it does not say.
    pub(super) fn boot(&self) -> &str {
        &self.status.node_info.boot_id
    }
}

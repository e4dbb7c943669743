//! Node with only its metadata and boot id, to compare with agent reports.

use kube::api::ObjectMeta;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct PartialNode {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    status: PartialNodeStatus,
}

rhumb_client::view!(PartialNode, of k8s_openapi::api::core::v1::Node);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialNodeStatus {
    node_info: NodeSystemInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeSystemInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

impl PartialNode {
    /// `status.nodeInfo.bootID`; empty if unknown.
    pub(super) fn boot(&self) -> &str {
        &self.status.node_info.boot_id
    }
}

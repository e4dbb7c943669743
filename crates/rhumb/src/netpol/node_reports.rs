//! Reads what the nodes of a running cluster report about the policies that they enforce. Entry point:
//! [`NodeReports::read`].

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use rhumb_netpol::node_report::NetworkPolicyNode;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::paged_list::list;

const REPORTS: &str = "/apis/networking.rhumb.dev/v1alpha1/networkpolicynodes";
const NODES: &str = "/api/v1/nodes";

/// The reports of nodes; empty if the server has none.
#[derive(Debug, Default)]
pub(super) struct NodeReports {
    reports: BTreeMap<String, NetworkPolicyNode>,
    /// The boot id of each node, empty if unknown; `None` if the nodes cannot be read.
    boot_ids: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct PartialNode {
    metadata: PartialNodeMetadata,
    #[serde(default)]
    status: PartialNodeStatus,
}

#[derive(Deserialize)]
struct PartialNodeMetadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialNodeStatus {
    node_info: PartialNodeSystemInfo,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialNodeSystemInfo {
    #[serde(rename = "bootID")]
    boot_id: String,
}

impl NodeReports {
    /// Lists the reports and the nodes. Other servers than rhumb have no reports.
    pub(super) async fn read(client: &Client, notes: &mut Vec<String>) -> Result<NodeReports> {
        let mut read = NodeReports::default();
        let consequence =
            "the reports of nodes cannot be read, so it is unknown which policies they enforce";
        if !can_list::<NetworkPolicyNode>(client, consequence, notes).await {
            return Ok(read);
        }
        list(client, REPORTS, notes, |json| {
            let report: NetworkPolicyNode = serde_json::from_slice(json)?;
            let name = report.metadata.name.clone().unwrap_or_default();
            read.reports.insert(name, report);
            Ok(())
        })
        .await?;
        let consequence = "the nodes cannot be read, so reports from before a reboot count";
        if read.is_empty() || !can_list::<Node>(client, consequence, notes).await {
            return Ok(read);
        }
        let boot_ids = read.boot_ids.insert(BTreeMap::new());
        list(client, NODES, notes, |json| {
            let node: PartialNode = serde_json::from_slice(json)?;
            boot_ids.insert(node.metadata.name, node.status.node_info.boot_id);
            Ok(())
        })
        .await?;
        Ok(read)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn get(&self, node: &str) -> Option<&NetworkPolicyNode> {
        self.reports.get(node)
    }

    /// The boot id of a node, empty if it is unknown; `None` if the node does not exist.
    pub(super) fn boot_id(&self, node: &str) -> Option<&str> {
        match &self.boot_ids {
            Some(boot_ids) => boot_ids.get(node).map(String::as_str),
            None => Some(""),
        }
    }
}

/// Whether the server has the kind and the user may list it; if not, notes the consequence. Other errors are left to the
/// list.
async fn can_list<K>(client: &Client, consequence: &str, notes: &mut Vec<String>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!("{consequence}: {}", status.message));
            false
        }
        _ => true,
    }
}

//! The printer of nodes (upstream: `printNode`).

use std::collections::BTreeSet;

use serde_json::json;

use crate::printers::json_view::JsonView;
use crate::printers::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) const NODE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Status", "Whether the node is ready and schedulable."),
        TableColumn::text("Roles", "The roles in its labels."),
        AGE,
        TableColumn::text("Version", "The version of its kubelet."),
        TableColumn::text("Internal-IP", "Its internal IP address.").wide(),
        TableColumn::text("External-IP", "Its external IP address.").wide(),
        TableColumn::text("OS-Image", "The operating system it runs.").wide(),
        TableColumn::text("Kernel-Version", "Its kernel version and architecture.").wide(),
        TableColumn::text("Container-Runtime", "Its container runtime and version.").wide(),
    ],
    |object, now| {
        let node = JsonView::Root(object);
        let info = node.at("status.nodeInfo");
        vec![
            name(node),
            status(node).into(),
            roles(node).into(),
            age(node, now),
            json!(info.key("kubeletVersion").str()),
            json!(address(node, "InternalIP")),
            json!(address(node, "ExternalIP")),
            json!(info.key("osImage").str_or("<unknown>")),
            kernel(info).into(),
            json!(info.key("containerRuntimeVersion").str_or("<unknown>")),
        ]
    },
);

fn status(node: JsonView<'_>) -> String {
    // Of several conditions of a type the last one counts.
    let ready = node
        .at("status.conditions")
        .items()
        .rfind(|condition| condition.key("type").str() == "Ready")
        .map(|condition| condition.key("status").str());
    let status = match ready {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    if node.at("spec.unschedulable").is_true() {
        format!("{status},SchedulingDisabled")
    } else {
        status.to_string()
    }
}

fn roles(node: JsonView<'_>) -> String {
    let labels = node.at("metadata.labels").object();
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_string();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: JsonView<'a>, kind: &str) -> &'a str {
    node.at("status.addresses")
        .items()
        .find(|address| address.key("type").str() == kind)
        .map_or("<none>", |address| address.key("address").str())
}

fn kernel(info: JsonView<'_>) -> String {
    let version = info.key("kernelVersion").str_or("<unknown>");
    match info.key("architecture").str() {
        "" => version.to_string(),
        architecture => format!("{version} ({architecture})"),
    }
}

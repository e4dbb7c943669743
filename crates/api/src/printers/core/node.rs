//! How a node is summed up in a line.

use std::collections::BTreeSet;

use serde_json::json;

use crate::printers::part::Part;
use crate::printers::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) const NODE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether the node is ready and takes pods."),
        Column::text("Roles", "What its labels say it is for."),
        AGE,
        Column::text("Version", "The version of its kubelet."),
        Column::text("Internal-IP", "Its address inside of the cluster.").wide(),
        Column::text("External-IP", "Its address for the rest of the world.").wide(),
        Column::text("OS-Image", "The operating system it runs.").wide(),
        Column::text("Kernel-Version", "Its kernel, and what it is built for.").wide(),
        Column::text("Container-Runtime", "What runs its containers.").wide(),
    ],
    |object, now| {
        let node = Part::Root(object);
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

fn status(node: Part<'_>) -> String {
    // Of several conditions of one type the last one counts.
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

fn roles(node: Part<'_>) -> String {
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

fn address<'a>(node: Part<'a>, kind: &str) -> &'a str {
    node.at("status.addresses")
        .items()
        .find(|address| address.key("type").str() == kind)
        .map_or("<none>", |address| address.key("address").str())
}

fn kernel(info: Part<'_>) -> String {
    let version = info.key("kernelVersion").str_or("<unknown>");
    match info.key("architecture").str() {
        "" => version.to_string(),
        architecture => format!("{version} ({architecture})"),
    }
}

//! Printers of the networking group.

use serde_json::json;

use super::core::load_balancer;
use super::json_view::JsonView;
use super::{AGE, NAME, age, name, network_policy_state, selector_or_none};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "IPAddress" => IP_ADDRESS,
        "Ingress" => INGRESS,
        "IngressClass" => INGRESS_CLASS,
        "NetworkPolicy" => NETWORK_POLICY,
        "ServiceCIDR" => SERVICE_CIDR,
        _ => return None,
    })
}

/// Like upstream, without an age column.
const IP_ADDRESS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("ParentRef", "The object the address is allocated to."),
    ],
    |object, _| {
        let object = JsonView::Root(object);
        vec![name(object), parent(object.at("spec.parentRef")).into()]
    },
);

const INGRESS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Class", "The class that serves it."),
        TableColumn::text("Hosts", "The host names of its rules."),
        TableColumn::text("Address", "Where it is reached."),
        TableColumn::text("Ports", "The ports it listens on."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        let ports = if spec.key("tls").item_count() > 0 {
            "80, 443"
        } else {
            "80"
        };
        vec![
            name(object),
            json!(spec.key("ingressClassName").opt_str().unwrap_or("<none>")),
            hosts(spec.key("rules")).into(),
            load_balancer(object.at("status.loadBalancer")).into(),
            json!(ports),
            age(object, now),
        ]
    },
);

const INGRESS_CLASS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Controller", "The controller of the class."),
        TableColumn::text("Parameters", "An object with more settings."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let is_default = object
            .at("metadata.annotations")
            .key("ingressclass.kubernetes.io/is-default-class")
            .str()
            == "true";
        let mark = if is_default { " (default)" } else { "" };
        vec![
            format!("{}{mark}", object.at("metadata.name").str()).into(),
            json!(object.at("spec.controller").str()),
            parameters(object.at("spec.parameters")).into(),
            age(object, now),
        ]
    },
);

const NETWORK_POLICY: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Pod-Selector", "The label selector of its pods."),
        TableColumn::text("Status", "Enforcement status, from the conditions."),
        AGE,
        TableColumn::text("Policy-Types", "The directions of traffic it applies to.").wide(),
        TableColumn::text(
            "Min-Version",
            "The minimum version an implementation must support.",
        )
        .wide(),
        TableColumn::text("Message", "The message of the status.").wide(),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let selector = object.at("spec.podSelector");
        // A missing selector counts as empty, which selects all pods.
        let selector = if selector.exists() {
            selector_or_none(selector)
        } else {
            "<none>".to_string()
        };
        let state = network_policy_state::state(object);
        vec![
            name(object),
            selector.into(),
            json!(state.label),
            age(object, now),
            object.at("spec.policyTypes").join(None, ",").into(),
            json!(object.at("spec.minVersion").str()),
            json!(state.message),
        ]
    },
);

const SERVICE_CIDR: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("CIDRs", "The ranges that service IPs are allocated from."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let cidrs = object.at("spec.cidrs").join(None, ",");
        vec![name(object), cidrs.into(), age(object, now)]
    },
);

/// The first three hosts. As upstream, rules without a host count as omitted only if hosts are omitted.
fn hosts(rules: JsonView<'_>) -> String {
    const SHOWN_MAX: usize = 3;
    let mut hosts = Vec::new();
    let mut has_more = false;
    for rule in rules.items() {
        has_more |= hosts.len() == SHOWN_MAX;
        let host = rule.key("host").str();
        if !has_more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), has_more) {
        (true, _) => "*".to_string(),
        (false, false) => hosts.join(","),
        (false, true) => {
            format!(
                "{} + {} more...",
                hosts.join(","),
                rules.item_count() - SHOWN_MAX
            )
        }
    }
}

fn parameters(reference: JsonView<'_>) -> String {
    if !reference.exists() {
        return "<none>".to_string();
    }
    let kind = reference.key("kind").str();
    let name = reference.key("name").str();
    match reference.key("apiGroup").opt_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn parent(reference: JsonView<'_>) -> String {
    if !reference.exists() {
        return "<none>".to_string();
    }
    let mut text = reference.key("resource").str().to_lowercase();
    for (separator, field) in [(".", "group"), ("/", "namespace")] {
        let value = reference.key(field).str();
        if !value.is_empty() {
            text.push_str(separator);
            text.push_str(&if field == "group" {
                value.to_lowercase()
            } else {
                value.to_string()
            });
        }
    }
    format!("{text}/{}", reference.key("name").str())
}

//! Printers of the networking group.

use serde_json::json;

use super::core::load_balancer;
use super::part::Part;
use super::{AGE, NAME, age, name, network_policy, selector_or_none};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    Some(match kind {
        "IPAddress" => IP_ADDRESS,
        "Ingress" => INGRESS,
        "IngressClass" => INGRESS_CLASS,
        "NetworkPolicy" => NETWORK_POLICY,
        "ServiceCIDR" => SERVICE_CIDR,
        _ => return None,
    })
}

/// Its age is no column, as upstream has it: kubectl has never shown one.
const IP_ADDRESS: Printer = Printer::new(
    &[
        NAME,
        Column::text("ParentRef", "What the address was given to."),
    ],
    |object, _| {
        let object = Part::Root(object);
        vec![name(object), parent(object.at("spec.parentRef")).into()]
    },
);

const INGRESS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Class", "The class that serves it."),
        Column::text("Hosts", "The names it answers to."),
        Column::text("Address", "Where it is reached."),
        Column::text("Ports", "The ports it listens on."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let spec = object.key("spec");
        let ports = if spec.key("tls").len() > 0 {
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

const INGRESS_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", "Who serves ingresses of this class."),
        Column::text("Parameters", "An object with more settings."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const NETWORK_POLICY: Printer = Printer::new(
    &[
        NAME,
        Column::text("Pod-Selector", "Which pods it is about."),
        Column::text(
            "Status",
            "What became of it, as far as those who enforce it have told.",
        ),
        AGE,
        Column::text("Policy-Types", "The directions of traffic it is about.").wide(),
        Column::text("Min-Version", "The version one must know to enforce it.").wide(),
        Column::text("Message", "More about its status.").wide(),
    ],
    |object, now| {
        let object = Part::Root(object);
        let selector = object.at("spec.podSelector");
        // A policy without a selector has an empty one, which is about all pods.
        let selector = if selector.exists() {
            selector_or_none(selector)
        } else {
            "<none>".to_string()
        };
        let state = network_policy::state(object);
        vec![
            name(object),
            selector.into(),
            json!(state.word),
            age(object, now),
            object.at("spec.policyTypes").join(None, ",").into(),
            json!(object.at("spec.minVersion").str()),
            json!(state.message),
        ]
    },
);

const SERVICE_CIDR: Printer = Printer::new(
    &[
        NAME,
        Column::text("CIDRs", "Where addresses of services come from."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let cidrs = object.at("spec.cidrs").join(None, ",");
        vec![name(object), cidrs.into(), age(object, now)]
    },
);

/// The first three hosts. Rules without a host are counted among those that are left out, but only then.
fn hosts(rules: Part<'_>) -> String {
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
            format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN_MAX)
        }
    }
}

fn parameters(reference: Part<'_>) -> String {
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

fn parent(reference: Part<'_>) -> String {
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

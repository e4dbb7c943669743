//! ResourceSlice.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;
use serde_json::Value;

use crate::workloads::checks;
use crate::{
    Generation, Kind, Object, Request, Rules, Scope, Selectable, Selected, View, edit, fields, pods,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "resource.k8s.io",
        "v1",
        "ResourceSlice",
        "resourceslices",
        "io.k8s.api.resource.v1.ResourceSlice",
    )
    .returns_deleted()
    .generation(Generation::Of(&["spec"]))
    .indexed(&["spec.nodeName"])
    .selectable(&[
        Selectable {
            name: "spec.nodeName",
            value: Selected::Text("spec.nodeName"),
        },
        Selectable {
            name: "spec.driver",
            value: Selected::Text("spec.driver"),
        },
    ])
    .rules(ResourceSlice)
}

/// The ways to say which nodes have the devices; one of them is taken.
const NODES: &[&str] = &[
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];

#[derive(Debug)]
struct ResourceSlice;

impl Rules for ResourceSlice {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        date_taints(object, request);
    }

    fn prepare_update(&self, object: &mut Object, _: &Object, request: &Request<'_>) {
        date_taints(object, request);
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        let (pool, old_pool) = (spec.field("pool"), old.field("pool"));
        checks::immutable(&pool.field("name"), &old_pool.field("name"), errors);
        for name in ["driver", "nodeName"] {
            checks::immutable(&spec.field(name), &old.field(name), errors);
        }
        validate_spec(&spec, errors);
    }
}

/// A taint stands since it is first seen.
fn date_taints(object: &mut Object, request: &Request<'_>) {
    let now = request.now.rfc3339().to_string();
    for device in fields::objects_mut(object, "spec.devices") {
        for taint in fields::objects_mut(device, "taints") {
            edit::default(taint, "timeAdded", now.as_str());
        }
    }
}

fn validate_spec(spec: &View<'_>, errors: &mut ErrorList) {
    let driver = spec.field("driver");
    if driver.is_empty() {
        driver.required(errors, "");
    } else {
        checks::problems(&driver, validation::dns1123_subdomain(driver.str()), errors);
    }
    validate_nodes(spec, errors);
    let devices = spec.field("devices");
    if spec.field("sharedCounters").exists() && devices.exists() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(Error::invalid(spec.path(), "", detail));
    }
    let mut names = HashSet::new();
    for device in devices.items() {
        let name = device.field("name");
        if !names.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(device.path(), name.str()));
        }
    }
}

fn validate_nodes(spec: &View<'_>, errors: &mut ErrorList) {
    let node = spec.field("nodeName");
    if node.exists() && node.is_empty() {
        let detail = "must be either unset or set to a non-empty string";
        checks::invalid_text(&node, errors, detail);
    } else if node.exists() {
        checks::problems(&node, validation::dns1123_subdomain(node.str()), errors);
    }
    let selector = spec.field("nodeSelector");
    if selector.exists() {
        pods::validate_node_selector(&selector, false, errors);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            terms.invalid(errors, "must have exactly one node selector term");
        }
    }
    for name in ["allNodes", "perDeviceNodeSelection"] {
        let field = spec.field(name);
        if field.value() == Some(&Value::Bool(false)) {
            field.invalid(errors, "must be either unset or set to true");
        }
    }
    let taken: Vec<String> = NODES
        .iter()
        .filter(|name| !spec.field(name).is_empty() || is_selector(spec, name))
        .map(|name| format!("`{name}`"))
        .collect();
    let choice = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match taken.len() {
        0 => spec.required(errors, choice),
        1 => {}
        _ => {
            let value = format!("{{{}}}", taken.join(", "));
            let detail = format!("{choice}, but multiple fields are set");
            errors.push(Error::invalid(spec.path(), value, detail));
        }
    }
}

/// An empty selector is a selector.
fn is_selector(spec: &View<'_>, name: &str) -> bool {
    name == "nodeSelector" && spec.field(name).exists()
}

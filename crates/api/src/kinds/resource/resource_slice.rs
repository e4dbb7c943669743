//! Declares `ResourceSlice` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/resource/validation`.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;
use serde_json::Value;

use crate::validation_helpers::checks;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    SelectableField, StrategyContext, fields, object_edit, pods,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "resource.k8s.io",
        "v1",
        "ResourceSlice",
        "resourceslices",
        "io.k8s.api.resource.v1.ResourceSlice",
    )
    .returns_deleted()
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .indexed(&["spec.nodeName"])
    .selectable(&[
        SelectableField::string("spec.nodeName", "spec.nodeName"),
        SelectableField::string("spec.driver", "spec.driver"),
    ])
    .strategy(ResourceSliceStrategy)
}

/// Fields that select the nodes with access to the devices; exactly one is set.
const NODE_FIELDS: &[&str] = &[
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];

#[derive(Debug)]
struct ResourceSliceStrategy;

impl ResourceStrategy for ResourceSliceStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        set_taint_times(object, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        _: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        set_taint_times(object, request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
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

/// Sets `timeAdded` of taints that do not have it.
fn set_taint_times(object: &mut JsonObject, request: &StrategyContext<'_>) {
    let now = request.now.rfc3339().to_string();
    for device in fields::objects_mut(object, "spec.devices") {
        for taint in fields::objects_mut(device, "taints") {
            object_edit::set_default(taint, "timeAdded", now.as_str());
        }
    }
}

fn validate_spec(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let driver = spec.field("driver");
    if driver.is_empty() {
        driver.required(errors, "");
    } else {
        checks::push_problems(&driver, validation::dns1123_subdomain(driver.str()), errors);
    }
    validate_node_fields(spec, errors);
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

fn validate_node_fields(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let node = spec.field("nodeName");
    if node.exists() && node.is_empty() {
        let detail = "must be either unset or set to a non-empty string";
        checks::invalid_text(&node, errors, detail);
    } else if node.exists() {
        checks::push_problems(&node, validation::dns1123_subdomain(node.str()), errors);
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
    let taken: Vec<String> = NODE_FIELDS
        .iter()
        .filter(|name| !spec.field(name).is_empty() || has_node_selector(spec, name))
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

/// An empty node selector counts as set.
fn has_node_selector(spec: &FieldView<'_>, name: &str) -> bool {
    name == "nodeSelector" && spec.field(name).exists()
}

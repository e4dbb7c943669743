//! Printers of the apps group.

use rhumb_meta::GroupVersion;
use serde_json::{Value, json};

use super::json_view::JsonView;
use super::{
    AGE, CONTAINERS, IMAGES, NAME, SELECTOR, age, containers, labels, name, none, selector,
    selector_or_none,
};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "ControllerRevision" => CONTROLLER_REVISION,
        "DaemonSet" => DAEMON_SET,
        "Deployment" => DEPLOYMENT,
        "ReplicaSet" => REPLICA_SET,
        "StatefulSet" => STATEFUL_SET,
        _ => return None,
    })
}

const CONTROLLER_REVISION: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text(
            "Controller",
            "The controller whose state the revision holds.",
        ),
        TableColumn::text("Revision", "The revision number."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            controller(object).into(),
            json!(object.key("revision").int()),
            age(object, now),
        ]
    },
);

const DAEMON_SET: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Desired", "How many nodes should run its pod."),
        TableColumn::integer("Current", "How many of these nodes do."),
        TableColumn::integer("Ready", "On how many its pod is ready."),
        TableColumn::integer("Up-to-date", "Nodes whose pod has the latest template."),
        TableColumn::integer(
            "Available",
            "Nodes whose pod has been ready for minReadySeconds.",
        ),
        TableColumn::text("Node Selector", "The node selector of its pods."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let status = object.key("status");
        let (names, images) = containers(object.at("spec.template.spec"));
        vec![
            name(object),
            json!(status.key("desiredNumberScheduled").int()),
            json!(status.key("currentNumberScheduled").int()),
            json!(status.key("numberReady").int()),
            json!(status.key("updatedNumberScheduled").int()),
            json!(status.key("numberAvailable").int()),
            labels(object.at("spec.template.spec.nodeSelector")).into(),
            age(object, now),
            names,
            images,
            selector_or_none(object.at("spec.selector")).into(),
        ]
    },
);

const DEPLOYMENT: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Ready", "How many pods are ready, of how many."),
        TableColumn::text("Up-to-date", "How many pods are of the latest template."),
        TableColumn::text(
            "Available",
            "Pods that have been ready for minReadySeconds.",
        ),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let (names, images) = containers(object.at("spec.template.spec"));
        let selector = selector(object.at("spec.selector"));
        vec![
            name(object),
            ready_of_desired(object),
            json!(object.at("status.updatedReplicas").int()),
            json!(object.at("status.availableReplicas").int()),
            age(object, now),
            names,
            images,
            selector.unwrap_or_else(|| "<invalid>".to_string()).into(),
        ]
    },
);

const REPLICA_SET: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Desired", "How many pods there should be."),
        TableColumn::integer("Current", "How many pods there are."),
        TableColumn::integer("Ready", "How many pods are ready."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let (names, images) = containers(object.at("spec.template.spec"));
        vec![
            name(object),
            json!(object.at("spec.replicas").int()),
            json!(object.at("status.replicas").int()),
            json!(object.at("status.readyReplicas").int()),
            age(object, now),
            names,
            images,
            selector_or_none(object.at("spec.selector")).into(),
        ]
    },
);

const STATEFUL_SET: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Ready", "How many pods are ready, of how many."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let (names, images) = containers(object.at("spec.template.spec"));
        vec![
            name(object),
            ready_of_desired(object),
            age(object, now),
            names,
            images,
        ]
    },
);

fn ready_of_desired(object: JsonView<'_>) -> Value {
    let ready = object.at("status.readyReplicas").int();
    let desired = object.at("spec.replicas").int();
    format!("{ready}/{desired}").into()
}

fn controller(object: JsonView<'_>) -> String {
    let owner = object
        .at("metadata.ownerReferences")
        .items()
        .find(|owner| owner.key("controller").is_true());
    let Some(owner) = owner else {
        return none();
    };
    let version: GroupVersion = match owner.key("apiVersion").str().parse() {
        Ok(version) => version,
        Err(_) => return none(),
    };
    let kind = owner.key("kind").str();
    let name = owner.key("name").str();
    match (kind, version.group.as_ref()) {
        ("", "") => name.to_string(),
        (kind, "") => format!("{}/{name}", kind.to_lowercase()),
        (kind, group) => format!("{}.{}/{name}", kind.to_lowercase(), group.to_lowercase()),
    }
}

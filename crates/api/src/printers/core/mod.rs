//! Printers of the core group.

mod node;
mod pod;
mod service;
mod volume;

pub(super) use service::load_balancer;

use serde_json::json;

use super::json_view::JsonView;
use super::{
    AGE, CONTAINERS, IMAGES, NAME, NAME_AND_AGE, SELECTOR, age, containers, events, labels, name,
};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "ComponentStatus" => COMPONENT_STATUS,
        "ConfigMap" => CONFIG_MAP,
        "Endpoints" => service::ENDPOINTS,
        "Event" => events::EVENT,
        "Namespace" => NAMESPACE,
        "Node" => node::NODE,
        "PersistentVolume" => volume::PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => volume::PERSISTENT_VOLUME_CLAIM,
        "Pod" => pod::POD,
        "PodTemplate" => POD_TEMPLATE,
        "ReplicationController" => REPLICATION_CONTROLLER,
        "ResourceQuota" => RESOURCE_QUOTA,
        "Secret" => SECRET,
        "Service" => service::SERVICE,
        "ServiceAccount" => NAME_AND_AGE,
        _ => return None,
    })
}

const COMPONENT_STATUS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Status", "Whether the component is healthy."),
        TableColumn::text("Message", "The health message of the component."),
        TableColumn::text("Error", "The error of the health check."),
    ],
    |object, _| {
        let object = JsonView::Root(object);
        let healthy = object.key("conditions").condition("Healthy");
        let status = match healthy.map(|condition| condition.key("status").str()) {
            None => "Unknown",
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
        };
        let said = |field| healthy.map_or("", |condition| condition.key(field).str());
        vec![
            name(object),
            json!(status),
            json!(said("message")),
            json!(said("error")),
        ]
    },
);

const CONFIG_MAP: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Data", "How many entries it has."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let entries = object.key("data").item_count() + object.key("binaryData").item_count();
        vec![name(object), json!(entries), age(object, now)]
    },
);

const NAMESPACE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Status", "The phase: Active or Terminating."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.at("status.phase").str()),
            age(object, now),
        ]
    },
);

const POD_TEMPLATE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        CONTAINERS,
        IMAGES,
        TableColumn::text("Pod Labels", "The labels of the template's pods."),
    ],
    |object, _| {
        let object = JsonView::Root(object);
        let (names, images) = containers(object.at("template.spec"));
        vec![
            name(object),
            names,
            images,
            labels(object.at("template.metadata.labels")).into(),
        ]
    },
);

const REPLICATION_CONTROLLER: TablePrinter = TablePrinter::new(
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
            labels(object.at("spec.selector")).into(),
        ]
    },
);

const RESOURCE_QUOTA: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Request", "Used and hard amounts, except limits."),
        TableColumn::text("Limit", "Used and hard amounts of limits."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let (limits, requests): (Vec<_>, Vec<_>) = object
            .at("status.hard")
            .object()
            .into_iter()
            .flat_map(|hard| hard.keys())
            .partition(|resource| resource.starts_with("limits."));
        let usage = |resources: Vec<&String>| {
            let mut resources = resources;
            resources.sort_unstable();
            resources
                .into_iter()
                .map(|resource| {
                    let used = object.at("status.used").key(resource).quantity();
                    let hard = object.at("status.hard").key(resource).quantity();
                    format!("{resource}: {used}/{hard}")
                })
                .collect::<Vec<_>>()
                .join(", ")
        };
        vec![
            name(object),
            usage(requests).into(),
            usage(limits).into(),
            age(object, now),
        ]
    },
);

const SECRET: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Type", "The secret type."),
        TableColumn::text("Data", "How many entries it has."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.key("type").str()),
            json!(object.key("data").item_count()),
            age(object, now),
        ]
    },
);

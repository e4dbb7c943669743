//! Printers of the core group.

mod node;
mod pod;
mod service;
mod volume;

pub(super) use service::load_balancer;

use serde_json::json;

use super::part::Part;
use super::{
    AGE, CONTAINERS, IMAGES, NAME, NAME_AND_AGE, SELECTOR, age, containers, events, labels, name,
};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
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

const COMPONENT_STATUS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether the component is healthy."),
        Column::text("Message", "What it says about its health."),
        Column::text("Error", "What went wrong when it was asked."),
    ],
    |object, _| {
        let object = Part::Root(object);
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

const CONFIG_MAP: Printer = Printer::new(
    &[NAME, Column::text("Data", "How many entries it has."), AGE],
    |object, now| {
        let object = Part::Root(object);
        let entries = object.key("data").len() + object.key("binaryData").len();
        vec![name(object), json!(entries), age(object, now)]
    },
);

const NAMESPACE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether it is in use or being emptied."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![
            name(object),
            json!(object.at("status.phase").str()),
            age(object, now),
        ]
    },
);

const POD_TEMPLATE: Printer = Printer::new(
    &[
        NAME,
        CONTAINERS,
        IMAGES,
        Column::text("Pod Labels", "The labels of the template's pods."),
    ],
    |object, _| {
        let object = Part::Root(object);
        let (names, images) = containers(object.at("template.spec"));
        vec![
            name(object),
            names,
            images,
            labels(object.at("template.metadata.labels")).into(),
        ]
    },
);

const REPLICATION_CONTROLLER: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Desired", "How many pods there should be."),
        Column::integer("Current", "How many pods there are."),
        Column::integer("Ready", "How many pods are ready."),
        AGE,
        CONTAINERS.wide(),
        IMAGES.wide(),
        SELECTOR,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const RESOURCE_QUOTA: Printer = Printer::new(
    &[
        NAME,
        Column::text("Request", "What is used and allowed, but for limits."),
        Column::text("Limit", "What is used and allowed of limits."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const SECRET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "What the entries are for."),
        Column::text("Data", "How many entries it has."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![
            name(object),
            json!(object.key("type").str()),
            json!(object.key("data").len()),
            age(object, now),
        ]
    },
);

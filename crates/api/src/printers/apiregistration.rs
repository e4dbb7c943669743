//! Printers of the apiregistration group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "APIService").then_some(API_SERVICE)
}

const API_SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Service", "The service that answers for the group."),
        Column::text("Available", "Whether it answers."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let service = object.at("spec.service");
        let service = if service.exists() {
            format!(
                "{}/{}",
                service.key("namespace").str(),
                service.key("name").str()
            )
        } else {
            "Local".to_string()
        };
        vec![
            name(object),
            service.into(),
            json!(available(object)),
            age(object, now),
        ]
    },
);

fn available(object: Part<'_>) -> String {
    let Some(condition) = object.at("status.conditions").condition("Available") else {
        return "Unknown".to_string();
    };
    match (condition.key("status").str(), condition.key("reason").str()) {
        (status @ "True", _) | (status, "") => status.to_string(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

//! Printers of the apiregistration group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "APIService").then_some(API_SERVICE)
}

const API_SERVICE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Service", "The service that serves the group."),
        TableColumn::text("Available", "Whether the service is available."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
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

fn available(object: JsonView<'_>) -> String {
    let Some(condition) = object.at("status.conditions").condition("Available") else {
        return "Unknown".to_string();
    };
    match (condition.key("status").str(), condition.key("reason").str()) {
        (status @ "True", _) | (status, "") => status.to_string(),
        (status, reason) => format!("{status} ({reason})"),
    }
}

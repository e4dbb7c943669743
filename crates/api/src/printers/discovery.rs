//! Printers of the discovery group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, first_and_count, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "EndpointSlice").then_some(ENDPOINT_SLICE)
}

const SHOWN_MAX: usize = 3;

const ENDPOINT_SLICE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("AddressType", "The type of its addresses."),
        TableColumn::text("Ports", "The ports of every endpoint."),
        TableColumn::text("Endpoints", "The addresses of its endpoints."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let ports: Vec<String> = object.key("ports").items().map(port).collect();
        let addresses: Vec<&str> = object
            .key("endpoints")
            .items()
            .flat_map(|endpoint| endpoint.key("addresses").items().map(JsonView::str))
            .collect();
        vec![
            name(object),
            json!(object.key("addressType").str()),
            few_or_unset(&ports).into(),
            few_or_unset(&addresses).into(),
            age(object, now),
        ]
    },
);

fn port(port: JsonView<'_>) -> String {
    match (port.key("port").opt_int(), port.key("name").opt_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_string(),
        (None, None) => "*".to_string(),
    }
}

fn few_or_unset<T: AsRef<str>>(all: &[T]) -> String {
    let text = first_and_count(SHOWN_MAX, all);
    if text.is_empty() {
        "<unset>".to_string()
    } else {
        text
    }
}

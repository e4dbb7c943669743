//! Printers of the discovery group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, first_few, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "EndpointSlice").then_some(ENDPOINT_SLICE)
}

const SHOWN_MAX: usize = 3;

const ENDPOINT_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("AddressType", "What its addresses are."),
        Column::text("Ports", "The ports of every endpoint."),
        Column::text("Endpoints", "The addresses of its endpoints."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let ports: Vec<String> = object.key("ports").items().map(port).collect();
        let addresses: Vec<&str> = object
            .key("endpoints")
            .items()
            .flat_map(|endpoint| endpoint.key("addresses").items().map(Part::str))
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

fn port(port: Part<'_>) -> String {
    match (port.key("port").opt_int(), port.key("name").opt_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_string(),
        (None, None) => "*".to_string(),
    }
}

fn few_or_unset<T: AsRef<str>>(all: &[T]) -> String {
    let text = first_few(SHOWN_MAX, all);
    if text.is_empty() {
        "<unset>".to_string()
    } else {
        text
    }
}

//! Printers of the group `networking.rhumb.dev`.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "NetworkPolicyNode").then_some(NETWORK_POLICY_NODE)
}

const NETWORK_POLICY_NODE: Printer = Printer::new(
    &[
        NAME,
        Column::text(
            "Versions",
            "The versions of network policies that are understood on the node.",
        ),
        Column::integer("Policies", "How many policies are in force on the node."),
        Column::text("Problem", "Why the node is not up to date."),
        AGE,
        Column::text("Agent", "Who enforces policies on the node.").wide(),
        Column::text(
            "Unimplemented",
            "Features that are understood but cannot be had on the node.",
        )
        .wide(),
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![
            name(object),
            json!(object.key("versions").join(None, ",")),
            json!(object.key("applied").len()),
            json!(object.key("problem").str()),
            age(object, now),
            json!(object.key("agent").str()),
            json!(object.key("unimplemented").join(Some("feature"), ",")),
        ]
    },
);

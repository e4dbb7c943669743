//! Printers of the group `networking.rhumb.dev`.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name, since};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "NetworkPolicyNode").then_some(NETWORK_POLICY_NODE)
}

const NETWORK_POLICY_NODE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text(
            "Versions",
            "The network policy versions that the node supports.",
        ),
        TableColumn::integer("Policies", "Number of policies programmed on the node."),
        TableColumn::text("Problem", "Why the programmed policies are not up to date."),
        TableColumn::text("Last Seen", "Time since the agent last wrote the report."),
        AGE,
        TableColumn::text("Agent", "The agent that enforces policies on the node.").wide(),
        TableColumn::text(
            "Unimplemented",
            "Supported features that the node cannot implement.",
        )
        .wide(),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.key("versions").join(None, ",")),
            json!(object.key("applied").item_count()),
            json!(object.key("problem").str()),
            json!(since(object.key("lastHeartbeatTime"), now)),
            age(object, now),
            json!(object.key("agent").str()),
            json!(object.key("unimplemented").join(Some("feature"), ",")),
        ]
    },
);

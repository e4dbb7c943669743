//! Printers of the certificates group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, human_duration, name, none};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "CertificateSigningRequest").then_some(CERTIFICATE_SIGNING_REQUEST)
}

const CERTIFICATE_SIGNING_REQUEST: TablePrinter = TablePrinter::new(
    &[
        NAME,
        AGE,
        TableColumn::text("SignerName", "The requested signer."),
        TableColumn::text("Requestor", "The user who created the request."),
        TableColumn::text("RequestedDuration", "The requested validity."),
        TableColumn::text(
            "Condition",
            "Whether the request is pending, approved, denied, failed or issued.",
        ),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        let duration = spec.key("expirationSeconds").opt_int();
        vec![
            name(object),
            age(object, now),
            json!(spec.key("signerName").str_or("<none>")),
            json!(spec.key("username").str()),
            duration.map_or_else(none, human_duration::duration).into(),
            condition(object.key("status")).into(),
        ]
    },
);

fn condition(status: JsonView<'_>) -> String {
    let has = |kind| status.key("conditions").condition(kind).is_some();
    let mut text = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_string();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !status.key("certificate").str().is_empty() {
        text.push_str(",Issued");
    }
    text
}

//! Printers of the certificates group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, human, name, none};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "CertificateSigningRequest").then_some(CERTIFICATE_SIGNING_REQUEST)
}

const CERTIFICATE_SIGNING_REQUEST: Printer = Printer::new(
    &[
        NAME,
        AGE,
        Column::text("SignerName", "Who is asked to sign."),
        Column::text("Requestor", "Who asks."),
        Column::text("RequestedDuration", "For how long."),
        Column::text("Condition", "What became of the request."),
    ],
    |object, now| {
        let object = Part::Root(object);
        let spec = object.key("spec");
        let duration = spec.key("expirationSeconds").opt_int();
        vec![
            name(object),
            age(object, now),
            json!(spec.key("signerName").str_or("<none>")),
            json!(spec.key("username").str()),
            duration.map_or_else(none, human::duration).into(),
            condition(object.key("status")).into(),
        ]
    },
);

fn condition(status: Part<'_>) -> String {
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

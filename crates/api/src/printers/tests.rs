//! Compares every printer with the tables that kube-apiserver v1.36 returned for the same objects (`recorded.json`).

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::{GENERIC, for_kind};
use crate::table::TableColumn;
use crate::{JsonObject, kinds};

/// The contents of `recorded.json`.
#[derive(Deserialize)]
struct RecordedTables {
    now: String,
    /// `name|type|format|priority` of each column, by group and kind.
    columns: BTreeMap<String, Vec<String>>,
    cases: Vec<RecordedRow>,
}

/// An object and the cells that kube-apiserver returned for it.
#[derive(Deserialize)]
struct RecordedRow {
    what: String,
    object: JsonObject,
    cells: Vec<Value>,
}

/// Columns that upstream lacks, by group and kind. All others are compared.
const BEYOND_UPSTREAM: &[(&str, &[&str])] = &[(
    "networking.k8s.io/NetworkPolicy",
    &["Status", "Policy-Types", "Min-Version", "Message"],
)];

/// Whether upstream has this column of the kind.
fn is_recorded(name: &str, column: &TableColumn) -> bool {
    let beyond = BEYOND_UPSTREAM.iter().find(|(kind, _)| *kind == name);
    beyond.is_none_or(|(_, columns)| !columns.contains(&column.name))
}

fn recorded() -> RecordedTables {
    serde_json::from_str(include_str!("recorded.json")).unwrap()
}

fn group_and_kind(object: &JsonObject) -> (&str, &str) {
    let version = object["apiVersion"].as_str().unwrap();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (group, object["kind"].as_str().unwrap())
}

#[test]
fn cells_match_the_recording() {
    let recorded = recorded();
    let now = recorded.now.parse().unwrap();
    for case in recorded.cases {
        let (group, kind) = group_and_kind(&case.object);
        let printer = for_kind(group, kind).unwrap();
        let cells = printer.cells(&case.object, now);
        assert_eq!(cells.len(), printer.columns().len(), "{kind}");
        let name = format!("{group}/{kind}");
        let cells: Vec<Value> = printer
            .columns()
            .iter()
            .zip(cells)
            .filter(|(column, _)| is_recorded(&name, column))
            .map(|(_, cell)| cell)
            .collect();
        assert_eq!(cells, case.cells, "{kind}: {}", case.what);
    }
}

#[test]
fn columns_match_the_recording() {
    for (name, expected) in recorded().columns {
        let (group, kind) = name.split_once('/').unwrap();
        let printer = for_kind(group, kind).unwrap();
        let columns: Vec<String> = printer
            .columns()
            .iter()
            .filter(|column| is_recorded(&name, column))
            .map(
                |TableColumn {
                     name,
                     kind,
                     format,
                     priority,
                     ..
                 }| format!("{name}|{kind}|{format}|{priority}"),
            )
            .collect();
        assert_eq!(columns, expected, "{name}");
        assert!(
            printer
                .columns()
                .iter()
                .all(|column| !column.description.is_empty())
        );
    }
}

#[test]
fn columns_beyond_upstream_are_present() {
    for (name, columns) in BEYOND_UPSTREAM {
        let (group, kind) = name.split_once('/').unwrap();
        let printer = for_kind(group, kind).unwrap();
        let has = |wanted: &str| printer.columns().iter().any(|column| column.name == wanted);
        assert!(columns.iter().all(|column| has(column)), "{name}");
    }
}

#[test]
fn every_kind_with_a_printer_has_a_recording() {
    let columns = recorded().columns;
    for kind in kinds::all() {
        let name = format!("{}/{}", kind.group, kind.name);
        // Upstream's printers of these kinds are not part of the recorded code.
        if kind.name == "APIService" || (kind.group == "events.k8s.io" && kind.name == "Event") {
            continue;
        }
        // Upstream has no such kind.
        if kind.name == "NetworkPolicyNode" {
            continue;
        }
        assert_eq!(
            for_kind(&kind.group, &kind.name).is_some(),
            columns.contains_key(&name),
            "{name}"
        );
    }
}

#[test]
fn malformed_objects_are_printed_without_panic() {
    let strange = [
        json!({}),
        json!({"metadata": 1, "spec": [], "status": "s"}),
        json!({"metadata": {"name": 5, "creationTimestamp": "x"}, "spec": null, "status": {"conditions": [1, null]}}),
    ];
    for kind in kinds::all() {
        let printer = kind.printer();
        for object in &strange {
            let cells = printer.cells(object.as_object().unwrap(), Default::default());
            assert_eq!(cells.len(), printer.columns().len(), "{}", kind.name);
        }
    }
}

#[test]
fn api_service_row_shows_availability() {
    let printer = for_kind("apiregistration.k8s.io", "APIService").unwrap();
    let service = json!({"namespace": "ns", "name": "s"});
    for (spec, conditions, expected) in [
        (
            json!({}),
            json!([]),
            json!(["", "Local", "Unknown", "<unknown>"]),
        ),
        (
            json!({"service": service}),
            json!([{"type": "Available", "status": "True", "reason": "R"}]),
            json!(["", "ns/s", "True", "<unknown>"]),
        ),
        (
            json!({}),
            json!([{"type": "Available", "status": "False", "reason": "R"}]),
            json!(["", "Local", "False (R)", "<unknown>"]),
        ),
        (
            json!({}),
            json!([{"type": "Available", "status": "False"}]),
            json!(["", "Local", "False", "<unknown>"]),
        ),
    ] {
        let object = json!({"spec": spec, "status": {"conditions": conditions}});
        let cells = printer.cells(object.as_object().unwrap(), Default::default());
        assert_eq!(json!(cells), expected);
    }
}

#[test]
fn network_policy_row_shows_its_state() {
    let printer = for_kind("networking.k8s.io", "NetworkPolicy").unwrap();
    let condition = |kind: &str, status: &str, observed: i64| json!({"type": kind, "status": status, "observedGeneration": observed, "message": kind});
    let supported = |status: &str| condition("Supported", status, 2);
    let (problem, old_problem) = (
        condition("Problem", "True", 2),
        condition("Problem", "True", 1),
    );
    let programmed = |status: &str| condition("Programmed", status, 2);
    let table = [
        (json!([]), "<unknown>", ""),
        (json!([supported("True")]), "Supported", "Supported"),
        (
            json!([{"type": "Supported", "status": "True"}]),
            "Supported",
            "",
        ),
        (json!([condition("Supported", "True", 1)]), "<unknown>", ""),
        (
            json!([supported("True"), programmed("Unknown")]),
            "Pending",
            "Programmed",
        ),
        (
            json!([supported("True"), programmed("True")]),
            "Programmed",
            "Programmed",
        ),
        (
            json!([supported("True"), programmed("False")]),
            "Failed",
            "Programmed",
        ),
        (
            json!([condition("Programmed", "True", 1)]),
            "Pending",
            "Programmed",
        ),
        (json!([programmed("True"), problem]), "Problem", "Problem"),
        (
            json!([programmed("True"), old_problem]),
            "Programmed",
            "Programmed",
        ),
        (
            json!([problem, programmed("True"), supported("False")]),
            "Unsupported",
            "Supported",
        ),
    ];
    for (conditions, word, message) in table {
        let policy = json!({
            "metadata": {"name": "n", "generation": 2}, "status": {"conditions": conditions},
            "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "minVersion": "1.8"},
        });
        let cells = printer.cells(policy.as_object().unwrap(), Default::default());
        let expected = json!([
            "n",
            "<none>",
            word,
            "<unknown>",
            "Ingress,Egress",
            "1.8",
            message
        ]);
        assert_eq!(json!(cells), expected, "{conditions}");
    }
}

#[test]
fn network_policy_node_row_shows_versions_and_applied_policies() {
    let printer = for_kind("networking.rhumb.dev", "NetworkPolicyNode").unwrap();
    let report = json!({
        "metadata": {"name": "n"}, "agent": "rhumb 0.1.0", "versions": ["1.3", "1.8"], "problem": "nft: busy",
        "unimplemented": [{"feature": "SCTP"}], "applied": [{"name": "a"}, {"name": "b"}],
        "lastHeartbeatTime": "1970-01-01T00:00:00Z",
    });
    let full = json!([
        "n",
        "1.3,1.8",
        2,
        "nft: busy",
        "12s",
        "<unknown>",
        "rhumb 0.1.0",
        "SCTP"
    ]);
    let empty = json!(["", "", 0, "", "<unknown>", "<unknown>", "", ""]);
    let now = "1970-01-01T00:00:12Z".parse().unwrap();
    for (report, expected) in [(report, full), (json!({}), empty)] {
        let cells = printer.cells(report.as_object().unwrap(), now);
        assert_eq!(json!(cells), expected);
    }
}

#[test]
fn kinds_without_a_printer_show_name_and_creation_time() {
    for (metadata, expected) in [
        (
            json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}),
            json!(["x", "2026-01-01T00:00:00Z"]),
        ),
        (json!({"name": "x"}), json!(["x", "0001-01-01T00:00:00Z"])),
    ] {
        let object = json!({ "metadata": metadata });
        let cells = GENERIC.cells(object.as_object().unwrap(), Default::default());
        assert_eq!(json!(cells), expected);
    }
    assert_eq!(GENERIC.column_definitions()[1]["name"], "Created At");
    assert_eq!(GENERIC.column_definitions()[1]["type"], "date");
}

#[test]
fn terminated_pod_rows_have_a_condition() {
    let printer = for_kind("", "Pod").unwrap();
    for (phase, expected) in [
        ("Succeeded", Some("Succeeded")),
        ("Failed", Some("Failed")),
        ("Running", None),
    ] {
        let pod = json!({"status": {"phase": phase}});
        let pod = pod.as_object().unwrap();
        let conditions = printer.conditions(pod);
        let reason = conditions
            .as_ref()
            .map(|conditions| &conditions[0]["reason"]);
        assert_eq!(reason, expected.map(|reason| json!(reason)).as_ref());
    }
}

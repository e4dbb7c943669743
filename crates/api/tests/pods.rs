//! Compares the validation errors and warnings for pods, pod templates, nodes, replication controllers and bindings
//! with those of upstream.
//!
//! Each file in `pods/` has the cases of one type of write. A case is a title, a line of JSON that is merged into a
//! minimal valid object, optionally another one for the old object, and the errors and warnings that upstream
//! returns.

mod support;

use support::{ValidationCase, cases, merged, with_defaults};

use rhumb_api::{
    FeatureGates, FieldView, JsonObject, Kind, SelectionAttrsReader, StrategyContext, kinds, pods,
};
use rhumb_meta::Timestamp;
use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

const POD: &str = r#"{"metadata":{"name":"pod","namespace":"ns"},
    "spec":{"containers":[{"name":"main","image":"image:1"}]}}"#;
const TEMPLATE: &str = r#"{"metadata":{"name":"t","namespace":"ns"},
    "template":{"spec":{"containers":[{"name":"main","image":"image:1"}]}}}"#;
const NODE: &str = r#"{"metadata":{"name":"n"}}"#;
const CONTROLLER: &str = r#"{"metadata":{"name":"rc","namespace":"ns"},"spec":{"selector":{"a":"b"},
    "template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"main","image":"image:1"}]}}}}"#;
const BINDING: &str = r#"{"metadata":{"name":"b","namespace":"ns"}}"#;

fn kind(name: &str) -> Kind {
    let mut kinds = kinds::all().into_iter();
    kinds.find(|kind| kind.name == name).expect(name)
}

/// The object of a case: `base` with the patch merged and defaults applied.
fn object(kind: &Kind, base: &str, patch: &Value) -> JsonObject {
    let base: Value = serde_json::from_str(base).expect("valid JSON base object");
    let mut object = match with_defaults(&kind.name, merged(base, patch)) {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    };
    kind.strategy.apply_defaults(&mut object);
    object
}

/// The errors sorted, only the first line of each: further lines contain a diff in Go's format.
fn first_lines(errors: &ErrorList) -> Vec<String> {
    let texts = errors.iter().map(ToString::to_string);
    let mut texts: Vec<String> = texts
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect();
    texts.sort();
    texts
}

type WriteFn = fn(&Kind, JsonObject, JsonObject, &StrategyContext<'_>) -> (ErrorList, Vec<String>);

fn check(file: &str, kind_name: &str, base: &str, write: WriteFn) {
    let kind = kind(kind_name);
    let gates = FeatureGates::default();
    let request = StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    };
    let mut wrong = Vec::new();
    for case in cases(file) {
        let ValidationCase {
            title,
            new,
            old,
            expected: says,
        } = case;
        let (new, old) = (object(&kind, base, &new), object(&kind, base, &old));
        let (errors, warnings) = write(&kind, new, old, &request);
        let mut said = first_lines(&errors);
        // Rejected requests return no warnings.
        if said.is_empty() {
            said.extend(warnings.into_iter().map(|text| format!("warning: {text}")));
        }
        if said != says {
            let (said, says) = (said.join("\n  "), says.join("\n  "));
            wrong.push(format!("{title}\n  {said}\n  --- but upstream:\n  {says}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn create(
    kind: &Kind,
    mut new: JsonObject,
    _: JsonObject,
    request: &StrategyContext<'_>,
) -> (ErrorList, Vec<String>) {
    let (mut errors, mut warnings) = (ErrorList::new(), Vec::new());
    kind.strategy.prepare_create(&mut new, request);
    let view = FieldView::root(&new);
    kind.strategy.validate_create(&view, request, &mut errors);
    kind.strategy.warnings(&view, None, &mut warnings);
    (errors, warnings)
}

fn update(
    kind: &Kind,
    mut new: JsonObject,
    old: JsonObject,
    request: &StrategyContext<'_>,
) -> (ErrorList, Vec<String>) {
    let (mut errors, mut warnings) = (ErrorList::new(), Vec::new());
    // For all kinds, an update does not change the status.
    new.remove("status");
    if let Some(status) = old.get("status") {
        new.insert("status".to_owned(), status.clone());
    }
    kind.strategy.prepare_update(&mut new, &old, request);
    let (new, old) = (FieldView::root(&new), FieldView::root(&old));
    kind.strategy
        .validate_update(&new, &old, request, &mut errors);
    kind.strategy.warnings(&new, Some(&old), &mut warnings);
    (errors, warnings)
}

fn update_status(
    kind: &Kind,
    mut new: JsonObject,
    old: JsonObject,
    request: &StrategyContext<'_>,
) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    kind.strategy.prepare_status_update(&mut new, &old, request);
    let (new, old) = (FieldView::root(&new), FieldView::root(&old));
    kind.strategy
        .validate_status_update(&new, &old, request, &mut errors);
    (errors, Vec::new())
}

fn add_ephemeral_containers(
    _: &Kind,
    mut new: JsonObject,
    old: JsonObject,
    _: &StrategyContext<'_>,
) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    pods::prepare_ephemeral_containers(&mut new, &old);
    pods::validate_ephemeral_containers(
        &FieldView::root(&new),
        &FieldView::root(&old),
        &mut errors,
    );
    (errors, Vec::new())
}

fn resize(
    _: &Kind,
    mut new: JsonObject,
    old: JsonObject,
    _: &StrategyContext<'_>,
) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    pods::prepare_resize(&mut new, &old);
    pods::validate_resize(&FieldView::root(&new), &FieldView::root(&old), &mut errors);
    (errors, Vec::new())
}

#[test]
fn pod_creates_are_validated_like_upstream() {
    check("create.txt", "Pod", POD, create);
}

#[test]
fn pod_updates_are_validated_like_upstream() {
    check("update.txt", "Pod", POD, update);
}

#[test]
fn pod_status_updates_are_validated_like_upstream() {
    check("status.txt", "Pod", POD, update_status);
}

#[test]
fn ephemeral_containers_are_validated_like_upstream() {
    check("ephemeral.txt", "Pod", POD, add_ephemeral_containers);
}

#[test]
fn pod_resizes_are_validated_like_upstream() {
    check("resize.txt", "Pod", POD, resize);
}

#[test]
fn pod_templates_are_validated_like_upstream() {
    check("template.txt", "PodTemplate", TEMPLATE, create);
}

#[test]
fn node_creates_are_validated_like_upstream() {
    check("node.txt", "Node", NODE, create);
}

#[test]
fn node_updates_are_validated_like_upstream() {
    check("nodeupdate.txt", "Node", NODE, update);
}

#[test]
fn replication_controllers_are_validated_like_upstream() {
    check("rc.txt", "ReplicationController", CONTROLLER, create);
    check(
        "rcstatus.txt",
        "ReplicationController",
        CONTROLLER,
        update_status,
    );
}

#[test]
fn bindings_are_validated_like_upstream() {
    check("binding.txt", "Binding", BINDING, create);
}

#[test]
fn new_pod_is_pending_with_qos_class_and_scheduling_gates() {
    let kind = kind("Pod");
    let gates = FeatureGates::default();
    let request = StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    };
    let mut pod = object(&kind, POD, &json!({"status": {"phase": "Running"}}));
    kind.strategy.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    let gated = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
    let mut pod = object(&kind, POD, &gated);
    kind.strategy.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:00:00Z"}])
    );
}

#[test]
fn unscheduled_or_finished_pods_are_deleted_without_grace() {
    let kind = kind("Pod");
    let table = [
        (json!({}), None, 0),
        (json!({"spec": {"nodeName": "n"}}), None, 30),
        (json!({"spec": {"nodeName": "n"}}), Some(5), 5),
        (json!({"spec": {"nodeName": "n"}}), Some(-5), 1),
        (
            json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": -1}}),
            None,
            1,
        ),
        (
            json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}),
            Some(5),
            0,
        ),
    ];
    for (patch, requested, want) in table {
        let pod = object(&kind, POD, &patch);
        let seconds = kind
            .strategy
            .grace_period_seconds(&FieldView::root(&pod), requested);
        assert_eq!(seconds, Some(want), "{patch}");
    }
}

#[test]
fn selectable_pod_fields_are_read() {
    let pod = json!({"spec": {"nodeName": "n", "hostNetwork": true, "restartPolicy": "Never"},
        "status": {"phase": "Running", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}]}});
    let table = [
        ("Pod", "spec.nodeName", pod.clone(), "n"),
        ("Pod", "spec.hostNetwork", pod.clone(), "true"),
        ("Pod", "spec.hostNetwork", json!({}), "false"),
        ("Pod", "spec.restartPolicy", pod.clone(), "Never"),
        ("Pod", "spec.schedulerName", pod.clone(), ""),
        ("Pod", "spec.serviceAccountName", pod.clone(), ""),
        ("Pod", "status.phase", pod.clone(), "Running"),
        ("Pod", "status.podIP", pod.clone(), "1.2.3.4"),
        ("Pod", "status.nominatedNodeName", pod, ""),
        ("Node", "spec.unschedulable", json!({}), "false"),
        (
            "Node",
            "spec.unschedulable",
            json!({"spec": {"unschedulable": true}}),
            "true",
        ),
        ("ReplicationController", "status.replicas", json!({}), "0"),
        (
            "ReplicationController",
            "status.replicas",
            json!({"status": {"replicas": 3}}),
            "3",
        ),
    ];
    for (kind_name, field, object, want) in table {
        let kind = kind(kind_name);
        let mut fields = kind.selectable.iter();
        let place = fields.position(|known| known.name == field).expect(field);
        let (outline, text) = (
            SelectionAttrsReader::new(&kind.selectable),
            object.to_string(),
        );
        let outlined = outline.read(text.as_bytes()).expect("valid JSON object");
        let value = outlined.fields().nth(place);
        assert_eq!(value, Some(want), "{kind_name} {field}");
    }
}

#[test]
fn match_label_keys_are_merged_into_selectors() {
    let kind = kind("Pod");
    let gates = FeatureGates::default();
    let request = StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    };
    let patch = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["a", "z"], "labelSelector": {}}]}});
    let mut pod = object(&kind, POD, &patch);
    kind.strategy.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]})
    );
    let table = [
        // The pod's labels are appended to the term's own, in the order of the keys; missing labels are skipped.
        (
            json!({"matchLabelKeys": ["b", "z", "a"], "mismatchLabelKeys": ["c"], "labelSelector": {
                "matchLabels": {"x": "y"}, "matchExpressions": [{"key": "q", "operator": "Exists"}]}}),
            json!({"matchLabels": {"x": "y"}, "matchExpressions": [{"key": "q", "operator": "Exists"},
                {"key": "b", "operator": "In", "values": ["2"]}, {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "c", "operator": "NotIn", "values": [""]}]}),
        ),
        (
            json!({"matchLabelKeys": ["z"], "labelSelector": {}}),
            json!({}),
        ),
        // Without a selector nothing is added; validation rejects the keys.
        (json!({"matchLabelKeys": ["a"]}), Value::Null),
        // A namespace selector is not changed.
        (
            json!({"labelSelector": {}, "namespaceSelector": {}}),
            json!({}),
        ),
    ];
    for (term, want) in table {
        for place in ["podAffinity", "podAntiAffinity"] {
            let affinity = json!({place: {
                "requiredDuringSchedulingIgnoredDuringExecution": [term],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}});
            let patch = json!({"metadata": {"labels": {"a": "1", "b": "2", "c": ""}}, "spec": {"affinity": affinity}});
            let mut pod = object(&kind, POD, &patch);
            kind.strategy.prepare_create(&mut pod, &request);
            let pods = &pod["spec"]["affinity"][place];
            let required = &pods["requiredDuringSchedulingIgnoredDuringExecution"][0];
            let preferred =
                &pods["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
            for found in [required, preferred] {
                assert_eq!(found["labelSelector"], want, "{place} {term}");
                assert_eq!(
                    found["namespaceSelector"], term["namespaceSelector"],
                    "{place} {term}"
                );
            }
        }
    }
}

#[test]
fn status_update_keeps_omitted_fields() {
    let kind = kind("Pod");
    let gates = FeatureGates::default();
    let request = StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    };
    let old = json!({"status": {"qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 2}]}});
    let new = json!({"status": {"phase": "Running", "podIP": "1.2.3.4",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}],
        "containerStatuses": [{"name": "main", "volumeMounts": [{"name": "v", "volumeStatus": {"image": {}}}]}]}});
    let (mut new, old) = (object(&kind, POD, &new), object(&kind, POD, &old));
    kind.strategy
        .prepare_status_update(&mut new, &old, &request);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}],
            "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}, {"type": "New", "status": "True"}],
            "containerStatuses": [{"name": "main", "volumeMounts": [{"name": "v"}]}]})
    );
}

/// Replaces each value of each case in turn with a value that the schema would reject.
#[test]
fn validation_never_panics() {
    let gates = FeatureGates::default();
    let request = StrategyContext {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
        is_patch: false,
    };
    let junk = [
        json!(-1),
        json!("\u{e9}-"),
        json!([[null]]),
        json!({"": {}}),
    ];
    let tables = [
        ("create.txt", "Pod", POD),
        ("resize.txt", "Pod", POD),
        ("node.txt", "Node", NODE),
        ("rc.txt", "ReplicationController", CONTROLLER),
    ];
    for (file, kind_name, base) in tables {
        let kind = kind(kind_name);
        for (number, case) in cases(file).into_iter().enumerate() {
            let right = Value::Object(object(&kind, base, &case.new));
            for pointer in support::pointers(&right) {
                let mut wrong = right.clone();
                if let Some(value) = wrong.pointer_mut(&pointer) {
                    *value = junk[(number + pointer.len()) % junk.len()].clone();
                }
                let Value::Object(wrong) = with_defaults(kind_name, wrong) else {
                    continue;
                };
                let old = object(&kind, base, &case.old);
                create(&kind, wrong.clone(), old.clone(), &request);
                update(&kind, wrong.clone(), old.clone(), &request);
                update_status(&kind, wrong.clone(), old.clone(), &request);
                resize(&kind, wrong.clone(), old.clone(), &request);
                add_ephemeral_containers(&kind, wrong.clone(), old.clone(), &request);
                update(&kind, old, wrong, &request);
            }
        }
    }
}

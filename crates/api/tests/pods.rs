//! Pods, pod templates, nodes, replication controllers and bindings: what is said of them, beside what
//! upstream says of the same.
//!
//! Each file in `pods/` has cases of one kind of write. A case is a title, a line of JSON that is merged into
//! a small object that is right, another one for the object that was there before, and then the errors
//! and warnings, all of which are upstream's.

mod support;

use support::{Case, cases, filled, merged};

use rhumb_api::{Gates, Kind, Object, Outline, Request, View, kinds, pods};
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

/// The object a case speaks of, with everything filled in that was left out.
fn object(kind: &Kind, base: &str, patch: &Value) -> Object {
    let base: Value = serde_json::from_str(base).expect("a base");
    let mut object = match filled(&kind.name, merged(base, patch)) {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    };
    kind.rules.default(&mut object);
    object
}

/// What is wrong, in order, and only the first line of each: what follows is a difference in upstream's form.
fn texts(errors: &ErrorList) -> Vec<String> {
    let texts = errors.iter().map(ToString::to_string);
    let mut texts: Vec<String> = texts
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect();
    texts.sort();
    texts
}

type Write = fn(&Kind, Object, Object, &Request<'_>) -> (ErrorList, Vec<String>);

fn check(file: &str, kind_name: &str, base: &str, write: Write) {
    let kind = kind(kind_name);
    let gates = Gates::default();
    let request = Request {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
    };
    let mut wrong = Vec::new();
    for case in cases(file) {
        let Case {
            title,
            new,
            old,
            says,
        } = case;
        let (new, old) = (object(&kind, base, &new), object(&kind, base, &old));
        let (errors, warnings) = write(&kind, new, old, &request);
        let mut said = texts(&errors);
        // What is refused is not warned of.
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
    mut new: Object,
    _: Object,
    request: &Request<'_>,
) -> (ErrorList, Vec<String>) {
    let (mut errors, mut warnings) = (ErrorList::new(), Vec::new());
    kind.rules.prepare_create(&mut new, request);
    let view = View::root(&new);
    kind.rules.validate_create(&view, request, &mut errors);
    kind.rules.warnings(&view, None, &mut warnings);
    (errors, warnings)
}

fn update(
    kind: &Kind,
    mut new: Object,
    old: Object,
    request: &Request<'_>,
) -> (ErrorList, Vec<String>) {
    let (mut errors, mut warnings) = (ErrorList::new(), Vec::new());
    // Common to all kinds: an update leaves the status as it was.
    new.remove("status");
    if let Some(status) = old.get("status") {
        new.insert("status".to_owned(), status.clone());
    }
    kind.rules.prepare_update(&mut new, &old, request);
    let (new, old) = (View::root(&new), View::root(&old));
    kind.rules.validate_update(&new, &old, request, &mut errors);
    kind.rules.warnings(&new, Some(&old), &mut warnings);
    (errors, warnings)
}

fn update_status(
    kind: &Kind,
    mut new: Object,
    old: Object,
    request: &Request<'_>,
) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    kind.rules.prepare_status_update(&mut new, &old, request);
    let (new, old) = (View::root(&new), View::root(&old));
    kind.rules
        .validate_status_update(&new, &old, request, &mut errors);
    (errors, Vec::new())
}

fn add_ephemeral_containers(
    _: &Kind,
    mut new: Object,
    old: Object,
    _: &Request<'_>,
) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    pods::prepare_ephemeral_containers(&mut new, &old);
    pods::validate_ephemeral_containers(&View::root(&new), &View::root(&old), &mut errors);
    (errors, Vec::new())
}

fn resize(_: &Kind, mut new: Object, old: Object, _: &Request<'_>) -> (ErrorList, Vec<String>) {
    let mut errors = ErrorList::new();
    pods::prepare_resize(&mut new, &old);
    pods::validate_resize(&View::root(&new), &View::root(&old), &mut errors);
    (errors, Vec::new())
}

#[test]
fn new_pods_are_checked_as_upstream_does() {
    check("create.txt", "Pod", POD, create);
}

#[test]
fn changed_pods_are_checked_as_upstream_does() {
    check("update.txt", "Pod", POD, update);
}

#[test]
fn statuses_of_pods_are_checked_as_upstream_does() {
    check("status.txt", "Pod", POD, update_status);
}

#[test]
fn ephemeral_containers_are_checked_as_upstream_does() {
    check("ephemeral.txt", "Pod", POD, add_ephemeral_containers);
}

#[test]
fn resized_pods_are_checked_as_upstream_does() {
    check("resize.txt", "Pod", POD, resize);
}

#[test]
fn pod_templates_are_checked_as_upstream_does() {
    check("template.txt", "PodTemplate", TEMPLATE, create);
}

#[test]
fn new_nodes_are_checked_as_upstream_does() {
    check("node.txt", "Node", NODE, create);
}

#[test]
fn changed_nodes_are_checked_as_upstream_does() {
    check("nodeupdate.txt", "Node", NODE, update);
}

#[test]
fn replication_controllers_are_checked_as_upstream_does() {
    check("rc.txt", "ReplicationController", CONTROLLER, create);
    check(
        "rcstatus.txt",
        "ReplicationController",
        CONTROLLER,
        update_status,
    );
}

#[test]
fn bindings_are_checked_as_upstream_does() {
    check("binding.txt", "Binding", BINDING, create);
}

#[test]
fn a_new_pod_waits_in_its_class_and_behind_its_gates() {
    let kind = kind("Pod");
    let gates = Gates::default();
    let request = Request {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
    };
    let mut pod = object(&kind, POD, &json!({"status": {"phase": "Running"}}));
    kind.rules.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    let gated = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
    let mut pod = object(&kind, POD, &gated);
    kind.rules.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["status"]["conditions"],
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:00:00Z"}])
    );
}

#[test]
fn a_pod_ends_at_once_unless_it_runs() {
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
        let seconds = kind.rules.grace_seconds(&View::root(&pod), requested);
        assert_eq!(seconds, Some(want), "{patch}");
    }
}

#[test]
fn fields_can_be_selected_by() {
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
        let (outline, text) = (Outline::new(&kind.selectable), object.to_string());
        let outlined = outline.read(text.as_bytes()).expect("an object");
        let value = outlined.fields().nth(place);
        assert_eq!(value, Some(want), "{kind_name} {field}");
    }
}

#[test]
fn label_keys_become_part_of_selectors() {
    let kind = kind("Pod");
    let gates = Gates::default();
    let request = Request {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
    };
    let patch = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["a", "z"], "labelSelector": {}}]}});
    let mut pod = object(&kind, POD, &patch);
    kind.rules.prepare_create(&mut pod, &request);
    assert_eq!(
        pod["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]})
    );
    let table = [
        // Those of the pod come after its own, in the order of the keys; a label that it does not have is skipped.
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
        // Without a selector there is nothing to add to; the keys are refused.
        (json!({"matchLabelKeys": ["a"]}), Value::Null),
        // Namespaces have labels of their own.
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
            kind.rules.prepare_create(&mut pod, &request);
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
fn a_new_status_keeps_what_it_leaves_out() {
    let kind = kind("Pod");
    let gates = Gates::default();
    let request = Request {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
    };
    let old = json!({"status": {"qosClass": "Burstable", "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 2}]}});
    let new = json!({"status": {"phase": "Running", "podIP": "1.2.3.4",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}],
        "containerStatuses": [{"name": "main", "volumeMounts": [{"name": "v", "volumeStatus": {"image": {}}}]}]}});
    let (mut new, old) = (object(&kind, POD, &new), object(&kind, POD, &old));
    kind.rules.prepare_status_update(&mut new, &old, &request);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "podIP": "1.2.3.4", "podIPs": [{"ip": "1.2.3.4"}],
            "qosClass": "Burstable", "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}, {"type": "New", "status": "True"}],
            "containerStatuses": [{"name": "main", "volumeMounts": [{"name": "v"}]}]})
    );
}

/// Every value of every case in turn becomes something that no schema would let pass.
#[test]
fn no_object_makes_the_checks_panic() {
    let gates = Gates::default();
    let request = Request {
        gates: &gates,
        now: Timestamp::from_unix(0, 0),
        user: "",
        uid: "",
        groups: &[],
        extra: None,
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
                let Value::Object(wrong) = filled(kind_name, wrong) else {
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

use serde_json::{Value, json};

use crate::feature_gates::Feature;
use crate::testing::{self, kind};
use crate::{FeatureGates, JsonObject, object_edit};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Pods and all kinds with a pod template, and the path of the pod spec.
const OWNERS: [(&str, &str, &[&str]); 9] = [
    ("", "Pod", &["spec"]),
    ("", "PodTemplate", &["template", "spec"]),
    ("", "ReplicationController", &["spec", "template", "spec"]),
    ("apps", "ReplicaSet", &["spec", "template", "spec"]),
    ("apps", "Deployment", &["spec", "template", "spec"]),
    ("apps", "DaemonSet", &["spec", "template", "spec"]),
    ("apps", "StatefulSet", &["spec", "template", "spec"]),
    ("batch", "Job", &["spec", "template", "spec"]),
    (
        "batch",
        "CronJob",
        &["spec", "jobTemplate", "spec", "template", "spec"],
    ),
];

/// The four lists of pod affinity terms.
const POD_TERM_LISTS: [(&str, &str); 4] = [
    ("podAffinity", REQUIRED),
    ("podAffinity", PREFERRED),
    ("podAntiAffinity", REQUIRED),
    ("podAntiAffinity", PREFERRED),
];

fn gates(on: bool) -> FeatureGates {
    FeatureGates::default().with(Feature::PodAffinityNamespaceSelector, on)
}

/// An affinity with a term in each list; those at the indexes in `selecting` have a namespace selector.
fn affinity(selecting: &[usize]) -> Value {
    let mut affinity = json!({"podAffinity": {}, "podAntiAffinity": {}});
    for (index, (kind, list)) in POD_TERM_LISTS.iter().enumerate() {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": ["a"]});
        if selecting.contains(&index) {
            // An empty selector matches all namespaces.
            term["namespaceSelector"] = json!({});
        }
        let item = match *list {
            PREFERRED => json!({"weight": 1, "podAffinityTerm": term}),
            _ => term,
        };
        affinity[*kind][*list] = json!([item]);
    }
    affinity
}

fn owner(path: &[&str], affinity: &Value) -> Value {
    let spec = json!({"affinity": affinity});
    let parents = path.iter().rev();
    parents.fold(spec, |inner, name| json!({*name: inner}))
}

fn affinity_of(object: &JsonObject, path: &[&str]) -> Value {
    let spec = object_edit::get(object, path);
    spec.map_or(Value::Null, |spec| spec["affinity"].clone())
}

#[test]
fn namespace_selector_is_kept_on_create_only_with_the_gate() {
    for (group, name, path) in OWNERS {
        let kind = kind(group, name);
        for (on, want) in [(true, &[0, 1, 2, 3][..]), (false, &[])] {
            let object = owner(path, &affinity(&[0, 1, 2, 3]));
            let (object, _) = testing::create(&kind, object, &gates(on));
            assert_eq!(affinity_of(&object, path), affinity(want), "{name} {on}");
        }
    }
}

#[test]
fn namespace_selector_is_kept_on_update_only_with_the_gate_or_if_in_use() {
    type TermListIndexes = &'static [usize];
    let all: TermListIndexes = &[0, 1, 2, 3];
    // Gate, terms with a selector in: the old object, the written object, the result.
    let table: [(bool, TermListIndexes, TermListIndexes, TermListIndexes); 9] = [
        (true, &[], all, all),
        (true, &[0], &[], &[]),
        (false, &[], all, &[]),
        (false, &[0], all, all),
        (false, &[1], all, all),
        (false, &[2], all, all),
        (false, &[3], all, all),
        (false, all, &[2], &[2]),
        (false, all, &[], &[]),
    ];
    for (group, name, path) in OWNERS {
        let kind = kind(group, name);
        for (on, had, asked, want) in table {
            let old = owner(path, &affinity(had));
            let new = owner(path, &affinity(asked));
            let (new, _) = testing::update_with(&kind, old, new, &gates(on));
            let shown = format!("{name} {on} {had:?} {asked:?}");
            assert_eq!(affinity_of(&new, path), affinity(want), "{shown}");
        }
    }
}

/// Enable, disable, enable: stored fields survive a disabled gate, dropped ones must be written again.
#[test]
fn namespace_selector_survives_gate_changes() {
    let (kind, path) = (kind("apps", "Deployment"), OWNERS[4].2);
    let write = |old: &JsonObject, asked: &[usize], on: bool| {
        let asked = owner(path, &affinity(asked));
        let old = Value::Object(old.clone());
        testing::update_with(&kind, old, asked, &gates(on)).0
    };
    let selecting = |object: &JsonObject, want: &[usize]| {
        assert_eq!(affinity_of(object, path), affinity(want));
    };
    let (object, _) = testing::create(&kind, owner(path, &affinity(&[0])), &gates(true));
    let object = write(&object, &[0], false);
    selecting(&object, &[0]);
    let object = write(&object, &[0, 3], true);
    selecting(&object, &[0, 3]);
    let object = write(&object, &[], false);
    selecting(&object, &[]);
    let object = write(&object, &[0, 3], false);
    selecting(&object, &[]);
    selecting(&write(&object, &[0, 3], true), &[0, 3]);
}

#[test]
fn disabled_pod_fields_are_dropped_from_templates() {
    let fields = json!({
        "schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "c", "lifecycle": {"stopSignal": "SIGTERM"}}],
        "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {}}, {"secret": {}}]}}],
    });
    let want = json!({
        "containers": [{"name": "c"}],
        "volumes": [{"name": "v", "projected": {"sources": [{}, {"secret": {}}]}}],
    });
    for (group, name, path) in OWNERS {
        let parents = path.iter().rev();
        let object = parents.fold(fields.clone(), |inner, name| json!({*name: inner}));
        let kind = kind(group, name);
        let (new, _) = testing::create(&kind, object.clone(), &FeatureGates::default());
        assert_eq!(object_edit::get(&new, path), Some(&want), "{name}");
        let (kept, _) = testing::update_with(&kind, object, json!({}), &FeatureGates::default());
        assert_eq!(object_edit::get(&kept, path), Some(&fields), "{name}");
    }
}

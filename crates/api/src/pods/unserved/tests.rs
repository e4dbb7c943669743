use serde_json::{Value, json};

use crate::gates::Feature;
use crate::testing::{self, kind};
use crate::{Gates, Object, edit};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Everything that is a pod or makes pods, and where it has the spec of the pod.
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

/// The four places of terms about other pods.
const PLACES: [(&str, &str); 4] = [
    ("podAffinity", REQUIRED),
    ("podAffinity", PREFERRED),
    ("podAntiAffinity", REQUIRED),
    ("podAntiAffinity", PREFERRED),
];

fn gates(on: bool) -> Gates {
    Gates::default().with(Feature::PodAffinityNamespaceSelector, on)
}

/// An affinity with a term in each place, of which those that are named pick namespaces by labels.
fn affinity(selecting: &[usize]) -> Value {
    let mut affinity = json!({"podAffinity": {}, "podAntiAffinity": {}});
    for (index, (kind, list)) in PLACES.iter().enumerate() {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": ["a"]});
        if selecting.contains(&index) {
            // An empty one says the most: all namespaces.
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

fn affinity_of(object: &Object, path: &[&str]) -> Value {
    let spec = edit::get(object, path);
    spec.map_or(Value::Null, |spec| spec["affinity"].clone())
}

#[test]
fn a_new_object_gets_selectors_of_namespaces_only_with_their_gate() {
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
fn a_changed_object_gets_them_only_with_the_gate_or_if_it_had_one_in_any_term() {
    type Terms = &'static [usize];
    let all: Terms = &[0, 1, 2, 3];
    // The gate, which terms had a selector, which shall have one, and which then have one.
    let table: [(bool, Terms, Terms, Terms); 9] = [
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

/// On, off, on: what was stored outlives the gate, what was dropped has to be written again.
#[test]
fn the_gate_goes_down_and_up_again() {
    let (kind, path) = (kind("apps", "Deployment"), OWNERS[4].2);
    let write = |old: &Object, asked: &[usize], on: bool| {
        let asked = owner(path, &affinity(asked));
        let old = Value::Object(old.clone());
        testing::update_with(&kind, old, asked, &gates(on)).0
    };
    let selecting = |object: &Object, want: &[usize]| {
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
fn templates_do_not_get_what_pods_would_not() {
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
        let (new, _) = testing::create(&kind, object.clone(), &Gates::default());
        assert_eq!(edit::get(&new, path), Some(&want), "{name}");
        let (kept, _) = testing::update_with(&kind, object, json!({}), &Gates::default());
        assert_eq!(edit::get(&kept, path), Some(&fields), "{name}");
    }
}

//! What plugins keep from one decision to the next never changes what they say.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::testing::{node_with, pod};
use crate::cluster::Cluster;
use crate::cycle::{Profile, Shuffle};
use crate::model::{Group, GroupKey, GroupKind, Node, Pod};

const STEPS: usize = 300;

/// All that was told, so that it can be told again to someone who knows nothing.
#[derive(Default)]
struct Told {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    groups: BTreeMap<GroupKey, Group>,
}

fn one_of<T: Clone>(chance: &mut Shuffle, choices: &[T]) -> T {
    choices[chance.below(choices.len() as u64) as usize].clone()
}

fn some_node(chance: &mut Shuffle, name: &str) -> Node {
    let mut labels = json!({"kubernetes.io/hostname": name});
    for key in ["topology.kubernetes.io/zone", "disk"] {
        let value = one_of(chance, &["", "one", "two"]);
        if !value.is_empty() {
            labels[key] = json!(value);
        }
    }
    let effect = one_of(chance, &["", "", "NoSchedule", "PreferNoSchedule"]);
    let taints = match effect {
        "" => json!([]),
        effect => json!([{"key": "k", "value": "v", "effect": effect}]),
    };
    let images = one_of(
        chance,
        &[
            json!([]),
            json!([{"names": ["i:latest"], "sizeBytes": 900_000_000}]),
        ],
    );
    let spec = json!({"taints": taints, "unschedulable": chance.below(5) == 0});
    let cpu = one_of(chance, &["1", "2", "8"]);
    let status = json!({"images": images, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 9}});
    node_with(
        name,
        json!({"labels": labels, "spec": spec, "status": status}),
    )
}

fn some_pod(chance: &mut Shuffle, name: &str) -> Pod {
    let keys = [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
        "disk",
    ];
    let app = one_of(chance, &["web", "db"]);
    let spread = |chance: &mut Shuffle| {
        json!({
            "maxSkew": 1 + chance.below(2),
            "topologyKey": one_of(chance, &keys),
            "whenUnsatisfiable": one_of(chance, &["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": one_of(chance, &["Honor", "Ignore"]),
            "nodeAffinityPolicy": one_of(chance, &["Honor", "Ignore"]),
        })
    };
    let constraints: Vec<Value> = (0..chance.below(3)).map(|_| spread(chance)).collect();
    let mut spec = json!({
        "topologySpreadConstraints": constraints,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": one_of(chance, &["0", "300m"])}}}],
    });
    if chance.below(3) == 0 {
        spec["nodeSelector"] = json!({"disk": one_of(chance, &["one", "two"])});
    }
    if chance.below(3) == 0 {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    if chance.below(3) == 0 {
        let term = json!({"topologyKey": one_of(chance, &keys), "labelSelector": {"matchLabels": {"app": "db"}}});
        let kind = one_of(chance, &["podAffinity", "podAntiAffinity"]);
        spec["affinity"] =
            json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    if chance.below(4) != 0 {
        spec["nodeName"] = json!(format!("n{}", chance.below(8)));
    }
    pod(name, json!({ "app": app }), spec)
}

/// Changes something, and keeps it in mind.
fn change(chance: &mut Shuffle, told: &mut Told, cluster: &mut Cluster) {
    let (node, name) = (
        format!("n{}", chance.below(8)),
        format!("p{}", chance.below(30)),
    );
    match chance.below(8) {
        0 => {
            cluster.remove_node(&node);
            told.nodes.remove(&node);
        }
        1 | 2 => {
            let facts = some_node(chance, &node);
            cluster.set_node(facts.clone());
            told.nodes.insert(node, facts);
        }
        3 => {
            cluster.remove_pod(&format!("default/{name}"));
            told.pods.remove(&name);
        }
        4 => {
            let key = GroupKey {
                kind: GroupKind::Service,
                namespace: "default".into(),
                name: "s".into(),
            };
            let selector = one_of(chance, &["app=web", "app=db", ""]).parse().unwrap();
            let group = Group {
                key: key.clone(),
                selector,
            };
            cluster.set_group(group.clone());
            told.groups.insert(key, group);
        }
        _ => {
            let facts = some_pod(chance, &name);
            cluster.set_pod(facts.clone());
            told.pods.insert(name, facts);
        }
    }
}

/// What is said of each node: the reasons against it, and its score.
fn said(profile: &Profile, cluster: &Cluster, uid: &str) -> BTreeMap<String, (Vec<String>, i64)> {
    let slot = cluster
        .pods()
        .get(cluster.pods().find(uid).unwrap())
        .unwrap();
    let nodes = cluster.nodes().order();
    let scores = profile.scores(slot, cluster, nodes);
    let checks = profile.checks(slot, cluster).unwrap();
    let each = nodes.iter().zip(scores).map(|(node, score)| {
        let objections = checks.objections(*node).into_iter();
        let reasons = objections.flat_map(|objection| checks.reasons(objection));
        let name = cluster.nodes().get(*node).name.to_string();
        (name, (reasons.collect(), score))
    });
    each.collect()
}

#[test]
fn what_is_kept_says_the_same_as_what_is_found_anew() {
    let mut chance = Shuffle::new(7);
    let (mut told, mut cluster) = (Told::default(), Cluster::default());
    let profile = Profile::usual("s");
    let (mut refused, mut asked) = (0, 0);
    for step in 0..STEPS {
        change(&mut chance, &mut told, &mut cluster);
        cluster.prepare();
        let mut fresh = Cluster::default();
        for node in told.nodes.values() {
            fresh.set_node(node.clone());
        }
        for pod in told.pods.values() {
            fresh.set_pod(pod.clone());
        }
        for group in told.groups.values() {
            fresh.set_group(group.clone());
        }
        fresh.prepare();
        let anew = Profile::usual("s");
        for pod in told.pods.values().filter(|pod| pod.node_name.is_none()) {
            let (kept, found) = (
                said(&profile, &cluster, &pod.uid),
                said(&anew, &fresh, &pod.uid),
            );
            assert_eq!(kept, found, "step {step}, {}", pod.key);
            asked += kept.len();
            refused += kept
                .values()
                .filter(|(reasons, _)| !reasons.is_empty())
                .count();
        }
    }
    assert!(
        refused > asked / 10 && refused < asked,
        "{refused} of {asked}: nothing was tried"
    );
}

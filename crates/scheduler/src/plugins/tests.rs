//! Plugin caches must not change results: after random changes, long-lived plugins and new ones must agree.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::testing::{node_with, pod};
use crate::cluster::ClusterState;
use crate::cycle::{Profile, SplitMix64Rng};
use crate::model::{Node, Pod, SpreadOwner, SpreadOwnerKey, SpreadOwnerKind};

const STEPS: usize = 300;

/// The current objects, to build a new cluster from.
#[derive(Default)]
struct RecordedObjects {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    groups: BTreeMap<SpreadOwnerKey, SpreadOwner>,
}

fn choose<T: Clone>(rng: &mut SplitMix64Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize].clone()
}

fn random_node(rng: &mut SplitMix64Rng, name: &str) -> Node {
    let mut labels = json!({"kubernetes.io/hostname": name});
    for key in ["topology.kubernetes.io/zone", "disk"] {
        let value = choose(rng, &["", "one", "two"]);
        if !value.is_empty() {
            labels[key] = json!(value);
        }
    }
    let effect = choose(rng, &["", "", "NoSchedule", "PreferNoSchedule"]);
    let taints = match effect {
        "" => json!([]),
        effect => json!([{"key": "k", "value": "v", "effect": effect}]),
    };
    let images = choose(
        rng,
        &[
            json!([]),
            json!([{"names": ["i:latest"], "sizeBytes": 900_000_000}]),
        ],
    );
    let spec = json!({"taints": taints, "unschedulable": rng.below(5) == 0});
    let cpu = choose(rng, &["1", "2", "8"]);
    let status = json!({"images": images, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 9}});
    node_with(
        name,
        json!({"labels": labels, "spec": spec, "status": status}),
    )
}

fn random_pod(rng: &mut SplitMix64Rng, name: &str) -> Pod {
    let keys = [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
        "disk",
    ];
    let app = choose(rng, &["web", "db"]);
    let spread = |rng: &mut SplitMix64Rng| {
        json!({
            "maxSkew": 1 + rng.below(2),
            "topologyKey": choose(rng, &keys),
            "whenUnsatisfiable": choose(rng, &["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": choose(rng, &["Honor", "Ignore"]),
            "nodeAffinityPolicy": choose(rng, &["Honor", "Ignore"]),
        })
    };
    let constraints: Vec<Value> = (0..rng.below(3)).map(|_| spread(rng)).collect();
    let mut spec = json!({
        "topologySpreadConstraints": constraints,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": choose(rng, &["0", "300m"])}}}],
    });
    if rng.below(3) == 0 {
        spec["nodeSelector"] = json!({"disk": choose(rng, &["one", "two"])});
    }
    if rng.below(3) == 0 {
        spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
    }
    if rng.below(3) == 0 {
        let term = json!({"topologyKey": choose(rng, &keys), "labelSelector": {"matchLabels": {"app": "db"}}});
        let kind = choose(rng, &["podAffinity", "podAntiAffinity"]);
        spec["affinity"] =
            json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    }
    if rng.below(4) != 0 {
        spec["nodeName"] = json!(format!("n{}", rng.below(8)));
    }
    pod(name, json!({ "app": app }), spec)
}

/// Applies a random change to the cluster and records it.
fn apply_random_change(
    rng: &mut SplitMix64Rng,
    objects: &mut RecordedObjects,
    cluster: &mut ClusterState,
) {
    let (node, name) = (format!("n{}", rng.below(8)), format!("p{}", rng.below(30)));
    match rng.below(8) {
        0 => {
            cluster.remove_node(&node);
            objects.nodes.remove(&node);
        }
        1 | 2 => {
            let object = random_node(rng, &node);
            cluster.set_node(object.clone());
            objects.nodes.insert(node, object);
        }
        3 => {
            cluster.remove_pod(&format!("default/{name}"));
            objects.pods.remove(&name);
        }
        4 => {
            let key = SpreadOwnerKey {
                kind: SpreadOwnerKind::Service,
                namespace: "default".into(),
                name: "s".into(),
            };
            let selector = choose(rng, &["app=web", "app=db", ""]).parse().unwrap();
            let group = SpreadOwner {
                key: key.clone(),
                selector,
            };
            cluster.set_spread_owner(group.clone());
            objects.groups.insert(key, group);
        }
        _ => {
            let pod = random_pod(rng, &name);
            cluster.set_pod(pod.clone());
            objects.pods.insert(name, pod);
        }
    }
}

/// For each node, the rejection reasons and the score.
fn filter_and_score(
    profile: &Profile,
    cluster: &ClusterState,
    uid: &str,
) -> BTreeMap<String, (Vec<String>, i64)> {
    let slot = cluster
        .pods()
        .get(cluster.pods().find(uid).unwrap())
        .unwrap();
    let nodes = cluster.nodes().order();
    let scores = profile.total_scores(slot, cluster, nodes);
    let checks = profile.build_filters(slot, cluster).unwrap();
    let each = nodes.iter().zip(scores).map(|(node, score)| {
        let rejections = checks.rejections(*node).into_iter();
        let reasons = rejections.flat_map(|rejection| checks.reasons(rejection));
        let name = cluster.nodes().get(*node).name.to_string();
        (name, (reasons.collect(), score))
    });
    each.collect()
}

#[test]
fn cached_results_equal_those_of_a_new_cluster() {
    let mut rng = SplitMix64Rng::new(7);
    let (mut objects, mut cluster) = (RecordedObjects::default(), ClusterState::default());
    let profile = Profile::with_default_plugins("s");
    let (mut rejected, mut checked) = (0, 0);
    for step in 0..STEPS {
        apply_random_change(&mut rng, &mut objects, &mut cluster);
        cluster.refresh_node_order();
        let mut fresh = ClusterState::default();
        for node in objects.nodes.values() {
            fresh.set_node(node.clone());
        }
        for pod in objects.pods.values() {
            fresh.set_pod(pod.clone());
        }
        for group in objects.groups.values() {
            fresh.set_spread_owner(group.clone());
        }
        fresh.refresh_node_order();
        let fresh_profile = Profile::with_default_plugins("s");
        for pod in objects.pods.values().filter(|pod| pod.node_name.is_none()) {
            let (cached, computed) = (
                filter_and_score(&profile, &cluster, &pod.uid),
                filter_and_score(&fresh_profile, &fresh, &pod.uid),
            );
            assert_eq!(cached, computed, "step {step}, {}", pod.key);
            checked += cached.len();
            rejected += cached
                .values()
                .filter(|(reasons, _)| !reasons.is_empty())
                .count();
        }
    }
    assert!(
        rejected > checked / 10 && rejected < checked,
        "{rejected} of {checked} rejected: the random clusters exercise too little"
    );
}

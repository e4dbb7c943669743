use serde_json::{Value, json};

use super::*;
use crate::model::{Node, Pod};
use crate::plugins::testing::{
    add_pod, cluster, filter_results, node_id, node_with, pod, rejection_detail, requests, scores,
};

const GPU: &str = "nvidia.com/gpu";

fn pod_requesting(name: &str, requested: Value, node: Option<&str>) -> Pod {
    let spec = json!({"containers": requests(requested), "nodeName": node});
    pod(name, json!({}), spec)
}

fn node_with_allocatable(name: &str, allocatable: Value) -> Node {
    node_with(name, json!({"status": {"allocatable": allocatable}}))
}

fn check(
    plugin: &NodeResourcesFit,
    requested: Value,
    used: Value,
    allocatable: Value,
    expected: &str,
) {
    let existing = pod_requesting("there", used.clone(), Some("a"));
    let mut cluster = cluster(
        [node_with_allocatable("a", allocatable.clone())],
        [existing],
    );
    let pod = add_pod(&mut cluster, pod_requesting("p", requested.clone(), None));
    let results = filter_results(plugin, &cluster, pod).unwrap();
    assert_eq!(
        results,
        [expected],
        "{requested} beside {used} of {allocatable}"
    );
}

#[test]
fn insufficient_resources_are_rejected_by_name() {
    let allocatable = json!({"cpu": "10m", "memory": 20, "pods": 32, GPU: 5, "hugepages-2Mi": 5, "ephemeral-storage": 20});
    for (requested, used, expected) in [
        (json!({}), json!({"cpu": "10m", "memory": 20}), ""),
        (
            json!({"cpu": "1m", "memory": 1}),
            json!({"cpu": "10m", "memory": 20}),
            "Insufficient cpu, Insufficient memory",
        ),
        (
            json!({"cpu": "1m", "memory": 1}),
            json!({"cpu": "5m", "memory": 5}),
            "",
        ),
        (
            json!({"cpu": "2m", "memory": 1}),
            json!({"cpu": "9m", "memory": 5}),
            "Insufficient cpu",
        ),
        (
            json!({"cpu": "1m", "memory": 16}),
            json!({"cpu": "5m", "memory": 5}),
            "Insufficient memory",
        ),
        (
            json!({"cpu": "5m", "memory": 15}),
            json!({"cpu": "5m", "memory": 5}),
            "",
        ),
        (json!({"cpu": "11m"}), json!({}), "!Insufficient cpu"),
        (
            json!({"cpu": "6m", "memory": 21}),
            json!({"cpu": "5m"}),
            "!Insufficient cpu, Insufficient memory",
        ),
        (
            json!({"ephemeral-storage": 10}),
            json!({"ephemeral-storage": 11}),
            "Insufficient ephemeral-storage",
        ),
        (
            json!({GPU: 3}),
            json!({GPU: 3}),
            "Insufficient nvidia.com/gpu",
        ),
        (json!({GPU: 6}), json!({}), "!Insufficient nvidia.com/gpu"),
        (json!({GPU: 0}), json!({GPU: 5}), ""),
        (
            json!({"example.com/none": 1}),
            json!({}),
            "!Insufficient example.com/none",
        ),
        (
            json!({"hugepages-2Mi": 5}),
            json!({"hugepages-2Mi": 5}),
            "Insufficient hugepages-2Mi",
        ),
        (
            json!({"kubernetes.io/own": 1}),
            json!({}),
            "!Insufficient kubernetes.io/own",
        ),
    ] {
        check(
            &NodeResourcesFit::default(),
            requested,
            used,
            allocatable.clone(),
            expected,
        );
    }
    let full = json!({"cpu": "10m", "memory": 20, "pods": 1});
    let usual = NodeResourcesFit::default();
    check(&usual, json!({}), json!({}), full.clone(), "Too many pods");
    check(
        &usual,
        json!({"cpu": "11m"}),
        json!({}),
        full,
        "!Too many pods, Insufficient cpu",
    );
}

#[test]
fn ignored_resources_are_not_checked() {
    let allocatable = json!({"cpu": "1", "memory": 20, "pods": 32});
    let by_name = NodeResourcesFit {
        ignored_resources: ["example.com/aaa".into(), "kubernetes.io/x".into()].into(),
        ..NodeResourcesFit::default()
    };
    let by_group = NodeResourcesFit {
        ignored_resource_groups: ["example.com".into()].into(),
        ..NodeResourcesFit::default()
    };
    for (plugin, requested, expected) in [
        (&by_name, json!({"example.com/aaa": 1}), ""),
        (
            &by_name,
            json!({"example.com/bbb": 1}),
            "!Insufficient example.com/bbb",
        ),
        (
            &by_name,
            json!({"kubernetes.io/x": 1}),
            "!Insufficient kubernetes.io/x",
        ),
        (&by_group, json!({"example.com/bbb": 1}), ""),
        (
            &by_group,
            json!({"example.org/bbb": 1}),
            "!Insufficient example.org/bbb",
        ),
    ] {
        check(plugin, requested, json!({}), allocatable.clone(), expected);
    }
}

#[test]
fn more_insufficient_resources_than_mask_bits_are_all_named() {
    let requested: serde_json::Map<String, Value> = (10..60)
        .map(|number| (format!("example.com/r{number}"), json!(1)))
        .collect();
    let mut cluster = cluster([node_with_allocatable("a", json!({"pods": 1}))], []);
    let pod = add_pod(&mut cluster, pod_requesting("p", requested.into(), None));
    let results = filter_results(&NodeResourcesFit::default(), &cluster, pod).unwrap();
    assert_eq!(results[0].matches("Insufficient").count(), 50);
}

#[test]
fn the_detail_names_requested_used_and_allocatable_amounts() {
    let existing = pod_requesting(
        "there",
        json!({"cpu": "1500m", "memory": "1Gi", GPU: 1}),
        Some("a"),
    );
    let allocatable = json!({"cpu": 2, "memory": "1536Mi", "pods": 1, GPU: 1});
    let mut cluster = cluster([node_with_allocatable("a", allocatable)], [existing]);
    let requested = json!({"cpu": "1", "memory": "1Gi", GPU: 2});
    let pod = add_pod(&mut cluster, pod_requesting("p", requested, None));
    let explanation = rejection_detail(&NodeResourcesFit::default(), &cluster, pod, "a");
    assert_eq!(
        explanation,
        "pods: 1 of 1 in use; cpu: 1 requested, 1500m of 2 in use; \
         memory: 1Gi requested, 1Gi of 1536Mi in use; nvidia.com/gpu: 2 requested, 1 of 1 in use"
    );
}

fn weights(resources: &[(&str, i64)]) -> Vec<ResourceSpec> {
    let resources = resources.iter();
    resources
        .map(|(name, weight)| ResourceSpec {
            name: (*name).into(),
            weight: *weight,
        })
        .collect()
}

/// (CPU, memory) pairs: allocatable of two nodes, used on them, requested by the pod; and the expected scores.
type ScoreCase = ([(i64, i64); 2], [(i64, i64); 2], (i64, i64), [i64; 2]);

fn check_scores(plugin: &NodeResourcesFit, (allocatable, used, requested, expected): ScoreCase) {
    let amounts = |(cpu, memory): (i64, i64)| json!({"cpu": format!("{cpu}m"), "memory": memory});
    let named = ["a", "b"];
    let nodes = named
        .iter()
        .zip(allocatable)
        .map(|(name, allocatable)| node_with_allocatable(name, amounts(allocatable)));
    let existing = named.iter().zip(used).filter(|(_, used)| *used != (0, 0));
    let existing = existing.map(|(name, used)| pod_requesting(name, amounts(used), Some(name)));
    let mut cluster = cluster(nodes, existing);
    let pod = add_pod(&mut cluster, pod_requesting("p", amounts(requested), None));
    assert_eq!(
        scores(plugin, &cluster, pod),
        expected,
        "{allocatable:?} {used:?} {requested:?}"
    );
}

#[test]
fn least_allocated_prefers_emptier_nodes() {
    let plugin = NodeResourcesFit::default();
    for case in [
        (
            [(4000, 10000), (6000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [37, 50],
        ),
        (
            [(10000, 20000); 2],
            [(3000, 0), (3000, 5000)],
            (3000, 5000),
            [57, 45],
        ),
        (
            [(10000, 20000), (10000, 50000)],
            [(3000, 0), (3000, 5000)],
            (3000, 5000),
            [57, 60],
        ),
        (
            [(4000, 10000); 2],
            [(3000, 0), (3000, 5000)],
            (3000, 0),
            [50, 25],
        ),
        ([(0, 0); 2], [(0, 0); 2], (1, 1), [0, 0]),
    ] {
        check_scores(&plugin, case);
    }
    let weighted = NodeResourcesFit {
        resources: weights(&[("memory", 2), ("cpu", 1)]),
        ..plugin
    };
    check_scores(
        &weighted,
        (
            [(4000, 10000), (6000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [41, 50],
        ),
    );
}

#[test]
fn most_allocated_prefers_fuller_nodes() {
    let plugin = NodeResourcesFit {
        strategy: ScoringStrategy::MostAllocated,
        ..NodeResourcesFit::default()
    };
    for case in [
        (
            [(4000, 10000), (6000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [62, 50],
        ),
        (
            [(10000, 20000); 2],
            [(3000, 0), (3000, 5000)],
            (3000, 5000),
            [42, 55],
        ),
        (
            [(5000, 10000), (10000, 9000)],
            [(0, 0); 2],
            (5000, 9000),
            [95, 75],
        ),
        (
            [(4000, 10000), (2000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [62, 75],
        ),
    ] {
        check_scores(&plugin, case);
    }
}

#[test]
fn requested_to_capacity_ratio_follows_its_shape() {
    let shape = |points: &[(i64, i64)]| {
        let points = points.iter();
        let points = points.map(|(utilization, score)| ShapePoint {
            utilization: *utilization,
            score: *score,
        });
        NodeResourcesFit {
            strategy: ScoringStrategy::RequestedToCapacityRatio(points.collect()),
            ..NodeResourcesFit::default()
        }
    };
    let least = shape(&[(0, 10), (100, 0)]);
    for case in [
        ([(4000, 10000); 2], [(0, 0); 2], (0, 0), [100, 100]),
        (
            [(4000, 10000), (6000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [38, 50],
        ),
        (
            [(4000, 10000); 2],
            [(3000, 5000), (0, 0)],
            (0, 0),
            [38, 100],
        ),
    ] {
        check_scores(&least, case);
    }
    // Memory scores 0 and is left out; only CPU counts, at 75 %.
    let curve = shape(&[(0, 0), (60, 0), (80, 8), (100, 10)]);
    check_scores(
        &curve,
        ([(4000, 10000); 2], [(0, 0); 2], (3000, 5000), [60, 60]),
    );
    check_scores(
        &curve,
        ([(4000, 10000); 2], [(0, 0); 2], (3600, 10000), [95, 95]),
    );
    check_scores(
        &curve,
        ([(4000, 10000); 2], [(0, 0); 2], (5000, 20000), [100, 100]),
    );
}

#[test]
fn unrequested_extended_resources_are_not_scored() {
    let plugin = NodeResourcesFit {
        strategy: ScoringStrategy::MostAllocated,
        resources: weights(&[(GPU, 3), ("cpu", 1)]),
        ..NodeResourcesFit::default()
    };
    for (requested, expected) in [
        (json!({"cpu": "500m", GPU: 1}), [20, 50]),
        (json!({"cpu": "500m"}), [50, 50]),
    ] {
        let nodes = [
            node_with_allocatable("a", json!({"cpu": 1, GPU: 10})),
            node_with_allocatable("b", json!({"cpu": 1})),
        ];
        let mut cluster = cluster(nodes, []);
        let pod = add_pod(&mut cluster, pod_requesting("p", requested.clone(), None));
        assert_eq!(scores(&plugin, &cluster, pod), expected, "{requested}");
    }
}

#[test]
fn scores_do_not_overflow() {
    let plugin = NodeResourcesFit::default();
    let immense = i64::MAX - 1;
    check_scores(
        &plugin,
        (
            [(4000, immense); 2],
            [(0, immense), (0, 0)],
            (0, immense),
            [50, 50],
        ),
    );
}

#[test]
fn hints_on_freed_resources() {
    let plugin = NodeResourcesFit::default();
    let (small, large) = (
        node_with_allocatable("a", json!({"cpu": 1, "memory": "1Gi", "pods": 10})),
        node_with_allocatable("a", json!({"cpu": 4, "memory": "1Gi", "pods": 10})),
    );
    let more_memory = node_with_allocatable("a", json!({"cpu": 1, "memory": "9Gi", "pods": 10}));
    let more_pods = node_with_allocatable("a", json!({"cpu": 4, "memory": "1Gi", "pods": 11}));
    for (new, old, requeues) in [
        (&large, Some(&small), true),
        (&small, Some(&large), false),
        (&more_memory, Some(&small), false),
        (&more_pods, Some(&large), true),
        (&large, None, true),
        (&small, None, false),
    ] {
        let mut cluster = cluster([new.clone()], []);
        let pod = add_pod(&mut cluster, pod_requesting("p", json!({"cpu": 2}), None));
        let node = node_id(&cluster, "a");
        let event = match old {
            Some(old) => ClusterEvent::NodeUpdated { node, old },
            None => ClusterEvent::NodeAdded(node),
        };
        let slot = cluster.pods().get(pod).unwrap();
        assert_eq!(
            plugin.queueing_hint(&event, slot, &cluster),
            requeues,
            "{event:?}"
        );
    }
    for (used, pods_max, requeues) in [
        (json!({"cpu": 1}), 10, true),
        (json!({"memory": 1}), 10, false),
        (json!({"memory": 1}), 1, true),
    ] {
        let allocatable =
            node_with_allocatable("a", json!({"cpu": 4, "memory": "1Gi", "pods": pods_max}));
        let mut cluster = cluster(
            [allocatable],
            [pod_requesting("there", used.clone(), Some("a"))],
        );
        let pod = add_pod(&mut cluster, pod_requesting("p", json!({"cpu": 2}), None));
        let removed = cluster.remove_pod("default/there").unwrap();
        let slot = cluster.pods().get(pod).unwrap();
        let event = ClusterEvent::AssignedPodDeleted(&removed);
        assert_eq!(
            plugin.queueing_hint(&event, slot, &cluster),
            requeues,
            "{used}"
        );
        let old = pod_requesting("p", json!({"cpu": 3}), None);
        assert!(plugin.queueing_hint(
            &ClusterEvent::PendingPodUpdated { old: &old },
            slot,
            &cluster
        ));
        let old = pod_requesting("p", json!({"cpu": 1}), None);
        assert!(!plugin.queueing_hint(
            &ClusterEvent::PendingPodUpdated { old: &old },
            slot,
            &cluster
        ));
    }
}

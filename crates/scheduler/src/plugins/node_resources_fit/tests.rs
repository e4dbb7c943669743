use serde_json::{Value, json};

use super::*;
use crate::model::{Node, Pod};
use crate::plugins::testing::{
    cluster, come, detail, id, node_with, pod, requests, scores, verdicts,
};

const GPU: &str = "nvidia.com/gpu";

fn asking(name: &str, asked: Value, node: Option<&str>) -> Pod {
    let spec = json!({"containers": requests(asked), "nodeName": node});
    pod(name, json!({}), spec)
}

fn with_room(name: &str, room: Value) -> Node {
    node_with(name, json!({"status": {"allocatable": room}}))
}

fn check(plugin: &NodeResourcesFit, asked: Value, used: Value, has: Value, expected: &str) {
    let there = asking("there", used.clone(), Some("a"));
    let mut cluster = cluster([with_room("a", has.clone())], [there]);
    let pod = come(&mut cluster, asking("p", asked.clone(), None));
    let said = verdicts(plugin, &cluster, pod).unwrap();
    assert_eq!(said, [expected], "{asked} beside {used} of {has}");
}

#[test]
fn a_pod_needs_room_for_what_it_asks_for() {
    let has = json!({"cpu": "10m", "memory": 20, "pods": 32, GPU: 5, "hugepages-2Mi": 5, "ephemeral-storage": 20});
    for (asked, used, expected) in [
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
            asked,
            used,
            has.clone(),
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
fn resources_that_others_look_after_are_ignored() {
    let has = json!({"cpu": "1", "memory": 20, "pods": 32});
    let by_name = NodeResourcesFit {
        ignored_resources: ["example.com/aaa".into(), "kubernetes.io/x".into()].into(),
        ..NodeResourcesFit::default()
    };
    let by_group = NodeResourcesFit {
        ignored_resource_groups: ["example.com".into()].into(),
        ..NodeResourcesFit::default()
    };
    for (plugin, asked, expected) in [
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
        check(plugin, asked, json!({}), has.clone(), expected);
    }
}

#[test]
fn more_resources_than_there_are_bits_are_all_named() {
    let asked: serde_json::Map<String, Value> = (10..60)
        .map(|number| (format!("example.com/r{number}"), json!(1)))
        .collect();
    let mut cluster = cluster([with_room("a", json!({"pods": 1}))], []);
    let pod = come(&mut cluster, asking("p", asked.into(), None));
    let said = verdicts(&NodeResourcesFit::default(), &cluster, pod).unwrap();
    assert_eq!(said[0].matches("Insufficient").count(), 50);
}

#[test]
fn it_is_said_how_much_is_missing_of_what() {
    let there = asking(
        "there",
        json!({"cpu": "1500m", "memory": "1Gi", GPU: 1}),
        Some("a"),
    );
    let room = json!({"cpu": 2, "memory": "1536Mi", "pods": 1, GPU: 1});
    let mut cluster = cluster([with_room("a", room)], [there]);
    let asked = json!({"cpu": "1", "memory": "1Gi", GPU: 2});
    let pod = come(&mut cluster, asking("p", asked, None));
    let said = detail(&NodeResourcesFit::default(), &cluster, pod, "a");
    assert_eq!(
        said,
        "1 pods are there, and 1 may be; cpu: 1 asked for, 1500m of 2 in use; \
         memory: 1Gi asked for, 1Gi of 1536Mi in use; nvidia.com/gpu: 2 asked for, 1 of 1 in use"
    );
}

fn weights(resources: &[(&str, i64)]) -> Vec<ResourceWeight> {
    let resources = resources.iter();
    resources
        .map(|(name, weight)| ResourceWeight {
            name: (*name).into(),
            weight: *weight,
        })
        .collect()
}

/// Processor and memory that two nodes have, that others use on them, that the pod asks for, and what comes of it.
type Case = ([(i64, i64); 2], [(i64, i64); 2], (i64, i64), [i64; 2]);

fn check_scores(plugin: &NodeResourcesFit, (has, used, asked, expected): Case) {
    let amounts = |(cpu, memory): (i64, i64)| json!({"cpu": format!("{cpu}m"), "memory": memory});
    let named = ["a", "b"];
    let nodes = named
        .iter()
        .zip(has)
        .map(|(name, has)| with_room(name, amounts(has)));
    let there = named.iter().zip(used).filter(|(_, used)| *used != (0, 0));
    let there = there.map(|(name, used)| asking(name, amounts(used), Some(name)));
    let mut cluster = cluster(nodes, there);
    let pod = come(&mut cluster, asking("p", amounts(asked), None));
    assert_eq!(
        scores(plugin, &cluster, pod),
        expected,
        "{has:?} {used:?} {asked:?}"
    );
}

#[test]
fn nodes_with_more_room_left_are_better() {
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
    let weighed = NodeResourcesFit {
        resources: weights(&[("memory", 2), ("cpu", 1)]),
        ..plugin
    };
    check_scores(
        &weighed,
        (
            [(4000, 10000), (6000, 10000)],
            [(0, 0); 2],
            (3000, 5000),
            [41, 50],
        ),
    );
}

#[test]
fn nodes_with_less_room_left_are_better_where_that_is_wanted() {
    let plugin = NodeResourcesFit {
        strategy: Strategy::MostAllocated,
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
fn a_curve_says_how_full_nodes_are_to_be() {
    let shape = |points: &[(i64, i64)]| {
        let points = points.iter();
        let points = points.map(|(utilization, score)| ShapePoint {
            utilization: *utilization,
            score: *score,
        });
        NodeResourcesFit {
            strategy: Strategy::RequestedToCapacityRatio(points.collect()),
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
    // What scores 0 does not count: only processor does, at 75 of 100.
    let bent = shape(&[(0, 0), (60, 0), (80, 8), (100, 10)]);
    check_scores(
        &bent,
        ([(4000, 10000); 2], [(0, 0); 2], (3000, 5000), [60, 60]),
    );
    check_scores(
        &bent,
        ([(4000, 10000); 2], [(0, 0); 2], (3600, 10000), [95, 95]),
    );
    check_scores(
        &bent,
        ([(4000, 10000); 2], [(0, 0); 2], (5000, 20000), [100, 100]),
    );
}

#[test]
fn resources_that_a_pod_does_not_ask_for_do_not_count() {
    let plugin = NodeResourcesFit {
        strategy: Strategy::MostAllocated,
        resources: weights(&[(GPU, 3), ("cpu", 1)]),
        ..NodeResourcesFit::default()
    };
    for (asked, expected) in [
        (json!({"cpu": "500m", GPU: 1}), [20, 50]),
        (json!({"cpu": "500m"}), [50, 50]),
    ] {
        let nodes = [
            with_room("a", json!({"cpu": 1, GPU: 10})),
            with_room("b", json!({"cpu": 1})),
        ];
        let mut cluster = cluster(nodes, []);
        let pod = come(&mut cluster, asking("p", asked.clone(), None));
        assert_eq!(scores(&plugin, &cluster, pod), expected, "{asked}");
    }
}

#[test]
fn immense_amounts_are_no_trouble() {
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
fn room_that_is_made_helps() {
    let plugin = NodeResourcesFit::default();
    let (small, large) = (
        with_room("a", json!({"cpu": 1, "memory": "1Gi", "pods": 10})),
        with_room("a", json!({"cpu": 4, "memory": "1Gi", "pods": 10})),
    );
    let more_memory = with_room("a", json!({"cpu": 1, "memory": "9Gi", "pods": 10}));
    let more_pods = with_room("a", json!({"cpu": 4, "memory": "1Gi", "pods": 11}));
    for (now, before, helps) in [
        (&large, Some(&small), true),
        (&small, Some(&large), false),
        (&more_memory, Some(&small), false),
        (&more_pods, Some(&large), true),
        (&large, None, true),
        (&small, None, false),
    ] {
        let mut cluster = cluster([now.clone()], []);
        let pod = come(&mut cluster, asking("p", json!({"cpu": 2}), None));
        let node = id(&cluster, "a");
        let event = match before {
            Some(before) => Event::NodeChanged { node, before },
            None => Event::NodeAdded(node),
        };
        let slot = cluster.pods().get(pod).unwrap();
        assert_eq!(plugin.may_help(&event, slot, &cluster), helps, "{event:?}");
    }
    for (used, pods_max, helps) in [
        (json!({"cpu": 1}), 10, true),
        (json!({"memory": 1}), 10, false),
        (json!({"memory": 1}), 1, true),
    ] {
        let room = with_room("a", json!({"cpu": 4, "memory": "1Gi", "pods": pods_max}));
        let mut cluster = cluster([room], [asking("there", used.clone(), Some("a"))]);
        let pod = come(&mut cluster, asking("p", json!({"cpu": 2}), None));
        let departed = cluster.remove_pod("default/there").unwrap();
        let slot = cluster.pods().get(pod).unwrap();
        let event = Event::PodLeft(&departed);
        assert_eq!(plugin.may_help(&event, slot, &cluster), helps, "{used}");
        let before = asking("p", json!({"cpu": 3}), None);
        assert!(plugin.may_help(&Event::Itself { before: &before }, slot, &cluster));
        let before = asking("p", json!({"cpu": 1}), None);
        assert!(!plugin.may_help(&Event::Itself { before: &before }, slot, &cluster));
    }
}

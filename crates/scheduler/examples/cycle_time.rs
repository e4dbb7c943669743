//! Benchmark: duration of a scheduling cycle, by kind of pod:
//! `cargo run --release -p rhumb-scheduler --example cycle_time [NODES]`.

use std::time::{Duration, Instant};

use rhumb_scheduler::cluster::{ClusterState, PodUpsertResult};
use rhumb_scheduler::cycle::{NodeSearch, Profile, ScheduleResult};
use rhumb_scheduler::model::{Node, Pod};

const DECISIONS: usize = 2000;

fn main() {
    let nodes = std::env::args().nth(1);
    let nodes: usize = nodes.and_then(|nodes| nodes.parse().ok()).unwrap_or(5000);
    let term = r#"{"labelSelector":{"matchLabels":{"color":"green"}},"topologyKey":"kubernetes.io/hostname","namespaceSelector":{}}"#;
    let near = r#"{"labelSelector":{"matchLabels":{"color":"green"}},"topologyKey":"topology.kubernetes.io/zone"}"#;
    let spread = |key: &str, when: &str| {
        format!(
            r#""topologySpreadConstraints":[{{"maxSkew":5,"topologyKey":"{key}","whenUnsatisfiable":"{when}","labelSelector":{{"matchLabels":{{"color":"green"}}}}}}]"#
        )
    };
    let zone = "topology.kubernetes.io/zone";
    let host = "kubernetes.io/hostname";
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (name, spec) in [
        ("plain", String::new()),
        (
            "required anti-affinity by hostname",
            format!(r#""affinity":{{"podAntiAffinity":{{"{required}":[{term}]}}}}"#),
        ),
        (
            "required affinity by zone",
            format!(r#""affinity":{{"podAffinity":{{"{required}":[{near}]}}}}"#),
        ),
        (
            "preferred anti-affinity by hostname",
            format!(
                r#""affinity":{{"podAntiAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":1,"podAffinityTerm":{term}}}]}}}}"#
            ),
        ),
        ("required spread over zones", spread(zone, "DoNotSchedule")),
        ("required spread over nodes", spread(host, "DoNotSchedule")),
        (
            "preferred spread over zones",
            spread(zone, "ScheduleAnyway"),
        ),
        (
            "node selector",
            r#""nodeSelector":{"disk":"ssd"}"#.to_owned(),
        ),
    ] {
        match measure(nodes, &spec) {
            Some((each, placed)) => {
                println!("{name:40} {each:>10.1?} a decision, {placed} placed");
            }
            None => println!("{name:40} failed to decode an object"),
        }
    }
}

/// The median cycle duration, and how many pods were placed.
fn measure(nodes: usize, spec: &str) -> Option<(Duration, usize)> {
    let mut cluster = ClusterState::default();
    for number in 0..nodes {
        cluster.set_node(node(number)?);
    }
    for number in 0..nodes / 5 {
        let on = format!(r#""nodeName":"node-{}""#, number * 5);
        cluster.set_pod(pod(&format!("there-{number}"), "blue", &on)?);
    }
    cluster.refresh_node_order();
    let profile = Profile::with_default_plugins("default-scheduler");
    profile.register_topologies(&mut cluster);
    let mut search = NodeSearch::default();
    let mut times = Vec::with_capacity(DECISIONS);
    let mut placed = 0;
    for number in 0..DECISIONS {
        let pod = pod(&format!("pod-{number}"), "green", spec)?;
        let PodUpsertResult::Added(pod) = cluster.set_pod(pod) else {
            return None;
        };
        let begin = Instant::now();
        let decision = profile.schedule(&cluster, pod, &mut search);
        times.push(begin.elapsed());
        if let ScheduleResult::Scheduled { node, .. } = decision {
            cluster.assume(pod, node);
            placed += 1;
        }
    }
    times.sort();
    Some((*times.get(DECISIONS / 2)?, placed))
}

fn node(number: usize) -> Option<Node> {
    let zone = number % 3;
    let disk = if number.is_multiple_of(2) {
        "ssd"
    } else {
        "hdd"
    };
    let json = format!(
        r#"{{"metadata":{{"name":"node-{number}","labels":{{"kubernetes.io/hostname":"node-{number}","topology.kubernetes.io/zone":"zone-{zone}","disk":"{disk}"}}}},"status":{{"allocatable":{{"cpu":"4","memory":"32Gi","pods":"110"}}}}}}"#
    );
    Node::from_json(json.as_bytes()).ok()
}

fn pod(name: &str, color: &str, spec: &str) -> Option<Pod> {
    let comma = if spec.is_empty() { "" } else { "," };
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"{name}","labels":{{"color":"{color}"}}}},"spec":{{"containers":[{{"name":"c","image":"pause:3","resources":{{"requests":{{"cpu":"100m","memory":"500Mi"}}}}}}]{comma}{spec}}}}}"#
    );
    Pod::from_json(json.as_bytes()).ok()
}

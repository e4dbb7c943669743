//! Checks on random clusters that equivalence classes and groups are correct, by evaluating every pair directly.

use rhumb_netpol::verdict::{ConnectionEndpoint, ConnectionQuery};
use rhumb_seeded_rng::SeededRng;
use serde_json::{Value, json};

use super::pod_groups::PodGroups;
use super::reachability::{DirectionVerdicts, ReachabilityMatrix};
use crate::netpol::check::deciding_pair;
use crate::netpol::cluster::{NetpolCluster, NetpolObjects};
use crate::netpol::endpoints::PortAndProtocol;

const BLOCKS: [&str; 5] = [
    "10.0.0.0/8",
    "10.0.0.0/28",
    "0.0.0.0/0",
    "fd00::/64",
    "fd00::/124",
];

fn pod(rng: &mut SeededRng, number: u64, has_host_pods: bool) -> Value {
    let namespace = rng.choose(&["a", "b"]);
    let node = rng.below(3);
    let host = format!("10.1.0.{node}");
    let is_on_host = has_host_pods && rng.one_in(8);
    // Sometimes from a small range, so that two pods claim one address.
    let own = rng.choose(&[8, 250, 250, 250]);
    let own = rng.below(own);
    let (v4, v6) = (format!("10.0.0.{own}"), format!("fd00::{own:x}"));
    let addresses = match (is_on_host, rng.below(9)) {
        (true, _) => json!([{"ip": host}]),
        (_, 0) => json!([{"ip": v6}]),
        (_, 1) => json!([]),
        (_, 2) => json!([{"ip": v4}, {"ip": v6}]),
        _ => json!([{"ip": v4}]),
    };
    let web = json!({"name": "web", "containerPort": rng.choose(&[80, 80, 8080])});
    let ports = match rng.below(4) {
        0 => json!([web, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]),
        _ => json!([web]),
    };
    json!({
        "metadata": {"name": format!("p{number}"), "namespace": namespace, "labels": {
            "app": rng.choose(&["x", "y", "z"]),
            "nobody-looks-at": number.to_string(),
        }},
        "spec": {"nodeName": format!("n{node}"), "hostNetwork": is_on_host, "containers": [{"ports": ports}]},
        "status": {"hostIP": host, "podIPs": addresses, "phase": rng.choose(&["Running", "Running", "Succeeded"])},
    })
}

fn peer(rng: &mut SeededRng) -> Value {
    let pods = json!({"matchLabels": {"app": rng.choose(&["x", "y", "z"])}});
    let namespaces = rng.choose(&[json!({}), json!({"matchLabels": {"team": "b"}})]);
    match rng.below(4) {
        0 => json!({"ipBlock": {"cidr": rng.choose(&BLOCKS)}}),
        1 => json!({"podSelector": pods}),
        2 => json!({"namespaceSelector": namespaces}),
        _ => json!({"podSelector": pods, "namespaceSelector": namespaces}),
    }
}

fn rule(rng: &mut SeededRng, peers: &str) -> Value {
    let list: Vec<Value> = (0..rng.below(3)).map(|_| peer(rng)).collect();
    let ports = rng.choose(&[
        json!([]),
        json!([{"port": "web"}]),
        json!([{"port": 80, "endPort": 90}]),
        json!([{"port": "dns", "protocol": "UDP"}, {"port": 5}]),
    ]);
    json!({peers: list, "ports": ports})
}

fn policy(rng: &mut SeededRng, number: usize) -> Value {
    let selector = rng.choose(&[json!({}), json!({"matchLabels": {"app": "x"}})]);
    let ingress: Vec<Value> = (0..rng.below(3)).map(|_| rule(rng, "from")).collect();
    let egress: Vec<Value> = (0..rng.below(3)).map(|_| rule(rng, "to")).collect();
    let types = rng.choose(&[
        json!(["Ingress"]),
        json!(["Egress"]),
        json!(["Ingress", "Egress"]),
    ]);
    json!({
        "metadata": {"name": format!("q{number}"), "namespace": rng.choose(&["a", "b"])},
        "spec": {"podSelector": selector, "policyTypes": types, "ingress": ingress, "egress": egress},
    })
}

fn cluster(seed: u64) -> NetpolCluster {
    let mut rng = SeededRng::new(seed);
    let read = |value: Value| serde_json::from_value(value).expect("an object");
    let namespace = json!({"metadata": {"name": "b", "labels": {"team": "b"}}});
    let policies = 1 + rng.below(4);
    // With host-network pods, the node is part of the equivalence key, so there are more classes.
    let has_host_pods = rng.one_in(3);
    NetpolCluster::new(NetpolObjects {
        reports: None,
        namespaces: vec![serde_json::from_value(namespace).expect("a namespace")],
        pods: (0..24)
            .map(|at| read(pod(&mut rng, at, has_host_pods)))
            .collect(),
        policies: (0..policies)
            .map(|at| serde_json::from_value(policy(&mut rng, at)).expect("a policy"))
            .collect(),
        notes: Vec::new(),
    })
}

fn verdict_of_single_query(
    cluster: &NetpolCluster,
    from: &ConnectionEndpoint,
    to: &ConnectionEndpoint,
    port: PortAndProtocol,
) -> Option<DirectionVerdicts> {
    let question = ConnectionQuery {
        from: from.clone(),
        to: to.clone(),
        protocol: port.protocol,
        port: port.port,
    };
    let verdict = cluster.engine.evaluate(&question)?;
    let pair = deciding_pair(&verdict.pairs)?;
    Some(DirectionVerdicts {
        ingress: pair.ingress.is_allowed(),
        egress: pair.egress.is_allowed(),
    })
}

#[test]
fn pods_of_one_equivalence_class_have_equal_verdicts() {
    let mut merged = 0;
    for seed in 0..60 {
        let cluster = cluster(seed);
        let reach = ReachabilityMatrix::find(&cluster, &[], &[]).expect("answers");
        merged += reach.pods.len() - reach.classes.len();
        for (row, from) in reach.pods.iter().enumerate() {
            for (column, to) in reach.pods.iter().enumerate() {
                let ends = [from, to].map(|name| ConnectionEndpoint::Pod((*name).clone()));
                let queried = reach.queried_ports(column).iter();
                let want = queried.filter_map(|queried| {
                    verdict_of_single_query(&cluster, &ends[0], &ends[1], queried.port)
                });
                let want: Vec<DirectionVerdicts> = want.collect();
                assert_eq!(reach.answers(row, column), want, "seed {seed}: {from} {to}");
            }
        }
    }
    assert!(
        merged > 60,
        "too few merges for a meaningful test: {merged}"
    );
}

#[test]
fn pods_of_one_group_have_equal_reachability() {
    let mut together = 0;
    for seed in 0..60 {
        let cluster = cluster(seed);
        let reach = ReachabilityMatrix::find(&cluster, &[], &[]).expect("answers");
        let groups = PodGroups::new(&reach, 0);
        let shown: usize = groups.list.iter().map(|group| group.members.len()).sum();
        assert_eq!(shown, reach.pods.len(), "seed {seed}");
        together += reach.classes.len() - groups.list.len();
        for from in &groups.list {
            for to in &groups.list {
                let pairs = from
                    .members
                    .iter()
                    .flat_map(|from| to.members.iter().map(|to| (*from, *to)));
                let answers = pairs
                    .filter(|(from, to)| from != to)
                    .map(|(from, to)| reach.answers(from, to));
                let answers: Vec<&[DirectionVerdicts]> = answers.collect();
                let (one, other) = (from.full_name(), to.full_name());
                assert!(
                    answers.windows(2).all(|two| two[0] == two[1]),
                    "seed {seed}: {one} {other}"
                );
            }
        }
    }
    assert!(
        together > 10,
        "too few merges for a meaningful test: {together}"
    );
}

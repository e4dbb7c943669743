//! Ports of rules.

use serde_json::{Value, json};

use crate::cluster::{ClusterHarness, two_by_two};
use crate::objects::{app, egress, ingress, pod};

/// A policy for all pods of `a` with this ingress rule.
fn to(ports: Value) -> ClusterHarness {
    two_by_two().with(ingress("a/p", json!([{"ports": ports}])))
}

/// A pod with one container that has these ports: name, protocol, number.
fn with_ports(name: &str, addresses: &str, ports: &[(&str, &str, u16)]) -> Value {
    let container =
        json!({"ports": ports.iter().map(|port| container_port(*port)).collect::<Vec<_>>()});
    pod(
        name,
        addresses,
        json!({"spec": {"containers": [container]}}),
    )
}

fn container_port((name, protocol, number): (&str, &str, u16)) -> Value {
    json!({"name": name, "protocol": protocol, "containerPort": number})
}

#[test]
fn an_empty_port_list_allows_all_ports() {
    for ports in [json!([]), Value::Null] {
        let mut cluster = to(ports);
        cluster.allows(&[
            "b/y -> a/x:1/TCP",
            "b/y -> a/x:65535/UDP",
            "b/y -> a/x:80/SCTP",
        ]);
    }
}

#[test]
fn an_empty_port_allows_all_tcp_ports() {
    let mut cluster = to(json!([{}]));
    cluster.allows(&["b/y -> a/x:1/TCP", "b/y -> a/x:65535/TCP"]);
    cluster.denies(&["b/y -> a/x:80/UDP", "b/y -> a/x:80/SCTP"]);
}

#[test]
fn a_protocol_without_port_allows_all_its_ports() {
    let mut cluster = to(json!([{"protocol": "UDP"}]));
    cluster.allows(&["b/y -> a/x:1/UDP", "b/y -> a/x:65535/UDP"]);
    cluster.denies(&["b/y -> a/x:80/TCP", "b/y -> a/x:80/SCTP"]);
}

#[test]
fn a_port_without_protocol_defaults_to_tcp() {
    let mut cluster = to(json!([{"port": 80}]));
    cluster.allows(&["b/y -> a/x:80/TCP"]);
    cluster.denies(&[
        "b/y -> a/x:80/UDP",
        "b/y -> a/x:80/SCTP",
        "b/y -> a/x:81/TCP",
        "b/y -> a/x:79/TCP",
    ]);
}

#[test]
fn any_of_several_ports_allows() {
    let mut cluster = to(json!([{"port": 80}, {"port": 53, "protocol": "UDP"}, {"port": "web"}]));
    cluster.allows(&[
        "b/y -> a/x:80/TCP",
        "b/y -> a/x:53/UDP",
        "b/y -> a/x:8080/TCP",
    ]);
    cluster.denies(&[
        "b/y -> a/x:53/TCP",
        "b/y -> a/x:80/UDP",
        "b/y -> a/x:8080/UDP",
    ]);
}

#[test]
fn the_port_is_that_of_the_destination() {
    let mut cluster = two_by_two().with(egress("a/p", json!([{"ports": [{"port": 80}]}])));
    cluster.allows(&["a/x -> b/x:80/TCP", "a/x -> 203.0.113.1:80/TCP"]);
    cluster.denies(&["a/x -> b/x:81/TCP"]);
}

#[test]
fn end_port_is_inclusive() {
    let mut cluster = to(json!([
        {"port": 100, "endPort": 200, "protocol": "UDP"},
        {"port": 65000, "endPort": 65535},
        {"port": 7, "endPort": 7},
    ]));
    cluster.allows(&[
        "b/y -> a/x:100/UDP",
        "b/y -> a/x:150/UDP",
        "b/y -> a/x:200/UDP",
        "b/y -> a/x:65535/TCP",
        "b/y -> a/x:7/TCP",
    ]);
    cluster.denies(&[
        "b/y -> a/x:99/UDP",
        "b/y -> a/x:201/UDP",
        "b/y -> a/x:150/TCP",
        "b/y -> a/x:64999/TCP",
        "b/y -> a/x:8/TCP",
    ]);
}

#[test]
fn adjacent_and_overlapping_port_ranges_are_united() {
    let mut cluster = to(
        json!([{"port": 10, "endPort": 20}, {"port": 15, "endPort": 30}, {"port": 31}, {"port": 12, "endPort": 13}]),
    );
    cluster.allows(&[
        "b/y -> a/x:10/TCP",
        "b/y -> a/x:21/TCP",
        "b/y -> a/x:30/TCP",
        "b/y -> a/x:31/TCP",
    ]);
    cluster.denies(&["b/y -> a/x:9/TCP", "b/y -> a/x:32/TCP"]);
}

#[test]
fn the_first_and_the_last_port_are_supported() {
    let mut cluster = to(json!([{"port": 65534}, {"port": 65535}, {"port": 1}]));
    cluster.allows(&["b/y -> a/x:1/TCP", "b/y -> a/x:65535/TCP"]);
    cluster.denies(&["b/y -> a/x:2/TCP", "b/y -> a/x:65533/TCP"]);
    let mut cluster = to(json!([{"port": 1, "endPort": 65535}]));
    cluster.allows(&["b/y -> a/x:1/TCP", "b/y -> a/x:65535/TCP"]);
    cluster.denies(&["b/y -> a/x:1/UDP"]);
}

#[test]
fn end_port_requires_a_numeric_port_not_above_it() {
    let wrong = [
        json!({"port": 80, "endPort": 79}),
        json!({"port": "web", "endPort": 9000}),
        json!({"endPort": 9000}),
        json!({"port": 80, "endPort": 65536}),
        json!({"port": 0, "endPort": 9000}),
    ];
    for port in wrong {
        let mut cluster = to(json!([port]));
        cluster.denies(&[
            "b/y -> a/x:79/TCP",
            "b/y -> a/x:80/TCP",
            "b/y -> a/x:8080/TCP",
            "b/y -> a/x:9000/TCP",
        ]);
    }
}

#[test]
fn invalid_ports_and_protocols_allow_nothing() {
    let wrong = [
        json!({"port": 0}),
        json!({"port": -80}),
        json!({"port": 65536}),
        json!({"port": 65616}),
        json!({"port": 80, "protocol": "tcp"}),
        json!({"port": 80, "protocol": "ICMP"}),
        json!({"protocol": "ICMP"}),
        json!({"protocol": ""}),
    ];
    for port in wrong {
        let mut cluster = to(json!([port]));
        cluster.denies(&[
            "b/y -> a/x:80/TCP",
            "b/y -> a/x:80/UDP",
            "b/y -> a/x:80/SCTP",
        ]);
    }
}

#[test]
fn sctp_isolates_and_is_never_treated_as_tcp() {
    let mut cluster = to(json!([{"port": 80, "protocol": "SCTP"}]));
    cluster.allows(&["b/y -> a/x:80/SCTP"]);
    cluster.denies(&[
        "b/y -> a/x:80/TCP",
        "b/y -> a/x:80/UDP",
        "b/y -> a/x:81/SCTP",
    ]);
    let mut cluster = to(json!([{"port": 80, "protocol": "TCP"}]));
    cluster.denies(&["b/y -> a/x:80/SCTP"]);
}

#[test]
fn a_named_port_is_resolved_on_the_destination_pod_for_ingress() {
    let mut cluster = to(json!([{"port": "api"}]))
        .with(with_ports("a/one", "10.0.1.11", &[("api", "TCP", 80)]))
        .with(with_ports(
            "a/two",
            "10.0.1.12 fd00:0:0:1::12",
            &[("api", "TCP", 81)],
        ))
        .with(with_ports("b/from", "10.0.2.11", &[("api", "TCP", 82)]));
    cluster.allows(&[
        "b/from -> a/one:80/TCP",
        "b/from -> a/two:81/TCP",
        "2001:db8::1 -> a/two:81/TCP",
    ]);
    cluster.denies(&[
        "b/from -> a/one:81/TCP",
        "b/from -> a/two:80/TCP",
        "b/from -> a/one:82/TCP",
        "2001:db8::1 -> a/two:80/TCP",
    ]);
}

#[test]
fn a_named_port_is_resolved_on_the_destination_pod_for_egress() {
    let rules = json!([{"to": [{"namespaceSelector": {}}], "ports": [{"port": "api"}]}]);
    let mut cluster = two_by_two()
        .with(egress("a/p", rules))
        .with(with_ports("a/from", "10.0.1.11", &[("api", "TCP", 82)]))
        .with(with_ports("b/one", "10.0.2.11", &[("api", "TCP", 80)]))
        .with(with_ports("b/two", "10.0.2.12", &[("api", "TCP", 81)]));
    cluster.allows(&["a/from -> b/one:80/TCP", "a/from -> b/two:81/TCP"]);
    cluster.denies(&[
        "a/from -> b/one:81/TCP",
        "a/from -> b/two:80/TCP",
        "a/from -> b/one:82/TCP",
    ]);
}

#[test]
fn a_named_port_of_a_rule_with_peers_is_resolved_on_those_peers_only() {
    let rules = json!([{"to": [{"namespaceSelector": {}, "podSelector": app("one")}], "ports": [{"port": "api"}]}]);
    let mut cluster = two_by_two()
        .with(egress("a/p", rules))
        .with(with_ports("b/one", "10.0.2.11", &[("api", "TCP", 80)]))
        .with(with_ports("b/two", "10.0.2.12", &[("api", "TCP", 80)]));
    cluster.allows(&["a/x -> b/one:80/TCP"]);
    cluster.denies(&["a/x -> b/two:80/TCP"]);
}

#[test]
fn a_named_port_of_a_rule_without_peers_is_resolved_on_any_pod() {
    let mut cluster = two_by_two()
        .with(egress("a/p", json!([{"ports": [{"port": "api"}]}])))
        .with(with_ports("b/one", "10.0.2.11", &[("api", "TCP", 80)]))
        .with(with_ports("c/two", "10.0.3.12", &[("api", "TCP", 81)]));
    cluster.allows(&["a/x -> b/one:80/TCP", "a/x -> c/two:81/TCP"]);
    cluster.denies(&["a/x -> b/one:81/TCP", "a/x -> 203.0.113.1:80/TCP"]);
}

#[test]
fn a_named_port_with_an_ip_block_is_resolved_on_the_pod_with_the_address() {
    let rules = json!([{"to": [{"ipBlock": {"cidr": "10.0.2.0/24"}}], "ports": [{"port": "api"}]}]);
    let mut cluster = two_by_two()
        .with(egress("a/p", rules))
        .with(with_ports("b/one", "10.0.2.11", &[("api", "TCP", 80)]))
        .with(with_ports("c/two", "10.0.3.12", &[("api", "TCP", 80)]));
    cluster.allows(&["a/x -> b/one:80/TCP"]);
    cluster.denies(&[
        "a/x -> c/two:80/TCP",
        "a/x -> b/one:81/TCP",
        "a/x -> 10.0.2.99:80/TCP",
    ]);
}

#[test]
fn a_named_port_must_have_the_rules_protocol() {
    let mut cluster = to(json!([{"port": "dns", "protocol": "UDP"}])).with(with_ports(
        "a/z",
        "10.0.1.11",
        &[("dns", "TCP", 53)],
    ));
    cluster.denies(&["b/y -> a/z:53/UDP", "b/y -> a/z:53/TCP"]);
}

#[test]
fn a_container_port_without_protocol_defaults_to_tcp() {
    let mut cluster = to(json!([{"port": "web"}]));
    cluster.allows(&["b/y -> a/x:8080/TCP"]);
    let mut cluster = to(json!([{"port": "web", "protocol": "UDP"}]));
    cluster.denies(&["b/y -> a/x:8080/UDP"]);
}

#[test]
fn one_name_can_be_a_tcp_port_and_a_udp_port() {
    let ports = [("dns", "TCP", 53), ("dns", "UDP", 5353)];
    let with = |protocol: &str| {
        let port = json!([{"port": "dns", "protocol": protocol}]);
        to(port).with(with_ports("a/z", "10.0.1.11", &ports))
    };
    with("TCP").allows(&["b/y -> a/z:53/TCP"]);
    with("TCP").denies(&["b/y -> a/z:5353/UDP", "b/y -> a/z:5353/TCP"]);
    with("UDP").allows(&["b/y -> a/z:5353/UDP"]);
    with("UDP").denies(&["b/y -> a/z:53/TCP", "b/y -> a/z:53/UDP"]);
}

#[test]
fn a_duplicate_port_name_resolves_to_the_first_and_sidecars_come_last() {
    let containers = |ports: [u16; 2]| {
        ports.map(|port| json!({"ports": [container_port(("api", "TCP", port))]}))
    };
    let init = |restart: &str, port: u16| {
        let ports = [container_port(("api", "TCP", port))];
        json!({"ports": ports, "restartPolicy": restart})
    };
    let of = |spec: Value| {
        to(json!([{"port": "api"}])).with(pod("a/z", "10.0.1.11", json!({"spec": spec})))
    };
    let init_containers = json!([init("", 90), init("Always", 91), init("Always", 92)]);
    let mut cluster =
        of(json!({"containers": containers([80, 81]), "initContainers": init_containers}));
    cluster.allows(&["b/y -> a/z:80/TCP"]);
    cluster.denies(&[
        "b/y -> a/z:81/TCP",
        "b/y -> a/z:90/TCP",
        "b/y -> a/z:91/TCP",
    ]);
    let mut cluster = of(json!({"containers": [{}], "initContainers": init_containers}));
    cluster.allows(&["b/y -> a/z:91/TCP"]);
    cluster.denies(&["b/y -> a/z:90/TCP", "b/y -> a/z:92/TCP"]);
}

#[test]
fn an_unresolved_named_port_allows_nothing() {
    let mut cluster = to(json!([{"port": "api"}]));
    cluster.denies(&["b/y -> a/x:80/TCP", "b/y -> a/x:8080/TCP"]);
}

#[test]
fn named_ports_are_not_resolved_on_external_addresses() {
    let rules = json!([{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": "web"}]}]);
    let mut cluster = two_by_two().with(egress("a/p", rules));
    cluster.denies(&["a/x -> 203.0.113.1:8080/TCP", "a/x -> 192.168.0.2:8080/TCP"]);
    cluster.allows(&["a/x -> 10.0.2.1:8080/TCP"]);
}

//! Services with DNAT: packets to a virtual address go to a pod, and policies apply to the pod.

use std::net::IpAddr;
use std::sync::Arc;

use rhumb_netpol::Protocol;

use crate::cluster::{NetpolTestCluster, with_each_link_type};
use crate::network_namespace::NetworkNamespace;
use crate::probe::{ConnectionProbe, check_all};

/// One service per backend pod; its port is 1000 of all protocols, the pod's is 80.
const SERVICES: [(&str, &str, &str); 2] = [
    ("10.96.0.1", "fd96::1", "x/a"),
    ("10.96.0.2", "fd96::2", "x/b"),
];
const PORT: u16 = 1000;

/// DNAT rules on every node. The source of a pod that reaches itself is masqueraded, because it would drop a packet
/// from itself.
fn translate(cluster: &NetpolTestCluster) {
    let mut forward = String::new();
    let mut back = String::new();
    for (v4, v6, pod) in SERVICES {
        let pod = cluster.pod(pod);
        let (pod4, pod6) = (pod.address(true), pod.address(false));
        forward += &format!(
            "ip daddr {v4} meta l4proto {{ tcp, udp, sctp }} th dport {PORT} dnat ip to {pod4}:80\n\
             ip6 daddr {v6} meta l4proto {{ tcp, udp, sctp }} th dport {PORT} dnat ip6 to [{pod6}]:80\n"
        );
        back += &format!(
            "ip saddr {pod4} ip daddr {pod4} masquerade\n\
             ip6 saddr {pod6} ip6 daddr {pod6} masquerade\n"
        );
    }
    for node in &cluster.network.nodes {
        node.nft(&format!(
            "table inet services {{
                chain forward {{ type nat hook prerouting priority dstnat\n{forward} }}
                chain back {{ type nat hook postrouting priority srcnat\n{back} }}
            }}"
        ));
    }
    let [by4, by6] = [true, false].map(|is_v4| cluster.network.nodes[0].address(is_v4));
    let routes = format!("route add 10.96.0.0/24 via {by4}\nroute add fd96::/64 via {by6}\n");
    cluster.network.outside.ip(&routes);
}

fn services_of(
    from: &Arc<NetworkNamespace>,
    cluster: &NetpolTestCluster,
    served: &str,
) -> Vec<ConnectionProbe> {
    let (v4, v6, pod) = SERVICES
        .into_iter()
        .find(|(_, _, pod)| *pod == served)
        .expect("a service");
    let mut probes = Vec::new();
    for address in [v4, v6] {
        let target: IpAddr = address.parse().expect("an address");
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            probes.push(ConnectionProbe {
                from: from.clone(),
                source: from.address(target.is_ipv4()),
                to: cluster.pod(pod),
                target,
                protocol,
                port: PORT,
            });
        }
    }
    probes
}

/// Source, pod behind the service, and whether it is reachable with the ingress policy and with the egress policy.
/// Without policies all are reachable.
const WAYS: [(&str, &str, bool, bool); 9] = [
    ("x/b", "x/a", true, true),
    ("x/c", "x/a", false, true),
    ("x/a", "x/b", false, false),
    ("x/c", "x/b", false, false),
    ("x/a", "x/a", true, true),
    ("x/b", "x/b", true, true),
    ("z/a", "x/a", false, true),
    ("z/b", "x/b", false, true),
    ("outside", "x/a", false, true),
];

async fn check(cluster: &NetpolTestCluster, what: &str, is_open: impl Fn(bool, bool) -> bool) {
    let mut probes = Vec::new();
    for (from, to, with_ingress, with_egress) in WAYS {
        let from = match from {
            "outside" => cluster.network.outside.clone(),
            pod => cluster.pod(pod),
        };
        let is_open = is_open(with_ingress, with_egress);
        let each = services_of(&from, cluster, to).into_iter();
        probes.extend(each.map(|probe| (probe, is_open)));
    }
    check_all(what, probes).await;
}

/// Policy ports are those of the pods, not of the services.
const INGRESS: &str = "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}],
    ports: [{port: 80}, {port: 80, protocol: UDP}, {port: 80, protocol: SCTP}]}]}";
const EGRESS: &str = "{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {pod: a}}}],
    ports: [{port: 80}, {port: 80, protocol: UDP}, {port: 80, protocol: SCTP}]}]}";

async fn services(cluster: &mut NetpolTestCluster) {
    cluster.create_pods().await;
    cluster.start_agents().await;
    translate(cluster);
    check(cluster, "no policies", |_, _| true).await;
    cluster.enforce("x/in", INGRESS).await;
    check(cluster, "what comes in", |with_ingress, _| with_ingress).await;
    cluster.delete_policy_and_wait("x/in").await;
    cluster.enforce("x/out", EGRESS).await;
    check(cluster, "what goes out", |_, with_egress| with_egress).await;
}

#[test]
fn policies_apply_to_service_backends_and_replies_pass() {
    with_each_link_type(services);
}

//! Generates the objects of a synthetic cluster with network policies, of any size.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

/// Size of a synthetic cluster; objects are generated from their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SyntheticCluster {
    pub(super) namespaces: usize,
    /// Per namespace.
    pub(super) pods: usize,
    /// Per namespace.
    pub(super) policies: usize,
    /// Number of pods on each node.
    pub(super) pods_a_node: usize,
}

/// Number of values of the namespace label `team`.
const TEAMS: usize = 20;
/// Number of values of the pod label `tier`.
const TIERS: usize = 3;

impl SyntheticCluster {
    pub(super) fn all_pods(&self) -> usize {
        self.namespaces * self.pods
    }

    pub(super) fn all_policies(&self) -> usize {
        self.namespaces * self.policies
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = Value> + use<> {
        (0..self.namespaces).map(|number| {
            let labels = json!({
                "kubernetes.io/metadata.name": namespace(number),
                "team": team(number),
            });
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": namespace(number), "labels": labels}})
        })
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = Value> + use<> {
        let cluster = *self;
        (0..cluster.all_pods()).map(move |number| cluster.pod(number))
    }

    /// Pods are assigned to namespaces round-robin, so that each node has pods of many namespaces.
    pub(super) fn pod(&self, number: usize) -> Value {
        let index = number / self.namespaces;
        let node = number / self.pods_a_node;
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": namespace(number % self.namespaces),
                "name": pod_name(index),
                "uid": format!("pod-{number}"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": app(index), "tier": tier(index)},
            },
            "spec": {
                "nodeName": node_name(node),
                "containers": [{
                    "name": "main",
                    "image": "image",
                    "ports": [{"name": "web", "containerPort": 8080}],
                }],
            },
            "status": {
                "phase": "Running",
                "podIPs": [{"ip": address4(number).to_string()}, {"ip": address6(number).to_string()}],
                "hostIP": "192.0.2.1",
            },
        })
    }

    pub(super) fn policies(&self) -> impl Iterator<Item = Value> + use<> {
        let cluster = *self;
        (0..cluster.all_policies()).map(move |number| cluster.policy(number))
    }

    /// Policy that selects one app or, for every third, one tier. Peers: pod and namespace selectors and an ipBlock;
    /// ports: by number, by name and as a range.
    pub(super) fn policy(&self, number: usize) -> Value {
        let (of, index) = (number % self.namespaces, number / self.namespaces);
        let picked = match index % 3 {
            2 => json!({"tier": tier(index)}),
            _ => json!({"app": app(index % self.pods.max(1))}),
        };
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "namespace": namespace(of),
                "name": policy_name(index),
                "uid": format!("policy-{number}"),
                "generation": 1,
            },
            "spec": {
                "podSelector": {"matchLabels": picked},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [
                    {
                        "from": [
                            {"podSelector": {"matchLabels": {"tier": tier(index + 1)}}},
                            {
                                "podSelector": {"matchLabels": {"app": app(index % self.pods.max(1))}},
                                "namespaceSelector": {"matchLabels": {"team": team(of + 1)}},
                            },
                        ],
                        "ports": [{"protocol": "TCP", "port": "web"}, {"protocol": "TCP", "port": 9090}],
                    },
                    {"from": [{"ipBlock": {"cidr": "172.16.0.0/12", "except": ["172.16.9.0/24"]}}]},
                ],
                "egress": [{
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace((of + 1) % self.namespaces)}}}],
                    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 8000, "endPort": 8100}],
                }],
            },
        })
    }
}

pub(super) fn namespace(number: usize) -> String {
    format!("ns-{number:05}")
}

pub(super) fn pod_name(index: usize) -> String {
    format!("pod-{index}")
}

pub(super) fn policy_name(index: usize) -> String {
    format!("policy-{index}")
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number:04}")
}

fn app(index: usize) -> String {
    format!("app-{index}")
}

fn tier(index: usize) -> String {
    format!("tier-{}", index % TIERS)
}

fn team(namespace: usize) -> String {
    format!("team-{}", namespace % TEAMS)
}

pub(super) fn address4(number: usize) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::new(10, 0, 0, 1));
    Ipv4Addr::from(first + u32::try_from(number).unwrap_or_default())
}

fn address6(number: usize) -> Ipv6Addr {
    let first = u128::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
    Ipv6Addr::from(first + number as u128)
}

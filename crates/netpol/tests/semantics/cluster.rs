//! Test harness: checks connections against an engine of the whole cluster and against the rulesets of two nodes.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_netpol::ruleset::{NodeRuleset, PacketTuple};
use rhumb_netpol::verdict::{
    AddressPairVerdict, ConnectionEndpoint, ConnectionQuery, ConnectionVerdict, DirectionVerdict,
};
use rhumb_netpol::{EngineScope, NamespacedName, PluginCapabilities, PolicyEngine, Protocol};
use serde_json::{Value, json};

use crate::objects::{namespace, pod};

pub(crate) use ExpectedVerdict::{Allowed, Denied};

const NODES: [&str; 2] = ["node-1", "node-2"];

/// The expected result for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedVerdict {
    Allowed,
    Denied,
}

/// An engine with cluster scope, and one for each node, fed with the same objects.
pub(crate) struct ClusterHarness {
    pub(crate) cluster_engine: PolicyEngine,
    pub(crate) node_engines: BTreeMap<&'static str, PolicyEngine>,
}

pub(crate) fn all_versions() -> PluginCapabilities {
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    PluginCapabilities {
        versions: versions.map(str::to_owned).into(),
        sctp: true,
    }
}

/// Two namespaces with two pods each, one on each node.
///
/// | pod | addresses              | node   |
/// |-----|------------------------|--------|
/// | a/x | 10.0.1.1, fd00:0:0:1::1 | node-1 |
/// | a/y | 10.0.1.2, fd00:0:0:1::2 | node-2 |
/// | b/x | 10.0.2.1, fd00:0:0:2::1 | node-1 |
/// | b/y | 10.0.2.2, fd00:0:0:2::2 | node-2 |
pub(crate) fn two_by_two() -> ClusterHarness {
    let on =
        |node: &str| json!({"spec": {"nodeName": node}, "status": {"hostIP": address_of(node)}});
    ClusterHarness::with_capabilities(all_versions())
        .with(namespace("a", json!({"team": "red"})))
        .with(namespace("b", json!({"team": "blue"})))
        .with(pod("a/x", "10.0.1.1 fd00:0:0:1::1", on("node-1")))
        .with(pod("a/y", "10.0.1.2 fd00:0:0:1::2", on("node-2")))
        .with(pod("b/x", "10.0.2.1 fd00:0:0:2::1", on("node-1")))
        .with(pod("b/y", "10.0.2.2 fd00:0:0:2::2", on("node-2")))
}

/// The address of a node of [`two_by_two`].
fn address_of(node: &str) -> &'static str {
    match node {
        "node-1" => "192.168.0.1",
        _ => "192.168.0.2",
    }
}

impl ClusterHarness {
    pub(crate) fn with_capabilities(capabilities: PluginCapabilities) -> ClusterHarness {
        let of_node =
            |node| PolicyEngine::new(EngineScope::Node(String::from(node)), capabilities.clone());
        ClusterHarness {
            node_engines: NODES.map(|node| (node, of_node(node))).into(),
            cluster_engine: PolicyEngine::new(EngineScope::Cluster, capabilities),
        }
    }

    pub(crate) fn empty() -> ClusterHarness {
        ClusterHarness::with_capabilities(all_versions())
    }

    pub(crate) fn with(mut self, object: Value) -> ClusterHarness {
        self.set(object);
        self
    }

    pub(crate) fn set(&mut self, object: Value) {
        for engine in self.engines() {
            set(engine, &object);
        }
    }

    pub(crate) fn remove_pod(&mut self, pod: &str) {
        for engine in self.engines() {
            engine.remove_pod(&name(pod));
        }
    }

    pub(crate) fn remove_policy(&mut self, policy: &str) {
        for engine in self.engines() {
            engine.remove_policy(&name(policy));
        }
    }

    pub(crate) fn remove_namespace(&mut self, namespace: &str) {
        for engine in self.engines() {
            engine.remove_namespace(namespace);
        }
    }

    fn engines(&mut self) -> impl Iterator<Item = &mut PolicyEngine> {
        self.node_engines
            .values_mut()
            .chain([&mut self.cluster_engine])
    }

    #[track_caller]
    pub(crate) fn allows(&mut self, connections: &[&str]) {
        for connection in connections {
            self.check(connection, Allowed);
        }
    }

    #[track_caller]
    pub(crate) fn denies(&mut self, connections: &[&str]) {
        for connection in connections {
            self.check(connection, Denied);
        }
    }

    /// Checks that all address pairs get the expected verdict, and that the node rulesets agree.
    #[track_caller]
    pub(crate) fn check(&mut self, connection: &str, want: ExpectedVerdict) {
        let verdict = self.evaluate(connection);
        let verdict = verdict.unwrap_or_else(|| panic!("{connection}: no verdict"));
        assert!(!verdict.pairs.is_empty(), "{connection}: no address pairs");
        let query = parse_query(connection);
        for pair in &verdict.pairs {
            let got = if pair.is_allowed() { Allowed } else { Denied };
            assert_eq!(got, want, "{connection}: {pair:#?}");
            self.check_nodes(connection, pair, (query.protocol, query.port));
        }
    }

    pub(crate) fn evaluate(&self, connection: &str) -> Option<ConnectionVerdict> {
        self.cluster_engine.evaluate(&parse_query(connection))
    }

    /// The verdicts of both directions, egress first, for the first address pair.
    #[track_caller]
    pub(crate) fn direction_verdicts(
        &self,
        connection: &str,
    ) -> (DirectionVerdict, DirectionVerdict) {
        let verdict = self.evaluate(connection);
        let pairs = verdict.map(|verdict| verdict.pairs).unwrap_or_default();
        let first = pairs.into_iter().next();
        let first = first.unwrap_or_else(|| panic!("{connection}: no verdict"));
        (first.egress, first.ingress)
    }

    /// Checks each node's ruleset: it decides for the local endpoints. Traffic of a pod with itself or with its own
    /// node is not forwarded, so it is not checked.
    #[track_caller]
    fn check_nodes(&mut self, connection: &str, pair: &AddressPairVerdict, port: (Protocol, u16)) {
        let packet = PacketTuple {
            source: pair.from,
            destination: pair.to,
            port: Some(port),
        };
        for (node, engine) in &mut self.node_engines {
            engine.take_ruleset_delta();
            let ruleset = engine.ruleset();
            let mut want = true;
            for (end, verdict) in [(pair.from, &pair.egress), (pair.to, &pair.ingress)] {
                if ruleset.known_addresses.contains(&end) {
                    if matches!(
                        verdict,
                        DirectionVerdict::Itself | DirectionVerdict::OwnNode
                    ) {
                        return;
                    }
                    want &= verdict.is_allowed();
                }
            }
            assert_eq!(ruleset.allows(&packet), want, "{connection} on {node}");
        }
    }

    pub(crate) fn ruleset(&mut self, node: &str) -> &NodeRuleset {
        let engine = self.node_engines.get_mut(node).expect("node exists");
        engine.take_ruleset_delta();
        engine.ruleset()
    }

    pub(crate) fn known_addresses(&mut self, node: &str) -> BTreeSet<String> {
        let local = &self.ruleset(node).known_addresses;
        local.iter().map(ToString::to_string).collect()
    }
}

fn set(engine: &mut PolicyEngine, object: &Value) {
    let read = "valid object";
    match object["kind"].as_str() {
        Some("Namespace") => {
            engine.set_namespace(&serde_json::from_value(object.clone()).expect(read));
        }
        Some("Pod") => {
            engine.set_pod(&serde_json::from_value(object.clone()).expect(read));
        }
        _ => engine.set_policy(&serde_json::from_value(object.clone()).expect(read)),
    }
}

pub(crate) fn name(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    NamespacedName::new(namespace, name)
}

/// Parses `a/x -> b/y:80/TCP`; an endpoint is a pod or an address.
fn parse_query(connection: &str) -> ConnectionQuery {
    let (from, rest) = connection.split_once(" -> ").expect("from -> to");
    let (to, port) = rest.rsplit_once(':').expect("to:port");
    let (port, protocol) = port.split_once('/').expect("port/protocol");
    ConnectionQuery {
        from: parse_endpoint(from),
        to: parse_endpoint(to),
        protocol: match protocol {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            other => panic!("unknown protocol {other}"),
        },
        port: port.parse().expect("valid port"),
    }
}

fn parse_endpoint(text: &str) -> ConnectionEndpoint {
    match text.parse() {
        Ok(address) => ConnectionEndpoint::Address(address),
        Err(_) => ConnectionEndpoint::Pod(name(text)),
    }
}

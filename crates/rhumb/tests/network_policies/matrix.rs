//! Actual reachability, compared with the engine's verdicts for the objects on the server.

use std::net::IpAddr;
use std::sync::Arc;

use kube::Api;
use kube::api::ListParams;
use rhumb_netpol::verdict::{ConnectionEndpoint, ConnectionQuery};
use rhumb_netpol::{
    EngineScope, Namespace, NetworkPolicy, PluginCapabilities, Pod, PolicyEngine, Protocol,
};

use crate::cluster::NetpolTestCluster;
use crate::network_namespace::NetworkNamespace;
use crate::probe::{ConnectionProbe, PORTS, check_all};

/// The engine's verdicts, computed from all objects of the server.
#[derive(Debug)]
pub(crate) struct ExpectedReachability {
    engine: PolicyEngine,
}

impl ExpectedReachability {
    pub(crate) async fn read(cluster: &NetpolTestCluster) -> ExpectedReachability {
        let client = || cluster.client.clone();
        let all = ListParams::default();
        let mut engine = PolicyEngine::new(EngineScope::Cluster, capabilities());
        let namespaces: Api<Namespace> = Api::all(client());
        for namespace in namespaces.list(&all).await.expect("a list") {
            engine.set_namespace(&namespace);
        }
        let pods: Api<Pod> = Api::all(client());
        for pod in pods.list(&all).await.expect("a list") {
            engine.set_pod(&pod);
        }
        let policies: Api<NetworkPolicy> = Api::all(client());
        for policy in policies.list(&all).await.expect("a list") {
            engine.set_policy(&policy);
        }
        ExpectedReachability { engine }
    }

    pub(crate) fn allows(&self, from: IpAddr, to: IpAddr, what: (Protocol, u16)) -> bool {
        let question = ConnectionQuery {
            from: ConnectionEndpoint::Address(from),
            to: ConnectionEndpoint::Address(to),
            protocol: what.0,
            port: what.1,
        };
        let verdict = self.engine.evaluate(&question).expect("a verdict");
        verdict
            .pairs
            .iter()
            .all(rhumb_netpol::verdict::AddressPairVerdict::is_allowed)
    }
}

/// All probes with at least one pod: every address to every other of its family, on every port.
fn probes(cluster: &NetpolTestCluster) -> Vec<ConnectionProbe> {
    let pods: Vec<&Arc<NetworkNamespace>> = cluster.pods.values().collect();
    let others = cluster
        .network
        .nodes
        .iter()
        .chain([&cluster.network.outside]);
    let all: Vec<(&Arc<NetworkNamespace>, bool)> = pods
        .into_iter()
        .map(|pod| (pod, true))
        .chain(others.map(|other| (other, false)))
        .collect();
    let mut probes = Vec::new();
    for (from, from_is_pod) in &all {
        for (to, to_is_pod) in &all {
            if !from_is_pod && !to_is_pod {
                continue;
            }
            for &source in &from.addresses {
                let same_family = |to: &&IpAddr| to.is_ipv4() == source.is_ipv4();
                for &target in to.addresses.iter().filter(same_family) {
                    for (protocol, port) in PORTS {
                        probes.push(ConnectionProbe {
                            from: (*from).clone(),
                            source,
                            to: (*to).clone(),
                            target,
                            protocol,
                            port,
                        });
                    }
                }
            }
        }
    }
    probes
}

impl NetpolTestCluster {
    /// Fails unless all probes match the engine. Returns the number of allowed probes and of all probes.
    pub(crate) async fn check_matrix(
        &self,
        what: &str,
        expected: &ExpectedReachability,
    ) -> (usize, usize) {
        let judge = |probe: ConnectionProbe| {
            let port = (probe.protocol, probe.port);
            let is_allowed = expected.allows(probe.source, probe.target, port);
            (probe, is_allowed)
        };
        let probes: Vec<(ConnectionProbe, bool)> = probes(self).into_iter().map(judge).collect();
        let open = probes.iter().filter(|(_, is_allowed)| *is_allowed).count();
        let all = probes.len();
        check_all(what, probes).await;
        (open, all)
    }
}

/// All capabilities, so that no feature of a policy is ignored.
fn capabilities() -> PluginCapabilities {
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    PluginCapabilities {
        versions: versions.map(str::to_owned).into(),
        sctp: true,
    }
}

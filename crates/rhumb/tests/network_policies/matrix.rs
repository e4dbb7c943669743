//! Who reaches whom, compared with what the engine says of the objects that the server has.

use std::net::IpAddr;
use std::sync::Arc;

use kube::Api;
use kube::api::ListParams;
use rhumb_netpol::judge::{End, Question};
use rhumb_netpol::{Engine, Knowledge, Namespace, NetworkPolicy, Pod, Protocol, Scope};

use crate::cluster::Cluster;
use crate::probe::{PORTS, Probe, check_all};
use crate::site::Site;

/// What policies mean, by all objects of the server.
#[derive(Debug)]
pub(crate) struct Meaning {
    engine: Engine,
}

impl Meaning {
    pub(crate) async fn read(cluster: &Cluster) -> Meaning {
        let client = || cluster.client.clone();
        let all = ListParams::default();
        let mut engine = Engine::new(Scope::Cluster, knowledge());
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
        Meaning { engine }
    }

    pub(crate) fn allows(&self, from: IpAddr, to: IpAddr, what: (Protocol, u16)) -> bool {
        let question = Question {
            from: End::Address(from),
            to: End::Address(to),
            protocol: what.0,
            port: what.1,
        };
        let verdict = self.engine.judge(&question).expect("a verdict");
        verdict
            .pairs
            .iter()
            .all(rhumb_netpol::judge::Pair::is_allowed)
    }
}

/// All that can be tried where at least one end is a pod: every address with every other of its family, on every port.
fn probes(cluster: &Cluster) -> Vec<Probe> {
    let pods: Vec<&Arc<Site>> = cluster.pods.values().collect();
    let others = cluster
        .network
        .nodes
        .iter()
        .chain([&cluster.network.outside]);
    let all: Vec<(&Arc<Site>, bool)> = pods
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
                        probes.push(Probe {
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

impl Cluster {
    /// Fails unless everything that can be tried goes as the engine says. Returns how many ways are open, and of how many.
    pub(crate) async fn check_matrix(&self, what: &str, meaning: &Meaning) -> (usize, usize) {
        let judge = |probe: Probe| {
            let port = (probe.protocol, probe.port);
            let is_allowed = meaning.allows(probe.source, probe.target, port);
            (probe, is_allowed)
        };
        let probes: Vec<(Probe, bool)> = probes(self).into_iter().map(judge).collect();
        let open = probes.iter().filter(|(_, is_allowed)| *is_allowed).count();
        let all = probes.len();
        check_all(what, probes).await;
        (open, all)
    }
}

/// All that there is: nothing is ignored.
fn knowledge() -> Knowledge {
    let versions = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];
    Knowledge {
        versions: versions.map(str::to_owned).into(),
        sctp: true,
    }
}

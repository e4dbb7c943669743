//! Pods, namespaces and policies, and the engine that knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::Result;
use kube::Client;
use rhumb_api::addresses::parse_lax;
use rhumb_netpol::objects::{ContainerPort, Labels, PolicySpec};
use rhumb_netpol::{
    Engine, Knowledge, Name, Namespace, NetworkPolicy, Pod, Protocol, Scope, flaws,
};

use super::stand_ins;
use crate::listing::list;

/// What was read, from wherever.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) pods: Vec<Pod>,
    pub(super) policies: Vec<NetworkPolicy>,
    /// What people should know of the answer.
    pub(super) notes: Vec<String>,
}

impl Objects {
    /// They are of almost one moment.
    pub(super) async fn of_server(client: &Client) -> Result<Objects> {
        let mut objects = Objects::default();
        let Objects {
            namespaces,
            pods,
            policies,
            notes,
        } = &mut objects;
        list(client, "/api/v1/namespaces", notes, |json| {
            namespaces.push(serde_json::from_slice(json)?);
            Ok(())
        })
        .await?;
        let path = "/apis/networking.k8s.io/v1/networkpolicies";
        list(client, path, notes, |json| {
            policies.push(serde_json::from_slice(json)?);
            Ok(())
        })
        .await?;
        list(client, "/api/v1/pods", notes, |json| {
            pods.push(serde_json::from_slice(json)?);
            Ok(())
        })
        .await?;
        Ok(objects)
    }
}

pub(super) struct Cluster {
    pub(super) engine: Engine,
    /// The labels of those that are known.
    pub(super) namespaces: BTreeMap<String, Labels>,
    /// Those that have not come to their end.
    pub(super) pods: BTreeMap<Name, Pod>,
    pub(super) finished: BTreeSet<Name>,
    pub(super) policies: BTreeMap<Name, PolicySpec>,
    /// Addresses that are only here so that there is something to ask about.
    pub(super) stand_ins: BTreeSet<IpAddr>,
    pub(super) notes: Vec<String>,
}

impl Cluster {
    pub(super) fn new(objects: Objects) -> Cluster {
        let knowledge = Knowledge::all();
        let mut cluster = Cluster {
            engine: Engine::new(Scope::Cluster, knowledge.clone()),
            namespaces: BTreeMap::new(),
            pods: BTreeMap::new(),
            finished: BTreeSet::new(),
            policies: BTreeMap::new(),
            stand_ins: BTreeSet::new(),
            notes: objects.notes,
        };
        for namespace in objects.namespaces {
            cluster.engine.set_namespace(&namespace);
            let labels = namespace.metadata.labels.unwrap_or_default();
            let name = namespace.metadata.name.unwrap_or_default();
            cluster.namespaces.insert(name, labels);
        }
        for policy in objects.policies {
            cluster.engine.set_policy(&policy);
            let name = name_of(&policy.metadata);
            cluster.note_policy(&name, &policy.spec, &knowledge);
            cluster.policies.insert(name, policy.spec);
        }
        cluster.add_pods(objects.pods);
        cluster
    }

    fn add_pods(&mut self, pods: Vec<Pod>) {
        for pod in pods {
            let name = name_of(&pod.metadata);
            match is_finished(&pod) {
                true => drop(self.finished.insert(name)),
                false => drop(self.pods.insert(name, pod)),
            }
        }
        let lacking = stand_ins::give(&mut self.pods);
        self.stand_ins.extend(lacking.values().flatten());
        if !lacking.is_empty() && self.policies.values().any(has_block) {
            let names = lacking.keys().map(Name::to_string);
            self.notes.push(format!(
                "{} no address yet, so that rules by address (ipBlock) say nothing reliable about {}: {}",
                counted(lacking.len(), "pod has", "pods have"),
                if lacking.len() == 1 { "it" } else { "them" },
                few(names)
            ));
        }
        for pod in self.pods.values() {
            self.engine.set_pod(pod);
        }
    }

    /// The addresses of a pod that another has by now, and who that is.
    pub(super) fn taken(&self, name: &Name) -> Vec<(IpAddr, &Name)> {
        let pod = self.pods.get(name).filter(|pod| !is_on_host(pod));
        let addresses = pod.into_iter().flat_map(addresses);
        let owned = addresses.filter_map(|address| Some((address, self.engine.owner(address)?)));
        owned.filter(|(_, owner)| *owner != name).collect()
    }

    /// What is wrong with a policy though it is valid.
    fn note_policy(&mut self, name: &Name, spec: &PolicySpec, knowledge: &Knowledge) {
        for flaw in flaws::find(spec) {
            self.notes
                .push(format!("policy {name}: {}: {}", flaw.reason, flaw.message));
        }
        if let Some(version) = &spec.min_version
            && !knowledge.versions.contains(version)
        {
            self.notes.push(format!(
                "policy {name} is ignored: it needs version {version}, which is not known here"
            ));
        }
    }
}

pub(super) fn name_of(metadata: &kube::api::ObjectMeta) -> Name {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Name::new(text(&metadata.namespace), text(&metadata.name))
}

fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// Such a pod counts as its node.
pub(super) fn is_on_host(pod: &Pod) -> bool {
    pod.spec.host_network.unwrap_or_default()
}

fn has_block(spec: &PolicySpec) -> bool {
    let rules = spec.ingress.iter().chain(&spec.egress).flatten();
    let mut peers = rules.flat_map(|rule| rule.from.iter().chain(&rule.to).flatten());
    peers.any(|peer| peer.ip_block.is_some())
}

/// As written in the pod's status.
pub(super) fn written_addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let several = pod.status.pod_ips.as_deref().unwrap_or_default();
    let single = several.is_empty().then_some(pod.status.pod_ip.as_deref());
    let several = several.iter().filter_map(|address| address.ip.as_deref());
    let written = several.chain(single.flatten());
    written.filter(|address| !address.is_empty())
}

pub(super) fn addresses(pod: &Pod) -> impl Iterator<Item = IpAddr> {
    written_addresses(pod).filter_map(parse_lax)
}

/// A port that a pod says it listens on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Declared {
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    pub(super) name: Option<String>,
}

/// Those of its containers, then those of its sidecars, in the order in which names are looked up.
pub(super) fn declared_ports(pod: &Pod) -> Vec<Declared> {
    let containers = pod.spec.containers.iter().flatten();
    let sidecars = pod.spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let ports = containers.chain(sidecars).flat_map(|it| &it.ports);
    ports.flatten().filter_map(declared).collect()
}

fn declared(port: &ContainerPort) -> Option<Declared> {
    Some(Declared {
        port: port
            .container_port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)?,
        protocol: protocol(port.protocol.as_deref())?,
        name: port.name.clone().filter(|name| !name.is_empty()),
    })
}

/// Of a port that may leave it out; `None` if there is no such protocol.
pub(super) fn protocol(text: Option<&str>) -> Option<Protocol> {
    match text {
        None | Some("" | "TCP") => Some(Protocol::Tcp),
        Some("UDP") => Some(Protocol::Udp),
        Some("SCTP") => Some(Protocol::Sctp),
        Some(_) => None,
    }
}

pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

pub(super) fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The first of many, for notes.
pub(super) fn few(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN_MAX: usize = 5;
    let more = names.len().saturating_sub(SHOWN_MAX);
    let mut shown = names.take(SHOWN_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown.push_str(&format!(" and {more} more"));
    }
    shown
}

//! The pods, namespaces and policies to evaluate, and the policy engine loaded with them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use rhumb_api::ip_addresses::parse_lax;
use rhumb_netpol::objects::{ContainerPort, Labels, NetworkPolicySpec};
use rhumb_netpol::{
    EngineScope, Namespace, NamespacedName, NetworkPolicy, PluginCapabilities, Pod, PolicyEngine,
    Protocol, lint,
};

use super::enforcement::Enforcement;
use super::node_reports::NodeReports;
use super::placeholder_addresses;
use crate::paged_list::list;

/// The objects read from files or from a server.
#[derive(Default)]
pub(super) struct NetpolObjects {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) pods: Vec<Pod>,
    pub(super) policies: Vec<NetworkPolicy>,
    /// The reports of the nodes of a running cluster.
    pub(super) reports: Option<NodeReports>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl NetpolObjects {
    /// Lists the objects of a server. The lists are not from one revision.
    pub(super) async fn of_server(client: &Client) -> Result<NetpolObjects> {
        let mut objects = NetpolObjects::default();
        let NetpolObjects {
            namespaces,
            pods,
            policies,
            reports,
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
        *reports = Some(NodeReports::read(client, notes).await?);
        Ok(objects)
    }
}

pub(super) struct NetpolCluster {
    pub(super) engine: PolicyEngine,
    /// The labels of each namespace.
    pub(super) namespaces: BTreeMap<String, Labels>,
    /// Pods that have not terminated.
    pub(super) pods: BTreeMap<NamespacedName, Pod>,
    pub(super) finished: BTreeSet<NamespacedName>,
    pub(super) policies: BTreeMap<NamespacedName, NetworkPolicySpec>,
    /// Placeholder addresses of pods that have none.
    pub(super) placeholders: BTreeSet<IpAddr>,
    /// Which policies are not enforced; `None` for objects from files.
    pub(super) enforcement: Option<Enforcement>,
    pub(super) notes: Vec<String>,
}

impl NetpolCluster {
    pub(super) fn new(objects: NetpolObjects) -> NetpolCluster {
        let capabilities = PluginCapabilities::all();
        let mut cluster = NetpolCluster {
            engine: PolicyEngine::new(EngineScope::Cluster, capabilities.clone()),
            namespaces: BTreeMap::new(),
            pods: BTreeMap::new(),
            finished: BTreeSet::new(),
            policies: BTreeMap::new(),
            placeholders: BTreeSet::new(),
            enforcement: None,
            notes: objects.notes,
        };
        for namespace in objects.namespaces {
            cluster.engine.set_namespace(&namespace);
            let labels = namespace.metadata.labels.unwrap_or_default();
            let name = namespace.metadata.name.unwrap_or_default();
            cluster.namespaces.insert(name, labels);
        }
        for policy in &objects.policies {
            cluster.engine.set_policy(policy);
            let name = name_of(&policy.metadata);
            cluster.note_policy(&name, &policy.spec, &capabilities);
            cluster.policies.insert(name, policy.spec.clone());
        }
        cluster.add_pods(objects.pods);
        cluster.enforcement = objects.reports.map(|reports| {
            let pods = cluster
                .pods
                .iter()
                .filter(|(_, pod)| cluster.has_own_address(pod));
            let now = Timestamp::now();
            Enforcement::of(&cluster.engine, &objects.policies, &reports, pods, now)
        });
        cluster
    }

    /// Whether the pod has an address in its status, and not only a placeholder.
    fn has_own_address(&self, pod: &Pod) -> bool {
        addresses(pod).any(|address| !self.placeholders.contains(&address))
    }

    /// The pod that has an address.
    pub(super) fn pod_at(&self, address: IpAddr) -> Option<(&NamespacedName, &Pod)> {
        let name = self.engine.pod_with_address(address)?;
        self.pods.get_key_value(name)
    }

    fn add_pods(&mut self, pods: Vec<Pod>) {
        for pod in pods {
            let name = name_of(&pod.metadata);
            match is_finished(&pod) {
                true => drop(self.finished.insert(name)),
                false => drop(self.pods.insert(name, pod)),
            }
        }
        let lacking = placeholder_addresses::assign(&mut self.pods);
        self.placeholders.extend(lacking.values().flatten());
        if !lacking.is_empty() && self.policies.values().any(has_block) {
            let names = lacking.keys().map(NamespacedName::to_string);
            self.notes.push(format!(
                "{} no address yet, so that rules by address (ipBlock) say nothing reliable about {}: {}",
                counted(lacking.len(), "pod has", "pods have"),
                if lacking.len() == 1 { "it" } else { "them" },
                first_names(names)
            ));
        }
        for pod in self.pods.values() {
            self.engine.set_pod(pod);
        }
    }

    /// The addresses of a pod that now belong to another pod, with that pod.
    pub(super) fn reassigned_addresses(
        &self,
        name: &NamespacedName,
    ) -> Vec<(IpAddr, &NamespacedName)> {
        let pod = self.pods.get(name).filter(|pod| !is_on_host(pod));
        let addresses = pod.into_iter().flat_map(addresses);
        let owned =
            addresses.filter_map(|address| Some((address, self.engine.pod_with_address(address)?)));
        owned.filter(|(_, owner)| *owner != name).collect()
    }

    /// Adds notes about problems of a valid policy.
    fn note_policy(
        &mut self,
        name: &NamespacedName,
        spec: &NetworkPolicySpec,
        capabilities: &PluginCapabilities,
    ) {
        for flaw in lint::lint_policy(spec) {
            self.notes
                .push(format!("policy {name}: {}: {}", flaw.reason, flaw.message));
        }
        if let Some(version) = &spec.min_version
            && !capabilities.versions.contains(version)
        {
            self.notes.push(format!(
                "policy {name} is ignored: it needs version {version}, which this release does not know"
            ));
        }
    }
}

pub(super) fn name_of(metadata: &kube::api::ObjectMeta) -> NamespacedName {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    NamespacedName::new(text(&metadata.namespace), text(&metadata.name))
}

fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// Host-network pods count as their node.
pub(super) fn is_on_host(pod: &Pod) -> bool {
    pod.spec.host_network.unwrap_or_default()
}

fn has_block(spec: &NetworkPolicySpec) -> bool {
    let rules = spec.ingress.iter().chain(&spec.egress).flatten();
    let mut peers = rules.flat_map(|rule| rule.from.iter().chain(&rule.to).flatten());
    peers.any(|peer| peer.ip_block.is_some())
}

/// The addresses in the pod's status, unparsed.
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

/// A container port of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeclaredPort {
    pub(super) port: u16,
    pub(super) protocol: Protocol,
    pub(super) name: Option<String>,
}

/// The ports of containers, then of sidecars: the order in which named ports are resolved.
pub(super) fn declared_ports(pod: &Pod) -> Vec<DeclaredPort> {
    let containers = pod.spec.containers.iter().flatten();
    let sidecars = pod.spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|it| it.restart_policy.as_deref() == Some("Always"));
    let ports = containers.chain(sidecars).flat_map(|it| &it.ports);
    ports.flatten().filter_map(declared).collect()
}

fn declared(port: &ContainerPort) -> Option<DeclaredPort> {
    Some(DeclaredPort {
        port: port
            .container_port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)?,
        protocol: protocol(port.protocol.as_deref())?,
        name: port.name.clone().filter(|name| !name.is_empty()),
    })
}

/// Parses a protocol, TCP if absent; `None` if it is unknown.
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

/// The first few names, and how many more there are.
pub(super) fn first_names(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN_MAX: usize = 5;
    let more = names.len().saturating_sub(SHOWN_MAX);
    let mut shown = names.take(SHOWN_MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown.push_str(&format!(" and {more} more"));
    }
    shown
}

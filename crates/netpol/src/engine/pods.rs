//! What is kept of pods.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rhumb_api::addresses;

use super::index::Postings;
use super::names::Names;
use super::slots::{NamespaceId, PodId, SelectionId, Slots};
use super::text::{Label, Text, Texts};
use crate::objects;
use crate::{Name, Protocol};

#[derive(Debug, Default)]
pub(crate) struct Pod {
    pub(crate) name: Arc<Name>,
    pub(crate) namespace: NamespaceId,
    pub(crate) facts: Facts,
    /// Those that pick it, in order.
    pub(crate) selections: Vec<SelectionId>,
}

/// All that is read of a pod: one that is said again with the same facts has not changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) rank: Rank,
    pub(crate) node: Option<Text>,
    /// Such a pod counts as its node.
    pub(crate) is_host_network: bool,
    pub(crate) labels: Box<[Label]>,
    pub(crate) addresses: Box<[IpAddr]>,
    /// Those of its node.
    pub(crate) host_addresses: Box<[IpAddr]>,
    /// The first of each name and protocol.
    ports: Box<[NamedPort]>,
}

/// Of several pods that claim an address, the greatest has it: the latest of those that are there to stay.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    is_staying: bool,
    created: Option<Time>,
    uid: Box<str>,
}

#[derive(Debug, PartialEq, Eq)]
struct NamedPort {
    name: Text,
    protocol: Protocol,
    number: u16,
}

impl Facts {
    pub(crate) fn read(pod: &objects::Pod, texts: &mut Texts) -> Facts {
        let (metadata, spec, status) = (&pod.metadata, &pod.spec, &pod.status);
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        let mut addresses = read_addresses(status.pod_ips.iter().flatten());
        if addresses.is_empty() {
            addresses.extend(status.pod_ip.as_deref().and_then(addresses::parse_lax));
        }
        let mut host_addresses = read_addresses(status.host_ips.iter().flatten());
        let host_address = status.host_ip.as_deref().and_then(addresses::parse_lax);
        host_addresses.extend(host_address.filter(|first| !host_addresses.contains(first)));
        Facts {
            rank: Rank {
                is_staying: metadata.deletion_timestamp.is_none(),
                created: metadata.creation_timestamp.clone(),
                uid: metadata.uid.as_deref().unwrap_or_default().into(),
            },
            node: node.map(|name| texts.intern(name)),
            is_host_network: spec.host_network == Some(true),
            labels: texts.intern_all(metadata.labels.iter().flatten()),
            addresses: addresses.into(),
            host_addresses: host_addresses.into(),
            ports: read_ports(spec, texts),
        }
    }

    /// The number of a port that the pod has by that name.
    pub(crate) fn port(&self, name: &Text, protocol: Protocol) -> Option<u16> {
        let mut ports = self.ports.iter();
        let port = ports.find(|port| port.protocol == protocol && port.name == *name)?;
        Some(port.number)
    }
}

/// Each once.
fn read_addresses<'a>(written: impl Iterator<Item = &'a objects::Address>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for written in written {
        let address = written.ip.as_deref().and_then(addresses::parse_lax);
        addresses.extend(address.filter(|address| !addresses.contains(address)));
    }
    addresses
}

fn read_ports(spec: &objects::PodSpec, texts: &mut Texts) -> Box<[NamedPort]> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars =
        sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().flatten().chain(sidecars);
    let mut ports: Vec<NamedPort> = Vec::new();
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let Some(port) = NamedPort::read(port, texts) else {
            continue;
        };
        let is_same =
            |other: &NamedPort| other.name == port.name && other.protocol == port.protocol;
        if !ports.iter().any(is_same) {
            ports.push(port);
        }
    }
    ports.into()
}

impl NamedPort {
    fn read(port: &objects::ContainerPort, texts: &mut Texts) -> Option<NamedPort> {
        let name = port.name.as_deref().filter(|name| !name.is_empty())?;
        Some(NamedPort {
            name: texts.intern(name),
            protocol: Protocol::read(port.protocol.as_deref())?,
            number: read_port_number(port.container_port?)?,
        })
    }
}

pub(crate) fn read_port_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// Such a pod's address is free.
pub(crate) fn is_finished(pod: &objects::Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[derive(Debug, Default)]
pub(crate) struct Pods {
    names: Names<PodId>,
    all: Slots<PodId, Pod>,
    /// Those that selectors can pick, by their labels.
    pub(crate) postings: Postings<PodId>,
}

impl Pods {
    pub(crate) fn find(&self, name: &Name) -> Option<PodId> {
        self.names.find(name, |id| *self.all[id].name == *name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.ids().map(|id| &*self.all[id].name)
    }

    pub(crate) fn insert(&mut self, name: Name, namespace: NamespaceId, facts: Facts) -> PodId {
        let id = self.all.insert(Pod {
            name: Arc::new(name),
            namespace,
            facts,
            selections: Vec::new(),
        });
        self.names.insert(&self.all[id].name, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Pod {
        let pod = self.all.remove(id);
        self.names.remove(&pod.name, id);
        pod
    }

    /// From now on selectors can find the pod by its labels.
    pub(crate) fn post(&mut self, id: PodId) {
        self.postings.insert(&self.all[id].facts.labels, id);
    }

    pub(crate) fn unpost(&mut self, id: PodId) {
        self.postings.remove(&self.all[id].facts.labels, id);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.postings.is_empty()
    }

    /// Whether the first has a right to an address that both claim.
    pub(crate) fn outranks(&self, one: PodId, other: PodId) -> bool {
        let rank = |id: PodId| (&self[id].facts.rank, &self[id].name);
        rank(one) > rank(other)
    }
}

impl std::ops::Index<PodId> for Pods {
    type Output = Pod;

    fn index(&self, id: PodId) -> &Pod {
        &self.all[id]
    }
}

impl std::ops::IndexMut<PodId> for Pods {
    fn index_mut(&mut self, id: PodId) -> &mut Pod {
        &mut self.all[id]
    }
}

//! Pods as the engine stores them: the attributes that matter to policies, by id, name and label.

use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rhumb_api::ip_addresses;
use rhumb_selection::{InternedLabel, InternedString, Interner, PostingIndex, SlotMap};

use super::ids::{NamespaceId, PodId, SelectionId};
use super::name_index::NameIndex;
use crate::objects;
use crate::{NamespacedName, Protocol};

#[derive(Debug, Default)]
pub(crate) struct PodRecord {
    pub(crate) name: Arc<NamespacedName>,
    pub(crate) namespace: NamespaceId,
    pub(crate) attributes: PodAttributes,
    /// The tracked selections that match it, sorted.
    pub(crate) selections: Vec<SelectionId>,
}

/// Everything the engine uses of a pod. An update with equal attributes is not a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PodAttributes {
    pub(crate) claim_priority: AddressClaimPriority,
    pub(crate) node: Option<InternedString>,
    /// Policies treat such a pod as its node.
    pub(crate) is_host_network: bool,
    pub(crate) labels: Box<[InternedLabel]>,
    pub(crate) addresses: Box<[IpAddr]>,
    /// The addresses of its node.
    pub(crate) host_addresses: Box<[IpAddr]>,
    /// For each name and protocol, the first that the spec defines.
    ports: Box<[NamedPort]>,
}

/// Of several pods that claim an address, the greatest owns it: the newest that is not terminating.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AddressClaimPriority {
    is_not_terminating: bool,
    created: Option<Time>,
    uid: Box<str>,
}

#[derive(Debug, PartialEq, Eq)]
struct NamedPort {
    name: InternedString,
    protocol: Protocol,
    number: u16,
}

impl PodAttributes {
    pub(crate) fn from_pod(pod: &objects::Pod, texts: &mut Interner) -> PodAttributes {
        let (metadata, spec, status) = (&pod.metadata, &pod.spec, &pod.status);
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        let mut addresses = parse_addresses(status.pod_ips.iter().flatten());
        if addresses.is_empty() {
            addresses.extend(status.pod_ip.as_deref().and_then(ip_addresses::parse_lax));
        }
        let mut host_addresses = parse_addresses(status.host_ips.iter().flatten());
        let host_address = status.host_ip.as_deref().and_then(ip_addresses::parse_lax);
        host_addresses.extend(host_address.filter(|first| !host_addresses.contains(first)));
        PodAttributes {
            claim_priority: AddressClaimPriority {
                is_not_terminating: metadata.deletion_timestamp.is_none(),
                created: metadata.creation_timestamp.clone(),
                uid: metadata.uid.as_deref().unwrap_or_default().into(),
            },
            node: node.map(|name| texts.intern(name)),
            is_host_network: spec.host_network == Some(true),
            labels: texts.intern_labels(metadata.labels.iter().flatten()),
            addresses: addresses.into(),
            host_addresses: host_addresses.into(),
            ports: parse_named_ports(spec, texts),
        }
    }

    /// Whether the same policies select the pod, at the same addresses.
    pub(crate) fn is_same_target(&self, other: &PodAttributes) -> bool {
        self.node == other.node
            && self.is_host_network == other.is_host_network
            && self.labels == other.labels
            && self.addresses == other.addresses
    }

    /// Resolves a named port.
    pub(crate) fn named_port(&self, name: &InternedString, protocol: Protocol) -> Option<u16> {
        let mut ports = self.ports.iter();
        let port = ports.find(|port| port.protocol == protocol && port.name == *name)?;
        Some(port.number)
    }
}

/// The valid addresses, without duplicates.
fn parse_addresses<'a>(written: impl Iterator<Item = &'a objects::StatusIp>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for written in written {
        let address = written.ip.as_deref().and_then(ip_addresses::parse_lax);
        addresses.extend(address.filter(|address| !addresses.contains(address)));
    }
    addresses
}

fn parse_named_ports(spec: &objects::PodSpec, texts: &mut Interner) -> Box<[NamedPort]> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars =
        sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().flatten().chain(sidecars);
    let mut ports: Vec<NamedPort> = Vec::new();
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let Some(port) = NamedPort::parse(port, texts) else {
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
    fn parse(port: &objects::ContainerPort, texts: &mut Interner) -> Option<NamedPort> {
        let name = port.name.as_deref().filter(|name| !name.is_empty())?;
        Some(NamedPort {
            name: texts.intern(name),
            protocol: Protocol::parse_or_tcp(port.protocol.as_deref())?,
            number: valid_port_number(port.container_port?)?,
        })
    }
}

pub(crate) fn valid_port_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// Whether the pod has terminated, so that its address may be reused.
pub(crate) fn is_finished(pod: &objects::Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[derive(Debug, Default)]
pub(crate) struct PodTable {
    names: NameIndex<PodId>,
    all: SlotMap<PodId, PodRecord>,
    /// The pods that are not in the host network, by label.
    pub(crate) postings: PostingIndex<PodId>,
}

impl PodTable {
    pub(crate) fn find(&self, name: &NamespacedName) -> Option<PodId> {
        self.names.find(name, |id| *self.all[id].name == *name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &NamespacedName> {
        self.names.ids().map(|id| &*self.all[id].name)
    }

    pub(crate) fn insert(
        &mut self,
        name: NamespacedName,
        namespace: NamespaceId,
        attributes: PodAttributes,
    ) -> PodId {
        let id = self.all.insert(PodRecord {
            name: Arc::new(name),
            namespace,
            attributes,
            selections: Vec::new(),
        });
        self.names.insert(&self.all[id].name, id);
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<PodRecord> {
        let pod = self.all.remove(id)?;
        self.names.remove(&pod.name, id);
        Some(pod)
    }

    /// Adds the pod to the label index.
    pub(crate) fn index_labels(&mut self, id: PodId) {
        self.postings.insert(&self.all[id].attributes.labels, id);
    }

    pub(crate) fn unindex_labels(&mut self, id: PodId) {
        self.postings.remove(&self.all[id].attributes.labels, id);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.postings.is_empty()
    }

    /// Whether `one` rather than `other` owns an address that both claim.
    pub(crate) fn outranks(&self, one: PodId, other: PodId) -> bool {
        let rank = |id: PodId| (&self[id].attributes.claim_priority, &self[id].name);
        rank(one) > rank(other)
    }
}

impl std::ops::Index<PodId> for PodTable {
    type Output = PodRecord;

    fn index(&self, id: PodId) -> &PodRecord {
        &self.all[id]
    }
}

impl std::ops::IndexMut<PodId> for PodTable {
    fn index_mut(&mut self, id: PodId) -> &mut PodRecord {
        &mut self.all[id]
    }
}

//! Utilization of a node's scored resources, with and without the incoming pod. Shared by `NodeResourcesFit` and
//! `NodeResourcesBalancedAllocation` (upstream: `resourceAllocationScorer`).

use super::is_scalar;
use crate::cluster::{NodeInfo, NodeTable};
use crate::model::Pod;

/// A scored resource and its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSpec {
    pub name: Box<str>,
    pub weight: i64,
}

impl ResourceSpec {
    /// Upstream's default: CPU and memory with equal weight.
    pub fn cpu_and_memory() -> Vec<ResourceSpec> {
        ["cpu", "memory"]
            .map(|name| ResourceSpec {
                name: name.into(),
                weight: 1,
            })
            .into()
    }
}

/// Which requests count as CPU and memory usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plugins) enum UsageBasis {
    /// Requests as specified.
    Requested,
    /// Requests with a minimum per container (upstream: `NonZeroRequested`).
    NonZeroRequested,
}

/// The resources that are scored for one pod.
pub(in crate::plugins) struct ResourceUsageCalculator<'c> {
    pub(in crate::plugins) nodes: &'c NodeTable,
    basis: UsageBasis,
    resources: Vec<WeightedRequest<'c>>,
}

struct WeightedRequest<'c> {
    kind: ResourceKind<'c>,
    weight: i64,
    requested: i64,
}

#[derive(Clone, Copy)]
enum ResourceKind<'c> {
    Cpu,
    Memory,
    Storage,
    Other(&'c str),
}

/// One resource of a node: allocatable, used, and used including the incoming pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plugins) struct NodeResourceUsage {
    pub(in crate::plugins) weight: i64,
    pub(in crate::plugins) allocatable: i64,
    pub(in crate::plugins) used: i64,
    pub(in crate::plugins) with_pod: i64,
}

impl<'c> ResourceUsageCalculator<'c> {
    pub(in crate::plugins) fn new(
        resources: &'c [ResourceSpec],
        basis: UsageBasis,
        pod: &Pod,
        nodes: &'c NodeTable,
    ) -> ResourceUsageCalculator<'c> {
        let part = |resource: &'c ResourceSpec| {
            let kind = match &*resource.name {
                "cpu" => ResourceKind::Cpu,
                "memory" => ResourceKind::Memory,
                "ephemeral-storage" => ResourceKind::Storage,
                name => ResourceKind::Other(name),
            };
            let added = match (kind, basis) {
                (ResourceKind::Cpu, UsageBasis::NonZeroRequested) => pod.non_zero_milli_cpu,
                (ResourceKind::Memory, UsageBasis::NonZeroRequested) => pod.non_zero_memory,
                _ => pod.requests.get(&resource.name),
            };
            // As upstream, scalar resources count only for pods that request them.
            let counts = added != 0 || !is_scalar(&resource.name);
            counts.then_some(WeightedRequest {
                kind,
                weight: resource.weight,
                requested: added,
            })
        };
        ResourceUsageCalculator {
            nodes,
            basis,
            resources: resources.iter().filter_map(part).collect(),
        }
    }

    /// Whether the pod requests none of the scored resources.
    pub(in crate::plugins) fn requests_nothing(&self) -> bool {
        self.resources.iter().all(|part| part.requested == 0)
    }

    /// The usage of each scored resource that the node has.
    #[inline]
    pub(in crate::plugins) fn usage_on<'m>(
        &'m self,
        slot: &'m NodeInfo,
    ) -> impl Iterator<Item = NodeResourceUsage> + Clone + 'm {
        let of_part = move |part: &WeightedRequest<'c>| {
            let (has, used) = match (part.kind, self.basis) {
                (ResourceKind::Cpu, UsageBasis::Requested) => {
                    (slot.allocatable.milli_cpu, slot.requested.milli_cpu)
                }
                (ResourceKind::Cpu, UsageBasis::NonZeroRequested) => {
                    (slot.allocatable.milli_cpu, slot.non_zero_milli_cpu)
                }
                (ResourceKind::Memory, UsageBasis::Requested) => {
                    (slot.allocatable.memory, slot.requested.memory)
                }
                (ResourceKind::Memory, UsageBasis::NonZeroRequested) => {
                    (slot.allocatable.memory, slot.non_zero_memory)
                }
                (ResourceKind::Storage, _) => (
                    slot.allocatable.ephemeral_storage,
                    slot.requested.ephemeral_storage,
                ),
                (ResourceKind::Other(name), _) => {
                    let has = slot.node().map_or(0, |node| node.allocatable.scalar(name));
                    (has, slot.requested.scalar(name))
                }
            };
            (has != 0).then_some(NodeResourceUsage {
                weight: part.weight,
                allocatable: has,
                used,
                with_pod: used.saturating_add(part.requested),
            })
        };
        self.resources.iter().filter_map(of_part)
    }
}

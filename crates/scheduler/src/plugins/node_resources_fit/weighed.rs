//! How full a node would be with a pod, by the resources that are compared.

use super::is_scalar;
use crate::cluster::{NodeSlot, Nodes};
use crate::model::Pod;

/// A resource and how much it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceWeight {
    pub name: Box<str>,
    pub weight: i64,
}

impl ResourceWeight {
    /// Processor and memory alike.
    pub fn usual() -> Vec<ResourceWeight> {
        ["cpu", "memory"]
            .map(|name| ResourceWeight {
                name: name.into(),
                weight: 1,
            })
            .into()
    }
}

/// What counts as used of processor and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plugins) enum Basis {
    /// What pods ask for.
    Requested,
    /// At least a little for each container.
    Assumed,
}

/// What is compared, with what the pod adds to it.
pub(in crate::plugins) struct Measure<'c> {
    pub(in crate::plugins) nodes: &'c Nodes,
    basis: Basis,
    parts: Vec<Part<'c>>,
}

struct Part<'c> {
    kind: Kind<'c>,
    weight: i64,
    added: i64,
}

#[derive(Clone, Copy)]
enum Kind<'c> {
    Cpu,
    Memory,
    Storage,
    Other(&'c str),
}

/// One resource of a node: what there is, what is used, and what is used with the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plugins) struct Level {
    pub(in crate::plugins) weight: i64,
    pub(in crate::plugins) has: i64,
    pub(in crate::plugins) used: i64,
    pub(in crate::plugins) with_pod: i64,
}

impl<'c> Measure<'c> {
    pub(in crate::plugins) fn new(
        resources: &'c [ResourceWeight],
        basis: Basis,
        pod: &Pod,
        nodes: &'c Nodes,
    ) -> Measure<'c> {
        let part = |resource: &'c ResourceWeight| {
            let kind = match &*resource.name {
                "cpu" => Kind::Cpu,
                "memory" => Kind::Memory,
                "ephemeral-storage" => Kind::Storage,
                name => Kind::Other(name),
            };
            let added = match (kind, basis) {
                (Kind::Cpu, Basis::Assumed) => pod.assumed_milli_cpu,
                (Kind::Memory, Basis::Assumed) => pod.assumed_memory,
                _ => pod.requests.get(&resource.name),
            };
            // What is special to some pods does not count for others.
            let counts = added != 0 || !is_scalar(&resource.name);
            counts.then_some(Part {
                kind,
                weight: resource.weight,
                added,
            })
        };
        Measure {
            nodes,
            basis,
            parts: resources.iter().filter_map(part).collect(),
        }
    }

    /// Whether the pod adds nothing.
    pub(in crate::plugins) fn adds_nothing(&self) -> bool {
        self.parts.iter().all(|part| part.added == 0)
    }

    /// All resources that a node has.
    #[inline]
    pub(in crate::plugins) fn levels<'m>(
        &'m self,
        slot: &'m NodeSlot,
    ) -> impl Iterator<Item = Level> + Clone + 'm {
        let of_part = move |part: &Part<'c>| {
            let (has, used) = match (part.kind, self.basis) {
                (Kind::Cpu, Basis::Requested) => (slot.room.milli_cpu, slot.requested.milli_cpu),
                (Kind::Cpu, Basis::Assumed) => (slot.room.milli_cpu, slot.assumed_milli_cpu),
                (Kind::Memory, Basis::Requested) => (slot.room.memory, slot.requested.memory),
                (Kind::Memory, Basis::Assumed) => (slot.room.memory, slot.assumed_memory),
                (Kind::Storage, _) => (
                    slot.room.ephemeral_storage,
                    slot.requested.ephemeral_storage,
                ),
                (Kind::Other(name), _) => {
                    let has = slot
                        .facts()
                        .map_or(0, |facts| facts.allocatable.other(name));
                    (has, slot.requested.other(name))
                }
            };
            (has != 0).then_some(Level {
                weight: part.weight,
                has,
                used,
                with_pod: used.saturating_add(part.added),
            })
        };
        self.parts.iter().filter_map(of_part)
    }
}

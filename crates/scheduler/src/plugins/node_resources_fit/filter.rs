//! Filter: whether the pod's requests fit the unrequested resources of a node.

use std::fmt;

use super::{NodeResourcesFit, is_extended, is_scalar};
use crate::cluster::{NodeId, NodeInfo, NodeTable};
use crate::model::{Node, Pod, Resources};
use crate::plugins::{FilterRejection, NodeFilter};

const PODS: u32 = 1;
const CPU: u32 = 1 << 1;
const MEMORY: u32 = 1 << 2;
const STORAGE: u32 = 1 << 3;
/// Scalar resources have one bit each from here on; those beyond the last bit share it.
const SCALARS_FIRST_BIT: usize = 4;
const SCALAR_BITS_MAX: usize = 32 - SCALARS_FIRST_BIT;

/// Reason codes are bit sets of the insufficient resources.
pub(super) struct ResourceFitFilter<'c> {
    requests: PodRequests<'c>,
    nodes: &'c NodeTable,
}

/// The resource requests of a pod, without ignored and zero ones; computed once per pod.
pub(super) struct PodRequests<'p> {
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    scalars: Vec<(&'p str, i64)>,
}

impl<'p> PodRequests<'p> {
    pub(super) fn new(pod: &'p Pod, plugin: &NodeResourcesFit) -> PodRequests<'p> {
        let requests = &pod.requests;
        let others = requests.scalars.iter();
        PodRequests {
            milli_cpu: requests.milli_cpu,
            memory: requests.memory,
            ephemeral_storage: requests.ephemeral_storage,
            scalars: others
                .filter(|(name, amount)| *amount != 0 && is_scalar(name) && !plugin.ignores(name))
                .map(|(name, amount)| (&**name, *amount))
                .collect(),
        }
    }

    /// The bits of insufficient resources, and whether preemption may help: no request exceeds the node's allocatable.
    #[inline]
    fn insufficient(&self, slot: &NodeInfo) -> (u32, bool) {
        let (allocatable, used) = (&slot.allocatable, &slot.requested);
        let mut insufficient = 0;
        let mut is_resolvable = true;
        let mut check = |bit: u32, wanted: i64, allocatable: i64, used: i64| {
            if wanted > allocatable.saturating_sub(used) {
                insufficient |= bit;
                is_resolvable &= wanted <= allocatable;
            }
        };
        if self.milli_cpu > 0 {
            check(CPU, self.milli_cpu, allocatable.milli_cpu, used.milli_cpu);
        }
        if self.memory > 0 {
            check(MEMORY, self.memory, allocatable.memory, used.memory);
        }
        if self.ephemeral_storage > 0 {
            let (allocatable, used) = (allocatable.ephemeral_storage, used.ephemeral_storage);
            check(STORAGE, self.ephemeral_storage, allocatable, used);
        }
        for (index, (name, wanted)) in self.scalars.iter().enumerate() {
            let bit = 1 << (SCALARS_FIRST_BIT + index.min(SCALAR_BITS_MAX - 1));
            let allocatable = slot.node().map_or(0, |node| node.allocatable.scalar(name));
            check(bit, *wanted, allocatable, used.scalar(name));
        }
        if slot.pods().len() as i64 + 1 > allocatable.pods {
            insufficient |= PODS;
        }
        (insufficient, is_resolvable)
    }

    /// Whether the pod fits the empty node.
    pub(super) fn fits_alone(&self, node: &Node) -> bool {
        let allocatable = &node.allocatable;
        node.max_pods > 0
            && self.milli_cpu <= allocatable.milli_cpu
            && self.memory <= allocatable.memory
            && self.ephemeral_storage <= allocatable.ephemeral_storage
            && self
                .scalars
                .iter()
                .all(|(name, wanted)| *wanted <= allocatable.scalar(name))
    }

    /// Whether `more` exceeds `less` in a requested resource.
    pub(super) fn is_increase(&self, more: &Resources, less: &Resources) -> bool {
        (self.milli_cpu > 0 && more.milli_cpu > less.milli_cpu)
            || (self.memory > 0 && more.memory > less.memory)
            || (self.ephemeral_storage > 0 && more.ephemeral_storage > less.ephemeral_storage)
            || self
                .scalars
                .iter()
                .any(|(name, _)| more.scalar(name) > less.scalar(name))
    }

    fn scalars_of_bit(&self, bit: usize) -> &[(&'p str, i64)] {
        let index = bit - SCALARS_FIRST_BIT;
        let end = match index == SCALAR_BITS_MAX - 1 {
            true => self.scalars.len(),
            false => index + 1,
        };
        self.scalars.get(index..end).unwrap_or_default()
    }
}

impl NodeResourcesFit {
    fn ignores(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        is_extended(name)
            && (self.ignored_resources.contains(name)
                || self.ignored_resource_groups.contains(group))
    }
}

impl<'c> ResourceFitFilter<'c> {
    pub(super) fn new(
        plugin: &NodeResourcesFit,
        pod: &'c Pod,
        nodes: &'c NodeTable,
    ) -> ResourceFitFilter<'c> {
        ResourceFitFilter {
            requests: PodRequests::new(pod, plugin),
            nodes,
        }
    }
}

fn bits(what: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |bit| what >> bit & 1 == 1)
}

impl NodeFilter for ResourceFitFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        match self.requests.insufficient(self.nodes.get(node)) {
            (0, _) => Ok(()),
            (what, is_resolvable) => Err(FilterRejection {
                is_resolvable,
                reason_code: what,
            }),
        }
    }

    fn reasons(&self, rejection: FilterRejection) -> Vec<String> {
        let mut reasons = Vec::new();
        for bit in bits(rejection.reason_code) {
            match 1 << bit {
                PODS => reasons.push("Too many pods".to_owned()),
                CPU => reasons.push("Insufficient cpu".to_owned()),
                MEMORY => reasons.push("Insufficient memory".to_owned()),
                STORAGE => reasons.push("Insufficient ephemeral-storage".to_owned()),
                _ => {
                    let others = self.requests.scalars_of_bit(bit).iter();
                    reasons.extend(others.map(|(name, _)| format!("Insufficient {name}")));
                }
            }
        }
        reasons
    }

    fn detail(&self, node: NodeId, rejection: FilterRejection) -> Option<String> {
        let slot = self.nodes.get(node);
        let node = slot.node()?;
        let (allocatable, used, wanted) = (&node.allocatable, &slot.requested, &self.requests);
        let mut all = Vec::new();
        for bit in bits(rejection.reason_code) {
            match 1 << bit {
                PODS => {
                    let (there, max) = (slot.pods().len(), node.max_pods);
                    all.push(format!("pods: {there} of {max} in use"));
                }
                CPU => all.push(insufficiency(
                    "cpu",
                    MilliCpuQuantity,
                    wanted.milli_cpu,
                    used.milli_cpu,
                    allocatable.milli_cpu,
                )),
                MEMORY => all.push(insufficiency(
                    "memory",
                    ByteQuantity,
                    wanted.memory,
                    used.memory,
                    allocatable.memory,
                )),
                STORAGE => {
                    let (used, allocatable) =
                        (used.ephemeral_storage, allocatable.ephemeral_storage);
                    all.push(insufficiency(
                        "ephemeral-storage",
                        ByteQuantity,
                        wanted.ephemeral_storage,
                        used,
                        allocatable,
                    ));
                }
                _ => {
                    for (name, wanted) in wanted.scalars_of_bit(bit) {
                        let (used, allocatable) = (used.scalar(name), allocatable.scalar(name));
                        if *wanted > allocatable.saturating_sub(used) {
                            all.push(insufficiency(
                                name,
                                UnitQuantity,
                                *wanted,
                                used,
                                allocatable,
                            ));
                        }
                    }
                }
            }
        }
        Some(all.join("; "))
    }
}

fn insufficiency<D: fmt::Display>(
    name: &str,
    unit: impl Fn(i64) -> D,
    wanted: i64,
    used: i64,
    allocatable: i64,
) -> String {
    let (wanted, used, allocatable) = (unit(wanted), unit(used), unit(allocatable));
    format!("{name}: {wanted} requested, {used} of {allocatable} in use")
}

struct MilliCpuQuantity(i64);
struct ByteQuantity(i64);
struct UnitQuantity(i64);

impl fmt::Display for MilliCpuQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1000 {
            0 => write!(f, "{}", self.0 / 1000),
            _ => write!(f, "{}m", self.0),
        }
    }
}

/// Uses the largest binary unit that gives a whole number.
impl fmt::Display for ByteQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "Gi"), (20, "Mi"), (10, "Ki")];
        for (shift, unit) in units {
            if self.0 != 0 && self.0 % (1 << shift) == 0 {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for UnitQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

//! Whether a pod has room on a node.

use std::fmt;

use super::{NodeResourcesFit, is_extended, is_scalar};
use crate::cluster::{NodeId, NodeSlot, Nodes};
use crate::model::{Node, Pod, Resources};
use crate::plugins::{NodeFilter, Refusal};

const PODS: u32 = 1;
const CPU: u32 = 1 << 1;
const MEMORY: u32 = 1 << 2;
const STORAGE: u32 = 1 << 3;
/// From here on, one bit for each other resource; those for which there is none left share the last.
const OTHERS: usize = 4;
const OTHERS_MAX: usize = 32 - OTHERS;

/// What a pod asks for. Nothing of it is counted anew for each node.
pub(super) struct FitFilter<'c> {
    wanted: Wanted<'c>,
    nodes: &'c Nodes,
}

pub(super) struct Wanted<'p> {
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    others: Vec<(&'p str, i64)>,
}

impl<'p> Wanted<'p> {
    pub(super) fn by(pod: &'p Pod, plugin: &NodeResourcesFit) -> Wanted<'p> {
        let requests = &pod.requests;
        let others = requests.others.iter();
        Wanted {
            milli_cpu: requests.milli_cpu,
            memory: requests.memory,
            ephemeral_storage: requests.ephemeral_storage,
            others: others
                .filter(|(name, amount)| *amount != 0 && is_scalar(name) && !plugin.ignores(name))
                .map(|(name, amount)| (&**name, *amount))
                .collect(),
        }
    }

    /// What there is too little of, and whether it could be otherwise if all others went.
    #[inline]
    fn lacking(&self, slot: &NodeSlot) -> (u32, bool) {
        let (has, used) = (&slot.room, &slot.requested);
        let mut lacking = 0;
        let mut is_resolvable = true;
        let mut look = |bit: u32, wanted: i64, has: i64, used: i64| {
            if wanted > has.saturating_sub(used) {
                lacking |= bit;
                is_resolvable &= wanted <= has;
            }
        };
        if self.milli_cpu > 0 {
            look(CPU, self.milli_cpu, has.milli_cpu, used.milli_cpu);
        }
        if self.memory > 0 {
            look(MEMORY, self.memory, has.memory, used.memory);
        }
        if self.ephemeral_storage > 0 {
            let (has, used) = (has.ephemeral_storage, used.ephemeral_storage);
            look(STORAGE, self.ephemeral_storage, has, used);
        }
        for (index, (name, wanted)) in self.others.iter().enumerate() {
            let bit = 1 << (OTHERS + index.min(OTHERS_MAX - 1));
            let has = slot
                .facts()
                .map_or(0, |facts| facts.allocatable.other(name));
            look(bit, *wanted, has, used.other(name));
        }
        if slot.pods().len() as i64 + 1 > has.pods {
            lacking |= PODS;
        }
        (lacking, is_resolvable)
    }

    /// Whether it would have room if nobody else were there.
    pub(super) fn fits_alone(&self, node: &Node) -> bool {
        let has = &node.allocatable;
        node.pods_max > 0
            && self.milli_cpu <= has.milli_cpu
            && self.memory <= has.memory
            && self.ephemeral_storage <= has.ephemeral_storage
            && self
                .others
                .iter()
                .all(|(name, wanted)| *wanted <= has.other(name))
    }

    /// Whether there is more of something that is asked for.
    pub(super) fn gains(&self, more: &Resources, less: &Resources) -> bool {
        (self.milli_cpu > 0 && more.milli_cpu > less.milli_cpu)
            || (self.memory > 0 && more.memory > less.memory)
            || (self.ephemeral_storage > 0 && more.ephemeral_storage > less.ephemeral_storage)
            || self
                .others
                .iter()
                .any(|(name, _)| more.other(name) > less.other(name))
    }

    fn others_of_bit(&self, bit: usize) -> &[(&'p str, i64)] {
        let index = bit - OTHERS;
        let end = match index == OTHERS_MAX - 1 {
            true => self.others.len(),
            false => index + 1,
        };
        self.others.get(index..end).unwrap_or_default()
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

impl<'c> FitFilter<'c> {
    pub(super) fn new(plugin: &NodeResourcesFit, pod: &'c Pod, nodes: &'c Nodes) -> FitFilter<'c> {
        FitFilter {
            wanted: Wanted::by(pod, plugin),
            nodes,
        }
    }
}

fn bits(what: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |bit| what >> bit & 1 == 1)
}

impl NodeFilter for FitFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        match self.wanted.lacking(self.nodes.get(node)) {
            (0, _) => Ok(()),
            (what, is_resolvable) => Err(Refusal {
                is_resolvable,
                what,
            }),
        }
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        let mut reasons = Vec::new();
        for bit in bits(refusal.what) {
            match 1 << bit {
                PODS => reasons.push("Too many pods".to_owned()),
                CPU => reasons.push("Insufficient cpu".to_owned()),
                MEMORY => reasons.push("Insufficient memory".to_owned()),
                STORAGE => reasons.push("Insufficient ephemeral-storage".to_owned()),
                _ => {
                    let others = self.wanted.others_of_bit(bit).iter();
                    reasons.extend(others.map(|(name, _)| format!("Insufficient {name}")));
                }
            }
        }
        reasons
    }

    fn detail(&self, node: NodeId, refusal: Refusal) -> Option<String> {
        let slot = self.nodes.get(node);
        let facts = slot.facts()?;
        let (has, used, wanted) = (&facts.allocatable, &slot.requested, &self.wanted);
        let mut all = Vec::new();
        for bit in bits(refusal.what) {
            match 1 << bit {
                PODS => {
                    let (there, max) = (slot.pods().len(), facts.pods_max);
                    all.push(format!("{there} pods are there, and {max} may be"));
                }
                CPU => all.push(lack(
                    "cpu",
                    Milli,
                    wanted.milli_cpu,
                    used.milli_cpu,
                    has.milli_cpu,
                )),
                MEMORY => all.push(lack(
                    "memory",
                    Bytes,
                    wanted.memory,
                    used.memory,
                    has.memory,
                )),
                STORAGE => {
                    let (used, has) = (used.ephemeral_storage, has.ephemeral_storage);
                    all.push(lack(
                        "ephemeral-storage",
                        Bytes,
                        wanted.ephemeral_storage,
                        used,
                        has,
                    ));
                }
                _ => {
                    for (name, wanted) in wanted.others_of_bit(bit) {
                        let (used, has) = (used.other(name), has.other(name));
                        if *wanted > has.saturating_sub(used) {
                            all.push(lack(name, Units, *wanted, used, has));
                        }
                    }
                }
            }
        }
        Some(all.join("; "))
    }
}

fn lack<D: fmt::Display>(
    name: &str,
    unit: impl Fn(i64) -> D,
    wanted: i64,
    used: i64,
    has: i64,
) -> String {
    let (wanted, used, has) = (unit(wanted), unit(used), unit(has));
    format!("{name}: {wanted} asked for, {used} of {has} in use")
}

struct Milli(i64);
struct Bytes(i64);
struct Units(i64);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 1000 {
            0 => write!(f, "{}", self.0 / 1000),
            _ => write!(f, "{}m", self.0),
        }
    }
}

/// In the largest unit in which it is a whole number.
impl fmt::Display for Bytes {
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

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

//! Required terms: those of the pod that comes, and the anti-affinity of those that are there.

use crate::cluster::{Cluster, Domain, Id, NodeId, PodSlot, Tally, TermId, Topology};
use crate::plugins::{NodeFilter, Refusal};

/// From so many terms on that repel a pod, their domains are put together first.
const REPELLING_EACH_MAX: usize = 4;

/// One term: what it counts, and where nodes are in it.
#[derive(Clone, Copy)]
pub(super) struct Counted<'c> {
    tally: &'c Tally,
    pub(super) topology: &'c Topology,
}

impl Counted<'_> {
    pub(super) fn has_any(&self, domain: Domain) -> bool {
        self.tally.at(domain) > 0
    }
}

pub(super) struct AffinityFilter<'c> {
    pub(super) pod: &'c PodSlot,
    pub(super) cluster: &'c Cluster,
    pub(super) affinity: Vec<Counted<'c>>,
    /// Nobody is where it wants to be, but the pod would be welcome to itself.
    is_first: bool,
    pub(super) anti_affinity: Vec<Counted<'c>>,
    repelling: Vec<Counted<'c>>,
    /// The domains in which someone repels the pod, where those are many terms.
    repelled: Vec<(&'c Topology, Vec<bool>)>,
}

pub(super) const AFFINITY: Refusal = Refusal {
    is_resolvable: false,
    what: 0,
};
pub(super) const ANTI_AFFINITY: Refusal = Refusal {
    is_resolvable: true,
    what: 1,
};
const ANTI_AFFINITY_OF_OTHERS: Refusal = Refusal {
    is_resolvable: true,
    what: 2,
};

impl<'c> AffinityFilter<'c> {
    /// `None` if the pod wants nothing and nobody minds it.
    pub(super) fn new(pod: &'c PodSlot, cluster: &'c Cluster) -> Option<AffinityFilter<'c>> {
        let counted = |term: &TermId| {
            let slot = cluster.term(*term);
            Counted {
                tally: &slot.picked,
                topology: cluster.topology(slot.topology),
            }
        };
        let affinity: Vec<_> = pod.terms().affinity.iter().map(counted).collect();
        let anti_affinity: Vec<_> = pod.terms().anti_affinity.iter().map(counted).collect();
        let repelling: Vec<_> = repelling(pod, cluster)
            .map(|(_, counted)| counted)
            .collect();
        if affinity.is_empty() && anti_affinity.is_empty() && repelling.is_empty() {
            return None;
        }
        let is_first =
            affinity.iter().all(|term| term.tally.is_empty()) && picks_itself(pod, cluster);
        let (repelling, repelled) = match repelling.len() {
            0..=REPELLING_EACH_MAX => (repelling, Vec::new()),
            _ => (Vec::new(), put_together(&repelling)),
        };
        Some(AffinityFilter {
            pod,
            cluster,
            affinity,
            is_first,
            anti_affinity,
            repelling,
            repelled,
        })
    }

    fn is_attracted(&self, node: NodeId) -> bool {
        let mut has_all = true;
        for term in &self.affinity {
            match term.topology.domain(node) {
                None => return false,
                Some(domain) => has_all &= term.has_any(domain),
            }
        }
        has_all || self.is_first
    }

    fn is_repelled(&self, node: NodeId) -> bool {
        let any = |term: &Counted<'_>| {
            let domain = term.topology.domain(node);
            domain.is_some_and(|domain| term.has_any(domain))
        };
        self.repelling.iter().any(any)
            || self.repelled.iter().any(|(topology, domains)| {
                let domain = topology.domain(node);
                domain.is_some_and(|domain| domains[domain.index()])
            })
    }
}

/// The terms of required anti-affinity that pods have which are somewhere, and that pick this pod.
pub(super) fn repelling<'c>(
    pod: &'c PodSlot,
    cluster: &'c Cluster,
) -> impl Iterator<Item = (TermId, Counted<'c>)> {
    let pickers = pod.picked_by().iter();
    let terms = pickers.flat_map(|picker| cluster.terms_of(*picker));
    terms.filter_map(|id| {
        let slot = cluster.term(*id);
        let topology = cluster.topology(slot.topology);
        (!slot.repelling.is_empty()).then_some((
            *id,
            Counted {
                tally: &slot.repelling,
                topology,
            },
        ))
    })
}

/// Whether all terms of its affinity pick the pod itself.
pub(super) fn picks_itself(pod: &PodSlot, cluster: &Cluster) -> bool {
    let mut terms = pod.terms().affinity_each.iter();
    terms.all(|term| pod.picked_by().contains(&cluster.term(*term).picker))
}

fn put_together<'c>(terms: &[Counted<'c>]) -> Vec<(&'c Topology, Vec<bool>)> {
    let mut all: Vec<(&'c Topology, Vec<bool>)> = Vec::new();
    for term in terms {
        let known = all
            .iter()
            .position(|(topology, _)| std::ptr::eq(*topology, term.topology));
        let place = known.unwrap_or_else(|| {
            all.push((term.topology, vec![false; term.topology.domains_bound()]));
            all.len() - 1
        });
        for (domain, _) in term.tally.iter() {
            all[place].1[domain.index()] = true;
        }
    }
    all
}

impl NodeFilter for AffinityFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        if !self.is_attracted(node) {
            return Err(AFFINITY);
        }
        let is_near = |term: &Counted<'_>| {
            let domain = term.topology.domain(node);
            domain.is_some_and(|domain| term.has_any(domain))
        };
        if self.anti_affinity.iter().any(is_near) {
            return Err(ANTI_AFFINITY);
        }
        if self.is_repelled(node) {
            return Err(ANTI_AFFINITY_OF_OTHERS);
        }
        Ok(())
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        let reason = match refusal {
            AFFINITY => "node(s) didn't match pod affinity rules",
            ANTI_AFFINITY => "node(s) didn't match pod anti-affinity rules",
            _ => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        vec![reason.to_owned()]
    }
    fn detail(&self, node: NodeId, refusal: Refusal) -> Option<String> {
        super::detail::detail(self, node, refusal)
    }
}

//! The decision about one pod.

mod message;
mod nominations;
mod observer;
mod profile;
mod search;
mod shuffle;

pub use message::{NO_NODES, message_of};
pub use nominations::{Nomination, Nominations};
pub use observer::{Observer, Point};
pub use profile::{Enabled, Profile};
pub use search::{Checks, Search};
pub use shuffle::Shuffle;

use crate::cluster::{Cluster, NodeId, PodId, PodSlot};
use crate::plugins::Refusal;
use search::Found;

/// Where a pod goes, or why nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Place {
        node: NodeId,
        /// How many nodes were looked at, and how many of them would do.
        looked_at: usize,
        possible: usize,
    },
    Nowhere(Diagnosis),
}

/// Why there is no node for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// Each node that could not be, with what stood against it.
    pub refused: Vec<(NodeId, Objection)>,
    /// One plugin had no node for it, whatever it is: which, and why.
    pub everywhere: Option<(usize, String)>,
    /// Plugins that had few nodes for it, and none of those could be: all others were not looked at.
    pub narrowed_by: Vec<usize>,
    /// How often each reason was given, in the order of the texts.
    pub reasons: Vec<(String, usize)>,
}

/// What a plugin, by its place in the profile, has against a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Objection {
    pub plugin: usize,
    pub refusal: Refusal,
}

impl Diagnosis {
    fn everywhere((plugin, reason): (usize, String)) -> Diagnosis {
        Diagnosis {
            everywhere: Some((plugin, reason)),
            ..Diagnosis::default()
        }
    }

    /// The plugins, by their places in the profile, that some node was refused by.
    pub fn plugins(&self) -> impl Iterator<Item = usize> {
        let refused = self.refused.iter().map(|(_, objection)| objection.plugin);
        let everywhere = self.everywhere.iter().map(|(plugin, _)| *plugin);
        refused
            .chain(everywhere)
            .chain(self.narrowed_by.iter().copied())
    }
}

impl Profile {
    /// Decides about a pod. Whatever it looks at is of one moment, since nothing changes meanwhile.
    pub fn decide(&self, cluster: &Cluster, pod: PodId, search: &mut Search) -> Decision {
        let Some(slot) = cluster.pods().get(pod) else {
            return Decision::Nowhere(Diagnosis::default());
        };
        let observer = search.begin();
        let begun = observer.as_ref().map(|observer| observer.now());
        let checks = match self.checks(slot, cluster) {
            Ok(checks) => checks.observed(self, observer.as_ref()),
            Err(why) => return Decision::Nowhere(Diagnosis::everywhere(why)),
        };
        let mut found = Found::default();
        let percentage = self.percentage_of_nodes_to_score;
        search.find(&mut found, cluster, &checks, percentage, |_| false);
        if let (Some(observer), Some(begun)) = (&observer, begun) {
            let took = observer.now().saturating_sub(begun);
            let is_refused = found.possible.is_empty();
            observer.point_took(&self.scheduler_name, Point::Filter, is_refused, took);
        }
        self.conclude(slot, cluster, search, found, &checks, observer.as_deref())
    }

    /// Decides about a pod with regard to places that are kept for others, and to the one that is kept for it. Others
    /// are put onto nodes meanwhile, and taken off again.
    pub fn decide_beside(
        &self,
        nominations: &Nominations,
        cluster: &mut Cluster,
        pod: PodId,
        search: &mut Search,
    ) -> Decision {
        if let Some(node) = nominations.node_of(pod, cluster)
            && self.accepts(nominations, cluster, pod, node).is_ok()
        {
            return Decision::Place {
                node,
                looked_at: 1,
                possible: 1,
            };
        }
        if nominations.is_empty() {
            return self.decide(cluster, pod, search);
        }
        let mut found = Found::default();
        loop {
            let Some(slot) = cluster.pods().get(pod) else {
                return Decision::Nowhere(Diagnosis::default());
            };
            let checks = match self.checks(slot, cluster) {
                Ok(checks) => checks,
                Err(why) => return Decision::Nowhere(Diagnosis::everywhere(why)),
            };
            let percentage = self.percentage_of_nodes_to_score;
            search.find(&mut found, cluster, &checks, percentage, |node| {
                nominations.keeps(cluster, node, pod, slot.facts.priority)
            });
            if found.kept.is_empty() {
                return self.conclude(slot, cluster, search, found, &checks, None);
            }
            drop(checks);
            for node in std::mem::take(&mut found.kept) {
                match self.accepts(nominations, cluster, pod, node) {
                    Ok(()) => found.possible.push(node),
                    Err((objection, reasons)) => {
                        found.words.insert(objection, reasons);
                        found.refused.push((node, objection));
                    }
                }
            }
        }
    }

    fn conclude(
        &self,
        pod: &PodSlot,
        cluster: &Cluster,
        search: &mut Search,
        found: Found,
        checks: &Checks<'_>,
        observer: Option<&dyn Observer>,
    ) -> Decision {
        search.ended(&found);
        match found.possible.as_slice() {
            [] => {
                let mut diagnosis = checks.diagnose(found.refused, &found.words);
                self.add_absent(&mut diagnosis, cluster.nodes().order().len());
                Decision::Nowhere(diagnosis)
            }
            possible => Decision::Place {
                node: self.best(pod, cluster, possible, &mut search.shuffle, observer),
                looked_at: found.looked_at,
                possible: possible.len(),
            },
        }
    }

    /// Where plugins named the only nodes that could be, all others have this against them.
    fn add_absent(&self, diagnosis: &mut Diagnosis, nodes: usize) {
        let absent = nodes.saturating_sub(diagnosis.refused.len());
        if diagnosis.narrowed_by.is_empty() || absent == 0 {
            return;
        }
        let plugins = diagnosis.narrowed_by.iter();
        let mut names: Vec<&str> = plugins.map(|plugin| self.plugin_name(*plugin)).collect();
        names.sort_unstable();
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
        diagnosis.reasons.push((reason, absent));
        diagnosis.reasons.sort();
    }

    /// Whether a pod can go to a node as it is, and also when those are there that the node is kept for.
    pub fn accepts(
        &self,
        nominations: &Nominations,
        cluster: &mut Cluster,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (Objection, Vec<String>)> {
        self.check(cluster, pod, node)?;
        let Some(priority) = cluster.pods().get(pod).map(|slot| slot.facts.priority) else {
            return Ok(());
        };
        let others = nominations.kept_for(cluster, node, pod, priority);
        if others.is_empty() {
            return Ok(());
        }
        let mut before = Vec::with_capacity(others.len());
        for other in others {
            before.push((other, cluster.suppose(other, Some(node))));
        }
        let answer = self.check(cluster, pod, node);
        for (other, place) in before.into_iter().rev() {
            cluster.suppose(other, place);
        }
        answer
    }

    /// What the first plugin says that objects to a node, in words too.
    pub fn check(
        &self,
        cluster: &Cluster,
        pod: PodId,
        node: NodeId,
    ) -> Result<(), (Objection, Vec<String>)> {
        let Some(slot) = cluster.pods().get(pod) else {
            return Ok(());
        };
        match self.checks(slot, cluster) {
            Ok(checks) => checks.check(node).map_err(|objection| {
                let reasons = checks.reasons(objection);
                (objection, reasons)
            }),
            Err((plugin, reason)) => Err((
                Objection {
                    plugin,
                    refusal: Refusal {
                        is_resolvable: false,
                        what: u32::MAX,
                    },
                },
                vec![reason],
            )),
        }
    }

    /// One of those that score best, by chance.
    fn best(
        &self,
        pod: &PodSlot,
        cluster: &Cluster,
        possible: &[NodeId],
        shuffle: &mut Shuffle,
        observer: Option<&dyn Observer>,
    ) -> NodeId {
        if let [only] = possible {
            return *only;
        }
        let scores = match observer {
            None => self.scores(pod, cluster, possible),
            Some(observer) => self.scores_observed(pod, cluster, possible, observer),
        };
        let best = scores.iter().copied().max().unwrap_or_default();
        let mut chosen = (possible[0], 0);
        for (node, score) in possible.iter().zip(scores) {
            if score == best {
                chosen.1 += 1;
                if shuffle.below(chosen.1) == 0 {
                    chosen.0 = *node;
                }
            }
        }
        chosen.0
    }

    /// The weighted sum of what all plugins say of each node.
    pub fn scores(&self, pod: &PodSlot, cluster: &Cluster, nodes: &[NodeId]) -> Vec<i64> {
        let mut sums = vec![0; nodes.len()];
        self.each_score(pod, cluster, nodes, |enabled, scores| {
            enabled.add(scores, &mut sums);
        });
        sums
    }

    /// Hands on what each plugin says of the nodes, before its weight. Who has nothing to say is left out.
    pub fn each_score(
        &self,
        pod: &PodSlot,
        cluster: &Cluster,
        nodes: &[NodeId],
        mut hand_on: impl FnMut(&Enabled, &[i64]),
    ) {
        let mut scores = Vec::with_capacity(nodes.len());
        for enabled in self.plugins.iter().filter(|enabled| enabled.weight > 0) {
            let Some(score) = enabled.plugin.score(pod, cluster, nodes) else {
                continue;
            };
            scores.clear();
            scores.extend(nodes.iter().map(|node| score.score(*node)));
            score.normalise(nodes, &mut scores);
            hand_on(enabled, &scores);
        }
    }
}

//! The decision about one pod.

mod profile;
mod search;
mod shuffle;

pub use profile::{Enabled, Profile};
pub use search::{Checks, Search};
pub use shuffle::Shuffle;

use crate::cluster::{Cluster, NodeId, PodId, PodSlot};
use crate::plugins::Refusal;

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
    /// How often each reason was given, in the order of the texts.
    pub reasons: Vec<(String, usize)>,
}

/// What a plugin, by its place in the profile, has against a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Objection {
    pub plugin: usize,
    pub refusal: Refusal,
}

impl Profile {
    /// Decides about a pod. Whatever it looks at is of one moment, since nothing changes meanwhile.
    pub fn decide(&self, cluster: &Cluster, pod: PodId, search: &mut Search) -> Decision {
        let Some(pod) = cluster.pods().get(pod) else {
            return Decision::Nowhere(Diagnosis::default());
        };
        let checks = match self.checks(pod, cluster) {
            Ok(checks) => checks,
            Err((plugin, reason)) => {
                return Decision::Nowhere(Diagnosis {
                    everywhere: Some((plugin, reason)),
                    ..Diagnosis::default()
                });
            }
        };
        let found = search.find(cluster, &checks, self.percentage_of_nodes_to_score);
        match found.possible.as_slice() {
            [] => Decision::Nowhere(checks.diagnose(found.refused)),
            possible => Decision::Place {
                node: self.best(pod, cluster, possible, &mut search.shuffle),
                looked_at: found.looked_at,
                possible: possible.len(),
            },
        }
    }

    /// One of those that score best, by chance.
    fn best(
        &self,
        pod: &PodSlot,
        cluster: &Cluster,
        possible: &[NodeId],
        shuffle: &mut Shuffle,
    ) -> NodeId {
        if let [only] = possible {
            return *only;
        }
        let scores = self.scores(pod, cluster, possible);
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
        let mut scores = Vec::with_capacity(nodes.len());
        for enabled in self.plugins.iter().filter(|enabled| enabled.weight > 0) {
            let Some(score) = enabled.plugin.score(pod, cluster, nodes) else {
                continue;
            };
            scores.clear();
            scores.extend(nodes.iter().map(|node| score.score(*node)));
            score.normalise(nodes, &mut scores);
            for (sum, score) in sums.iter_mut().zip(&scores) {
                *sum += score * enabled.weight;
            }
        }
        sums
    }
}

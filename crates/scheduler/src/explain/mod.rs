//! Why a pod is where it is, or nowhere: every node, what stands against it, and how good it would be.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::Serialize;

use crate::cluster::{Cluster, NodeId, PodId, PodSlot};
use crate::cycle::{Checks, Objection, Profile};
use crate::plugins::Plugin;
use crate::plugins::node_name::NodeName;

/// What can be said about one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub namespace: String,
    pub name: String,
    /// Who schedules it.
    pub scheduler_name: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where a place is kept for it until others have left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// What holds it back before any node is looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<String>,
    /// A plugin that has no node for it at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub everywhere: Option<Against>,
    /// All nodes, in order of their names.
    pub nodes: Vec<NodeAnswer>,
}

/// What there is to say about one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeAnswer {
    pub name: String,
    pub fits: bool,
    /// Everything that stands against it, not only what was found first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Against>,
    /// It would do, if there were no room to be kept there for these pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_for: Vec<String>,
    /// The sum of all scores, if it fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<PluginScore>,
}

/// What a plugin has against a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Against {
    pub plugin: &'static str,
    /// In the words of the pod's condition.
    pub reasons: Vec<String>,
    /// Who or what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether it could help if other pods went.
    pub is_resolvable: bool,
}

/// What a plugin says of how good a node is, times its weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginScore {
    pub plugin: &'static str,
    pub score: i64,
}

/// Explains a pod that the cluster knows. One that is on a node is looked at as if it were to be placed again.
pub fn explain(cluster: &mut Cluster, profile: &Profile, id: PodId) -> Option<Explanation> {
    cluster.prepare();
    let place = cluster.suppose(id, None);
    let kept = kept(cluster, profile, id);
    let explanation = of_waiting(cluster, profile, id, place, &kept);
    cluster.suppose(id, place);
    explanation
}

/// Nodes with room that is kept for others.
type Kept = HashMap<NodeId, Beside>;

/// What stands against a node while others are supposed to be there already.
struct Beside {
    others: Vec<PodId>,
    against: Vec<Against>,
}

/// Looks at each node beside those pods that have no place yet but one that is kept there, if they are at least as
/// important. They are put onto it meanwhile, and taken off again.
fn kept(cluster: &mut Cluster, profile: &Profile, id: PodId) -> Kept {
    let mut waiting: HashMap<NodeId, Vec<PodId>> = HashMap::new();
    let Some(priority) = cluster.pods().get(id).map(|pod| pod.facts.priority) else {
        return Kept::new();
    };
    for (other, slot) in cluster.pods().iter() {
        let stands_before = other != id && slot.facts.priority >= priority;
        let node = slot.facts.nominated_node_name.as_deref();
        if stands_before
            && slot.place().is_none()
            && let Some(node) = node.and_then(|name| cluster.nodes().find(name))
        {
            waiting.entry(node).or_default().push(other);
        }
    }
    let beside = |(node, others): (NodeId, Vec<PodId>)| {
        for other in &others {
            cluster.suppose(*other, Some(node));
        }
        let against = against_one(cluster, profile, id, node);
        for other in &others {
            cluster.suppose(*other, None);
        }
        (node, Beside { others, against })
    };
    waiting.into_iter().map(beside).collect()
}

fn against_one(cluster: &Cluster, profile: &Profile, id: PodId, node: NodeId) -> Vec<Against> {
    let Some(pod) = cluster.pods().get(id) else {
        return Vec::new();
    };
    match profile.checks(pod, cluster) {
        Ok(checks) => against(profile, &checks, node),
        Err(why) => vec![everywhere(profile, why)],
    }
}

fn of_waiting(
    cluster: &Cluster,
    profile: &Profile,
    id: PodId,
    place: Option<NodeId>,
    kept: &Kept,
) -> Option<Explanation> {
    let pod = cluster.pods().get(id)?;
    let facts = &pod.facts;
    let mut explanation = Explanation {
        namespace: facts.key.namespace.to_string(),
        name: facts.key.name.to_string(),
        scheduler_name: facts.scheduler_name.to_string(),
        node: place.map(|node| cluster.nodes().get(node).name.to_string()),
        nominated_node: match place {
            Some(_) => None,
            None => facts.nominated_node_name.as_ref().map(ToString::to_string),
        },
        scheduling_gates: facts
            .scheduling_gates
            .iter()
            .map(ToString::to_string)
            .collect(),
        everywhere: None,
        nodes: Vec::new(),
    };
    match profile.checks(pod, cluster) {
        Ok(checks) => {
            explanation.nodes = nodes(cluster, profile, pod, &checks, kept, place.is_some());
        }
        Err(why) => explanation.everywhere = Some(everywhere(profile, why)),
    }
    Some(explanation)
}

fn everywhere(profile: &Profile, (plugin, reason): (usize, String)) -> Against {
    Against {
        plugin: profile.plugin_name(plugin),
        reasons: vec![reason],
        detail: None,
        is_resolvable: false,
    }
}

fn nodes(
    cluster: &Cluster,
    profile: &Profile,
    pod: &PodSlot,
    checks: &Checks<'_>,
    kept: &Kept,
    is_placed: bool,
) -> Vec<NodeAnswer> {
    let mut possible = Vec::new();
    let mut answers = Vec::new();
    for node in cluster.nodes().order() {
        let mut against = against(profile, checks, *node);
        // The name of its node was not asked for: it came with the binding.
        against.retain(|objection| !is_placed || objection.plugin != NodeName.name());
        let mut kept_for = Vec::new();
        if against.is_empty()
            && let Some(beside) = kept.get(node).filter(|beside| !beside.against.is_empty())
        {
            against.clone_from(&beside.against);
            kept_for = names(cluster, &beside.others);
        }
        let name = cluster.nodes().get(*node).name.to_string();
        if against.is_empty() {
            possible.push((*node, answers.len()));
        }
        answers.push(NodeAnswer {
            name,
            fits: against.is_empty(),
            against,
            kept_for,
            score: None,
            scores: Vec::new(),
        });
    }
    let ids: Vec<NodeId> = possible.iter().map(|(node, _)| *node).collect();
    profile.each_score(pod, cluster, &ids, |enabled, scores| {
        for ((_, answer), score) in possible.iter().zip(scores) {
            let answer = &mut answers[*answer];
            let score = score * enabled.weight;
            *answer.score.get_or_insert_default() += score;
            answer.scores.push(PluginScore {
                plugin: enabled.plugin.name(),
                score,
            });
        }
    });
    answers.sort_by(|a, b| a.name.cmp(&b.name));
    answers
}

fn names(cluster: &Cluster, pods: &[PodId]) -> Vec<String> {
    let slots = pods.iter().filter_map(|id| cluster.pods().get(*id));
    let mut names: Vec<String> = slots
        .map(|slot| format!("{}/{}", slot.facts.key.namespace, slot.facts.key.name))
        .collect();
    names.sort();
    names
}

/// A node that is not among the only ones that can be has the objection of whoever said so.
fn against(profile: &Profile, checks: &Checks<'_>, node: NodeId) -> Vec<Against> {
    let objections = checks.objections(node).into_iter();
    objections
        .map(|objection: Objection| Against {
            plugin: profile.plugin_name(objection.plugin),
            reasons: checks.reasons(objection),
            detail: checks.detail(node, objection),
            is_resolvable: objection.refusal.is_resolvable,
        })
        .collect()
}

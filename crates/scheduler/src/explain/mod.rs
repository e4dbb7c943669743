//! Why a pod is where it is, or nowhere: every node, what stands against it, and how good it would be.

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
    let explanation = of_waiting(cluster, profile, id, place);
    cluster.suppose(id, place);
    explanation
}

fn of_waiting(
    cluster: &Cluster,
    profile: &Profile,
    id: PodId,
    place: Option<NodeId>,
) -> Option<Explanation> {
    let pod = cluster.pods().get(id)?;
    let facts = &pod.facts;
    let mut explanation = Explanation {
        namespace: facts.key.namespace.to_string(),
        name: facts.key.name.to_string(),
        scheduler_name: facts.scheduler_name.to_string(),
        node: place.map(|node| cluster.nodes().get(node).name.to_string()),
        scheduling_gates: facts
            .scheduling_gates
            .iter()
            .map(ToString::to_string)
            .collect(),
        everywhere: None,
        nodes: Vec::new(),
    };
    match profile.checks(pod, cluster) {
        Ok(checks) => explanation.nodes = nodes(cluster, profile, pod, &checks, place.is_some()),
        Err((plugin, reason)) => {
            explanation.everywhere = Some(Against {
                plugin: profile.plugins[plugin].plugin.name(),
                reasons: vec![reason],
                detail: None,
                is_resolvable: false,
            });
        }
    }
    Some(explanation)
}

fn nodes(
    cluster: &Cluster,
    profile: &Profile,
    pod: &PodSlot,
    checks: &Checks<'_>,
    is_placed: bool,
) -> Vec<NodeAnswer> {
    let mut possible = Vec::new();
    let mut answers = Vec::new();
    for node in cluster.nodes().order() {
        let mut against = against(profile, checks, *node);
        // The name of its node was not asked for: it came with the binding.
        against.retain(|objection| !is_placed || objection.plugin != NodeName.name());
        let name = cluster.nodes().get(*node).name.to_string();
        if against.is_empty() {
            possible.push((*node, answers.len()));
        }
        answers.push(NodeAnswer {
            name,
            fits: against.is_empty(),
            against,
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

/// A node that is not among the only ones that can be has the objection of whoever said so.
fn against(profile: &Profile, checks: &Checks<'_>, node: NodeId) -> Vec<Against> {
    let objections = checks.objections(node).into_iter();
    objections
        .map(|objection: Objection| Against {
            plugin: profile.plugins[objection.plugin].plugin.name(),
            reasons: checks.reasons(objection),
            detail: checks.detail(node, objection),
            is_resolvable: objection.refusal.is_resolvable,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{cluster, come, node, node_with, pod};
    use crate::tests::agreement::usual;

    #[test]
    fn a_pod_that_has_a_node_is_explained_as_if_it_had_none() {
        let shut = node_with("c", json!({"spec": {"unschedulable": true}}));
        let mut cluster = cluster([node("a"), node("b"), shut], []);
        let spec = json!({"nodeName": "b"});
        let id = come(&mut cluster, pod("p", json!({}), spec));
        let explanation = explain(&mut cluster, &usual(), id).unwrap();
        assert_eq!(explanation.node.as_deref(), Some("b"));
        let fits: Vec<bool> = explanation.nodes.iter().map(|node| node.fits).collect();
        assert_eq!(fits, [true, true, false]);
    }
}

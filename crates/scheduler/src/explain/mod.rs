//! Explains the scheduling of one pod: for every node, all rejections and scores. Entry point: [`explain`]; used by
//! `rhumb scheduler explain`.

mod affinity_terms;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::Serialize;

use crate::cluster::{ClusterState, NodeId, PodId, PodInfo};
use crate::cycle::{FilterChain, NodeRejection, Profile};
use crate::plugins::Plugin;
use crate::plugins::node_name::NodeName;
pub use affinity_terms::{
    AffinityTermDescription, AffinityTermKind, MatchingTermExplanation, OwnTermExplanation,
    PodLocation,
};

/// The explanation of one pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSchedulingExplanation {
    pub namespace: String,
    pub name: String,
    pub scheduler_name: String,
    /// The node that it is assigned to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The node that it is nominated for until preempted pods have terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<String>,
    /// The PreFilter plugin that rejects the pod on all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub everywhere: Option<RejectionReason>,
    /// All nodes, sorted by name.
    pub nodes: Vec<NodeExplanation>,
    /// The affinity terms of the pod, and which pods each matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinity_terms: Vec<OwnTermExplanation>,
    /// The affinity terms of other pods that match the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matching_terms: Vec<MatchingTermExplanation>,
}

/// The rejections and scores of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    pub name: String,
    pub fits: bool,
    /// The rejections of all plugins, not only the first.
    #[serde(rename = "against", skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<RejectionReason>,
    /// The node would fit if these pods were not nominated for it.
    #[serde(rename = "keptFor", skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<String>,
    /// The sum of all weighted scores, if the node fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<PluginScore>,
}

/// The rejection of a node by a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectionReason {
    pub plugin: &'static str,
    /// As in the message of the `PodScheduled` condition.
    pub reasons: Vec<String>,
    /// The cause, such as the conflicting pod or the missing label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether removing pods could resolve it.
    pub is_resolvable: bool,
}

/// The weighted score of a plugin for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PluginScore {
    pub plugin: &'static str,
    pub score: i64,
}

/// Explains a pod; `None` if it is not known. A pod that is assigned to a node is evaluated as if it were pending.
pub fn explain(
    cluster: &mut ClusterState,
    profile: &Profile,
    id: PodId,
) -> Option<PodSchedulingExplanation> {
    cluster.refresh_node_order();
    let node_id = cluster.move_temporarily(id, None);
    let nominated_checks = check_nominated_nodes(cluster, profile, id);
    let explanation = explain_unassigned(cluster, profile, id, node_id, &nominated_checks);
    cluster.move_temporarily(id, node_id);
    explanation
}

/// The nodes that other pods are nominated for.
type NominatedNodeChecks = HashMap<NodeId, NominatedPodsCheck>;

/// The rejections of a node with its nominated pods present.
struct NominatedPodsCheck {
    nominated_pods: Vec<PodId>,
    rejections: Vec<RejectionReason>,
}

/// Evaluates each node that pending pods of at least the same priority are nominated for, with those pods moved there
/// temporarily.
fn check_nominated_nodes(
    cluster: &mut ClusterState,
    profile: &Profile,
    id: PodId,
) -> NominatedNodeChecks {
    let mut nominated_pods_by_node: HashMap<NodeId, Vec<PodId>> = HashMap::new();
    let Some(priority) = cluster.pods().get(id).map(|pod| pod.pod.priority) else {
        return NominatedNodeChecks::new();
    };
    for (other, slot) in cluster.pods().iter() {
        let is_ahead = other != id && slot.pod.priority >= priority;
        let node = slot.pod.nominated_node_name.as_deref();
        if is_ahead
            && slot.node_id().is_none()
            && let Some(node) = node.and_then(|name| cluster.nodes().find(name))
        {
            nominated_pods_by_node.entry(node).or_default().push(other);
        }
    }
    let nominated = |(node, others): (NodeId, Vec<PodId>)| {
        for other in &others {
            cluster.move_temporarily(*other, Some(node));
        }
        let rejections = rejections_on_node(cluster, profile, id, node);
        for other in &others {
            cluster.move_temporarily(*other, None);
        }
        (
            node,
            NominatedPodsCheck {
                nominated_pods: others,
                rejections,
            },
        )
    };
    nominated_pods_by_node.into_iter().map(nominated).collect()
}

fn rejections_on_node(
    cluster: &ClusterState,
    profile: &Profile,
    id: PodId,
    node: NodeId,
) -> Vec<RejectionReason> {
    let Some(pod) = cluster.pods().get(id) else {
        return Vec::new();
    };
    match profile.build_filters(pod, cluster) {
        Ok(checks) => node_rejections(profile, &checks, node),
        Err(rejection) => vec![pre_filter_rejection(profile, rejection)],
    }
}

fn explain_unassigned(
    cluster: &ClusterState,
    profile: &Profile,
    id: PodId,
    node_id: Option<NodeId>,
    nominated_checks: &NominatedNodeChecks,
) -> Option<PodSchedulingExplanation> {
    let pod_info = cluster.pods().get(id)?;
    let pod = &pod_info.pod;
    let mut explanation = PodSchedulingExplanation {
        namespace: pod.key.namespace.to_string(),
        name: pod.key.name.to_string(),
        scheduler_name: pod.scheduler_name.to_string(),
        node: node_id.map(|node| cluster.nodes().get(node).name.to_string()),
        nominated_node: match node_id {
            Some(_) => None,
            None => pod.nominated_node_name.as_ref().map(ToString::to_string),
        },
        scheduling_gates: pod
            .scheduling_gates
            .iter()
            .map(ToString::to_string)
            .collect(),
        everywhere: None,
        nodes: Vec::new(),
        affinity_terms: affinity_terms::own_terms(cluster, id),
        matching_terms: affinity_terms::matching_terms(cluster, id),
    };
    match profile.build_filters(pod_info, cluster) {
        Ok(checks) => {
            explanation.nodes = explain_nodes(
                cluster,
                profile,
                pod_info,
                &checks,
                nominated_checks,
                node_id.is_some(),
            );
        }
        Err(rejection) => explanation.everywhere = Some(pre_filter_rejection(profile, rejection)),
    }
    Some(explanation)
}

fn pre_filter_rejection(profile: &Profile, (plugin, reason): (usize, String)) -> RejectionReason {
    RejectionReason {
        plugin: profile.plugin_name(plugin),
        reasons: vec![reason],
        detail: None,
        is_resolvable: false,
    }
}

fn explain_nodes(
    cluster: &ClusterState,
    profile: &Profile,
    pod: &PodInfo,
    checks: &FilterChain<'_>,
    nominated_checks: &NominatedNodeChecks,
    is_assigned: bool,
) -> Vec<NodeExplanation> {
    let mut feasible = Vec::new();
    let mut explanations = Vec::new();
    for node in cluster.nodes().order() {
        let mut rejections = node_rejections(profile, checks, *node);
        // `spec.nodeName` of an assigned pod was set by its binding and is not a requirement.
        rejections.retain(|rejection| !is_assigned || rejection.plugin != NodeName.name());
        let mut reserved_for = Vec::new();
        if rejections.is_empty()
            && let Some(nominated) = nominated_checks
                .get(node)
                .filter(|nominated| !nominated.rejections.is_empty())
        {
            rejections.clone_from(&nominated.rejections);
            reserved_for = pod_names(cluster, &nominated.nominated_pods);
        }
        let name = cluster.nodes().get(*node).name.to_string();
        if rejections.is_empty() {
            feasible.push((*node, explanations.len()));
        }
        explanations.push(NodeExplanation {
            name,
            fits: rejections.is_empty(),
            rejections,
            reserved_for,
            score: None,
            scores: Vec::new(),
        });
    }
    let ids: Vec<NodeId> = feasible.iter().map(|(node, _)| *node).collect();
    profile.for_each_plugin_score(pod, cluster, &ids, |enabled, scores| {
        for ((_, explanation), score) in feasible.iter().zip(scores) {
            let explanation = &mut explanations[*explanation];
            let score = score * enabled.weight;
            *explanation.score.get_or_insert_default() += score;
            explanation.scores.push(PluginScore {
                plugin: enabled.plugin.name(),
                score,
            });
        }
    });
    explanations.sort_by(|a, b| a.name.cmp(&b.name));
    explanations
}

fn pod_names(cluster: &ClusterState, pods: &[PodId]) -> Vec<String> {
    let slots = pods.iter().filter_map(|id| cluster.pods().get(*id));
    let mut names: Vec<String> = slots
        .map(|slot| format!("{}/{}", slot.pod.key.namespace, slot.pod.key.name))
        .collect();
    names.sort();
    names
}

/// The rejections of a node by all filters, as text.
fn node_rejections(
    profile: &Profile,
    checks: &FilterChain<'_>,
    node: NodeId,
) -> Vec<RejectionReason> {
    let rejections = checks.rejections(node).into_iter();
    rejections
        .map(|rejection: NodeRejection| RejectionReason {
            plugin: profile.plugin_name(rejection.plugin),
            reasons: checks.reasons(rejection),
            detail: checks.detail(node, rejection),
            is_resolvable: rejection.rejection.is_resolvable,
        })
        .collect()
}

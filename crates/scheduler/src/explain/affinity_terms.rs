//! Explains pod affinity in both directions: which pods the terms of a pod match, and the terms of which other pods
//! match the pod.

use std::collections::HashMap;

use serde::Serialize;

use crate::cluster::{ClusterState, PodId, PodInfo};
use crate::model::{Pod, PodAffinityTerm};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AffinityTermKind {
    RequiredAffinity,
    RequiredAntiAffinity,
    PreferredAffinity,
    PreferredAntiAffinity,
}

impl AffinityTermKind {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            AffinityTermKind::RequiredAffinity => "required affinity",
            AffinityTermKind::RequiredAntiAffinity => "required anti-affinity",
            AffinityTermKind::PreferredAffinity => "preferred affinity",
            AffinityTermKind::PreferredAntiAffinity => "preferred anti-affinity",
        }
    }
}

/// An affinity term as the scheduler evaluates it: with the namespaces that it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AffinityTermDescription {
    pub kind: AffinityTermKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    pub topology_key: String,
    /// Label selector and namespaces, for people.
    pub matches: String,
    /// `None` if the term has no label selector: then it matches no pod.
    pub label_selector: Option<String>,
    /// The names in the term; without any and without a selector, the namespace of the term's pod.
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<String>,
}

/// A term of the explained pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnTermExplanation {
    #[serde(flatten)]
    pub term: AffinityTermDescription,
    /// The existing namespaces that the namespace selector matches, sorted. Empty without a selector.
    pub selected_namespaces: Vec<String>,
    /// Whether the term matches the pod itself.
    pub matches_itself: bool,
    /// All other pods that the term matches, sorted.
    pub matching_pods: Vec<PodLocation>,
    /// Pods that the label selector matches, but which are in namespaces that the term does not mean, sorted.
    pub pods_in_other_namespaces: Vec<PodLocation>,
}

/// A term of other pods that matches the explained pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MatchingTermExplanation {
    #[serde(flatten)]
    pub term: AffinityTermDescription,
    /// All pods with this term, sorted.
    pub pods: Vec<PodLocation>,
}

/// A pod and its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PodLocation {
    pub namespace: String,
    pub name: String,
    /// `None` if it has none yet. Affinity counts only pods that have a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// The terms of a pod with the pods that each matches.
pub(super) fn own_terms(cluster: &ClusterState, id: PodId) -> Vec<OwnTermExplanation> {
    let Some(info) = cluster.pods().get(id) else {
        return Vec::new();
    };
    let terms = terms_of(&info.pod).into_iter();
    terms
        .map(|(kind, weight, term)| own_term(cluster, info, kind, weight, term))
        .collect()
}

fn own_term(
    cluster: &ClusterState,
    info: &PodInfo,
    kind: AffinityTermKind,
    weight: Option<i32>,
    term: &PodAffinityTerm,
) -> OwnTermExplanation {
    let matcher = &term.matcher;
    let labels = |pod: &Pod| cluster.namespace_labels(&pod.key.namespace);
    let others = cluster.pods().iter().map(|(_, other)| other);
    let others = others.filter(|other| other.pod.uid != info.pod.uid);
    let same_labels = others.filter(|other| matcher.selector.matches(&other.pod.labels));
    let (matching, elsewhere): (Vec<_>, Vec<_>) =
        same_labels.partition(|other| matcher.matches(&other.pod, labels(&other.pod)));
    OwnTermExplanation {
        term: describe(kind, weight, term),
        selected_namespaces: selected_namespaces(cluster, term),
        matches_itself: matcher.matches(&info.pod, labels(&info.pod)),
        matching_pods: locations(cluster, matching),
        pods_in_other_namespaces: locations(cluster, elsewhere),
    }
}

fn selected_namespaces(cluster: &ClusterState, term: &PodAffinityTerm) -> Vec<String> {
    let Some(selector) = term.matcher.namespaces.selector() else {
        return Vec::new();
    };
    let names = cluster.namespace_names();
    let selected = names.filter(|name| selector.matches(cluster.namespace_labels(name)));
    let mut selected: Vec<String> = selected.map(str::to_owned).collect();
    selected.sort_unstable();
    selected
}

/// The terms of all other pods that match a pod. Equal terms are one entry, since the replicas of a workload have the
/// same terms.
pub(super) fn matching_terms(cluster: &ClusterState, id: PodId) -> Vec<MatchingTermExplanation> {
    let Some(info) = cluster.pods().get(id) else {
        return Vec::new();
    };
    let namespace_labels = cluster.namespace_labels(&info.pod.key.namespace);
    let mut owners: HashMap<(AffinityTermKind, Option<i32>, &PodAffinityTerm), Vec<&PodInfo>> =
        HashMap::new();
    for (other_id, other) in cluster.pods().iter() {
        if other_id == id {
            continue;
        }
        for (kind, weight, term) in terms_of(&other.pod) {
            if term.matcher.matches(&info.pod, namespace_labels) {
                owners.entry((kind, weight, term)).or_default().push(other);
            }
        }
    }
    let mut explanations: Vec<MatchingTermExplanation> = owners
        .into_iter()
        .map(|((kind, weight, term), pods)| MatchingTermExplanation {
            term: describe(kind, weight, term),
            pods: locations(cluster, pods),
        })
        .collect();
    explanations.sort_by(|a, b| (a.term.kind, &a.pods).cmp(&(b.term.kind, &b.pods)));
    explanations
}

/// All affinity terms of a pod, with the weights of the preferred ones.
fn terms_of(pod: &Pod) -> Vec<(AffinityTermKind, Option<i32>, &PodAffinityTerm)> {
    use AffinityTermKind::{
        PreferredAffinity, PreferredAntiAffinity, RequiredAffinity, RequiredAntiAffinity,
    };
    let mut terms = Vec::new();
    for (affinity, required, preferred) in [
        (&pod.affinity, RequiredAffinity, PreferredAffinity),
        (
            &pod.anti_affinity,
            RequiredAntiAffinity,
            PreferredAntiAffinity,
        ),
    ] {
        terms.extend(affinity.required.iter().map(|term| (required, None, term)));
        let weighted = affinity.preferred.iter();
        terms.extend(weighted.map(|weighted| (preferred, Some(weighted.weight), &weighted.term)));
    }
    terms
}

fn describe(
    kind: AffinityTermKind,
    weight: Option<i32>,
    term: &PodAffinityTerm,
) -> AffinityTermDescription {
    let matcher = &term.matcher;
    let names = matcher.namespaces.listed_names().iter();
    AffinityTermDescription {
        kind,
        weight,
        topology_key: term.topology_key.to_string(),
        matches: matcher.to_string(),
        label_selector: (!matcher.selector.is_nothing()).then(|| matcher.selector.to_string()),
        namespaces: names.map(ToString::to_string).collect(),
        namespace_selector: matcher.namespaces.selector().map(ToString::to_string),
    }
}

fn locations(cluster: &ClusterState, pods: Vec<&PodInfo>) -> Vec<PodLocation> {
    let node = |pod: &PodInfo| {
        pod.node_id()
            .map(|id| cluster.nodes().get(id).name.to_string())
    };
    let mut locations: Vec<PodLocation> = pods
        .into_iter()
        .map(|info| PodLocation {
            namespace: info.pod.key.namespace.to_string(),
            name: info.pod.key.name.to_string(),
            node: node(info),
        })
        .collect();
    locations.sort();
    locations
}

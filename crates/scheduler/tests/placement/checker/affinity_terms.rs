//! Inter-pod affinity and anti-affinity. Pods with equal labels are matched once and equal terms are evaluated once, so
//! that clusters with tens of thousands of pods can be checked quickly.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::selectors::matches;
use super::{ClusterObjects, PlacedPod, label, list, placed_pods, text};

/// Placed pods by namespace and labels.
type PodsByLabels<'a> = HashMap<(&'a str, String), Vec<PlacedPod<'a>>>;

/// Finds the pods that affinity terms match.
struct TermMatcher<'a> {
    namespaces: HashMap<&'a str, &'a Value>,
    pods_by_labels: PodsByLabels<'a>,
}

impl<'a> TermMatcher<'a> {
    fn new(objects: &ClusterObjects<'a>, placed: &[PlacedPod<'a>]) -> TermMatcher<'a> {
        let mut pods_by_labels = PodsByLabels::new();
        for one in placed {
            let metadata = &one.pod["metadata"];
            let kind = (text(&metadata["namespace"]), metadata["labels"].to_string());
            pods_by_labels.entry(kind).or_default().push(*one);
        }
        let namespaces = objects.namespaces.iter();
        TermMatcher {
            namespaces: namespaces
                .map(|one| (super::name(one), &one["metadata"]["labels"]))
                .collect(),
            pods_by_labels,
        }
    }

    /// The pods that match all terms of an owner in namespace `own`.
    fn matching_pods(&self, terms: &[Value], own: &str) -> Vec<PlacedPod<'a>> {
        let alike = self.pods_by_labels.iter().filter(|((namespace, _), pods)| {
            let labels = &pods[0].pod["metadata"]["labels"];
            terms.iter().all(|term| {
                self.namespace_matches(term, own, namespace)
                    && matches(&term["labelSelector"], labels)
            })
        });
        alike.flat_map(|(_, pods)| pods.iter().copied()).collect()
    }

    fn namespace_matches(&self, term: &Value, own: &str, namespace: &str) -> bool {
        let (names, selector) = (list(&term["namespaces"]), &term["namespaceSelector"]);
        if names.is_empty() && selector.is_null() {
            return namespace == own;
        }
        let labels = self
            .namespaces
            .get(namespace)
            .copied()
            .unwrap_or(&Value::Null);
        names.iter().any(|name| name == namespace) || matches(selector, labels)
    }
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    list(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn own_namespace(pod: &Value) -> &str {
    text(&pod["metadata"]["namespace"])
}

/// Violations of required anti-affinity.
pub(super) fn anti_affinity_violations(
    objects: &ClusterObjects<'_>,
    placed: &[PlacedPod<'_>],
) -> Vec<String> {
    let matching = TermMatcher::new(objects, placed);
    let mut owners: BTreeMap<(String, &str), (&Value, Vec<PlacedPod<'_>>)> = BTreeMap::new();
    for one in placed {
        for term in required(one.pod, "podAntiAffinity") {
            let key = (term.to_string(), own_namespace(one.pod));
            let (_, owners) = owners.entry(key).or_insert((term, Vec::new()));
            owners.push(*one);
        }
    }
    let mut found = Vec::new();
    for ((_, own), (term, owners)) in owners {
        let key = text(&term["topologyKey"]);
        let mut matching_by_domain: HashMap<&str, Vec<PlacedPod<'_>>> = HashMap::new();
        for one in matching.matching_pods(std::slice::from_ref(term), own) {
            if let Some(value) = label(one.node, key) {
                matching_by_domain.entry(value).or_default().push(one);
            }
        }
        for owner in owners {
            let there = label(owner.node, key).and_then(|value| matching_by_domain.get(value));
            let mut others = there.into_iter().flatten();
            if let Some(other) = others.find(|one| !std::ptr::eq(one.pod, owner.pod)) {
                found.push(format!("{owner}: anti-affinity by {key} excludes {other}"));
            }
        }
    }
    found
}

/// Pods whose required affinity no pod meets. The first pod of a group meets its own affinity and is still there, so
/// this holds in any binding order, as long as no pod was deleted or relabelled.
pub(crate) fn unmet_affinity(objects: &ClusterObjects<'_>) -> Vec<String> {
    let (placed, _) = placed_pods(objects);
    let matching = TermMatcher::new(objects, &placed);
    let mut owners: BTreeMap<(String, &str), Vec<PlacedPod<'_>>> = BTreeMap::new();
    for one in &placed {
        let terms = required(one.pod, "podAffinity");
        if !terms.is_empty() {
            let key = (Value::from(terms).to_string(), own_namespace(one.pod));
            owners.entry(key).or_default().push(*one);
        }
    }
    let mut found = Vec::new();
    for ((_, own), owners) in owners {
        let terms = required(owners[0].pod, "podAffinity");
        let matching_by_domain = matching.matching_pods(terms, own);
        for term in terms {
            let key = text(&term["topologyKey"]);
            let domains: BTreeSet<&str> = matching_by_domain
                .iter()
                .filter_map(|one| label(one.node, key))
                .collect();
            for owner in &owners {
                if !label(owner.node, key).is_some_and(|value| domains.contains(value)) {
                    found.push(format!(
                        "{owner}: no pod in the domain matches its affinity"
                    ));
                }
            }
        }
    }
    found
}

//! Pod affinity and anti-affinity terms.

use std::fmt;
use std::sync::Arc;

use rhumb_meta::labels::Selector;

use super::Labels;

/// Matches pods by labels and namespace. Independent of the pod it belongs to: where a term means the namespace of its
/// own pod, that is among the names. So equal matchers of different pods are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodMatcher {
    pub selector: Selector,
    pub namespaces: TermNamespaces,
    /// Do not match terminating pods: topology spreading does not count them.
    pub skips_terminating: bool,
}

impl PodMatcher {
    /// Whether it matches a pod. A namespace that is not known has no labels.
    pub fn matches(&self, pod: &super::Pod, namespace_labels: &Labels) -> bool {
        !(self.skips_terminating && pod.is_terminating)
            && self
                .namespaces
                .includes(&pod.key.namespace, namespace_labels)
            && self.selector.matches(&pod.labels)
    }
}

/// For people: the label selector, and where it applies.
impl fmt::Display for PodMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match () {
            () if self.selector.is_nothing() => f.write_str("no pods: labelSelector is missing"),
            () if self.selector.is_everything() => write!(f, "all pods in {}", self.namespaces),
            () => write!(f, "{} in {}", self.selector, self.namespaces),
        }
    }
}

/// The namespaces of a term: `namespaces` and those that `namespaceSelector` matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TermNamespaces {
    /// Sorted and unique.
    contains_name: Box<[Box<str>]>,
    selector: Option<Selector>,
}

impl TermNamespaces {
    pub fn new(names: impl IntoIterator<Item = Box<str>>, selector: Option<Selector>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().collect();
        names.sort();
        names.dedup();
        TermNamespaces {
            contains_name: names.into(),
            selector,
        }
    }

    /// A single namespace by name.
    pub fn only(name: &str) -> Self {
        TermNamespaces::new([name.into()], None)
    }

    pub fn includes(&self, namespace: &str, labels: &Labels) -> bool {
        let selector = self.selector.as_ref();
        self.names(namespace) || selector.is_some_and(|selector| selector.matches(labels))
    }

    fn names(&self, namespace: &str) -> bool {
        self.contains_name
            .binary_search_by(|name| (**name).cmp(namespace))
            .is_ok()
    }

    /// The names, sorted. Where a term has neither names nor a selector, the namespace of its pod.
    pub fn listed_names(&self) -> &[Box<str>] {
        &self.contains_name
    }

    /// `namespaceSelector`.
    pub fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// As if the selector were not set. Without names too, that means the namespace of the pod.
    fn without_selector(&self, own: &str) -> Self {
        let names = self.contains_name.to_vec();
        match (&self.selector, names.is_empty()) {
            (Some(_), true) => TermNamespaces::only(own),
            _ => TermNamespaces::new(names, None),
        }
    }

    /// The names of all included namespaces, if these do not depend on namespace labels.
    pub fn fixed_names(&self) -> Option<&[Box<str>]> {
        match self.selector {
            None => Some(&self.contains_name),
            Some(_) => None,
        }
    }
}

/// For people, after "in".
impl fmt::Display for TermNamespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.selector, &*self.contains_name) {
            (Some(selector), _) if selector.is_everything() => f.write_str("all namespaces"),
            (Some(selector), []) => write!(f, "namespaces with {selector}"),
            (Some(selector), names) => {
                write!(
                    f,
                    "namespaces {} and those with {selector}",
                    names.join(", ")
                )
            }
            (None, [name]) => write!(f, "namespace {name}"),
            (None, names) => write!(f, "namespaces {}", names.join(", ")),
        }
    }
}

/// A pod affinity term: the pods that the matcher matches in the same domain of the topology.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    pub matcher: Arc<PodMatcher>,
    pub topology_key: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedPodAffinityTerm {
    pub term: PodAffinityTerm,
    /// 1 to 100.
    pub weight: i32,
}

/// The pod affinity, or pod anti-affinity, of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodAffinity {
    pub required: Vec<PodAffinityTerm>,
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

impl PodAffinity {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty()
    }

    /// Removes the namespace selectors of all terms.
    pub(super) fn drop_namespace_selectors(&mut self, own_namespace: &str) {
        let preferred = self.preferred.iter_mut().map(|weighted| &mut weighted.term);
        for term in self.required.iter_mut().chain(preferred) {
            let matcher = Arc::make_mut(&mut term.matcher);
            matcher.namespaces = matcher.namespaces.without_selector(own_namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Pod;

    /// Which of two namespaces without labels a term includes, with and without support for namespace selectors.
    #[test]
    fn namespace_selectors_are_dropped_when_unsupported() {
        for (term, with_selectors, without_selectors) in [
            (json!({}), vec!["own"], vec!["own"]),
            (json!({"namespaces": ["b"]}), vec!["b"], vec!["b"]),
            (
                json!({"namespaceSelector": {}}),
                vec!["own", "b"],
                vec!["own"],
            ),
            (
                json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}),
                vec![],
                vec!["own"],
            ),
            (
                json!({"namespaces": ["b"], "namespaceSelector": {}}),
                vec!["own", "b"],
                vec!["b"],
            ),
        ] {
            let mut pod = pod_with_term(&term);
            assert_eq!(included_namespaces(&pod), with_selectors, "{term}");
            pod.drop_namespace_selectors();
            assert_eq!(included_namespaces(&pod), without_selectors, "{term}");
        }
    }

    fn pod_with_term(term: &Value) -> Pod {
        let mut term = term.clone();
        term["labelSelector"] = json!({});
        term["topologyKey"] = json!("zone");
        let pod = json!({
            "metadata": {"namespace": "own", "name": "p"},
            "spec": {"affinity": {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": term},
                ]},
            }},
        });
        Pod::from_json(pod.to_string().as_bytes()).unwrap()
    }

    fn included_namespaces(pod: &Pod) -> Vec<&'static str> {
        let required = &pod.affinity.required[0].matcher.namespaces;
        let preferred = &pod.anti_affinity.preferred[0].term.matcher.namespaces;
        assert_eq!(required, preferred);
        let includes = |name: &&str| required.includes(name, &Default::default());
        ["own", "b"].into_iter().filter(includes).collect()
    }
}

//! Which pods a pod wants to be near to, or not near to.

use std::sync::Arc;

use rhumb_meta::labels::Selector;

use super::Labels;

/// Picks pods by their labels and their namespace. Two that say the same are equal, whoever they belong to: the
/// namespace of their owner, where it is meant, stands among the names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Picker {
    pub selector: Selector,
    pub namespaces: NamespaceRule,
    /// Pods that are being deleted are not picked: spreading does not count them.
    pub skips_terminating: bool,
}

impl Picker {
    /// Whether it picks a pod. A namespace that nobody knows has no labels.
    pub fn picks(&self, pod: &super::Pod, namespace_labels: &Labels) -> bool {
        !(self.skips_terminating && pod.is_terminating)
            && self
                .namespaces
                .includes(&pod.key.namespace, namespace_labels)
            && self.selector.matches(&pod.labels)
    }
}

/// The namespaces of a term: those named, and those that the selector picks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceRule {
    /// Sorted, each once.
    names: Box<[Box<str>]>,
    selector: Option<Selector>,
}

impl NamespaceRule {
    pub fn new(names: impl IntoIterator<Item = Box<str>>, selector: Option<Selector>) -> Self {
        let mut names: Vec<Box<str>> = names.into_iter().collect();
        names.sort();
        names.dedup();
        NamespaceRule {
            names: names.into(),
            selector,
        }
    }

    /// One namespace by name.
    pub fn only(name: &str) -> Self {
        NamespaceRule::new([name.into()], None)
    }

    pub fn includes(&self, namespace: &str, labels: &Labels) -> bool {
        let selector = self.selector.as_ref();
        self.names(namespace) || selector.is_some_and(|selector| selector.matches(labels))
    }

    fn names(&self, namespace: &str) -> bool {
        self.names
            .binary_search_by(|name| (**name).cmp(namespace))
            .is_ok()
    }

    /// The same as if the selector had not been said: then the namespace of the pod is meant where none is named.
    fn without_selector(&self, own: &str) -> Self {
        let names = self.names.to_vec();
        match (&self.selector, names.is_empty()) {
            (Some(_), true) => NamespaceRule::only(own),
            _ => NamespaceRule::new(names, None),
        }
    }

    /// All namespaces that it can include, where they do not depend on labels.
    pub fn fixed_names(&self) -> Option<&[Box<str>]> {
        match self.selector {
            None => Some(&self.names),
            Some(_) => None,
        }
    }
}

/// Pods that are picked, within one value of a label of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    pub picker: Arc<Picker>,
    pub topology_key: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedTerm {
    pub term: Term,
    /// 1 to 100.
    pub weight: i32,
}

/// What a pod says about where others are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodAffinity {
    pub required: Vec<Term>,
    pub preferred: Vec<WeightedTerm>,
}

impl PodAffinity {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.preferred.is_empty()
    }

    /// As a scheduler reads it that does not know selectors of namespaces.
    pub(super) fn forget_namespace_selectors(&mut self, own_namespace: &str) {
        let preferred = self.preferred.iter_mut().map(|wanted| &mut wanted.term);
        for term in self.required.iter_mut().chain(preferred) {
            let picker = Arc::make_mut(&mut term.picker);
            picker.namespaces = picker.namespaces.without_selector(own_namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Pod;

    /// Which of two namespaces without labels a term is about, read by a scheduler that knows selectors and by one
    /// that does not.
    #[test]
    fn whoever_does_not_know_selectors_reads_terms_without_them() {
        for (said, known, unknown) in [
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
            let mut pod = pod(&said);
            assert_eq!(namespaces(&pod), known, "{said}");
            pod.forget_namespace_selectors();
            assert_eq!(namespaces(&pod), unknown, "{said}");
        }
    }

    fn pod(term: &Value) -> Pod {
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

    fn namespaces(pod: &Pod) -> Vec<&'static str> {
        let required = &pod.affinity.required[0].picker.namespaces;
        let preferred = &pod.anti_affinity.preferred[0].term.picker.namespaces;
        assert_eq!(required, preferred);
        let includes = |name: &&str| required.includes(name, &Default::default());
        ["own", "b"].into_iter().filter(includes).collect()
    }
}
